package main

import (
	"strings"
	"testing"
)

const twoRail = "testdata/persist/two-rail.hcl"

// othersFiles are the digests of all files below /etc that are not ours.
const othersFiles = `find /etc -type f ! -name "*fabricform*" -exec sha256sum {} + | sort -k2`

// TestWhatIsDeclaredSurvivesAReboot is the life of kept files with systemd-networkd: applied, booted,
// disturbed in the ways that empty tables and flush rules, removed, and booted again.
func TestWhatIsDeclaredSurvivesAReboot(t *testing.T) {
	e2e(t)
	state := vmLabFor(t, twoRail)
	on := func(argv ...string) string {
		return try(t, state, append([]string{"lab", "exec", twoRail, "node1", "--"}, argv...)...).out
	}
	settled := func(t *testing.T) {
		t.Helper()
		try(t, state, "plan", "-lab", "-detailed-exitcode", twoRail).want(t, 0, "No changes")
	}
	on("sh", "-c", othersFiles+" > /root/others")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", twoRail).want(t, 0, "✓ node1.persist.files", "✓ node2.persist.files")
	settled(t)

	t.Run("a reboot", func(t *testing.T) {
		try(t, state, "lab", "reboot", twoRail, "node1").want(t, 0)
		settled(t)
		if limits := on("sh", "-c", "ulimit -l"); strings.TrimSpace(limits) != "unlimited" {
			t.Errorf("a login may lock %s KiB", limits)
		}
	})
	t.Run("the link goes down and up", func(t *testing.T) {
		on("sh", "-c", "ip link set eth1 down; sleep 2; ip link set eth1 up; sleep 5")
		settled(t)
	})
	t.Run("networkd is restarted and reloaded", func(t *testing.T) {
		on("sh", "-c", "systemctl restart systemd-networkd; sleep 5; networkctl reload; sleep 3")
		settled(t)
	})
	t.Run("a file is changed by hand", func(t *testing.T) {
		const file = "/etc/systemd/network/05-fabricform-tworail-eth1.network"
		on("sh", "-c", "echo '# by hand' >> "+file)
		try(t, state, "plan", "-lab", "-detailed-exitcode", twoRail).want(t, 2, "file "+file)
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", twoRail).want(t, 0, "✓ node1.persist.files  1 change")
		settled(t)
	})
	t.Run("removed, nothing is left", func(t *testing.T) {
		try(t, state, "destroy", "-lab", "-auto-approve", twoRail).want(t, 0)
		try(t, state, "lab", "reboot", twoRail, "node1").want(t, 0)
		if left := on("sh", "-c", `find /etc /run -name "*fabricform*"; ip rule | grep lookup.10; ip route show table 101; rdma link`); left != "" {
			t.Errorf("left:\n%s", left)
		}
		if differ := on("sh", "-c", othersFiles+" | diff /root/others - && echo equal"); differ != "equal\n" {
			t.Errorf("files of others, before and after:\n%s", differ)
		}
	})
}
