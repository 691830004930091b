package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// noteTransactions stores the transactions that a host reports.
func (f *Fleet) noteTransactions(host string, all []calls.TxInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.host(host)
	h.transactions = all
	for _, i := range all {
		if i.EndedNow {
			h.endedNow = append(h.endedNow, i)
		}
	}
}

// transactions returns those that each host reported last.
func (f *Fleet) transactions() map[string][]calls.TxInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string][]calls.TxInfo{}
	for name, h := range f.hosts {
		out[name] = h.transactions
	}
	return out
}

// endedNow returns, by host, the latest transaction of a fabric that ended because this session read the host.
func (f *Fleet) endedNow(fabric string) map[string]calls.TxInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]calls.TxInfo{}
	for name, h := range f.hosts {
		for _, i := range h.endedNow {
			if i.Fabric == fabric {
				out[name] = i
			}
		}
	}
	return out
}

// remark adds to a plan what must be known about its hosts before they are changed.
func (s *Session) remark(p *planner.Plan) {
	about, open := s.remarks(), s.open()
	for i := range p.Hosts {
		h := &p.Hosts[i]
		h.Notes = slices.Concat(h.Notes, about[h.Name], open[h.Name])
		if len(h.Actions) > 0 && s.known[h.Name].alone {
			h.Notes = append(h.Notes, "without systemd, one process alone guards the rollback. "+
				"If it is killed as well, the host reverts when fabricform next reads it")
		}
	}
}

// Remarks returns what must be known about earlier transactions, for commands that show no plan.
func (s *Session) Remarks() []string { return notesOf(s.remarks()) }

// OpenTransactions says which transactions were open when the hosts were read, for commands that only read them.
func (s *Session) OpenTransactions() []string { return notesOf(s.open()) }

func (s *Session) open() map[string][]string {
	out := map[string][]string{}
	for name, all := range s.transactions() {
		for _, i := range all {
			if i.State.Open() {
				out[name] = append(out[name], Describe(i, s.invocation))
			}
		}
	}
	return out
}

// notesOf returns remarks as a plan prints them.
func notesOf(about map[string][]string) []string {
	var p planner.Plan
	for _, host := range slices.Sorted(maps.Keys(about)) {
		p.Hosts = append(p.Hosts, planner.HostPlan{Name: host, Notes: about[host]})
	}
	return p.Notes()
}

// remarks says, by host, which transactions this session ended, and which applies ended differently on their hosts.
func (s *Session) remarks() map[string][]string {
	out := map[string][]string{}
	partings, err := s.partings()
	for _, p := range partings {
		for host := range p.ends {
			out[host] = append(out[host], p.String()+fmt.Sprintf(". To complete it, run %s; to undo it, run %s",
				s.invocation.Hint("apply"), s.invocation.Hint("rollback")))
		}
	}
	s.Fleet.mu.Lock()
	defer s.Fleet.mu.Unlock()
	for name, h := range s.hosts {
		for _, i := range h.endedNow {
			out[name] = append(out[name], describeEnd(i))
		}
		if err != nil && h.transactions != nil {
			out[name] = append(out[name], err.Error())
		}
	}
	return out
}

// describeEnd says how the first contact with a host ended a transaction.
func describeEnd(i calls.TxInfo) string {
	why := "the lease had expired"
	if i.Rebooted {
		why = "the host was reset"
	}
	return fmt.Sprintf("%s during a transaction of fabric %q, by %s since %s; the transaction is now %s",
		why, i.Fabric, i.Holder.User, i.Since.Local().Format(time.DateTime), i.State)
}

// parting is an apply that ended differently on its hosts: its client ended, or lost a host, between two commits.
type parting struct {
	of   calls.TxInfo
	ends map[string]hostEnd
}

// hostEnd says how such an apply ended on one host.
type hostEnd string

const (
	endCommitted hostEnd = "committed"
	endOpen      hostEnd = "still open"
	endReverted  hostEnd = "reverted"
	endUnknown   hostEnd = "unknown" // the host could not be read
)

func (p parting) String() string {
	by := map[hostEnd][]string{}
	for host, end := range p.ends {
		by[end] = append(by[end], host)
	}
	var parts []string
	for _, end := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, string(end)+" on "+planner.Names(slices.Sorted(slices.Values(by[end]))))
	}
	return fmt.Sprintf("an apply of fabric %q, by %s since %s, ended differently on its hosts, "+
		"because fabricform ended or lost a host between two commits: it is %s",
		p.of.Fabric, p.of.Holder.User, p.of.Since.Local().Format(time.DateTime), strings.Join(parts, ", "))
}

// partings finds such applies among the latest transactions of the hosts. The tokens on this machine tell of an apply that did not
// end here, even if its other hosts cannot be read.
func (s *Session) partings() ([]parting, error) {
	s.Fleet.mu.Lock()
	reported, runs := map[string]bool{}, map[string]map[string]calls.TxInfo{}
	for host, h := range s.hosts {
		reported[host] = h.transactions != nil
		if i := last(h.transactions, s.Fabric.Name); i != nil && i.Run != "" {
			if runs[i.Run] == nil {
				runs[i.Run] = map[string]calls.TxInfo{}
			}
			runs[i.Run][host] = *i
		}
	}
	s.Fleet.mu.Unlock()
	var mine []tokens
	var err error
	if len(runs) > 0 {
		mine, err = s.Options.Tokens.all("")
	}
	var out []parting
	for _, run := range slices.Sorted(maps.Keys(runs)) {
		p, committed, ready, undecided, unknown := parting{ends: map[string]hostEnd{}}, false, false, false, false
		for host, i := range runs[run] {
			p.of = i
			switch {
			case i.State == checkpoint.Committed:
				committed, p.ends[host] = true, endCommitted
			case i.State.Open():
				ready, p.ends[host] = ready || i.State == checkpoint.Persisting, endOpen
			case i.Undecided:
				undecided, p.ends[host] = true, endReverted
			}
		}
		for _, host := range p.of.Hosts {
			if _, answered := runs[run][host]; !answered && !reported[host] && s.Fabric.Host(host) != nil && !s.Excluded(host) {
				unknown, p.ends[host] = true, endUnknown
			}
		}
		began := slices.ContainsFunc(mine, func(w tokens) bool {
			return w.Waits == nil && w.Plan == p.of.Plan &&
				slices.ContainsFunc(p.of.Hosts, func(host string) bool { return p.ends[host] == endUnknown && w.Hosts[host].ID != "" })
		})
		if committed && (ready || undecided || unknown && began) || undecided && unknown {
			out = append(out, p)
		}
	}
	return out, err
}

// recordParted writes such an apply into the histories of its hosts: its client could not.
func (s *Session) recordParted(ctx context.Context, of *planner.Plan) error {
	partings, err := s.partings()
	records := s.Records()
	for _, p := range partings {
		entries := map[string]Enrolment{}
		for host, end := range p.ends {
			noted := slices.ContainsFunc(records[host], func(r resource.Record) bool {
				return r.Fabric == p.of.Fabric && slices.ContainsFunc(r.History,
					func(e resource.HistoryEntry) bool { return e.Plan == p.of.Plan && e.Failed != "" })
			})
			if end != endUnknown && !noted {
				entries[host] = Enrolment{Entry: &resource.HistoryEntry{Time: p.of.Since, Command: "apply", Who: p.of.Holder.User,
					Plan: p.of.Plan, Failed: p.String()}}
			}
		}
		err = errors.Join(err, s.Enrol(ctx, of, slices.Sorted(maps.Keys(entries)), entries))
	}
	return err
}
