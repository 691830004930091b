package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
)

// HostTransaction is a transaction of a host.
type HostTransaction struct {
	Host string
	calls.TxInfo
}

// Pending returns the open transactions of the hosts that answer, and the hosts whose latest transaction reverted and found changes
// of others. The error names the hosts that refused to answer.
func (s *Session) Pending(ctx context.Context) (open []HostTransaction, reverted []HostOutcome, err error) {
	all, err := s.Transactions(ctx)
	if stopped := Interrupted(ctx); stopped != nil {
		return nil, nil, stopped
	}
	open = transactionsThat(all, func(i calls.TxInfo) bool { return i.State.Open() })
	return open, foundOthers(all), err
}

// Unlock ends the transactions whose rollback failed, on the hosts that answer, in the name of the session's user. It returns those
// that have ended, also with an error.
func (s *Session) Unlock(ctx context.Context) (ended []HostTransaction, err error) {
	all, err := s.Transactions(ctx)
	if stopped := Interrupted(ctx); stopped != nil {
		return nil, stopped
	}
	for _, t := range transactionsThat(all, func(i calls.TxInfo) bool { return i.State == checkpoint.RevertFailed }) {
		// Without cancel: an interrupt would leave unsaid whether the host ended its transaction.
		_, err := calls.Release.Call(context.WithoutCancel(ctx), s, t.Host,
			calls.TxTakeOver{TxRef: calls.TxRef{ID: t.ID}, User: s.Options.User})
		if err != nil {
			return ended, fmt.Errorf("host %s: %w", t.Host, err)
		}
		ended = append(ended, t)
	}
	return ended, err
}

// transactionsThat returns the transactions for which is holds, in the order of the hosts.
func transactionsThat(all map[string][]calls.TxInfo, is func(calls.TxInfo) bool) (out []HostTransaction) {
	for _, host := range slices.Sorted(maps.Keys(all)) {
		for _, i := range all[host] {
			if is(i) {
				out = append(out, HostTransaction{host, i})
			}
		}
	}
	return out
}

// foundOthers returns the hosts whose latest transaction reverted and found changes of others.
func foundOthers(reported map[string][]calls.TxInfo) []HostOutcome {
	fates := map[string]HostOutcome{}
	for host, all := range reported {
		if n := len(all); n > 0 && all[n-1].State == checkpoint.Reverted && len(all[n-1].Kept)+len(all[n-1].Overwritten) > 0 {
			fates[host] = outcomeOf(host, all[n-1])
		}
	}
	return sorted(fates)
}
