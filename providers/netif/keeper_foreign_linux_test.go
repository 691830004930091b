package netif

import (
	"strings"
	"testing"
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
			if diffs, err := (keeper{}).Restore(t.Context(), h, part); err != nil || len(diffs) > 0 {
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
