package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/resource"
)

// TestListsAsJSON: each is one object, empty lists are lists, and no secret is shown.
func TestListsAsJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	mtu := resource.Change{Attribute: "mtu", From: "1500", To: "9000", Atom: "nic ens1f0 mtu"}
	tx := calls.TxInfo{TxRef: calls.TxRef{ID: "t1", Token: "secret"}, State: checkpoint.RevertFailed, Fabric: "pair", Plan: "p1",
		Holder: checkpoint.Holder{User: "anna@desk", From: "10.0.0.9", Client: "secret"}, Since: at, Remaining: 5 * time.Second,
		Hosts: []string{"a"}, Unrestored: []string{"mtu\x1b[2K"}}
	const change = `"kept":[{"attribute":"mtu","from":"1500","to":"9000","atom":"nic ens1f0 mtu"}]`
	for want, print := range map[string]func(p *Printer) error{
		`{"fabric":"pair","runs":[],"unreachable":{"b":"no route"}}`: func(p *Printer) error {
			return p.HistoryJSON("pair", nil, map[string]string{"b": "no route"})
		},
		`{"fabric":"pair","runs":[{"time":"2026-01-02T03:04:05Z","command":"apply","who":"anna@desk","plan":"p1","source":"files 12","build":"b1","changes":6,"hosts":["a","b"],"failed":"a: disk","others":[{"host":"a",` + change + `}]}]}`: func(p *Printer) error {
			return p.HistoryJSON("pair", []apply.Applied{{HistoryEntry: resource.HistoryEntry{Time: at, Command: "apply", Who: "anna@desk", Plan: "p1", Source: "files 12", Build: "b1", Changes: 3, Failed: "a: disk"},
				Hosts: []string{"a", "b"}, Total: 6, Others: []apply.Others{{Host: "a", Kept: []resource.Change{mtu}}}}}, nil)
		},
		`{"fabric":"pair","transactions":[]}`: func(p *Printer) error { return p.PendingJSON("pair", nil, nil, nil) },
		`{"fabric":"pair","transactions":[{"host":"a","id":"t1","state":"revert_failed","fabric":"pair","plan":"p1","who":"anna@desk","from":"10.0.0.9","since":"2026-01-02T03:04:05Z","lease_ns":5000000000,"hosts":["a"],"left":["mtu\u001b[2K"]}],"reverted":[{"host":"b",` + change + `}],"unreachable":{"c":"no route"}}`: func(p *Printer) error {
			return p.PendingJSON("pair", []apply.HostTransaction{{Host: "a", TxInfo: tx}}, []apply.HostOutcome{{Host: "b", Kept: []resource.Change{mtu}}}, map[string]string{"c": "no route"})
		},
		`{"name":"pair","backend":"netns","hosts":[{"name":"a","address":"10.0.0.1","alive":false}],"links":[]}`: func(p *Printer) error {
			return p.LabJSON(site.Status{Name: "pair", Backend: site.Netns, Hosts: []site.HostStatus{{Name: "a", Address: "10.0.0.1"}}})
		},
	} {
		var out, short bytes.Buffer
		if err := print(New(&out)); err != nil {
			t.Fatal(err)
		}
		if err := json.Compact(&short, out.Bytes()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, short.String()); d != "" || strings.Contains(out.String(), "secret") || strings.Contains(out.String(), "\x1b") {
			t.Error(d)
		}
	}
}
