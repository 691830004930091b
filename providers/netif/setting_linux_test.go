package netif

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// TestASettingIsOneRow: a row is planned, claimed, undone, applied, listed, taken and restored without a word elsewhere.
func TestASettingIsOneRow(t *testing.T) {
	value := map[string]string{"ff0": "red", "ff1": "red"}
	settings = append(settings, setting{
		attribute: "colour", common: true, sysfs: "colour",
		get: func(l host.Link) string { return value[l.Name] },
		set: func(_ context.Context, _ host.Host, l host.Link, _, to string) error {
			value[l.Name] = to
			return nil
		},
		declared: func(NICSpec, string) (string, bool) { return "blue", true },
		complete: func(c *resource.Change, _ bool) { c.Disruption = resource.LinkFlap },
	})
	t.Cleanup(func() { settings = settings[:len(settings)-1] })

	h := freshHost(t)
	links, err := h.Links(t.Context())
	must(t, err)
	snap := &facts.Snapshot{Links: links, Sysctls: map[string]string{}}
	l, atom := *snap.Link("ff0"), resource.Atom("nic ff0 colour")
	want := NICSpec{Select: facts.Selector{Netdev: "ff0"}, Up: l.Up}

	changes := nic{}.Diff(want, &NICStatus{Link: l})
	if len(changes) != 1 || changes[0].Atom != atom || changes[0].From != "red" || changes[0].To != "blue" || changes[0].Disruption != resource.LinkFlap {
		t.Fatalf("%+v", changes)
	}
	if !(nic{}).Claims(snap, want, atom) || want.Sysfs()["colour"] != "blue" {
		t.Error("the block does not set it")
	}
	if undo, _ := (nic{}).Undo(snap, atom, "green"); undo.From != "red" || undo.To != "green" || undo.Disruption != resource.LinkFlap {
		t.Errorf("undo: %+v", undo)
	}
	part := snapshot(t, h, []resource.Atom{atom})
	must(t, nic{}.Apply(t.Context(), h, want, changes))
	if value["ff0"] != "blue" {
		t.Error("not applied")
	}
	must(t, nic{}.ApplyUndo(t.Context(), h, snap, atom, "green"))

	now, err := restorer{}.Again(t.Context(), h, part)
	must(t, err)
	if i := itemOf(t, now, atom); i == nil || i.State != "green" || i.As.Disruption != resource.LinkFlap {
		t.Errorf("listed: %+v", i)
	}
	taken, _, err := restorer{}.Merge(part, now, map[string]bool{string(atom): true})
	must(t, err)
	for _, p := range []json.RawMessage{taken, part} {
		wanted := itemOf(t, p, atom).State
		if diffs, err := (restorer{}).Restore(t.Context(), h, p); err != nil || len(diffs) > 0 || value["ff0"] != wanted {
			t.Errorf("restored as %s, not %s: %v, %v", value["ff0"], wanted, diffs, err)
		}
	}
	if value["ff0"] != "red" {
		t.Error("the backup was not restored")
	}

	// A build that lacks the row cannot restore it, and says so.
	settings[len(settings)-1].attribute = "flavour"
	if _, err := (restorer{}).Restore(t.Context(), h, part); err == nil {
		t.Error("a value that this build does not know was left out silently")
	}
}

// TestABackupOfAnEarlierBuildChangesNothingElse: values that the backup has are restored, those that its build did not
// know are left alone.
func TestABackupOfAnEarlierBuildChangesNothingElse(t *testing.T) {
	earlier, err := os.ReadFile("testdata/earlier/network.json")
	must(t, err)
	h := freshHost(t)
	run(t, "link set ff0 mtu 1300\nlink set ff0 down")
	ff0 := func() host.Link {
		t.Helper()
		links, err := h.Links(t.Context())
		must(t, err)
		return links[slices.IndexFunc(links, func(l host.Link) bool { return l.Name == "ff0" })]
	}

	const withoutMTU = `{"version":2,"names":{"2":"ff0"},"links":[{"index":2,"name":"ff0","values":{"state":"up"},"state":"up"}],"addresses":[]}`
	now, err := restorer{}.Again(t.Context(), h, json.RawMessage(withoutMTU))
	must(t, err)
	if itemOf(t, now, "nic ff0 mtu") != nil || itemOf(t, now, "nic ff0 state") == nil {
		t.Error("a value is listed that the backup does not have")
	}
	diffs, err := restorer{}.Restore(t.Context(), h, json.RawMessage(withoutMTU))
	if l := ff0(); err != nil || l.MTU != 1300 || !l.Up {
		t.Errorf("mtu %d, up %v: %v, %v", l.MTU, l.Up, diffs, err)
	}

	run(t, "link set ff0 down")
	diffs, err = restorer{}.Restore(t.Context(), h, earlier)
	if l := ff0(); err != nil || l.MTU != 4000 || !l.Up {
		t.Errorf("a backup of version 1: mtu %d, up %v: %v, %v", l.MTU, l.Up, diffs, err)
	}
	if arp, err := h.Sysctl(t.Context(), "net/ipv4/conf/ff0/arp_ignore"); err != nil || arp != "1" {
		t.Errorf("arp_ignore is %s, %v", arp, err)
	}
}

func itemOf(t *testing.T, part json.RawMessage, a resource.Atom) *resource.Item {
	t.Helper()
	items, err := restorer{}.Items(part)
	must(t, err)
	for _, i := range items {
		if i.Key == string(a) {
			return &i
		}
	}
	return nil
}
