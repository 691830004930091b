//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const confFile = "/etc/nccl.conf"

// confFabric is the pair with another nccl block.
func confFabric(t *testing.T, block string) string {
	t.Helper()
	raw, err := os.ReadFile(pair)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(raw), "nccl {}\n", block, 1)
	if block != "nccl {}\n" && text == string(raw) {
		t.Fatal("the example has no nccl block")
	}
	path := filepath.Join(t.TempDir(), "pair.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// deafServer is a FUSE server on descriptor 3 (include/uapi/linux/fuse.h): FUSE_INIT is answered, and
// nothing else is within ten minutes.
const deafServer = `
import os, signal, struct
signal.alarm(600)
while True:
    b = os.read(3, 1 << 20)
    length, opcode, unique = struct.unpack("<IIQ", b[:16])
    if opcode == 26:
        out = struct.pack("<IIIIHHIIHHI", 7, 31, 65536, 0, 16, 12, 131072, 1, 32, 0, 0).ljust(64, b"\0")
        os.write(3, struct.pack("<IiQ", 16 + len(out), 0, unique) + out)
`

// TestNCCLConfIsManaged is the life of the file on a lab's host, whose /etc is its own: written, seen
// when changed, refused where others wrote it, replaced where that is asked for, and given back.
func TestNCCLConfIsManaged(t *testing.T) {
	together(t)
	if _, err := os.Lstat(confFile); err == nil {
		t.Skipf("%s is there on this machine, and a lab's hosts see it", confFile)
	}
	state := labUpFor(t, pair)
	sh := func(script string) string { return inside(t, state, pair, "a", "sh", "-c", script) }
	plan := func(fabric string, code int, texts ...string) {
		t.Helper()
		try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, code, texts...)
	}
	apply := func(fabric string, texts ...string) {
		t.Helper()
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", fabric).want(t, 0, texts...)
		plan(fabric, 0, "No changes")
	}

	t.Run("written, and settled", func(t *testing.T) {
		plan(pair, 2, "nccl.file", "file "+confFile, "NCCL_SOCKET_IFNAME", "=ens19f0np0")
		apply(pair, "✓ a.nccl.file", "✓ b.nccl.file")
		if got := sh("cat " + confFile + "; stat -c '%a %u' " + confFile); !strings.Contains(got, "\nNCCL_SOCKET_IFNAME==ens19f0np0\n") || !strings.HasSuffix(got, "644 0\n") {
			t.Errorf("written: %s", got)
		}
		if _, err := os.Lstat(confFile); err == nil {
			t.Errorf("the machine has %s now", confFile)
		}
		try(t, state, "verify", "-lab", "-only", "nccl", pair).want(t, 0, confFile)
	})
	t.Run("a cable that is out changes nothing", func(t *testing.T) {
		try(t, state, "lab", "fault", pair, "rail0", "cut").want(t, 0)
		plan(pair, 0)
		try(t, state, "lab", "fault", pair, "rail0", "none").want(t, 0)
	})
	t.Run("drift by hand", func(t *testing.T) {
		sh("sed -i s/NCCL_IB_DISABLE=1/NCCL_IB_DISABLE=true/ " + confFile)
		try(t, state, "verify", "-lab", "-only", "nccl", pair).want(t, 3, "NCCL_IB_DISABLE", `"true"`)
		plan(pair, 2, "true → 1", "drifted")
		apply(pair)
	})
	t.Run("rollback brings the earlier text", func(t *testing.T) {
		other := confFabric(t, "nccl {\n  env = { NCCL_DEBUG = \"WARN\" }\n}\n")
		plan(other, 2, "NCCL_DEBUG")
		apply(other)
		sh("grep -qx NCCL_DEBUG=WARN " + confFile)
		try(t, state, "rollback", "-lab", "-auto-approve", other).want(t, 0)
		sh("! grep NCCL_DEBUG " + confFile + " && grep -qx NCCL_IB_DISABLE=1 " + confFile)
		plan(pair, 0, "No changes")
	})
	t.Run("the block goes, and the file with it", func(t *testing.T) {
		none := confFabric(t, "")
		plan(none, 2, "no longer declared: restored")
		apply(none)
		sh("[ ! -e " + confFile + " ]")
		off := confFabric(t, "nccl {\n  write = false\n}\n")
		plan(off, 0)
	})

	const theirs = "NCCL_DEBUG=INFO\n# by hand\nNCCL_IB_GID_INDEX=3\n"
	sh(fmt.Sprintf("printf %%s '%s' > %s; chmod 640 %s", theirs, confFile, confFile))
	t.Run("what others wrote is refused", func(t *testing.T) {
		plan(pair, 1, confFile+" already exists", "NCCL_DEBUG, NCCL_IB_GID_INDEX", "nccl.replace = true")
		sh("ln -sf /etc/hostname /etc/nccl-link; mv " + confFile + " /etc/kept; mv /etc/nccl-link " + confFile)
		plan(pair, 1, "is not a regular file")
		sh("mv /etc/kept " + confFile)
	})
	t.Run("replaced where that is asked for, and given back", func(t *testing.T) {
		replace := confFabric(t, "nccl {\n  replace = true\n}\n")
		plan(replace, 2, "NCCL_IB_GID_INDEX", "NCCL_IB_DISABLE")
		apply(replace)
		sh("cat " + confFile + ".before-fabricform | grep -q 'by hand'")
		plan(pair, 0) // it is ours now
		try(t, state, "destroy", "-lab", "-auto-approve", replace).want(t, 0)
		if got := sh("cat " + confFile + "; stat -c %a " + confFile + "; ls /etc | grep fabricform || true"); got != theirs+"640\n" {
			t.Errorf("given back: %q", got)
		}
	})
	t.Run("another file, for NCCL_CONF_FILE", func(t *testing.T) {
		other := confFabric(t, "nccl {\n  file = \"/etc/nccl-fabricform.conf\"\n}\n")
		sh("echo NCCL_DEBUG=WARN > /root/.nccl.conf")
		plan(other, 2, "/root/.nccl.conf exists", "NCCL reads /etc/nccl-fabricform.conf only if NCCL_CONF_FILE names it")
		sh("echo 'NCCL_CONF_FILE=\"/etc/nccl-fabricform.conf\"' >> /etc/environment")
		if a := try(t, state, "plan", "-lab", "-host", "a", other); strings.Contains(a.out, "only where") || strings.Contains(a.out, "/root/.nccl.conf") {
			t.Error("it is named")
		}
		plan(confFabric(t, "nccl {\n  replace = true\n}\n"), 2, `NCCL_CONF_FILE is "/etc/nccl-fabricform.conf" for all users who log in`)
		apply(other)
		apply(confFabric(t, ""))
		sh("[ ! -e /etc/nccl-fabricform.conf ]")
	})
	t.Run("an apply that is not confirmed leaves what was there", func(t *testing.T) {
		replace := confFabric(t, "nccl {\n  replace = true\n}\n")
		a := try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", "-confirm", "manual", "-confirm-timeout", "10m", replace)
		a.want(t, 0, "a.nccl.file  pending: written by fabricform confirm")
		sh("grep -q 'by hand' " + confFile)
		try(t, state, "rollback", "-lab", "-auto-approve", replace).want(t, 0)
		if got := sh("cat " + confFile); got != theirs {
			t.Errorf("after a rollback: %q", got)
		}
	})
	t.Run("a home that does not answer holds nothing up", func(t *testing.T) {
		if _, err := os.Stat("/dev/fuse"); err != nil {
			t.Skipf("there is no file system here that could hang: %v", err)
		}
		// A file system whose server reads what it is asked, and answers the first request alone: a
		// process that looks into it hangs in the kernel, and SIGKILL does not end it.
		sh("cat > /run/serve.py <<'EOF'\n" + deafServer + "EOF\n")
		server := sh("sed -i /NCCL_CONF_FILE/d /etc/environment; sed -i /.home./d /etc/passwd; echo ann:x:1000:1000::/home/ann:/bin/sh >> /etc/passwd; mknod /run/fuse c 10 229; exec 3<>/run/fuse; " +
			"mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 silent /home && { python3 /run/serve.py >/dev/null 2>/run/serve.err & echo $!; }")
		defer sh("umount -l /home; kill " + server) // waiting processes continue when it ends
		// Before the server has answered the first request, a process that looks into it can still
		// be killed.
		sh("for i in $(seq 60); do ls /home >/dev/null 2>&1 & sleep 1; kill -KILL $!; sleep 0.1; kill -0 $! && exit; done; cat /run/serve.err; exit 1")
		at := time.Now()
		replace := confFabric(t, "nccl {\n  replace = true\n}\n")
		plan(replace, 2, "a: no answer from /home/ann: cannot tell whether an .nccl.conf there overrides "+confFile)
		apply(replace, "✓ a.nccl.file")
		// A process that waited for the home would wait until the server ends, at the end of this
		// test.
		t.Logf("figure: two plans and an apply beside a home that does not answer took %.1f s", time.Since(at).Seconds())
		// The helper that planned, and so opened the transaction, cannot be ended before the home answers.
		try(t, state, "rollback", "-lab", "-auto-approve", replace).want(t, 0, "a, b  reverted")
	})
}
