package netif

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// FuzzSnapshotIsNotBelieved: whatever stands on the disk, nothing panics.
func FuzzSnapshotIsNotBelieved(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"version":1}`, `{"version":2}`,
		`{"version":1,"names":{"2":"ff0"},"links":[{"index":2,"name":"ff0","mtu":1500,"up":true}],"addrs":["AhiAAAIAAAAIAAEACgAAAQgAAgAKAAABCAAIAIAAAAA="],` +
			`"routes":["AhAAAP4DAAEAAAAACAAPAP4AAAAIAAEAChQAAAgABQAKAAAJCAAEAAIAAAA="],"rules":["AgAAAGQAAAEAAAAACAAPAGQAAAA="],"nexthops":["AgAAAAAAAAAIAAEABQAAAAgABQACAAAA"],"neighbours":["AgAAAAIAAACAAAABCAABAAoAAAk="]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, was, err := decodeBackup(raw)
		if err != nil {
			return
		}
		other, err := k.renumber([]host.Link{{Index: 7, Name: "ff0"}})
		if err != nil {
			return
		}
		r := restoration{backup: other}
		for _, objects := range [][]object{was.addrs, was.neighbours, was.nexthops, was.routes, was.rules} {
			for _, s := range steps(objects, nil) {
				_, _, _ = s.turn(), r.on(s.object), r.ageLifetimes(s.object.replayable())
				_, _ = s.object.gateways(), s.object.removal().encode()
			}
			r.differences(objects, objects)
		}
		k.ourNexthops(was.nexthops, k.indexes())
		k.ourRules(was.rules)
		k.ourRoutes(was.routes, was, k.indexes())
	})
}

func TestSnapshotOfAnotherVersionIsRefused(t *testing.T) {
	for _, raw := range []string{`{"version":4}`, `{"version":3,"devices":[{"name":"b0","kind":"bridge"}]}`, `{"version":3,"devices":[{"name":"b0","kind":"bond","body":"AA=="}]}`,
		`{"version":2,"links":[{"name":"ff0","values":{"wings":"2"}}]}`, `x`, `{"version":1,"addrs":["AA=="]}`, `{"version":1,"sysctls":[{"path":"../x"}]}`} {
		if diffs, err := (restorer{}).Restore(context.Background(), nil, json.RawMessage(raw)); err == nil {
			t.Errorf("%s: restored, %v", raw, diffs)
		}
	}
}

func TestFamilyMovesTogether(t *testing.T) {
	links := []host.Link{
		{Index: 1, Name: "bond0.7", Parent: 2}, {Index: 2, Name: "bond0"}, {Index: 3, Name: "p0", Master: 2}, {Index: 4, Name: "p1", Master: 2},
		{Index: 5, Name: "br0"}, {Index: 6, Name: "tap0", Master: 5}, {Index: 7, Name: "other"},
	}
	for named, want := range map[int]string{2: "p0 p1 bond0 bond0.7 ", 3: "p0 bond0 ", 6: "tap0 br0 ", 5: "tap0 br0 ", 7: "other "} {
		got := ""
		for _, l := range family(links, map[int]bool{named: true}) {
			got += l.Name + " "
		}
		if got != want {
			t.Errorf("with link %d: %q, wanted %q", named, got, want)
		}
	}
}

func TestAtomsThatNobodyKnowsAreNotChanged(t *testing.T) {
	links := []host.Link{{Index: 2, Name: "ff0"}}
	for _, a := range []resource.Atom{"", "nic", "nic gone0 mtu", "rxe rxe0", "policy_route rule x 100 all all", "route 254 nowhere 0"} {
		if _, err := (&backup{}).reach(links, []resource.Atom{a}); err == nil {
			t.Errorf("%q is known", a)
		}
	}
}
