//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// healthScript is a HealthCheckProgram that counts its runs. It runs that of docs/slurm.md.
const healthScript = `#!/bin/sh
/var/page-health >/run/health.$$ 2>&1
code=$?
mv /run/health.$$ /run/health.out
echo "$code" >> /run/health.runs
`

// slurmPage returns the scripts of docs/slurm.md, for a cluster of four nodes.
func slurmPage(t *testing.T) (prolog, health string) {
	t.Helper()
	var scripts []string
	for _, b := range blocks(readPage(t, "../docs/slurm.md")) {
		if b.kind == "sh" && b.lines[0] == "#!/bin/sh" {
			scripts = append(scripts, strings.NewReplacer("/usr/bin/fabricform", "/var/fabricform", "-max-drained 4", "-max-drained 1").Replace(strings.Join(b.lines, "\n")+"\n"))
		}
	}
	if len(scripts) != 2 || !strings.Contains(scripts[1], "/var/fabricform health -slurm -max-drained 1\n") {
		t.Fatal(scripts)
	}
	return scripts[0], scripts[1]
}

// brokenCheckScript is the program as it is, but for the check that it starts in a process of its own: that is /var/check.
const brokenCheckScript = `#!/bin/sh
unshare -m sh -c 'exec 3</var/fabricform; mount --bind /var/check /var/fabricform; exec /proc/self/fd/3 health -slurm -max-drained 1' >/run/health.$$ 2>&1
code=$?
mv /run/health.$$ /run/health.out
echo "$code" >> /run/health.runs
`

// node returns the state and the reason of a node, as Slurm's controller has it.
func (c slurmCluster) node(t *testing.T, node string) string {
	t.Helper()
	said := c.on(t, "a", "", `sinfo -h -N -n "$1" -o '%T %E'`, node)
	return strings.TrimSpace(strings.Replace(said, "* ", " ", 1)) // after a resume, a * marks the node until the next ping
}

// until waits until the node's state and reason begin so.
func (c slurmCluster) until(t *testing.T, node, want string) {
	t.Helper()
	now := ""
	for range 60 {
		if now = c.node(t, node); strings.HasPrefix(now, want) {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	host := strings.Replace(node, "gpu3", "c", 1)
	t.Fatalf("node %s is %q, want %q: %s", node, now, want, c.on(t, host, "", "cat /run/health.out /run/health.runs"))
}

// checks waits until the host has checked itself that many times more.
func (c slurmCluster) checks(t *testing.T, host string, n int) {
	t.Helper()
	c.on(t, host, "", `n=$(($(wc -l < /run/health.runs) + $1)); until [ "$(wc -l < /run/health.runs)" -ge "$n" ]; do sleep 0.2; done; ! grep -v '^0$' /run/health.runs`, fmt.Sprint(n))
}

// TestSlurmHealth has nodes of a real Slurm check themselves. One that differs from what was applied is drained with the reason, and
// resumed once it is repaired; not more than -max-drained of them, and none that somebody else has drained. A damaged file, a check that
// hangs and one that crashes drain nothing. As a Prolog it keeps jobs away. SlurmdTimeout is short, because Slurm checks a resumed node only
// after a ping, which comes three times in that time.
func TestSlurmHealth(t *testing.T) {
	together(t)
	c := slurmUp(t)
	program, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	c.everywhere(t, "/var/fabricform", string(program))
	c.everywhere(t, "/var/health", healthScript)
	prolog, check := slurmPage(t)
	c.everywhere(t, "/var/page-health", check)
	c.everywhere(t, "/var/prolog", prolog)
	try(t, c.state, "apply", "-lab", "-auto-approve", "-no-verify", c.fabric).want(t, 0)
	for _, n := range slurmNodes {
		c.on(t, n.name, "", `printf 'HealthCheckProgram=/var/health\nHealthCheckInterval=3\nHealthCheckNodeState=ANY\nSlurmdTimeout=12\n' >> /etc/slurm/slurm.conf
			[ "$(stat -c '%a %u' /var/lib/fabricform/transactions/default.applied)" = "600 0" ]`)
	}
	c.on(t, "a", "", "scontrol reconfigure")
	for _, n := range slurmNodes {
		c.on(t, n.name, "", `until [ -s /run/health.runs ]; do sleep 0.1; done`)
	}
	differ := func(host, netdev string) { c.on(t, host, "", `ip addr add 10.99.0.1/24 dev "$1"`, netdev) }
	repair := func(host, netdev string) { c.on(t, host, "", `ip addr del 10.99.0.1/24 dev "$1"`, netdev) }

	comment := func(node, want string) {
		t.Helper()
		if said := c.on(t, "a", "", `scontrol -o show node "$1"`, node); !strings.Contains(said, " Comment=fabricform: health: 20") || !strings.Contains(said, "Z "+want+"\n") {
			t.Errorf("node %s has no comment with %q: %s", node, want, said)
		}
	}
	comment("b", "as it was applied")
	differ("b", "ib0")
	c.until(t, "b", "drained fabricform: health: nic.rail0: unexpected address 10.99.0.1/24")
	c.checks(t, "b", 1)
	comment("b", "nic.rail0: unexpected address 10.99.0.1/24")
	differ("d", "rail0")
	c.checks(t, "d", 3)
	if now := c.node(t, "d"); !strings.HasPrefix(now, "idle") {
		t.Errorf("-max-drained is 1, and a second node is %s", now)
	}
	repair("b", "ib0")
	c.until(t, "b", "idle none")
	c.until(t, "d", "drained fabricform: health: ")
	repair("d", "rail0")
	c.until(t, "d", "idle none")

	c.on(t, "a", "", `scontrol update nodename=gpu3 state=drain reason="memory: DIMM 3"`)
	differ("c", "rail0")
	c.checks(t, "c", 3)
	repair("c", "rail0")
	c.checks(t, "c", 3)
	if now := c.node(t, "gpu3"); now != "drained memory: DIMM 3" {
		t.Errorf("somebody else has drained the node, and it is %q", now)
	}
	c.on(t, "a", "", `scontrol update nodename=gpu3 state=resume`)

	c.on(t, "a", "", `scontrol update nodename=gpu3 state=down reason="bad DIMM" comment="rack 7"`)
	differ("c", "rail0")
	c.checks(t, "c", 2)
	repair("c", "rail0")
	c.checks(t, "c", 2)
	if now := c.node(t, "gpu3"); now != "down bad DIMM" {
		t.Errorf("somebody else has set the node down, and it is %q", now)
	}
	c.on(t, "a", "", `scontrol -o show node gpu3 | grep -q ' Comment=rack 7' && scontrol update nodename=gpu3 state=resume`)

	const applied = "/var/lib/fabricform/transactions/default.applied"
	quiet := func(what, host, netdev string) {
		t.Helper()
		differ(host, netdev)
		c.checks(t, host, 2)
		if now := c.node(t, host); !strings.HasPrefix(now, "idle") {
			t.Errorf("%s, and node %s is %s", what, host, now)
		}
		said := c.on(t, host, "", "cat /run/health.out")
		if !strings.Contains(said, "no verdict") {
			t.Errorf("%s: %s", what, said)
		}
		t.Logf("%s: %s", what, said)
		repair(host, netdev)
	}
	c.on(t, "b", "", "cp -p "+applied+" /run/kept; sed -i 's/10.77.0.2/10.77.0.3/' "+applied)
	quiet("the file is damaged", "b", "ib0")
	c.on(t, "b", "", "cp -p /run/kept "+applied+"; chmod 644 "+applied)
	quiet("others can read the file", "b", "ib0")
	c.on(t, "b", "", "rm "+applied)
	quiet("there is no file", "b", "ib0")
	c.on(t, "b", "", "cp -p /run/kept "+applied)

	c.on(t, "d", brokenCheckScript, `cat > /var/broken; chmod 755 /var/broken; mv /var/broken /var/health`)
	for what, check := range map[string]string{"the check was killed": "kill -SEGV $$", "the check took longer than 5s": "sleep 60", "the check failed: panic": "echo panic >&2; exit 2"} {
		c.on(t, "d", "#!/bin/sh\n"+check+"\n", `cat > /var/check; chmod 755 /var/check`)
		c.checks(t, "d", 1) // of which the one that runs now has the earlier check
		quiet(what, "d", "rail0")
		if said := c.on(t, "d", "", "cat /run/health.out"); !strings.Contains(said, "no verdict: "+what) {
			t.Errorf("%s: %s", what, said)
		}
	}
	c.on(t, "d", healthScript, `cat > /var/whole; chmod 755 /var/whole; mv /var/whole /var/health`)
	differ("d", "rail0")
	c.until(t, "d", "drained fabricform: health: ")
	repair("d", "rail0")
	c.until(t, "d", "idle none")

	// A prolog only reads: slurmd drains the node, and its reason is Slurm's, so that nobody but an administrator resumes it.
	for _, n := range slurmNodes {
		c.on(t, n.name, "", `sed -i '/HealthCheck/d' /etc/slurm/slurm.conf; echo Prolog=/var/prolog >> /etc/slurm/slurm.conf`)
	}
	c.on(t, "a", "", "scontrol reconfigure")
	const job = "setpriv --reuid=64123 --regid=64123 --clear-groups timeout 60 srun --chdir=/ --nodelist="
	for _, n := range slurmNodes {
		c.on(t, n.name, "", "useradd -u 64123 job")
	}
	c.on(t, "a", "", job+"b true")
	c.on(t, "d", "#!/bin/sh\nkill -SEGV $$\n", "cat > /var/broken; chmod 755 /var/broken; mv /var/broken /var/fabricform")
	c.on(t, "a", "", job+"d true") // a release that crashes keeps no job away
	c.on(t, "d", "", "rm /var/fabricform")
	c.on(t, "a", "", job+"d true")
	differ("b", "ib0")
	c.on(t, "a", "", "timeout 60 srun --nodelist=b true") // root's
	c.on(t, "a", "", job+"b true && exit 1; exit 0")
	c.until(t, "b", "drained Prolog error")
	repair("b", "ib0")
	c.on(t, "a", "", "scontrol update nodename=b state=resume; scancel --user=job")

	// The same program as Epilog: the job has ended, and then the node is drained.
	for _, n := range slurmNodes {
		c.on(t, n.name, "", `sed -i 's/^Prolog=/Epilog=/' /etc/slurm/slurm.conf`)
	}
	c.on(t, "a", "", "scontrol reconfigure")
	differ("b", "ib0")
	c.on(t, "a", "", job+"b true")
	c.until(t, "b", "drained Epilog error")
	repair("b", "ib0")

	t.Log(c.on(t, "a", "", `bash -c 'time for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /var/fabricform health >/dev/null || exit; done' 2>&1`))
}

// TestHealthFollowsWhatIsApplied: a host compares itself with the last apply, with the one before after a rollback, and with nothing after a
// destroy. A host that need not be changed keeps what is applied, too.
func TestHealthFollowsWhatIsApplied(t *testing.T) {
	together(t)
	path := t.TempDir() + "/pair.hcl"
	declare := func(mtu int) {
		t.Helper()
		text := fmt.Sprintf("fabric \"health\" {}\nhost \"a\" {\n  nic \"x\" {\n    netdev = \"x0\"\n    mtu = %d\n  }\n}\nhost \"b\" {\n  nic \"x\" {\n    netdev = \"x0\"\n    mtu = %d\n  }\n}\n"+
			"link \"x\" {\n  endpoints = [host.a.nic.x, host.b.nic.x]\n  subnet = \"10.88.0.0/30\"\n}\n", mtu, mtu)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	declare(9000)
	c := slurmCluster{fabric: path, state: labUpFor(t, path)}
	program, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	c.on(t, "a", string(program), "cat > /var/fabricform; chmod 755 /var/fabricform")
	says := func(want string) {
		t.Helper()
		if said := c.on(t, "a", "", "/var/fabricform health 2>&1; echo exit $?"); !strings.Contains(said, want) {
			t.Errorf("it says %q, want %q", said, want)
		}
	}
	apply := func() { try(t, c.state, "apply", "-lab", "-auto-approve", "-no-verify", path).want(t, 0) }

	says("nothing is known to be applied here: run fabricform apply with this release\nexit 0")
	apply()
	says("✓ this host is as it was applied: compared 1 resource\nexit 0")
	try(t, c.state, "lab", "fault", path, "x", "cut").want(t, 0)
	says("✗ nic.x: x0 has no carrier\nexit 3")
	try(t, c.state, "lab", "fault", path, "x", "none").want(t, 0)
	declare(1400)
	says("✓ this host is as it was applied") // not as the files are now
	apply()
	says("✓ this host is as it was applied")
	c.on(t, "a", "", "ip link set x0 mtu 9000")
	says("✗ nic.x: mtu is 9000, wanted 1400\nexit 3")
	c.on(t, "a", "", "ip link set x0 mtu 1400")
	try(t, c.state, "rollback", "-lab", "-auto-approve", path).want(t, 0)
	says("✓ this host is as it was applied")
	c.on(t, "a", "", "ip link set x0 mtu 1400")
	says("✗ nic.x: mtu is 1400, wanted 9000\nexit 3")

	// By hand as declared, and the file is lost: nothing is to be changed, and the host keeps what is applied.
	c.on(t, "a", "", "rm /var/lib/fabricform/transactions/health.applied; ip link set x0 mtu 1400")
	c.on(t, "b", "", "ip link set x0 mtu 1400")
	try(t, c.state, "apply", "-lab", "-auto-approve", "-no-verify", path).want(t, 0, "No changes")
	says("✓ this host is as it was applied: compared 1 resource\nexit 0")

	try(t, c.state, "destroy", "-lab", "-auto-approve", path).want(t, 0)
	says("nothing is known to be applied here")
}
