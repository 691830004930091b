//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lifeFabric is a pair whose parts come and go.
func lifeFabric(t *testing.T, dir, name, hosts, rest string) string {
	t.Helper()
	text := fmt.Sprintf("fabric %q {}\n\nhost \"h\" {\n  for_each = %s\n\n%s}\n", name, hosts, rest)
	path := filepath.Join(dir, name+".hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	lifeRail0 = "  nic \"rail0\" {\n    netdev    = \"eth1\"\n    addresses = [\"10.1.0.${each.value}/24\"]\n    mtu       = 9000\n  }\n"
	lifeRail1 = "  nic \"rail1\" {\n    netdev    = \"eth2\"\n    addresses = [\"10.2.0.${each.value}/24\"]\n    mtu       = 9000\n    sysctl    = { \"ipv4.conf.arp_ignore\" = 1 }\n  }\n" +
		"  route \"far\" {\n    to  = \"10.3.0.0/16\"\n    via = \"10.2.0.254\"\n  }\n" +
		"  policy_route \"rail1\" {\n    nic   = nic.rail1\n    from  = nic.rail1.ip\n    table = 100\n    route {\n      to = \"10.2.0.0/24\"\n    }\n    route {\n      to  = \"10.0.0.0/8\"\n      via = \"10.2.0.254\"\n    }\n  }\n"
	lifeSysctl = "  sysctl = { \"net.ipv4.tcp_mtu_probing\" = 1 }\n"
)

// kernelState is what the kernel says of a lab host, without what changes by itself.
func kernelState(t *testing.T, state, fabric, host string) string {
	t.Helper()
	script := "ip -o link show | grep -v mgmt0 | sed 's/ qdisc.*//'; ip -o addr | grep -v mgmt0 | sed 's/ tentative//; s/ brd [0-9.]*//; s/valid_lft.*//'; ip route show table all | grep -v 'proto kernel\\|^local\\|^broadcast\\|^multicast\\|^ff00\\|^anycast'; ip rule; ip -6 rule; cat /proc/sys/net/ipv4/conf/eth2/arp_ignore /proc/sys/net/ipv4/tcp_mtu_probing /proc/sys/net/ipv6/conf/eth2/accept_ra"
	return inside(t, state, fabric, host, "sh", "-c", script)
}

// TestWhatIsNoLongerDeclaredIsGivenBack is the life of a fabric: blocks and attributes go, drift and
// foreign things stay apart, a host vanishes, and in the end everything is as it was.
func TestWhatIsNoLongerDeclaredIsGivenBack(t *testing.T) {
	together(t)
	const both = "{ a = 1, b = 2 }"
	dir := t.TempDir()
	full := lifeFabric(t, dir, "life", both, lifeSysctl+lifeRail0+lifeRail1)
	state := labUpFor(t, full)
	// What was there before fabricform came: an address that the exact set will take, and foreign things.
	inside(t, state, full, "a", "sh", "-c", "ip addr add 172.16.0.1/24 dev eth2; ip link add br9 type bridge; ip link set br9 up; ip addr add 172.17.0.1/24 dev br9; ip route add 172.18.0.0/16 via 172.17.0.9 proto 251 table 77; ip rule add from 172.17.0.1 lookup 77 protocol 251")
	before := kernelState(t, state, full, "a")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", full).want(t, 0)
	try(t, state, "plan", "-lab", "-detailed-exitcode", full).want(t, 0, "No changes")
	if s := kernelState(t, state, full, "a"); strings.Contains(s, "172.16.0.1") || !strings.Contains(s, "10.3.0.0/16 via") {
		t.Fatalf("not applied:\n%s", s)
	}

	t.Run("an attribute goes", func(t *testing.T) {
		fabric := lifeFabric(t, t.TempDir(), "life", both, lifeSysctl+strings.Replace(lifeRail0, "    mtu       = 9000\n", "", 1)+lifeRail1)
		try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 2, "no longer declared: restored", "9000 → 1500")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", fabric).want(t, 0)
		if !strings.Contains(inside(t, state, full, "a", "ip", "link", "show", "eth1"), "mtu 1500") {
			t.Error("the MTU was not given back")
		}
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", full).want(t, 0)
	})
	t.Run("drift is told apart, and what drifted is no longer ours", func(t *testing.T) {
		inside(t, state, full, "a", "ip", "link", "set", "eth2", "mtu", "4000")
		try(t, state, "plan", "-lab", "-detailed-exitcode", full).want(t, 2, "4000 → 9000", "drifted")
		fabric := lifeFabric(t, t.TempDir(), "life", both, lifeSysctl+lifeRail0)
		try(t, state, "plan", "-lab", fabric).want(t, 0, "mtu was changed by someone else since (9000 → 4000), and is kept", "172.16.0.1/24")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", full).want(t, 0)
	})
	t.Run("what others add is removed, and not given back", func(t *testing.T) {
		inside(t, state, full, "a", "ip", "addr", "add", "172.19.0.1/24", "dev", "eth2")
		try(t, state, "plan", "-lab", "-detailed-exitcode", full).want(t, 2, "- address  172.19.0.1/24", "drifted")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", full).want(t, 0)
		gone := lifeFabric(t, t.TempDir(), "life", both, lifeSysctl+lifeRail0)
		if p := try(t, state, "plan", "-lab", gone); !strings.Contains(p.out, "172.16.0.1/24") || strings.Contains(p.out, "172.19.0.1") {
			t.Errorf("the plan of an undo:\n%s", p.out)
		}
	})
	t.Run("blocks go", func(t *testing.T) {
		fabric := lifeFabric(t, t.TempDir(), "life", both, lifeRail0)
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", fabric).want(t, 0)
		s := kernelState(t, state, full, "a")
		for _, gone := range []string{"10.2.0.1", "10.3.0.0/16", "lookup 100", "table 100"} {
			if strings.Contains(s, gone) {
				t.Errorf("%s is still there:\n%s", gone, s)
			}
		}
		for _, stays := range []string{"172.16.0.1/24", "172.18.0.0/16", "from 172.17.0.1 lookup 77"} {
			if !strings.Contains(s, stays) {
				t.Errorf("%s is gone:\n%s", stays, s)
			}
		}
		try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 0, "No changes")
	})
	t.Run("two fabrics on one host", func(t *testing.T) {
		other := lifeFabric(t, t.TempDir(), "other", both, lifeRail1)
		try(t, state, "apply", "-lab=life", "-auto-approve", "-no-verify", other).want(t, 0)
		try(t, state, "plan", "-lab", full).want(t, 1, `owned by fabric "other"`)
		mine := lifeFabric(t, t.TempDir(), "life", both, lifeRail0)
		try(t, state, "plan", "-lab", "-detailed-exitcode", mine).want(t, 0, "No changes")
		try(t, state, "destroy", "-lab=life", "-auto-approve", other).want(t, 0)
		try(t, state, "plan", "-lab", "-detailed-exitcode", mine).want(t, 0, "No changes")
	})
	t.Run("a host vanishes from the files", func(t *testing.T) {
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", full).want(t, 0)
		alone := lifeFabric(t, t.TempDir(), "life", "{ a = 1 }", lifeSysctl+lifeRail0+lifeRail1)
		try(t, state, "plan", "-lab", alone).want(t, 0, "host b (b) was removed from the files", "fabricform destroy -host b")
		try(t, state, "destroy", "-lab", "-auto-approve", "-host", "c", alone).want(t, 1, "no such host in the files")
		try(t, state, "destroy", "-lab", "-auto-approve", "-host", "b", alone).want(t, 0)
		if s := kernelState(t, state, full, "b"); strings.Contains(s, "10.1.0.2") || strings.Contains(s, "lookup 100") {
			t.Errorf("b was not cleaned:\n%s", s)
		}
		if a := try(t, state, "plan", "-lab", "-detailed-exitcode", alone); a.code != 0 || strings.Contains(a.out, "was removed from the files") {
			t.Errorf("b is still on the roster")
		}
	})
	t.Run("destroy", func(t *testing.T) {
		try(t, state, "destroy", "-lab", full).want(t, 1, "approval needs a terminal")
		try(t, state, "destroy", "-lab", "-auto-approve", full).want(t, 0, "nic.rail0  destroy: restored")
		if after := kernelState(t, state, full, "a"); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		if left := inside(t, state, full, "a", "sh", "-c", "ls /var/lib/fabricform"); left != "transactions\n" {
			t.Errorf("a record is left: %s", left)
		}
		try(t, state, "destroy", "-lab", "-auto-approve", full).want(t, 0, "No changes")
	})
}
