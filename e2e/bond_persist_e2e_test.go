//go:build linux

package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestBondsAndVLANsSurviveAReboot, with one network manager after the other: a bond of two cables with a VLAN and Soft-RoCE on it is applied,
// boots, loses a member, and is removed without a trace.
func TestBondsAndVLANsSurviveAReboot(t *testing.T) {
	long(t)
	for _, o := range owners {
		t.Run(o.name, func(t *testing.T) { lifeOfABond(t, o.name) })
	}
}

func lifeOfABond(t *testing.T, owner string) {
	state := vmLabFor(t, bondVLAN, "-owner", owner)
	on := func(t *testing.T, script string) string {
		return inside(t, state, bondVLAN, "node1", "sh", "-c", script)
	}
	settled := func(t *testing.T) {
		t.Helper()
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end) && try(t, state, "plan", "-lab", "-detailed-exitcode", bondVLAN).code != 0; {
			time.Sleep(2 * time.Second)
		}
		try(t, state, "plan", "-lab", "-detailed-exitcode", bondVLAN).want(t, 0, "No changes")
	}
	traceless := func(t *testing.T) {
		t.Helper()
		if left := on(t, `find /etc /run -path /run/systemd/units -prune -o -name "*fabricform*" -print; ls -d /sys/class/net/b0 /sys/class/net/storage /sys/class/infiniband/rxe0 2>/dev/null; ip -o link show | grep " master "; true`); left != "" {
			t.Errorf("left:\n%s", left)
		}
		if differ := on(t, othersFiles+" | diff /root/others - && echo equal"); differ != "equal\n" {
			t.Errorf("files of others, before and after:\n%s", differ)
		}
	}
	on(t, othersFiles+" > /root/others")
	const members = `for n in eth1 eth2; do echo $n $(cat /sys/class/net/$n/mtu) $(($(cat /sys/class/net/$n/flags) & 1)) $(cat /sys/class/net/$n/address); done`
	before := on(t, members)
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", bondVLAN).want(t, 0, "✓ node1.bond.b0", "✓ node1.persist.files", "✓ node2.persist.files")
	settled(t)
	working := func(t *testing.T) {
		t.Helper()
		got := on(t, "cat /proc/net/bonding/b0; ip -d link show storage; ip -br addr")
		for _, want := range []string{"Bonding Mode: IEEE 802.3ad", "LACP rate: fast", "Transmit Hash Policy: layer3+4 (1)", "Min links: 1", "vlan protocol 802.1Q id 200", "10.2.0.1/30", "10.40.0.1/30"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing:\n%s", want, got)
			}
		}
		try(t, state, "verify", "-lab", "-only", "link,ping,bond", bondVLAN).want(t, 0, "Verified (link, ping, bond)")
	}
	working(t)
	t.Run("a reboot", func(t *testing.T) {
		try(t, state, "lab", "reboot", bondVLAN, "node1").want(t, 0)
		settled(t)
		try(t, state, "verify", "-lab", "-after-reboot", "-host", "node1", "-only", "ping", bondVLAN).want(t, 0, "resources came up as declared")
		working(t)
	})
	t.Run("a member is cut, and named", func(t *testing.T) {
		try(t, state, "lab", "fault", bondVLAN, "pair:p0", "cut").want(t, 0)
		on(t, "until [ $(cat /sys/class/net/eth1/carrier) = 0 ]; do sleep 0.2; done; sleep 3")
		try(t, state, "verify", "-lab", "-only", "ping", bondVLAN).want(t, 0, "Verified (ping)")
		try(t, state, "verify", "-lab", "-only", "bond", bondVLAN).want(t, 3, "p0 has no carrier")
		try(t, state, "lab", "fault", bondVLAN, "pair:p0", "none").want(t, 0)
		on(t, "until [ $(cat /sys/class/net/eth1/carrier) = 1 ]; do sleep 0.2; done; sleep 5")
		settled(t)
		working(t)
	})
	t.Run("removed, nothing is left", func(t *testing.T) {
		try(t, state, "destroy", "-lab", "-auto-approve", bondVLAN).want(t, 0, "✓ node1.bond.b0")
		traceless(t)
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && on(t, members) != before; { // a manager may take them up again
			time.Sleep(time.Second)
		}
		if after := on(t, members); after != before {
			t.Errorf("MTU, whether it is up, and MAC of the members, before:\n%s\nafter:\n%s", before, after)
		}
		try(t, state, "lab", "reboot", bondVLAN, "node1").want(t, 0)
		traceless(t)
	})
}
