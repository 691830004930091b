//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const inbox = "testdata/ofed/inbox.hcl"

// rdmaPackages is how dpkg-query tells what of RDMA is installed.
const rdmaPackages = `dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' | grep -E 'rdma|ibverbs|ibumad|ibmad|ibnetdisc|infiniband|perftest' | grep -v not-installed`

// packagesOf fetches packages of a Debian release by apt, with lists of its own, and makes a
// repository of them.
func packagesOf(t *testing.T, suite string, names ...string) (dir string) {
	t.Helper()
	for _, program := range []string{"apt-get", "dpkg-scanpackages"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed")
		}
	}
	root, dir := t.TempDir(), t.TempDir()
	mirror := os.Getenv("FABRICFORM_DEBIAN_MIRROR")
	if mirror == "" {
		mirror = "http://deb.debian.org/debian"
	}
	for _, d := range []string{"lists/partial", "cache/archives/partial", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"sources.list": "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] " + mirror + " " + suite + " main\n", "status": ""} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	apt := func(args ...string) {
		t.Helper()
		cmd := exec.Command("apt-get", append([]string{"-q", "-o", "Dir::State::lists=" + root + "/lists", "-o", "Dir::Etc::sourcelist=" + root + "/sources.list",
			"-o", "Dir::Etc::sourceparts=" + root + "/etc", "-o", "Dir::State::status=" + root + "/status", "-o", "Dir::Cache=" + root + "/cache", "-o", "APT::Sandbox::User=root"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	apt("update")
	apt(append([]string{"download"}, names...)...)
	scan := exec.Command("dpkg-scanpackages", "--multiversion", ".")
	scan.Dir = dir
	list, err := scan.Output()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "Packages"), list, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// repository puts a folder of packages onto a guest's disk, as the only one that its apt knows.
func repository(t *testing.T, state, fabric, host, dir string) {
	t.Helper()
	tar := exec.Command("tar", "-C", dir, "-c", ".")
	pipe, err := tar.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tar.Start(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "lab", "exec", fabric, host, "--", "sh", "-c", "rm -rf /srv/packages /etc/apt/sources.list.d/* /var/lib/apt/lists/*; mkdir -p /srv/packages && tar -C /srv/packages --no-same-owner -x && echo 'deb [trusted=yes] file:/srv/packages ./' > /etc/apt/sources.list")
	cmd.Stdin = pipe
	tryCommand(t, state, cmd).want(t, 0)
	if err := tar.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestInboxStack: machines without any RDMA package become a working Soft-RoCE fabric in one apply.
// The second one's repository has an older perftest, which parity finds.
func TestInboxStack(t *testing.T) {
	long(t)
	names := []string{"rdma-core", "ibverbs-providers", "ibverbs-utils", "libibverbs1", "librdmacm1t64", "libibumad3", "infiniband-diags", "libibmad5", "libibnetdisc5t64"}
	newer := packagesOf(t, "trixie", append(names, "perftest")...)
	older := packagesOf(t, "trixie", names...)
	old := packagesOf(t, "bookworm", "perftest")
	for _, f := range must(filepath.Glob(old + "/*.deb")) {
		if err := os.Rename(f, filepath.Join(older, filepath.Base(f))); err != nil {
			t.Fatal(err)
		}
	}
	scan := exec.Command("sh", "-c", "dpkg-scanpackages --multiversion . > Packages")
	scan.Dir = older
	if out, err := scan.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	state := vmLabFor(t, inbox)
	on := func(host, script string) string {
		return try(t, state, "lab", "exec", inbox, host, "--", "sh", "-c", script).out
	}
	for host, dir := range map[string]string{"node1": newer, "node2": older} {
		on(host, `export DEBIAN_FRONTEND=noninteractive; dpkg --purge --force-depends $(`+rdmaPackages+` | cut -d' ' -f1) 2>&1 | tail -3`)
		if left := on(host, rdmaPackages); left != "" {
			t.Fatalf("%s still has:\n%s", host, left)
		}
		repository(t, state, inbox, host, dir)
	}
	on("node1", "apt-get -q update")

	// One knows its packages, and the plan says what would be installed; the other knows none yet.
	a := try(t, state, "plan", "-lab", "-detailed-exitcode", inbox)
	a.want(t, 2, "ofed.inbox", "package perftest", "25.01", "package libibverbs1", "package lists", "do not list", "refreshed", "rxe.rxe0")
	a = try(t, state, "apply", "-lab", "-auto-approve", inbox)
	a.want(t, 0, "✓ node1.ofed.inbox", "✓ node2.ofed.inbox", "✓ node1.rxe.rxe0", "send_lat", "perftest", "the same on all hosts", "25.01", "on node1", "on node2")
	if !strings.Contains(a.out, "! parity  node2") && !strings.Contains(a.out, "! parity  node1") {
		t.Errorf("parity does not name who differs")
	}
	try(t, state, "plan", "-lab", "-detailed-exitcode", inbox).want(t, 0, "No changes")
	try(t, state, "history", "-lab", inbox).want(t, 0, "apply")

	t.Run("a package that is half installed is finished", func(t *testing.T) {
		on("node1", "dpkg --purge perftest && dpkg --unpack /srv/packages/perftest_*.deb")
		try(t, state, "verify", "-lab", "-only", "parity", inbox).want(t, 3, "unpacked", "an installation was interrupted on this host")
		try(t, state, "plan", "-lab", "-detailed-exitcode", inbox).want(t, 2, "package perftest", "unpacked → 25.01")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", inbox).want(t, 0, "✓ node1.ofed.inbox")
		try(t, state, "plan", "-lab", "-detailed-exitcode", inbox).want(t, 0, "No changes")
	})
	t.Run("the package manager refuses", func(t *testing.T) {
		on("node1", "dpkg --purge perftest && rm /srv/packages/perftest_*.deb")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", inbox).want(t, 1, "✗ node1.ofed.inbox", "apt-get exited with status 100", "Run apply again to complete them", "unfinished")
		try(t, state, "plan", "-lab", "-detailed-exitcode", inbox).want(t, 2, "installation", "interrupted during: apt-get")
		repository(t, state, inbox, "node1", newer)
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", inbox).want(t, 0, "✓ node1.ofed.inbox")
		try(t, state, "plan", "-lab", "-detailed-exitcode", inbox).want(t, 0, "No changes")
	})
	t.Run("the power is cut in the middle", func(t *testing.T) {
		repository(t, state, inbox, "node1", waiting(t, newer, "perftest"))
		on("node1", "apt-get -q update; dpkg --purge perftest; touch /root/waits; sync")
		done := make(chan answer, 1)
		go func() { done <- try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", inbox) }()
		for end := time.Now().Add(2 * time.Minute); on("node1", perftestState) != "half-configured"; time.Sleep(time.Second) {
			if time.Now().After(end) {
				t.Fatal("no installation was seen")
			}
		}
		try(t, state, "lab", "reboot", "-hard", inbox, "node1").want(t, 0)
		(<-done).want(t, 1, "interrupted", "Run apply again to complete it")
		if got := on("node1", "rm /root/waits; "+perftestState); got != "half-configured" {
			t.Errorf("perftest is %s after the cut", got)
		}
		try(t, state, "plan", "-lab", "-detailed-exitcode", inbox).want(t, 2, "interrupted during", "package perftest", "half-configured → 25.01")
		try(t, state, "apply", "-lab", "-auto-approve", inbox).want(t, 0, "✓ node1.ofed.inbox", "send_lat") // its device came back with the boot
		if got := on("node1", perftestState); got != "installed" {
			t.Errorf("perftest is %s", got)
		}
		try(t, state, "plan", "-lab", "-detailed-exitcode", inbox).want(t, 0, "No changes")
	})
}

const perftestState = `dpkg-query -W -f '${db:Status-Status}' perftest`

// waiting is a repository with the same packages, one of which holds dpkg up while /root/waits is there.
func waiting(t *testing.T, repository, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := `set -e
cp "$1"/*.deb .
dpkg-deb --raw-extract "$2"_*.deb x
rm "$2"_*.deb
printf '#!/bin/sh\n[ ! -e /root/waits ] || sleep 600\n' > x/DEBIAN/postinst
chmod 755 x/DEBIAN/postinst
dpkg-deb --root-owner-group --build x .
rm -r x
dpkg-scanpackages --multiversion . > Packages`
	cmd := exec.Command("sh", "-c", script, "sh", repository, name)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	return dir
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
