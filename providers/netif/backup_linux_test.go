package netif

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

func snapshot(t *testing.T, h host.Host, atoms []resource.Atom) json.RawMessage {
	t.Helper()
	part, err := restorer{}.Save(t.Context(), h, atoms)
	must(t, err)
	return part
}

func TestRestoreBringsBackAll(t *testing.T) {
	for name, change := range disturbances {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it is mostly waiting
			h := freshHost(t)
			run(t, richState)
			before := settle(t)
			part := snapshot(t, h, richAtoms)
			run(t, change)
			if name != "nothing" && cmp.Equal(before, portrait(t)) {
				t.Fatal("the disturbance did not happen")
			}
			begin := time.Now()
			diffs, err := restorer{}.Restore(context.Background(), h, part)
			took := time.Since(begin)
			if err != nil || len(diffs) > 0 {
				t.Errorf("restore: %v\nstill differs: %s", err, strings.Join(diffs, "\n"))
			}
			t.Logf("restored in %s, snapshot %d bytes", took, len(part))
			time.Sleep(1500 * time.Millisecond) // what comes late must not come at all
			if d := cmp.Diff(before, settle(t)); d != "" {
				t.Errorf("not as before:\n%s", d)
			}
			if diffs, err := (restorer{}).Restore(context.Background(), h, part); err != nil || len(diffs) > 0 {
				t.Errorf("a second restore: %v %v", err, diffs)
			}
		})
	}
}

func TestRestoreSaysWhatIsGone(t *testing.T) {
	h := freshHost(t)
	run(t, richState)
	settle(t)
	part := snapshot(t, h, richAtoms)
	run(t, "link del ff0\nlink add ff0 type veth peer name ff9\nlink set ff9 up\nrule del priority 502")
	diffs, err := restorer{}.Restore(context.Background(), h, part)
	if !slices.ContainsFunc(diffs, func(d string) bool {
		return strings.HasPrefix(d, "route 10.30.0.0/16 ") && strings.Contains(d, "on ff1, which is gone")
	}) {
		t.Errorf("the route by ff1, which is gone: %q, %v", diffs, err)
	}
	for _, d := range diffs {
		if !strings.Contains(d, "which is gone") {
			t.Errorf("ff0 has another index, and lacks: %s", d)
		}
	}
	if got := portrait(t)["-d -j -4 rule"]; !strings.Contains(got, `"priority":502`) {
		t.Error("the rule was not brought back")
	}
}

// stubborn is a kernel that refuses what names a text.
type stubborn struct {
	host.Host
	refused string
}

func (s stubborn) Send(request, flags uint16, body []byte) error {
	o, err := parseObject(request&^3, body) // RTM_NEWx and RTM_DELx look alike
	if err == nil && strings.Contains(o.String(), s.refused) {
		return syscall.EPERM
	}
	return s.Host.Send(request, flags, body)
}

func TestRestoreGoesOnPastAStepThatFails(t *testing.T) {
	for _, refused := range []string{"address 10.0.0.3/24", "address fd00::2/64", "nexthop 6", "route 10.22.0.0/16", "route fd13::/64", "rule 502"} {
		t.Run(refused, func(t *testing.T) {
			t.Parallel()
			h := freshHost(t)
			run(t, richState)
			before := settle(t)
			part := snapshot(t, h, richAtoms)
			run(t, disturbances["all at once"])
			run(t, "rule del priority 502")
			diffs, err := restorer{}.Restore(context.Background(), stubborn{h, refused}, part)
			named := func(s string) bool { return strings.Contains(s, refused) }
			if err == nil || !named(err.Error()) || !slices.ContainsFunc(diffs, named) {
				t.Errorf("not told: %v, %q", err, diffs)
			}
			if diffs, err := (restorer{}).Restore(context.Background(), h, part); err != nil || len(diffs) > 0 {
				t.Errorf("once the kernel is willing: %v %v", err, diffs)
			}
			if d := cmp.Diff(before, settle(t)); d != "" {
				t.Errorf("not as before:\n%s", d)
			}
		})
	}
}

// TestRestoreFromAnyState makes random states and random disturbances of the same commands.
func TestRestoreFromAnyState(t *testing.T) {
	pool := strings.Split(strings.TrimSpace(richState[strings.Index(richState, "addr add"):]), "\n")
	pool = slices.DeleteFunc(pool, func(l string) bool {
		return l == "settle" || strings.Contains(l, "blackhole") || strings.Contains(l, "dev ff1")
	})
	pool = append(pool, "link set ff0 mtu 1000", "link set ff0 mtu 2000", "link set ff0 down", "link set ff0 up", "link set ff0 up",
		"addr flush dev ff0 scope global", "addr del 10.0.0.1/24 dev ff0", "addr del fd00::1/64 dev ff0", "rule del priority 500", "nexthop del id 6")
	seeds := uint64(4)
	if os.Getenv("FABRICFORM_LONG") != "" {
		seeds = 40
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			h := freshHost(t)
			run(t, richState[:strings.Index(richState, "addr add")])
			dice := rand.New(rand.NewPCG(seed, 6))
			some := func(n int) {
				for range n { // what does not fit the state is refused, and that is a state too
					_ = exec.Command("ip", strings.Fields(pool[dice.IntN(len(pool))])...).Run()
				}
			}
			some(60)
			before := settle(t)
			part := snapshot(t, h, richAtoms)
			some(40)
			diffs, err := restorer{}.Restore(context.Background(), h, part)
			if err != nil || len(diffs) > 0 {
				t.Errorf("restore: %v\nstill differs: %s", err, strings.Join(diffs, "\n"))
			}
			if d := cmp.Diff(before, settle(t)); d != "" {
				t.Errorf("not as before:\n%s", d)
			}
		})
	}
}
