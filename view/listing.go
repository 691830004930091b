package view

import (
	"time"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/resource"
)

// HistoryList is what history prints as JSON.
type HistoryList struct {
	Fabric      string            `json:"fabric"`
	Runs        []Run             `json:"runs"` // the oldest first
	Unreachable map[string]string `json:"unreachable,omitempty"`
}

// Run is one apply, destroy, rollback or revert on all its hosts.
type Run struct {
	Time    time.Time `json:"time"`
	Command string    `json:"command"`
	Who     string    `json:"who"`
	Plan    string    `json:"plan"`
	Source  string    `json:"source,omitempty"`
	Build   string    `json:"build"`
	Changes int       `json:"changes"`           // on all hosts
	Adopted int       `json:"adopted,omitempty"` // values, on all hosts
	Hosts   []string  `json:"hosts"`
	Why     string    `json:"why,omitempty"`
	Failed  string    `json:"failed,omitempty"`
	Others  []Others  `json:"others,omitempty"`
}

// Others is what a revert did with the changes of others on a host.
type Others struct {
	Host        string            `json:"host"`
	Kept        []resource.Change `json:"kept,omitempty"`
	Overwritten []resource.Change `json:"overwritten,omitempty"`
}

// HistoryJSON prints the applies as JSON.
func (p *Printer) HistoryJSON(fabric string, list []apply.Applied, unreachable map[string]string) error {
	out := HistoryList{Fabric: fabric, Runs: []Run{}, Unreachable: unreachable}
	for _, a := range list {
		r := Run{Time: a.Time, Command: a.Command, Who: a.Who, Plan: a.Plan, Source: a.Source, Build: a.Build, Changes: a.Total, Adopted: a.Adopted,
			Hosts: a.Hosts, Why: a.Why, Failed: a.Failed}
		for _, o := range a.Others {
			r.Others = append(r.Others, Others(o))
		}
		out.Runs = append(out.Runs, r)
	}
	return p.printIndented(out)
}

// PendingList is what pending prints as JSON.
type PendingList struct {
	Fabric       string            `json:"fabric"`
	Transactions []Transaction     `json:"transactions"`
	Reverted     []Others          `json:"reverted,omitempty"` // hosts whose latest transaction reverted and found changes of others
	Unreachable  map[string]string `json:"unreachable,omitempty"`
}

// Transaction is one open transaction. Its token is a secret, and is not shown.
type Transaction struct {
	Host        string            `json:"host"`
	ID          string            `json:"id"`
	State       string            `json:"state"`
	Fabric      string            `json:"fabric"`
	Plan        string            `json:"plan"`
	Who         string            `json:"who"`
	From        string            `json:"from"`
	Since       time.Time         `json:"since"`
	LeaseNs     int64             `json:"lease_ns"` // the time left
	Hosts       []string          `json:"hosts,omitempty"`
	Rebooted    bool              `json:"rebooted,omitempty"`
	Why         string            `json:"why,omitempty"`
	Unrestored  []string          `json:"left,omitempty"`
	Kept        []resource.Change `json:"kept,omitempty"`
	Overwritten []resource.Change `json:"overwritten,omitempty"`
}

// PendingJSON prints open transactions as JSON.
func (p *Printer) PendingJSON(fabric string, open []apply.HostTransaction, reverted []apply.HostOutcome, unreachable map[string]string) error {
	out := PendingList{Fabric: fabric, Transactions: []Transaction{}, Unreachable: unreachable}
	for _, t := range open {
		out.Transactions = append(out.Transactions, Transaction{Host: t.Host, ID: t.ID, State: string(t.State), Fabric: t.Fabric, Plan: t.Plan,
			Who: t.Holder.User, From: t.Holder.From, Since: t.Since, LeaseNs: t.Remaining.Nanoseconds(), Hosts: t.Hosts, Rebooted: t.Rebooted,
			Why: t.Why, Unrestored: t.Unrestored, Kept: t.Kept, Overwritten: t.Overwritten})
	}
	for _, h := range reverted {
		out.Reverted = append(out.Reverted, Others{h.Host, h.Kept, h.Overwritten})
	}
	return p.printIndented(out)
}

// LabJSON prints a lab's hosts and cables as JSON.
func (p *Printer) LabJSON(s site.Status) error {
	s.Hosts, s.Links = append([]site.HostStatus{}, s.Hosts...), append([]site.Cable{}, s.Links...) // [] instead of null
	return p.printIndented(s)
}
