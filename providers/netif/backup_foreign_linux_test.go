package netif

import (
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/resource"
)

// TestRestoreLeavesOtherLinksToThemselves: every link has routes of the kernel's in the same places
// (fe80::/64, ff00::/8), which come and go with the link. Somebody else's link that goes down or comes
// up meanwhile is neither a difference nor taken back.
func TestRestoreLeavesOtherLinksToThemselves(t *testing.T) {
	const base = `link set ff0 up
link add ff2 type veth peer name ff3
link set ff3 up
addr add 10.0.0.1/24 dev ff0
addr add fd00::1/64 dev ff0
addr add 10.9.0.1/24 dev ff2
`
	for name, c := range map[string]struct {
		before, meanwhile string
		ff2               int // kernel routes on it in the end
	}{
		"goes down":                 {"link set ff2 up", "link set ff2 down", 0},
		"goes down, ours disturbed": {"link set ff2 up", "link set ff2 down\naddr flush dev ff0\nlink set ff0 down\nlink set ff0 mtu 1000", 0},
		"comes up":                  {"", "link set ff2 up\naddr flush dev ff0", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := freshHost(t)
			run(t, "link set ff1 up\n"+base+c.before+"\nsettle")
			part := snapshot(t, h, richAtoms[:1])
			run(t, c.meanwhile+"\nsettle")
			if diffs, err := (restorer{}).Restore(t.Context(), h, part); err != nil || len(diffs) > 0 {
				t.Errorf("%v\n%s", err, strings.Join(diffs, "\n"))
			}
			n := 0
			for line := range strings.Lines(portrait(t)["-d -j -6 route show table all"]) {
				if strings.Contains(line, `"dev":"ff2"`) && (strings.Contains(line, `"dst":"fe80::/64"`) || strings.Contains(line, `"dst":"ff00::/8"`)) {
					n++
				}
			}
			if n != c.ff2 {
				t.Errorf("ff2 has %d of the kernel's routes, wanted %d", n, c.ff2)
			}
		})
	}
}

// TestRulesOfADeclaredAddressBelongToTheBackup: a rule is there or not, whether or not its address is. One that was there
// before is no change by another hand, one that came later goes, and rules of further addresses are not touched.
func TestRulesOfADeclaredAddressBelongToTheBackup(t *testing.T) {
	h := freshHost(t)
	run(t, "link set ff1 up\nlink set ff0 up\nrule add pref 5000 from 10.77.1.1 lookup 78\nrule add pref 5001 to 10.77.9.1 lookup 78")
	part := snapshot(t, h, []resource.Atom{"nic ff0 address 10.77.1.1/30"})
	now := func() string {
		raw, err := restorer{}.Again(t.Context(), h, part)
		must(t, err)
		items, err := restorer{}.Items(raw)
		must(t, err)
		var rules []string
		for _, i := range items {
			if i.As.Attribute == "rule" {
				name, _, _ := strings.Cut(i.Shown, " ")
				rules = append(rules, name)
			}
		}
		return strings.Join(rules, " ")
	}
	for _, step := range []struct{ do, want string }{
		{"", "5000"},
		{"addr add 10.77.1.1/30 dev ff0\naddr add 10.77.9.1/30 dev ff0", "5000"},
		{"rule add pref 6000 from 10.77.1.1 lookup 79\nrule add pref 6001 from 10.77.9.1 lookup 79", "5000 6000"},
		{"addr del 10.77.1.1/30 dev ff0", "5000 6000"},
		{"addr add 10.77.1.1/30 dev ff0", "5000 6000"},
	} {
		run(t, step.do)
		if got := now(); got != step.want {
			t.Errorf("after %q: rules %q, wanted %q", step.do, got, step.want)
		}
	}
	if diffs, err := (restorer{}).Restore(t.Context(), h, part); err != nil || len(diffs) > 0 {
		t.Errorf("%v\n%s", err, strings.Join(diffs, "\n"))
	}
	rules := portrait(t)["-d -j -4 rule"]
	for pref, want := range map[string]bool{"5000": true, "5001": true, "6000": false, "6001": true} {
		if strings.Contains(rules, `"priority":`+pref+`,`) != want {
			t.Errorf("rule %s is there: %v", pref, !want)
		}
	}
}

// TestARuleOfAnAddressThatStaysIsNotTouched: where the NIC had no address, and somebody else gave it one.
func TestARuleOfAnAddressThatStaysIsNotTouched(t *testing.T) {
	h := freshHost(t)
	part := snapshot(t, h, richAtoms[:1])
	run(t, "addr add 10.77.9.1/30 dev ff0\nrule add pref 6001 from 10.77.9.1 lookup 79")
	now, err := restorer{}.Again(t.Context(), h, part)
	must(t, err)
	items, err := restorer{}.Items(now)
	must(t, err)
	theirs := map[string]bool{}
	for _, i := range items {
		theirs[i.Key] = i.As.Attribute == "address"
	}
	part, _, err = restorer{}.Merge(part, now, theirs)
	must(t, err)
	if diffs, err := (restorer{}).Restore(t.Context(), h, part); err != nil || len(diffs) > 0 {
		t.Errorf("%v\n%s", err, strings.Join(diffs, "\n"))
	}
	if p := portrait(t); !strings.Contains(p["-d -j addr"], "10.77.9.1") || !strings.Contains(p["-d -j -4 rule"], `"priority":6001,`) {
		t.Error("the address or its rule is gone")
	}
}

// TestARuleBelongsToWhoeverReadOurFiles: networkd makes each rule of its files its own, and ours is in one of them.
func TestARuleBelongsToWhoeverReadOurFiles(t *testing.T) {
	h := freshHost(t)
	run(t, "link set ff1 up\nlink set ff0 up\naddr add 10.77.1.1/30 dev ff0\nrule add pref 5000 from 10.77.1.1 lookup 78 proto 251")
	part := snapshot(t, h, []resource.Atom{"nic ff0 address 10.77.1.1/30", "policy_route rule 5000 78 10.77.1.1/32 all"})
	rules := func() (out []string) {
		raw, err := restorer{}.Again(t.Context(), h, part)
		must(t, err)
		items, err := restorer{}.Items(raw)
		must(t, err)
		for _, i := range items {
			if i.As.Attribute == "rule" {
				out = append(out, i.Key+i.State+i.Shown)
			}
		}
		return out
	}
	ours := rules()
	run(t, "rule del pref 5000\nrule add pref 5000 from 10.77.1.1 lookup 78 proto static")
	if now := rules(); len(ours) != 1 || !slices.Equal(now, ours) {
		t.Errorf("%q\nnow %q", ours, now)
	}
	run(t, "rule del pref 5000\nrule add pref 5000 from 10.77.1.1 lookup 79 proto 251")
	if now := rules(); len(now) != 1 || slices.Equal(now, ours) {
		t.Errorf("another table is another rule: %q", now)
	}
}
