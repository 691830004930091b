//go:build linux

package helper

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/resource"
)

// rehearsal is when the test timer fires. A guardian starts sooner, so this also tests that it waits.
const rehearsal = 100 * time.Millisecond

func info(t *checkpoint.Transaction, left time.Duration) calls.TxInfo {
	return calls.TxInfo{TxRef: calls.TxRef{ID: t.ID}, State: t.State, Fabric: t.Fabric, Plan: t.Plan, Holder: t.Holder, Since: t.Since,
		Remaining: left, Why: t.Why, Unrestored: t.Unrestored,
		Run: t.Run, Hosts: t.Hosts, Undecided: t.Undecided, Rebooted: t.Rebooted, Kept: t.Kept, Overwritten: t.Overwritten}
}

// revertExpired reverts a transaction whose lease has expired, in place of guardians that died, and returns it; nil if there
// is none. Every first look at a host calls it.
func (s *server) revertExpired(ctx context.Context) (*calls.TxInfo, error) {
	g := checkpoint.Guardian{Store: s.store, Restore: s.restore}
	t, err := g.Expired()
	if err != nil || t == nil {
		return nil, err
	}
	if err := s.acting.await(context.WithoutCancel(ctx)); err != nil { // a revert needs no client
		return nil, err
	}
	defer s.acting.Unlock()
	if t, err = g.RevertExpired(ctx, t); err != nil {
		return nil, fmt.Errorf("revert a transaction whose lease has expired: %w", err)
	}
	i := info(t, 0)
	i.EndedNow = true
	return &i, nil
}

// txReady tests that a timer fires: a host that could not revert on its own must not be changed.
func (s *server) txReady(ctx context.Context, _ struct{}) (calls.TxReady, error) {
	if err := s.refuseWhileInstalling(); err != nil {
		return calls.TxReady{}, err
	}
	if _, err := s.revertExpired(ctx); err != nil {
		return calls.TxReady{}, err
	}
	open, left, err := s.store.Pending()
	if err != nil {
		return calls.TxReady{}, err
	}
	if open != nil {
		i := info(open, left)
		return calls.TxReady{Held: &i}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return calls.TxReady{}, fmt.Errorf("find the helper: %w", err)
	}
	if _, err := s.store.Rehearse(ctx, self, rehearsal); err != nil {
		return calls.TxReady{}, fmt.Errorf("test the timer that reverts this host: %w", err)
	}
	return calls.TxReady{}, nil
}

// txOpen opens the transaction, stores the backup and arms the timer, in that order. On an error it ends the
// transaction; nothing was changed yet.
func (s *server) txOpen(ctx context.Context, p calls.TxOpen) (calls.TxInfo, error) {
	me, err := process.Self()
	if err != nil {
		return calls.TxInfo{}, err
	}
	from, _, _ := strings.Cut(s.connection.SSH, " ")
	t, err := s.store.Begin(checkpoint.Request{Fabric: p.Fabric, Plan: p.Plan, Lease: p.Lease, Helper: &checkpoint.Helper{Process: me},
		Server: s.server(), Run: p.Client, Hosts: p.Hosts,
		Holder: checkpoint.Holder{User: p.User, From: from, Client: p.Client}})
	var held *checkpoint.HeldError
	if errors.As(err, &held) {
		return calls.TxInfo{}, &agent.Error{Held: true, Message: err.Error()}
	}
	if err != nil {
		return calls.TxInfo{}, err
	}
	// An installation that starts later sees the transaction; installing sees an earlier one.
	err = s.refuseWhileInstalling()
	if err == nil {
		err = s.arm(ctx, t, p)
	}
	if err == nil { // without a client, nobody gets the token
		err = context.Cause(ctx)
	}
	if err != nil {
		_, back := s.store.Revert(ctx, t.ID, checkpoint.Revert, "the transaction could not be opened", s.restore)
		return calls.TxInfo{}, errors.Join(err, back)
	}
	i := info(t, t.Lease)
	i.Token = t.Token
	return i, nil
}

// server returns the host's address of this connection. It is invalid if the address is unknown, or if it is valid only on
// this host because it has a zone.
func (s *server) server() netip.Addr {
	_, server, err := facts.ParseSSHConnection(s.connection.SSH)
	if err != nil || server.Zone() != "" {
		return netip.Addr{}
	}
	return server
}

func (s *server) arm(ctx context.Context, t *checkpoint.Transaction, p calls.TxOpen) error {
	record, err := host.RecordPath(p.Fabric)
	if err != nil {
		return err
	}
	applied, err := s.store.AppliedPath(p.Fabric)
	if err != nil {
		return err
	}
	snap, err := checkpoint.TakeBackup(ctx, s.host, s.kinds, p.Atoms, []string{record, applied})
	if err != nil {
		return err
	}
	snap.Stays = p.Stays
	if snap.Forward, err = json.Marshal(p.Steps); err != nil {
		return fmt.Errorf("store the steps of the persist stage: %w", err)
	}
	if p.Applied != nil {
		if snap.Applied, err = json.Marshal(p.Applied); err != nil {
			return fmt.Errorf("store what is applied: %w", err)
		}
	}
	if snap.Path, err = s.path(ctx); err != nil {
		return err
	}
	if err := s.adoptHistory(ctx, p.Fabric); err != nil {
		return err
	}
	if _, err := s.store.SaveBackup(t.ID, t.Token, snap); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the helper: %w", err)
	}
	return s.store.Arm(ctx, self, t)
}

// path returns the path of the operator's connection.
func (s *server) path(ctx context.Context) (*checkpoint.ManagementPath, error) {
	snap, err := facts.Gather(ctx, s.host, s.connection)
	if err != nil {
		return nil, err
	}
	m := snap.Management
	for _, o := range m.Others {
		m.Devices = slices.Concat(m.Devices, o.Devices)
	}
	return &checkpoint.ManagementPath{Devices: m.Devices, Client: m.Client, Unknown: m.Unknown != ""}, nil
}

// adoptHistory moves the history that an earlier build kept in the ownership record, which a rollback restores.
func (s *server) adoptHistory(ctx context.Context, fabric string) error {
	r, err := s.record(ctx, fabric)
	if err != nil {
		return err
	}
	return s.store.AdoptHistory(fabric, r.History)
}

// restore restores a backup. It continues even if the caller is gone, because half a revert counts as a failed one.
func (s *server) restore(ctx context.Context, snap *checkpoint.Backup) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkpoint.RestorePatience)
	defer cancel()
	return snap.Restore(ctx, s.host, s.kinds)
}

// step makes a handler from a step of the store.
func step(do func(id, token string) (*checkpoint.Transaction, error)) func(context.Context, calls.TxRef) (calls.TxInfo, error) {
	return func(_ context.Context, r calls.TxRef) (calls.TxInfo, error) {
		t, err := do(r.ID, r.Token)
		if err != nil {
			return calls.TxInfo{}, err
		}
		return info(t, t.Lease), nil
	}
}

func (s *server) txPrepare(ctx context.Context, r calls.TxRef) (calls.TxInfo, error) {
	before, err := s.store.Read(r.ID)
	if err != nil {
		return calls.TxInfo{}, err
	}
	t, err := s.store.Prepare(r.ID, r.Token, s.stateNow(ctx, before))
	if err != nil {
		return calls.TxInfo{}, err
	}
	return info(t, t.Lease), nil
}

func (s *server) txCommit(ctx context.Context, r calls.TxRef) (calls.TxInfo, error) {
	before, err := s.store.Read(r.ID)
	if err != nil {
		return calls.TxInfo{}, err
	}
	s.keepApplied(before)
	t, err := s.store.Commit(r.ID, r.Token, s.stateNow(ctx, before))
	if err != nil {
		return calls.TxInfo{}, err
	}
	// The guardians notice the end. A timer that cannot be removed finds nothing to do.
	_ = s.store.Disarm(ctx, t)
	return info(t, 0), nil
}

// keepApplied stores what the transaction makes of the host, while the transaction is still open: a revert restores the earlier file. A
// transaction that stopped half-way makes nothing that could be compared later. What cannot be kept does not prevent the commit, because
// the other hosts commit too.
func (s *server) keepApplied(t *checkpoint.Transaction) {
	backup, err := s.store.ReadBackup(t)
	if err != nil || backup == nil || len(backup.Applied) == 0 {
		return
	}
	var a resource.Applied
	if json.Unmarshal(backup.Applied, &a) != nil {
		return
	}
	if t.Partial {
		a.Resources = nil
	}
	_ = s.store.KeepApplied(&a)
}

// statePatience is how long a step waits for the host's state. It goes on without it.
const statePatience = 5 * time.Second

// stateNow reads what the transaction's backup covers; nil if it cannot be read.
func (s *server) stateNow(ctx context.Context, t *checkpoint.Transaction) *checkpoint.Backup {
	ctx, cancel := context.WithTimeout(ctx, statePatience)
	defer cancel()
	backup, err := s.store.ReadBackup(t)
	if err != nil || backup == nil {
		return nil
	}
	now, err := backup.Again(ctx, s.host, s.kinds)
	if err != nil {
		return nil
	}
	return now
}

// txReversal says what the rollback of a committed transaction would do.
func (s *server) txReversal(ctx context.Context, p calls.TxReversal) (calls.TxReversed, error) {
	if err := s.acting.await(ctx); err != nil {
		return calls.TxReversed{}, err
	}
	defer s.acting.Unlock()
	out, err := s.reversal(ctx, p)
	if err != nil {
		return calls.TxReversed{}, err
	}
	snap, err := facts.Gather(ctx, s.host, s.connection)
	if err != nil {
		return calls.TxReversed{}, err
	}
	out.Management = snap.Management
	return out, nil
}

// reversal needs the lock on acting.
func (s *server) reversal(ctx context.Context, p calls.TxReversal) (calls.TxReversed, error) {
	if err := s.store.Undoable(p.ID); err != nil {
		return calls.TxReversed{}, err
	}
	t, err := s.store.Read(p.ID)
	if err != nil {
		return calls.TxReversed{}, err
	}
	backup, err := s.store.ReadBackup(t)
	if err != nil || backup == nil {
		return calls.TxReversed{Digest: checkpoint.Reversal{}.Digest()}, err
	}
	backup.Foreign = p.Foreign
	rev, err := backup.Reverse(ctx, s.host, s.kinds)
	return calls.TxReversed{Reversal: rev, Digest: rev.Digest(), Blind: backup.Committed == nil}, err
}

// txRevert reverts a transaction after the current action has ended. It first stops a helper from an earlier connection,
// which may be in the middle of an action. It refuses if an action of this helper is stuck: another helper, or the
// guardian, ends this one first.
func (s *server) txRevert(ctx context.Context, p calls.TxRevert) (calls.TxInfo, error) {
	if err := s.acting.await(context.WithoutCancel(ctx)); err != nil { // a revert needs no client
		return calls.TxInfo{}, err
	}
	defer s.acting.Unlock()
	err := s.store.Ends(p.ID, p.Token)
	var held *checkpoint.HeldError
	if errors.As(err, &held) {
		return calls.TxInfo{}, &agent.Error{Held: true, Message: err.Error() + ": only its token allows to end it earlier"}
	}
	if err != nil {
		return calls.TxInfo{}, err
	}
	t, err := s.store.Read(p.ID)
	if err != nil {
		return calls.TxInfo{}, err
	}
	if t.Helper != nil && t.Helper.Process.PID != os.Getpid() {
		if err := t.Helper.Stop(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return calls.TxInfo{}, fmt.Errorf("stop the helper that holds the transaction: %w", err)
		}
	}
	event := checkpoint.Revert
	if p.RollBack {
		event = checkpoint.RollBack
		if err := s.willUndo(ctx, p); err != nil {
			return calls.TxInfo{}, err
		}
	}
	why := p.Why
	if p.User != "" && !p.RollBack { // another client may be at work: it reports who ended its transaction
		from, _, _ := strings.Cut(s.connection.SSH, " ")
		why += fmt.Sprintf(" from %s at %s", cmp.Or(from, "this host"), time.Now().Format(time.RFC3339))
	}
	t, err = s.store.Revert(ctx, p.ID, event, why, s.restore)
	if t == nil {
		return calls.TxInfo{}, err
	}
	_ = s.store.Disarm(ctx, t) // as after a commit
	i := info(t, 0)
	if err != nil && t.State != checkpoint.Reverted {
		i.Unrestored = append(i.Unrestored, err.Error())
	}
	return i, nil
}

// willUndo refuses to roll back a host that differs from what was shown, and records how it is rolled back.
func (s *server) willUndo(ctx context.Context, p calls.TxRevert) error {
	t, err := s.store.Read(p.ID)
	if err != nil || t.State != checkpoint.Committed { // it was rolled back already, at least in part: the rest follows
		return err
	}
	if p.Digest != "" {
		now, err := s.reversal(ctx, calls.TxReversal{ID: p.ID, Foreign: p.Foreign})
		if err != nil {
			return err
		}
		if now.Digest != p.Digest {
			return &agent.Error{Stale: true, Message: "the host changed since the rollback was shown, and was not rolled back: run " +
				"rollback again"}
		}
	}
	return s.store.WillRollBack(p.ID, checkpoint.Rollback{By: p.User, Foreign: p.Foreign})
}

// txList returns all stored transactions, the latest last.
func (s *server) txList(ctx context.Context, _ struct{}) ([]calls.TxInfo, error) {
	reverted, err := s.revertExpired(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.store.List()
	if err != nil {
		return nil, err
	}
	now, err := checkpoint.Now()
	if err != nil {
		return nil, err
	}
	out := make([]calls.TxInfo, 0, len(all))
	for _, t := range all {
		i := info(t, t.Remaining(now))
		if t.Server != s.server() {
			i.Former = t.Server
		}
		i.EndedNow = reverted != nil && reverted.ID == t.ID
		out = append(out, i)
	}
	return out, nil
}

// txTakeOver makes the caller the holder. The caller must have the earlier holder's token.
func (s *server) txTakeOver(_ context.Context, p calls.TxTakeOver) (calls.TxInfo, error) {
	from, _, _ := strings.Cut(s.connection.SSH, " ")
	me, err := process.Self()
	if err != nil {
		return calls.TxInfo{}, err
	}
	t, err := s.store.TakeOver(p.ID, p.Token, checkpoint.Holder{User: p.User, From: from, Client: p.Client},
		&checkpoint.Helper{Process: me})
	if err != nil {
		return calls.TxInfo{}, err
	}
	i := info(t, t.Lease)
	i.Token = t.Token
	return i, nil
}

// txRelease ends a transaction whose revert failed.
func (s *server) txRelease(_ context.Context, p calls.TxTakeOver) (calls.TxInfo, error) {
	from, _, _ := strings.Cut(s.connection.SSH, " ")
	t, err := s.store.Release(p.ID, checkpoint.Holder{User: p.User, From: from})
	if err != nil {
		return calls.TxInfo{}, err
	}
	return info(t, 0), nil
}
