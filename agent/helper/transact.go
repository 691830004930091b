//go:build linux

package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/process"
)

// rehearsal is how soon the timer that is only tried out is to fire.
const rehearsal = 300 * time.Millisecond

func info(t *checkpoint.Transaction, left time.Duration) calls.TxInfo {
	return calls.TxInfo{TxRef: calls.TxRef{ID: t.ID}, State: t.State, Fabric: t.Fabric, Plan: t.Plan, Holder: t.Holder, Since: t.Since, Left: left, Why: t.Why, Remain: t.Left}
}

// txReady sees a rehearsed timer fire: a host that cannot go back by itself is not changed.
func (s *server) txReady(ctx context.Context, _ struct{}) (calls.TxReady, error) {
	if err := s.installing(); err != nil {
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
		return calls.TxReady{}, fmt.Errorf("rehearse the timer that would take this host back: %w", err)
	}
	return calls.TxReady{}, nil
}

// txOpen opens the transaction, keeps the snapshot and arms the timer, in that order. What fails is
// closed again: nothing was changed yet.
func (s *server) txOpen(ctx context.Context, p calls.TxOpen) (calls.TxInfo, error) {
	me, err := process.Self()
	if err != nil {
		return calls.TxInfo{}, err
	}
	from, _, _ := strings.Cut(s.sshConnection, " ")
	t, err := s.store.Begin(checkpoint.Request{Fabric: p.Fabric, Plan: p.Plan, Lease: p.Lease, Helper: &checkpoint.Helper{Process: me}, Server: s.server(),
		Holder: checkpoint.Holder{User: p.User, From: from, Client: p.Client}})
	var held *checkpoint.HeldError
	if errors.As(err, &held) {
		return calls.TxInfo{}, &agent.Error{Held: true, Message: err.Error()}
	}
	if err != nil {
		return calls.TxInfo{}, err
	}
	// An installation that begins from here on sees the transaction; one from before is seen here.
	err = s.installing()
	if err == nil {
		err = s.arm(ctx, t, p)
	}
	if err != nil {
		_, back := s.store.Revert(ctx, t.ID, checkpoint.Revert, "it could not be opened", s.restore)
		return calls.TxInfo{}, errors.Join(err, back)
	}
	i := info(t, t.Lease)
	i.Token = t.Token
	return i, nil
}

// server is the host's address that this connection came in by; invalid where a client could not
// come in by it again: it is not known, or means something on this host alone.
func (s *server) server() netip.Addr {
	_, server, err := facts.ParseSSHConnection(s.sshConnection)
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
	snap, err := checkpoint.TakeBackup(ctx, s.host, s.kinds, p.Atoms, []string{record})
	if err != nil {
		return err
	}
	if snap.Forward, err = json.Marshal(p.Steps); err != nil {
		return fmt.Errorf("keep what the persist stage does: %w", err)
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

// restorePatience is how long a way back may take with all that the host's own programs do in it.
const restorePatience = 3 * time.Minute

// restore goes to its end, also where who asked for it is gone meanwhile: half of a way back counts as
// a failed one.
func (s *server) restore(ctx context.Context, snap *checkpoint.Backup) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restorePatience)
	defer cancel()
	return snap.Restore(ctx, s.host, s.kinds)
}

// step makes a step of the store answer a call.
func step(do func(id, token string) (*checkpoint.Transaction, error)) func(context.Context, calls.TxRef) (calls.TxInfo, error) {
	return func(_ context.Context, r calls.TxRef) (calls.TxInfo, error) {
		t, err := do(r.ID, r.Token)
		if err != nil {
			return calls.TxInfo{}, err
		}
		return info(t, t.Lease), nil
	}
}

func (s *server) txCommit(ctx context.Context, r calls.TxRef) (calls.TxInfo, error) {
	t, err := s.store.Commit(r.ID, r.Token)
	if err != nil {
		return calls.TxInfo{}, err
	}
	// The guardians see the end by themselves; a timer that cannot be taken away finds nothing to do.
	_ = s.store.Disarm(ctx, t)
	return info(t, 0), nil
}

// stopPatience is how long an earlier helper may take to be gone.
const stopPatience = 2 * time.Second

// txRevert goes back once the action in hand has ended. A helper that an earlier connection has left
// behind is stopped first: it may be in the middle of one.
func (s *server) txRevert(ctx context.Context, p calls.TxRevert) (calls.TxInfo, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	err := s.store.Ends(p.ID, p.Token)
	var held *checkpoint.HeldError
	if errors.As(err, &held) {
		return calls.TxInfo{}, &agent.Error{Held: true, Message: err.Error() + ": only who shows its token may end it before"}
	}
	if err != nil {
		return calls.TxInfo{}, err
	}
	t, err := s.store.Read(p.ID)
	if err != nil {
		return calls.TxInfo{}, err
	}
	if t.Helper != nil && t.Helper.Process.PID != os.Getpid() {
		stopping, cancel := context.WithTimeout(ctx, stopPatience)
		err := t.Helper.Process.Stop(stopping)
		cancel()
		// One that the kernel holds, as in a file system that does not answer, was killed, and makes no
		// further step.
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return calls.TxInfo{}, fmt.Errorf("stop the helper that holds the transaction: %w", err)
		}
	}
	event := checkpoint.Revert
	if p.Undo {
		event = checkpoint.Undo
	}
	t, err = s.store.Revert(ctx, p.ID, event, p.Why, s.restore)
	if t == nil {
		return calls.TxInfo{}, err
	}
	_ = s.store.Disarm(ctx, t) // as after a commit
	i := info(t, 0)
	if err != nil && t.State != checkpoint.Reverted {
		i.Remain = append(i.Remain, err.Error())
	}
	return i, nil
}

// txList tells of all transactions that are kept, the latest last.
func (s *server) txList(context.Context, struct{}) ([]calls.TxInfo, error) {
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
		out = append(out, i)
	}
	return out, nil
}

// txTakeOver makes the caller the holder; it must show the earlier holder's token.
func (s *server) txTakeOver(_ context.Context, p calls.TxTakeOver) (calls.TxInfo, error) {
	from, _, _ := strings.Cut(s.sshConnection, " ")
	me, err := process.Self()
	if err != nil {
		return calls.TxInfo{}, err
	}
	t, err := s.store.TakeOver(p.ID, p.Token, checkpoint.Holder{User: p.User, From: from, Client: p.Client}, &checkpoint.Helper{Process: me})
	if err != nil {
		return calls.TxInfo{}, err
	}
	i := info(t, t.Lease)
	i.Token = t.Token
	return i, nil
}

// txRelease ends a transaction whose revert failed.
func (s *server) txRelease(_ context.Context, p calls.TxTakeOver) (calls.TxInfo, error) {
	from, _, _ := strings.Cut(s.sshConnection, " ")
	t, err := s.store.Release(p.ID, checkpoint.Holder{User: p.User, From: from})
	if err != nil {
		return calls.TxInfo{}, err
	}
	return info(t, 0), nil
}
