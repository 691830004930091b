//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// lifetimes are of routes that somebody announces, in seconds.
var lifetimes = regexp.MustCompile(` expires \S+`)

// machine is what a lab could change on the machine that carries it.
func machine(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, args := range [][]string{{"-br", "link"}, {"-br", "addr"}, {"route", "show", "table", "all"}, {"-6", "route", "show", "table", "all"}, {"rule"}} {
		out, err := exec.Command("ip", args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		all.Write(lifetimes.ReplaceAll(out, nil))
	}
	for _, file := range []string{"/proc/mounts", "/etc/passwd", "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(raw)
	}
	return all.String()
}

func TestLabCannotReachTheMachineThatCarriesIt(t *testing.T) {
	e2e(t)
	before := machine(t)
	state := labUpFor(t, pair)
	for _, reach := range []string{
		// Write the present values: even if the lab let the write through, nothing would change.
		"cat /proc/sys/vm/overcommit_memory > /proc/sys/vm/overcommit_memory",
		"mkdir /usr/of-the-lab", "ls /dev/[sv]da", "ip link show eth0",
	} {
		if a := try(t, state, "lab", "exec", pair, "a", "--", "sh", "-c", reach); a.code == 0 {
			t.Errorf("a lab host may %q", reach)
		}
	}
	// A login to a host runs nothing of the operator's.
	if homes := inside(t, state, pair, "a", "sh", "-c", "stat -f -c %T /root /home; diff -r /etc/skel /root && ls -A /home"); homes != "tmpfs\ntmpfs\n" {
		t.Errorf("the homes of a lab host:\n%s", homes)
	}
	inside(t, state, pair, "a", "sh", "-c", "echo x > /etc/of-the-lab && echo x:x:4242:4242::/:/bin/sh >> /etc/passwd && echo 1 > /proc/sys/net/ipv4/ip_forward && ip link set lo down")
	if a := try(t, state, "lab", "exec", pair, "b", "--", "cat", "/etc/of-the-lab"); a.code == 0 {
		t.Error("what one host writes, another sees")
	}
	if after := machine(t); after != before {
		t.Fatalf("the lab changed the machine:\n%s\n%s", before, after)
	}
	try(t, state, "lab", "up", pair).want(t, 1, "up already")
	try(t, state, "lab", "fault", pair, "rail0", "limit=100mbit").want(t, 0)
	try(t, state, "lab", "status", pair).want(t, 0, "limit=100mbit", "host a")
	try(t, state, "lab", "fault", pair, "rail7", "cut").want(t, 1, "rail0, rail1")
	broken := filepath.Join(t.TempDir(), "broken.hcl")
	if err := os.WriteFile(broken, []byte("# once it was whole\nfabric \"roce-pair\" {}\nhost \"a\" {\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	try(t, state, "lab", "status", broken).want(t, 1)
	try(t, state, "lab", "down", broken).want(t, 0, "broken.hcl", "✓ the lab is removed.")
	try(t, state, "lab", "down", pair).want(t, 0, "has no lab")
	try(t, state, "lab", "up", "-sshd", sshd, pair).want(t, 0)
	try(t, state, "lab", "down", "roce-pair").want(t, 0, "✓ the lab is removed.")
	try(t, state, "lab", "down", "roce-pair").want(t, 1)
	try(t, state, "lab", "status", pair).want(t, 0, "has no lab; build it with")
	if after := machine(t); after != before {
		t.Fatalf("the lab left something behind:\n%s\n%s", before, after)
	}
}
