package apply

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/resource"
)

// Rollback reverts the fabric's last transaction, open or committed, on the session's hosts. takeOver is a
// token file from another machine; "" uses this machine's tokens.
func Rollback(ctx context.Context, s *Session, takeOver string, e Events) *Report {
	r := s.newReport("rollback")
	fates, err := s.rollback(ctx, takeOver)
	r.Outcomes = sorted(fates)
	if len(fates) > 0 {
		reportFates(e, r.Outcomes)
	}
	ending := fatesEnding(fates)
	var others *heldError
	if errors.As(err, &others) {
		ending = max(ending, Held)
	}
	if len(s.Unreachable()) > 0 && others == nil {
		e.Unreachable(s.Unreachable())
		ending = max(ending, HostsUnreachable)
		if err == nil && len(fates) == 0 {
			e.Warn("Nothing was rolled back: no host that answered has a transaction of this fabric to roll back.")
		}
	}
	return r.end(ending, err)
}

func (s *Session) rollback(ctx context.Context, takeOver string) (map[string]HostOutcome, error) {
	k := s.Options.Tokens
	mine, err := k.all("") // before the hosts report: a transaction that opens later is in neither
	if err != nil {
		return nil, err
	}
	shown := mine
	if takeOver != "" {
		if shown, err = k.all(takeOver); err != nil {
			return nil, err
		}
	}
	reported, err := s.Transactions(ctx)
	if err != nil {
		return nil, err
	}
	before := endedIn(reported) // hosts that have already reverted get no fate below
	fates, err := s.undoLast(ctx, s.Fabric.Name, "", s.Hosts(), "rollback by "+s.Options.User, openRefs(shown, before))
	now := endedBy(fates)
	forgotten := k.removeEnded(mine, func(host string, on calls.TxRef) bool { return before(host, on) || now(host, on) })
	var others *heldError
	if errors.As(err, &others) {
		return fates, errors.Join(err, forgotten)
	}
	if err == nil && len(fates) == 0 && len(s.Unreachable()) == 0 {
		return nil, errors.New("nothing to roll back: no host has an open or committed transaction of this fabric")
	}
	return fates, errors.Join(err, forgotten, s.enterRollback(ctx, fates))
}

// enterRollback adds the rollback to the hosts' histories; their records are those from before the
// transaction. A host that has no record of this fabric gets none.
func (s *Session) enterRollback(ctx context.Context, fates map[string]HostOutcome) error {
	p, entries, id := s.Plan(ctx), map[string]resource.Entry{}, NewID() // one rollback on all its hosts
	for host, f := range fates {
		if f.Fate == Reverted {
			entries[host] = s.entry("rollback", id)
		}
	}
	return s.Enrol(ctx, s.Fabric.Name, p.Roster, slices.Sorted(maps.Keys(entries)), entries)
}
