//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// standIn is the name of a bundle that keeps to MLNX_OFED's documented interface and has nothing of
// it: MLNX_OFED cannot be had freely.
const standIn = "MLNX_OFED_LINUX-24.10-2.1.8.0-debian13.0-x86_64"

// standInInstaller asks as the real one does, knows the option that keeps firmware, and leaves what
// tells of an installation: ofed_info, which is there long before the end, and the service that reloads
// the driver.
const standInInstaller = `#!/bin/sh
echo "This stand-in will remove all other OFED packages. Do you want to continue?[y/N]:"
read answer
[ "$answer" = y ] || exit 1
[ "$*" = --without-fw-update ] || exit 22
printf '#!/bin/sh\n[ "$1" = -s ] && echo MLNX_OFED_LINUX-24.10-2.1.8.0:\n' > /usr/bin/ofed_info
chmod 755 /usr/bin/ofed_info
sync
if [ -e /root/stand-in-exit ]; then
  echo "Error: One or more required packages for installing the stand-in are missing."
  exit "$(cat /root/stand-in-exit)"
fi
echo "Installing"
[ ! -e /root/stand-in-waits ] || sleep 60
printf '[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c "date >> /root/reloads"\n' > /etc/systemd/system/openibd.service
echo x >> /root/installations
`

const standInFabric = `fabric "stand-in" {}

host "node1" {
  nic "rail0" {
    netdev    = "eth1"
    addresses = ["10.20.0.1/30"]
  }
  ofed {
    stack  = "mlnx_ofed"
    bundle = %[1]q
    reboot = "allow"
  }
}

host "node2" {
  nic "rail0" {
    netdev    = "eth1"
    addresses = ["10.20.0.2/30"]
  }
  ofed {
    stack  = "mlnx_ofed"
    bundle = %[1]q
  }
}

link "rail0" {
  endpoints = [host.node1.nic.rail0, host.node2.nic.rail0]
}
`

// standInPackages are a repository of empty packages with the names of what an installer needs.
func standInPackages(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range names {
		root := filepath.Join(t.TempDir(), name)
		if err := os.MkdirAll(filepath.Join(root, "DEBIAN"), 0o755); err != nil {
			t.Fatal(err)
		}
		control := fmt.Sprintf("Package: %s\nVersion: 99~standin\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: stand-in\n", name)
		if err := os.WriteFile(filepath.Join(root, "DEBIAN", "control"), []byte(control), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", root, dir).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}
	scan := exec.Command("sh", "-c", "dpkg-scanpackages --multiversion . > Packages")
	scan.Dir = dir
	if out, err := scan.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	return dir
}

// TestStandInBundle: a bundle goes up, is installed, and hosts are restarted or their driver is
// reloaded, one end of the link at a time; also after a failure, and after a power cut in the middle.
func TestStandInBundle(t *testing.T) {
	long(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, standIn), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, standIn, "mlnxofedinstall"), []byte(standInInstaller), 0o755); err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(dir, standIn+".tgz")
	if out, err := exec.Command("tar", "-C", dir, "-czf", bundle, standIn).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	fabric := filepath.Join(dir, "f.hcl")
	write := func(bundle string) {
		if err := os.WriteFile(fabric, fmt.Appendf(nil, standInFabric, bundle), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(bundle)
	state := vmLabFor(t, fabric)
	on := func(host, script string) string {
		return strings.TrimSpace(try(t, state, "lab", "exec", fabric, host, "--", "sh", "-c", script).out)
	}
	kernel := on("node1", "uname -r")
	packages := standInPackages(t, "dkms", "gcc", "linux-headers-"+kernel, "lsof", "make", "pciutils", "perl")
	for _, host := range []string{"node1", "node2"} {
		repository(t, state, fabric, host, packages)
		on(host, "apt-get -q update")
	}
	t.Run("what does not fit is not sent", func(t *testing.T) {
		other := filepath.Join(dir, strings.Replace(standIn, "debian13.0", "ubuntu22.04", 1)+".tgz")
		write(other)
		try(t, state, "plan", "-lab", fabric).want(t, 1, "the bundle is for ubuntu22.04, but this host runs debian 13")
		write(filepath.Join(t.TempDir(), standIn+".tgz"))
		try(t, state, "plan", "-lab", fabric).want(t, 1, "cannot be read")
		write(bundle)
	})
	try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 2, "inbox → mlnx_ofed 24.10-2.1.8.0", "package dkms", "99~standin", "[reboot]", "[driver reload]", "worst disruption: reboot")
	try(t, state, "apply", "-lab", "-auto-approve", fabric).want(t, 1, "a reboot of node1 and a driver reload of node2", "-allow=reboot")
	if there := on("node1", "ls /var/lib/fabricform/stack 2>/dev/null"); there != "" {
		t.Errorf("something was brought before it was allowed: %s", there)
	}
	apply := func() answer {
		return try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", "-allow=reboot", fabric)
	}
	on("node1", "echo 172 > /root/stand-in-exit")
	a := apply()
	a.want(t, 1, "mlnxofedinstall exited with status 172: required packages are missing", "required packages for installing the stand-in are missing", "unfinished")
	if got := on("node2", "ls /root"); strings.Contains(got, "installations") {
		t.Errorf("node2 went on after node1 had failed: %s", got)
	}
	on("node1", "rm /root/stand-in-exit; touch /root/stand-in-waits")
	unfinished := []string{"interrupted during: mlnxofedinstall --without-fw-update", "mlnx_ofed 24.10-2.1.8.0, unfinished → mlnx_ofed 24.10-2.1.8.0", "[reboot]"}
	try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 2, unfinished...)

	done := make(chan answer, 1)
	go func() { done <- apply() }()
	for end := time.Now().Add(3 * time.Minute); !strings.HasSuffix(on("node1", "tail -n 1 /var/lib/fabricform/stack/log"), "Installing"); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no installation was seen")
		}
	}
	try(t, state, "lab", "reboot", "-hard", fabric, "node1").want(t, 0)
	(<-done).want(t, 1, "interrupted during: mlnxofedinstall", "Run apply again to complete it")
	on("node1", "rm /root/stand-in-waits")
	try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 2, unfinished...)

	boots := [2]string{on("node1", "cat /proc/sys/kernel/random/boot_id"), on("node2", "cat /proc/sys/kernel/random/boot_id")}
	apply().want(t, 0, "✓ node1.ofed.mlnx_ofed", "✓ node2.ofed.mlnx_ofed", "✓ node1.nic.rail0")
	if now := on("node1", "cat /proc/sys/kernel/random/boot_id"); now == boots[0] {
		t.Error("node1 was not restarted")
	}
	if now := on("node2", "cat /proc/sys/kernel/random/boot_id"); now != boots[1] {
		t.Error("node2 was restarted")
	}
	for host, want := range map[string]string{"node1": "0 1", "node2": "1 1"} {
		if got := on(host, "touch /root/reloads; echo $(wc -l < /root/reloads) $(wc -l < /root/installations)"); got != want {
			t.Errorf("%s: reloads and installations %s, want %s", host, got, want)
		}
		if got := on(host, "ls /boot/initrd.img-"+kernel+"; ls /var/lib/fabricform/stack/unpacked 2>&1 | head -1"); !strings.HasPrefix(got, "/boot/initrd.img-") || !strings.Contains(got, "No such file") {
			t.Errorf("%s: %s", host, got)
		}
		if left := on(host, "ls /var/lib/fabricform/stack/bundles /var/lib/fabricform/bundles | grep -v :"); left != "" {
			t.Errorf("%s still has %s", host, left)
		}
	}
	try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 0, "No changes")
	try(t, state, "verify", "-lab", "-only", "parity", fabric).want(t, 0, "driver stack", "mlnx_ofed 24.10-2.1.8.0")
}
