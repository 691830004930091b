//go:build linux

package e2e

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const twoRail = "testdata/persist/two-rail.hcl"

// othersFiles are the digests of all files below /etc that are not ours.
const othersFiles = `find /etc -type f ! -name "*fabricform*" -exec sha256sum {} + | sort -k2`

// owner is a network manager of the lab's guests.
type owner struct {
	name string
	file string // of ours, for one NIC
	// disturb restarts it and has it read its files again; "": it does nothing after the boot.
	disturb string
	// conflict is what somebody else wrote, and what is said of it; undo takes it away.
	conflict, says, undo string
	short                bool // in the short form
}

const brokenNeighbour = "printf 'network: {ethernets: [' > /etc/netplan/50-broken.yaml"

var owners = []owner{
	{"networkd", "/etc/systemd/network/05-fabricform-tworail-eth1.network", "systemctl restart systemd-networkd; sleep 5; networkctl reload",
		"printf '[Match]\\nName=eth1\\n[Network]\\nAddress=10.9.9.9/24\\n' > /etc/systemd/network/20-other.network; networkctl reload",
		"/etc/systemd/network/20-other.network configures eth1 already", "rm /etc/systemd/network/20-other.network; networkctl reload", true},
	{"networkmanager", "/etc/NetworkManager/system-connections/fabricform-tworail-eth1.nmconnection",
		"systemctl restart NetworkManager; sleep 8; nmcli connection reload",
		"nmcli connection add type ethernet ifname eth1 con-name other ipv4.method manual ipv4.addresses 10.9.9.9/24; nmcli connection up other",
		"/etc/NetworkManager/system-connections/other.nmconnection configures eth1 already", "nmcli connection delete other", false},
	{"netplan-networkd", "/etc/netplan/90-fabricform-tworail.yaml", "netplan apply; sleep 5; networkctl reload",
		brokenNeighbour, "netplan cannot read its existing files", "rm /etc/netplan/50-broken.yaml", false},
	{"netplan-networkmanager", "/etc/netplan/90-fabricform-tworail.yaml", "netplan apply; sleep 8; nmcli connection reload",
		brokenNeighbour, "netplan cannot read its existing files", "rm /etc/netplan/50-broken.yaml", false},
	// It acts when it is called: what the kernel drops when somebody else takes the link down is gone.
	{"ifupdown", "/etc/network/interfaces.d/fabricform-tworail-eth1", "ifdown eth1 && sleep 2 && ifup eth1",
		"printf 'iface eth1 inet static\\n  address 10.9.9.9/24\\n' > /etc/network/interfaces.d/other", "/etc/network/interfaces.d/other configures eth1 already",
		"rm /etc/network/interfaces.d/other", false},
}

// kept is a lab whose guests keep what is declared.
type kept struct {
	*testing.T
	state string
}

func (k kept) on(argv ...string) string {
	return try(k.T, k.state, append([]string{"lab", "exec", twoRail, "node1", "--"}, argv...)...).out
}

// settled wants nothing left to be done, with patience for links that come up.
func (k kept) settled() {
	k.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end) && try(k.T, k.state, "plan", "-lab", "-detailed-exitcode", twoRail).code != 0; {
		time.Sleep(2 * time.Second)
	}
	try(k.T, k.state, "plan", "-lab", "-detailed-exitcode", twoRail).want(k.T, 0, "No changes")
}

// TestWhatIsDeclaredSurvivesAReboot is the life of kept files, with one network manager after the
// other: applied, booted, disturbed in the ways that empty tables and flush rules, removed, and
// booted again.
func TestWhatIsDeclaredSurvivesAReboot(t *testing.T) {
	e2e(t)
	all := full()
	for _, o := range owners {
		if o.short || all {
			t.Run(o.name, func(t *testing.T) { lifeOfKeptFiles(t, o, all) })
		}
	}
}

func lifeOfKeptFiles(t *testing.T, o owner, all bool) {
	k := kept{t, vmLabFor(t, twoRail, "-owner", o.name)}
	row := func(name string, do func(k kept)) {
		t.Run(name, func(t *testing.T) { do(kept{t, k.state}) })
	}
	k.on("sh", "-c", othersFiles+" > /root/others")
	row("what others wrote is an error of the plan", func(k kept) {
		k.on("sh", "-c", o.conflict)
		// Its manager may not have read it yet.
		for end := time.Now().Add(time.Minute); time.Now().Before(end) && try(k.T, k.state, "plan", "-lab", twoRail).code != 1; {
			time.Sleep(2 * time.Second)
		}
		try(k.T, k.state, "plan", "-lab", twoRail).want(k.T, 1, o.says)
		k.on("sh", "-c", o.undo)
	})
	if all && o.name == "networkd" {
		resetsInThePersistStage(k)
	}
	if o.name == "networkmanager" {
		try(t, k.state, "apply", "-lab", "-auto-approve", "-confirm", "manual", twoRail).want(t, 0, "node1.persist.files  pending: written by fabricform confirm")
		if early := k.on("sh", "-c", `find /etc -name "*fabricform*"`); early != "" {
			t.Errorf("written before it was confirmed:\n%s", early)
		}
		try(t, k.state, "confirm", "-lab", twoRail).want(t, 0, "node1, node2  committed")
	} else {
		try(t, k.state, "apply", "-lab", "-auto-approve", "-no-verify", twoRail).want(t, 0, "✓ node1.persist.files", "✓ node2.persist.files")
	}
	k.settled()
	row("a reboot", func(k kept) {
		try(k.T, k.state, "verify", "-lab", "-after-reboot", "-host", "node1", "-only", "ping", twoRail).want(k.T, 3, "reboot the host, and verify again")
		try(k.T, k.state, "lab", "reboot", twoRail, "node1").want(k.T, 0)
		k.settled()
		if limits := k.on("sh", "-c", "ulimit -l"); strings.TrimSpace(limits) != "unlimited" {
			k.Errorf("a login may lock %s KiB", limits)
		}
		try(k.T, k.state, "verify", "-lab", "-after-reboot", "-host", "node1", "-only", "ping", twoRail).want(k.T, 0, "resources came up as declared")
	})
	// The short form has what no other test shows: the boot, and a link that goes down.
	more := func(name string, do func(k kept)) {
		if all {
			row(name, do)
		}
	}
	row("the link goes down and up", func(k kept) {
		if o.name != "ifupdown" {
			k.on("sh", "-c", "ip link set eth1 down; sleep 2; ip link set eth1 up")
			k.settled()
		}
		try(k.T, k.state, "lab", "fault", twoRail, "rail0", "cut").want(k.T, 0)
		k.on("sh", "-c", "until [ $(cat /sys/class/net/eth1/carrier) = 0 ]; do sleep 0.2; done")
		try(k.T, k.state, "lab", "fault", twoRail, "rail0", "none").want(k.T, 0)
		k.settled()
	})
	if o.disturb != "" {
		more("the manager is restarted and reloaded", func(k kept) {
			k.on("sh", "-c", o.disturb)
			k.settled()
		})
	}
	more("a file is changed by hand", func(k kept) {
		k.on("sh", "-c", "echo '# by hand' >> "+o.file)
		try(k.T, k.state, "plan", "-lab", "-detailed-exitcode", twoRail).want(k.T, 2, "file "+o.file)
		try(k.T, k.state, "apply", "-lab", "-auto-approve", "-no-verify", twoRail).want(k.T, 0, "✓ node1.persist.files  1 change")
		k.settled()
	})
	row("removed, nothing is left", func(k kept) {
		try(k.T, k.state, "destroy", "-lab", "-auto-approve", twoRail).want(k.T, 0)
		k.traceless()
		if all {
			try(k.T, k.state, "lab", "reboot", twoRail, "node1").want(k.T, 0)
			k.traceless()
		}
	})
}

// traceless requires the guest to be as it was before the first apply. systemd's own notes on units
// that ran in this boot are not asked for.
func (k kept) traceless() {
	k.Helper()
	if left := k.on("sh", "-c", `find /etc /run -path /run/systemd/units -prune -o -name "*fabricform*" -print; ip rule | grep lookup.10; ip route show table 101; rdma link`); left != "" {
		k.Errorf("left:\n%s", left)
	}
	if differ := k.on("sh", "-c", othersFiles+" | diff /root/others - && echo equal"); differ != "equal\n" {
		k.Errorf("files of others, before and after:\n%s", differ)
	}
}

// resetsInThePersistStage cuts a guest's power at moments that the guest itself sees come.
func resetsInThePersistStage(k kept) {
	const persisting = `grep -qs '"persisting"' /var/lib/fabricform/transactions/*.json`
	for _, r := range []struct {
		name, when string
		client     bool // goes on
	}{
		{"nothing is written yet", persisting, false},
		{"some files are written", persisting + " && [ -e /etc/sysctl.d/99-z-fabricform-tworail.conf ]", false},
		{"all files are written", persisting + " && [ -e /etc/udev/rules.d/95-fabricform-tworail.rules ]", false},
		{"and the client is there", persisting + " && [ -e /etc/sysctl.d/99-z-fabricform-tworail.conf ]", true},
	} {
		k.Run("reset in the persist stage: "+r.name, func(t *testing.T) {
			k := kept{t, k.state}
			a := k.resetWhen(r.when, !r.client)
			if r.client { // then all hosts revert
				a.want(t, 6, "every host that it changed was rolled back")
				k.traceless()
				return
			}
			// The other host reverts automatically meanwhile.
			try(t, k.state, "apply", "-lab", "-auto-approve", "-no-verify", twoRail).want(t, 0,
				`host node1: the host was reset during a transaction of fabric "tworail", by `, "; the transaction is now committed")
			k.settled()
			try(t, k.state, "destroy", "-lab", "-auto-approve", twoRail).want(t, 0)
			try(t, k.state, "lab", "reboot", twoRail, "node1").want(t, 0)
			k.traceless()
		})
	}
}

// resetWhen applies, and has the guest reset itself when a condition of its shell holds.
func (k kept) resetWhen(condition string, killClient bool) answer {
	k.Helper()
	boot := k.on("cat", "/proc/sys/kernel/random/boot_id")
	watch := exec.Command(bin, "lab", "exec", twoRail, "node1", "--", "sh", "-c",
		"echo 1 > /proc/sys/kernel/sysrq; echo ready; while ! { "+condition+"; }; do :; done; echo now; read ack; echo going; sleep 0.1; echo b > /proc/sysrq-trigger")
	watch.Env = append(os.Environ(), "XDG_STATE_HOME="+k.state)
	tell, err1 := watch.StdinPipe()
	out, err2 := watch.StdoutPipe()
	if err := errors.Join(err1, err2, watch.Start()); err != nil {
		k.Fatal(err)
	}
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); line != "ready\n" {
		k.Fatalf("the guest says %q: %v", line, err)
	}
	ctx, kill := context.WithCancel(k.Context())
	defer kill()
	client := exec.CommandContext(ctx, bin, "apply", "-lab", "-auto-approve", "-no-verify", "-lease", "40s", twoRail)
	gone := make(chan struct{})
	var reset atomic.Bool
	go func() {
		defer close(gone)
		if line, _ := said.ReadString('\n'); line != "now\n" {
			return
		}
		if killClient {
			kill()
		}
		reset.Store(true)
		_, _ = io.WriteString(tell, "reset\n") // without it the guest does not come back, which is seen
		late := time.AfterFunc(30*time.Second, func() { _ = watch.Process.Kill() })
		_, _ = said.ReadString('\n') // the guest got the command, and resets itself
		late.Stop()
		_ = watch.Process.Kill() // nothing comes from the guest any more
		_ = watch.Wait()         // killed
	}()
	a := tryCommand(k.T, k.state, client)
	if !reset.Load() {
		_ = watch.Process.Kill()
		k.Fatal("the apply was over before the reset")
	}
	<-gone
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(time.Second) {
		now := try(k.T, k.state, "lab", "exec", twoRail, "node1", "--", "sh", "-c", "timeout 60 systemctl is-system-running --wait >/dev/null; cat /proc/sys/kernel/random/boot_id")
		if now.code == 0 && now.out != boot {
			break
		}
		if time.Now().After(deadline) {
			k.Fatal("the guest does not come back")
		}
	}
	if !slices.Contains([]string{"persisting\n", "reverted\n"}, k.on("sh", "-c", `sed -n 's/.*"state": *"\([a-z-]*\)".*/\1/p' $(ls /var/lib/fabricform/transactions/*.json | tail -1)`)) {
		k.Error("the reset did not come in the persist stage")
	}
	return a
}
