//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bondVLAN is a bond of two cables with a VLAN and Soft-RoCE on it.
const bondVLAN = "../examples/bond-vlan.hcl"

// kernelTrace is what a host has of links, addresses, routes and rules, without what changes by itself. trace has RDMA devices and our files, too,
// and leaves out what stays once a NIC was a member: the queueing discipline that the kernel gives it when it first comes up, and the mode none of
// IPv6 addresses that networkd gives to members.
const kernelTrace = `ip -d link show | sed -E 's/^[0-9]+: //; s/ (state|mode) [A-Z]+//g; s/promiscuity [0-9]+ //; s/,?(LOWER_UP|NO-CARRIER),?//g'
ip addr show | sed -E '/valid_lft/d; /inet6 fe80/d; s/^[0-9]+: //; s/ state [A-Z]+//; s/,?(LOWER_UP|NO-CARRIER),?//g'
ip route show table all | grep -v fe80 | grep -v ff00 | sed 's/ linkdown//'; ip -6 route show table all | grep -v -e fe80 -e ff00
ip rule; ip -6 rule`

const trace = "{ " + kernelTrace + `
ls /sys/class/infiniband /proc/net/bonding /etc/modules-load.d 2>/dev/null; } | sed -E 's/ addrgenmode [a-z0-9_]+//; s/ qdisc [a-z_]+//'`

// TestABondCarriesAVLANAndRDMA: two members, LACP with the other host, a VLAN and Soft-RoCE on the bond; traffic goes on when a cable is cut, and
// nothing is left after a destroy.
func TestABondCarriesAVLANAndRDMA(t *testing.T) {
	long(t)
	state := vmLabFor(t, bondVLAN)
	inside(t, state, bondVLAN, "node1", "modprobe", "-a", "bonding", "8021q", "rdma_rxe")
	before := inside(t, state, bondVLAN, "node1", "sh", "-c", trace)
	try(t, state, "plan", "-lab", "-detailed-exitcode", bondVLAN).want(t, 2, "+ bond.b0", "+ member     eth2", "+ vlan.storage", "+ id            200", "+ rxe.rxe0")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", bondVLAN).want(t, 0, "✓ node1.bond.b0", "✓ node2.vlan.storage", "✓ node2.rxe.rxe0")
	try(t, state, "plan", "-lab", "-detailed-exitcode", bondVLAN).want(t, 0, "No changes")
	for _, want := range []string{"Bonding Mode: IEEE 802.3ad", "LACP rate: fast", "Transmit Hash Policy: layer3+4 (1)", "Number of ports: 2"} {
		if got := inside(t, state, bondVLAN, "node1", "cat", "/proc/net/bonding/b0"); !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}

	t.Run("pings and RDMA go over the bond and over its VLAN", func(t *testing.T) {
		a := try(t, state, "verify", "-lab", "-only", "link,ping,verbs,nccl", bondVLAN)
		a.want(t, 0, "rxe0 on b0", "node1 → node2  send_lat 2 B", "node2 → node1  write_bw 64 KiB")
		if n := strings.Count(a.out, "node1 → node2  send_lat 2 B"); n != 2 {
			t.Errorf("%d links measured, want those of the bond and the VLAN:\n%s", n, a.out)
		}
		gids := inside(t, state, bondVLAN, "node1", "sh", "-c", "cat /sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/* 2>/dev/null | sort -u")
		if strings.Fields(gids)[0] != "b0" || !strings.Contains(gids, "storage") {
			t.Errorf("the device has GIDs of %q", gids)
		}
	})
	t.Run("a cut cable leaves the traffic", func(t *testing.T) {
		try(t, state, "lab", "fault", bondVLAN, "pair:p0", "cut").want(t, 0)
		defer try(t, state, "lab", "fault", bondVLAN, "pair:p0", "none")
		inside(t, state, bondVLAN, "node1", "sh", "-c", "for i in $(seq 100); do grep -q 'MII Status: down' /proc/net/bonding/b0 && exit 0; sleep 0.1; done; exit 1")
		try(t, state, "verify", "-lab", "-only", "ping", bondVLAN).want(t, 0, "Verified (ping)")
		try(t, state, "plan", "-lab", "-detailed-exitcode", bondVLAN).want(t, 0, "No changes")
	})
	t.Run("a VLAN that a switch lacks is told from a dead cable", func(t *testing.T) {
		for _, cable := range []string{"pair:p0", "pair:p1"} {
			try(t, state, "lab", "fault", bondVLAN, cable, "no-vlan=200").want(t, 0)
		}
		try(t, state, "verify", "-lab", "-only", "ping", "-link", "pair", bondVLAN).want(t, 0, "Verified (ping)")
		try(t, state, "verify", "-lab", "-only", "link,ping", "-link", "storage", bondVLAN).want(t, 3,
			"nothing of VLAN 200 reaches node2.b0, while other packets do: a switch between does not carry this VLAN", "✓ link")
		for _, cable := range []string{"pair:p0", "pair:p1"} {
			try(t, state, "lab", "fault", bondVLAN, cable, "cut").want(t, 0)
		}
		inside(t, state, bondVLAN, "node1", "sh", "-c", "until [ $(cat /sys/class/net/storage/carrier) = 0 ]; do sleep 0.2; done")
		a := try(t, state, "verify", "-lab", "-only", "link,ping", "-link", "storage", bondVLAN)
		if a.want(t, 3, "✗ link"); strings.Contains(a.out, "does not carry") {
			t.Errorf("a dead cable is taken for a missing VLAN:\n%s", a.out)
		}
		for _, cable := range []string{"pair:p0", "pair:p1"} {
			try(t, state, "lab", "fault", bondVLAN, cable, "none").want(t, 0)
		}
		inside(t, state, bondVLAN, "node1", "sh", "-c", "until [ $(cat /sys/class/net/storage/carrier) = 1 ]; do sleep 0.2; done; sleep 5")
		try(t, state, "verify", "-lab", "-only", "ping", bondVLAN).want(t, 0, "Verified (ping)")
	})
	t.Run("what somebody takes away comes back", func(t *testing.T) {
		inside(t, state, bondVLAN, "node2", "sh", "-c", "ip link set eth2 nomaster; ip link del storage")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", bondVLAN).want(t, 0, "✓ node2.bond.b0", "✓ node2.vlan.storage")
		try(t, state, "plan", "-lab", "-detailed-exitcode", bondVLAN).want(t, 0, "No changes")
		try(t, state, "verify", "-lab", "-only", "ping", bondVLAN).want(t, 0, "Verified (ping)")
	})
	t.Run("a rollback makes them again", func(t *testing.T) {
		try(t, state, "destroy", "-lab", "-auto-approve", "-host", "node1", bondVLAN).want(t, 0, "✓ node1.bond.b0")
		try(t, state, "rollback", "-lab", "-auto-approve", bondVLAN).want(t, 0)
		try(t, state, "plan", "-lab", "-detailed-exitcode", bondVLAN).want(t, 0, "No changes")
	})
	t.Run("nothing is left", func(t *testing.T) {
		try(t, state, "destroy", "-lab", "-auto-approve", bondVLAN).want(t, 0, "✓ node1.bond.b0", "✓ node2.vlan.storage")
		if after := inside(t, state, bondVLAN, "node1", "sh", "-c", trace); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
	})
	t.Run("what others made is adopted, and left to them", func(t *testing.T) { adoptsABond(t, state) })
	t.Run("the kernel's own tests", func(t *testing.T) { kernelTests(t, state) })
}

// adoptsABond: a bond and a VLAN made by hand as declared are not touched, and those with other options get these options alone. A destroy leaves
// them as they were.
func adoptsABond(t *testing.T, state string) {
	on := func(host, script string) string { return inside(t, state, bondVLAN, host, "sh", "-c", script) }
	const own = `cd /sys/class/net/b0/bonding; cat mode miimon lacp_rate xmit_hash_policy min_links slaves; cat ../ifindex ../../storage/ifindex
ip -d link show storage | grep -o "vlan protocol.* id [0-9]*"; ip -br addr show dev b0; ip -br addr show dev storage`
	byHand := func(host, rate, hash, id, number string) {
		on(host, `ip link add b0 address $(cat /sys/class/net/eth1/address) type bond mode 802.3ad miimon 100 lacp_rate `+rate+` xmit_hash_policy `+hash+` min_links 1
for n in eth1 eth2; do ip link set $n down; ip link set $n master b0; done; ip link set b0 mtu 4200 up; ip addr add 10.40.0.`+number+`/30 dev b0
ip link add link b0 name storage type vlan id `+id+` egress-qos-map 4:3; ip link set storage mtu 4200 up; ip addr add 10.2.0.`+number+`/30 dev storage`)
	}
	byHand("node1", "fast", "layer3+4", "200", "1")
	byHand("node2", "slow", "layer2", "201", "2")
	on("node1", "sleep 5") // addresses become valid
	before := map[string]string{"node1": on("node1", own), "node2": on("node2", own)}
	a := try(t, state, "plan", "-lab", "-detailed-exitcode", "-host", "node1", bondVLAN)
	if a.want(t, 2, "rxe.rxe0"); strings.Contains(a.out, "~ bond.b0") || strings.Contains(a.out, "~ vlan.storage") {
		t.Errorf("what is as declared changes:\n%s", a.out)
	}
	a = try(t, state, "plan", "-lab", "-detailed-exitcode", "-host", "node2", bondVLAN)
	if a.want(t, 2, "slow → fast", "layer2 → layer3+4", "201 → 200"); strings.Contains(a.out, "member") || strings.Contains(a.out, "mode ") {
		t.Errorf("more than what differs changes:\n%s", a.out)
	}
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", bondVLAN).want(t, 0, "✓ node2.bond.b0", "✓ node2.vlan.storage")
	try(t, state, "plan", "-lab", "-detailed-exitcode", bondVLAN).want(t, 0, "No changes")
	try(t, state, "verify", "-lab", "-only", "ping", bondVLAN).want(t, 0, "Verified (ping)")
	if now, was := strings.Fields(on("node1", own)), strings.Fields(before["node1"]); !slices.Equal(now, was) {
		t.Errorf("the bond of node1 was %q, is %q", was, now)
	}
	try(t, state, "destroy", "-lab", "-auto-approve", bondVLAN).want(t, 0, "✓ node2.bond.b0")
	for host, was := range before {
		now := on(host, own)
		if host == "node2" { // a VLAN with another ID is another device
			now, was = withoutIndex(now), withoutIndex(was)
		}
		if now != was {
			t.Errorf("%s was\n%s\nis\n%s", host, was, now)
		}
		on(host, "ip link del storage; ip link del b0")
	}
}

// withoutIndex leaves out the line with the index of the VLAN.
func withoutIndex(own string) string {
	lines := strings.Split(own, "\n")
	return strings.Join(slices.Delete(lines, 7, 8), "\n")
}

// kernelTests runs the tests of package netif that need a kernel with bonds and VLANs in a guest.
func kernelTests(t *testing.T, state string) {
	program := filepath.Join(t.TempDir(), "netif.test")
	build := exec.Command("go", "test", "-c", "-o", program, "../providers/netif")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	send := exec.Command(bin, "lab", "exec", bondVLAN, "node1", "--", "sh", "-c", "cat > /run/netif.test && chmod +x /run/netif.test")
	send.Stdin = file
	tryCommand(t, state, send).want(t, 0)
	a := try(t, state, "lab", "exec", bondVLAN, "node1", "--", "sh", "-c", "cd /run && ./netif.test -test.v -test.run 'TestKernelMakesBondsAndVLANs|TestKernelRestores'")
	a.want(t, 0, "--- PASS: TestKernelMakesBondsAndVLANs", "--- PASS: TestKernelRestoresARemovedBond")
	if strings.Contains(a.out, "--- SKIP") {
		t.Error(a.out)
	}
}
