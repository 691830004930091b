package netif

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// restored disturbs a host and expects it back as it was.
func restored(t *testing.T, h host.Host, atoms []resource.Atom, change string) {
	t.Helper()
	before := settle(t)
	part := snapshot(t, h, atoms)
	run(t, change)
	if cmp.Equal(before, portrait(t)) {
		t.Fatal("the disturbance did not happen")
	}
	begin := time.Now()
	diffs, err := restorer{}.Restore(context.Background(), h, part)
	t.Logf("restored in %s", time.Since(begin))
	if err != nil || len(diffs) > 0 {
		t.Errorf("restore: %v\nstill differs: %s", err, strings.Join(diffs, "\n"))
	}
	if d := cmp.Diff(before, settle(t)); d != "" {
		t.Errorf("not as before:\n%s", d)
	}
}

func TestRestoreBringsBackWhatIsAboveAndBelow(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	run(t, `
link set ff1 up
link set ff0 mtu 4000 up
link add link ff0 name ff0.7 type macvlan
link set ff0.7 mtu 3000 up
addr add 10.7.0.1/24 dev ff0.7
addr add fd07::1/64 dev ff0.7
link add br0 type bridge
link set ff1 master br0
link set br0 up
addr add 10.8.0.1/24 dev br0
settle
route add 10.70.0.0/16 via 10.7.0.9
-6 route add fd70::/64 via fd07::9`)
	restored(t, h, []resource.Atom{"nic ff0 mtu"}, "link set ff0 mtu 1000\nlink set ff0 down\nlink set ff0 mtu 5000")
	restored(t, h, []resource.Atom{"nic ff1 mtu"}, "link set ff1 mtu 1000\nlink set ff1 down")
	restored(t, h, []resource.Atom{"nic br0 state"}, "link set br0 down\nlink set ff1 mtu 1200")
}

func TestRestoreFollowsSysctlsThatReachAllLinks(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	run(t, richState)
	restored(t, h, []resource.Atom{"sysctl net/ipv4/ip_forward"}, "net/ipv4/ip_forward=1")
	restored(t, h, []resource.Atom{"sysctl net/ipv6/conf/all/forwarding"}, "net/ipv6/conf/all/forwarding=1")
	restored(t, h, []resource.Atom{"sysctl net/ipv6/conf/all/disable_ipv6"}, "net/ipv6/conf/all/disable_ipv6=1")
	restored(t, h, []resource.Atom{"sysctl net/ipv6/conf/ff0/disable_ipv6"}, "net/ipv6/conf/ff0/disable_ipv6=1")
}

// elsewhen is the host after a reboot.
type elsewhen struct{ host.Host }

func (e elsewhen) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if strings.HasSuffix(path, "/boot_id") {
		return []byte("another\n"), nil
	}
	return e.Host.ReadFile(ctx, path)
}

func TestRestoreAfterARebootLeavesLeasesToThoseWhoLease(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	run(t, richState)
	settle(t)
	part := snapshot(t, h, richAtoms)
	run(t, "addr flush dev ff0\nlink set ff0 mtu 1500\naddr add 10.0.66.1/24 dev ff0 valid_lft 99 preferred_lft 99")
	if diffs, err := (restorer{}).Restore(context.Background(), elsewhen{h}, part); err != nil || len(diffs) > 0 {
		t.Error(err, diffs)
	}
	out, err := exec.Command("ip", "-o", "addr", "show", "dev", "ff0").Output()
	must(t, err)
	for text, want := range map[string]bool{"10.0.0.1/24": true, "fd00::1/64": true, "10.0.8.1/24": false, "fd01::1/64": false, "10.0.66.1/24": true} {
		if strings.Contains(string(out), text) != want {
			t.Errorf("%s: wanted %t\n%s", text, want, out)
		}
	}
}

func TestRestoreOfManyRoutesIsQuick(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	run(t, "link set ff1 up\nlink set ff0 up\naddr add 10.0.0.1/24 dev ff0")
	var batch strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&batch, "route add 20.%d.%d.0/24 via 10.0.0.9 table 100\n", i/250, i%250)
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	restored(t, h, []resource.Atom{"nic ff0 mtu"}, "link set ff0 down")
}
