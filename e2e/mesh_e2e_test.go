//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// meshFabric writes a fabric of hosts a to d; those named have a mesh for the user tutu.
func meshFabric(t *testing.T, path, hosts string) {
	t.Helper()
	var text strings.Builder
	var members []string
	for i, name := range []string{"a", "b", "c", "d"} {
		fmt.Fprintf(&text, "host %q {\n  nic \"r0\" {\n    netdev    = \"eth0\"\n    addresses = [\"10.44.0.%d/24\"]\n  }\n}\n", name, i+1)
		members = append(members, "host."+name+".nic.r0")
	}
	fmt.Fprintf(&text, "network \"net\" {\n  members = [%s]\n}\n", strings.Join(members, ", "))
	if hosts != "" {
		fmt.Fprintf(&text, "login_mesh \"train\" {\n  hosts = [host.%s]\n  user  = \"tutu\"\n}\n", strings.Join(strings.Fields(hosts), ", host."))
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAMeshOfFourHosts: it is made, extended, reduced and destroyed against OpenSSH. What is not ours stays byte for byte.
func TestAMeshOfFourHosts(t *testing.T) {
	together(t)
	path := filepath.Join(t.TempDir(), "mesh.hcl")
	meshFabric(t, path, "a b c")
	state := labUpFor(t, path)
	all := []string{"a", "b", "c", "d"}
	on := func(host, script string) string {
		t.Helper()
		return inside(t, state, path, host, "sh", "-c", script)
	}
	// what is on the hosts, with owners, modes and contents
	files := func() (out string) {
		t.Helper()
		for _, host := range all {
			out += on(host, "cd / && find home/tutu etc/ssh \\( -type d -printf '%p %m %U:%G\\n' \\) -o -printf '%p %m %U:%G ' -exec sha256sum {} \\; | sort")
		}
		return out
	}
	run := func(code int, texts []string, args ...string) string {
		t.Helper()
		a := try(t, state, append(append([]string{args[0], "-lab"}, args[1:]...), path)...)
		a.want(t, code, texts...)
		if strings.Contains(a.out, "PRIVATE KEY") {
			t.Error("a private key is in the output")
		}
		return a.out
	}
	apply := func(texts ...string) { t.Helper(); run(0, texts, "apply", "-auto-approve", "-no-verify") }
	login := func(from, to string) (string, bool) {
		t.Helper()
		out := on(from, "su tutu -c 'ssh -o BatchMode=yes -o ConnectTimeout=3 "+to+" hostname' 2>&1; true")
		return out, strings.TrimSpace(out) == to
	}
	each := func(hosts string) {
		t.Helper()
		for _, from := range strings.Fields(hosts) {
			for _, to := range strings.Fields(hosts) {
				if from == to {
					continue
				}
				if out, in := login(from, to); !in {
					t.Errorf("%s does not reach %s: %s", from, to, out)
				}
			}
		}
	}
	run(1, []string{"user tutu does not exist on this host"}, "plan")
	for _, host := range all {
		on(host, "useradd -m -d /home/tutu -s /bin/sh -p '*' tutu")
	}
	on("b", `mkdir -m 700 /home/tutu/.ssh && printf 'ssh-rsa AAAA one@desk\r\n\n# two' > /home/tutu/.ssh/authorized_keys && chmod 640 /home/tutu/.ssh/authorized_keys && chown -R tutu: /home/tutu/.ssh`)
	// What FreeIPA's client writes comes before most snippets, and ssh takes the first value that it reads.
	on("a", `printf 'GlobalKnownHostsFile /var/lib/sss/pubconf/known_hosts\nMatch exec true\n  ProxyCommand /bin/false\n' > /etc/ssh/ssh_config.d/04-ipa.conf`)
	before := files()

	meshFabric(t, path, "")
	apply()
	// By itself, the kernel of c starts connections from an address that no entry has.
	on("c", "ip addr add 10.44.0.77/32 dev lo && ip route replace 10.44.0.0/24 dev eth0 proto kernel scope link src 10.44.0.77")
	meshFabric(t, path, "a b c")
	run(2, []string{"made in this apply", "whoever is tutu on one of these hosts can log in to all of them", "a saved plan covers the keys only"}, "plan", "-detailed-exitcode")
	apply("The keys are made. The rest of the plan:", "SHA256:")
	each("a b c")
	if out, in := login("a", "10.44.0.2"); in || !strings.HasPrefix(out, "b") {
		t.Errorf("over the fabric: %s", out)
	}
	run(0, nil, "plan", "-detailed-exitcode")

	// verify logs in as the user would, and says why a login fails
	if out := run(0, nil, "verify", "-only", "login"); strings.Count(out, "2 of 2") != 3 {
		t.Errorf("not all logins were proven:\n%s", out)
	}
	on("c", "usermod -s /usr/sbin/nologin tutu && mkdir /home/tutu/.ssh/aside && mv /home/tutu/.ssh/fabricform_train /home/tutu/.ssh/aside")
	on("b", "printf 'Host a\n  HostName 192.0.2.1\n' > /home/tutu/.ssh/config && chown tutu /home/tutu/.ssh/config")
	run(3, []string{"a, b → c", "no shell", "c has shell /usr/sbin/nologin", "c → a, b", "key missing", "b → a", "redirected", "192.0.2.1"}, "verify", "-only", "login")
	on("c", "usermod -s /bin/sh tutu && mv /home/tutu/.ssh/aside/fabricform_train /home/tutu/.ssh && rmdir /home/tutu/.ssh/aside")
	on("b", "rm /home/tutu/.ssh/config && cd /etc/ssh && cp fabricform-*known_hosts /run/known && truncate -s 0 fabricform-*known_hosts")
	run(3, []string{"b → a", "b → c", "host key unknown"}, "verify", "-only", "login")
	on("b", "cat /run/known > $(ls /etc/ssh/fabricform-*known_hosts)")
	run(0, nil, "rollback", "-auto-approve")
	if after := files(); after != before {
		t.Errorf("rolled back:\n%s\nbefore:\n%s", after, before)
	}

	apply()
	meshFabric(t, path, "a b c d")
	apply()
	each("a b c d")
	if text := on("b", "cat /home/tutu/.ssh/authorized_keys"); !strings.HasPrefix(text, "ssh-rsa AAAA one@desk\r\n\nfrom=") || !strings.HasSuffix(text, "\n# two") || strings.Count(text, `restrict,pty ssh-ed25519 `) != 3 {
		t.Errorf("%q", text)
	}
	for _, host := range all {
		on(host, "! grep -rqs 'PRIVATE KEY' /var/lib/fabricform /etc/ssh/fabricform* /etc/ssh/ssh_config.d && test $(stat -c '%a %U' /home/tutu/.ssh/fabricform_train | tr ' ' _) = 600_tutu")
	}

	meshFabric(t, path, "a b d")
	apply()
	each("a b d")
	if out, in := login("c", "10.44.0.1"); in || !strings.Contains(out, "denied") && !strings.Contains(out, "verification failed") {
		t.Errorf("c still reaches a: %s", out)
	}
	on("c", "test ! -e /home/tutu/.ssh")

	// a saved plan covers the keys, and says so
	meshFabric(t, path, "a b c d")
	plan := filepath.Join(t.TempDir(), "plan")
	run(0, []string{"a saved plan covers the keys only"}, "plan", "-out="+plan)
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", plan).want(t, 0, "The keys are made. What is derived from them is not part of the saved plan")
	apply()
	each("a b c d")

	// a second mesh of the user needs what the first one made, which goes with the last of them
	both, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := both.WriteString("login_mesh \"eval\" {\n  hosts = [host.a, host.c]\n  user  = \"tutu\"\n}\n"); errors.Join(err, both.Close()) != nil {
		t.Fatal(err)
	}
	apply()
	each("a b c d")
	run(0, nil, "plan", "-detailed-exitcode")
	run(0, nil, "destroy", "-auto-approve")
	if after := files(); after != before {
		t.Errorf("destroyed:\n%s\nbefore:\n%s", after, before)
	}
}

// shareHome mounts the home of tutu on one host of a lab over that of another: /home is each host's own.
func shareHome(t *testing.T, state, path, from, to string) {
	t.Helper()
	var spaces [2]*os.File // the hosts' mount namespaces
	for i, host := range []string{from, to} {
		own := strings.TrimSpace(inside(t, state, path, host, "readlink", "/proc/self/ns/mnt"))
		all, err := filepath.Glob("/proc/[0-9]*/ns/mnt")
		if err != nil {
			t.Fatal(err)
		}
		for _, space := range all {
			if at, err := os.Readlink(space); err == nil && at == own && spaces[i] == nil {
				if spaces[i], err = os.Open(space); err != nil {
					t.Fatal(err)
				}
				defer spaces[i].Close()
			}
		}
		if spaces[i] == nil {
			t.Fatalf("no process is in the namespaces of %s", host)
		}
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		enter := func(space *os.File) error { return unix.Setns(int(space.Fd()), unix.CLONE_NEWNS) }
		if err := errors.Join(unix.Unshare(unix.CLONE_FS), enter(spaces[0])); err != nil {
			done <- err
			return
		}
		home, err := unix.OpenTree(unix.AT_FDCWD, "/home/tutu", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err == nil {
			err = errors.Join(enter(spaces[1]), unix.MoveMount(home, "", unix.AT_FDCWD, "/home/tutu", unix.MOVE_MOUNT_F_EMPTY_PATH), unix.Close(home))
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestASharedHomeHasOneKey: a and b have one folder as the home of the user, as from a file server, and make the key at the same time.
// One has made it, one enters it, all log in to each other, and it goes once.
func TestASharedHomeHasOneKey(t *testing.T) {
	together(t)
	path := filepath.Join(t.TempDir(), "shared.hcl")
	meshFabric(t, path, "a b c")
	state := labUpFor(t, path)
	on := func(host, script string) string {
		t.Helper()
		return inside(t, state, path, host, "sh", "-c", script)
	}
	run := func(texts []string, args ...string) string {
		t.Helper()
		a := try(t, state, append(append([]string{args[0], "-lab"}, args[1:]...), path)...)
		a.want(t, 0, texts...)
		return a.out
	}
	for _, host := range []string{"a", "b", "c"} {
		on(host, "useradd -m -d /home/tutu -s /bin/sh -p '*' tutu")
	}
	shareHome(t, state, path, "a", "b")
	on("a", `mkdir -m 700 /home/tutu/.ssh && echo ssh-rsa AAAA one@desk > /home/tutu/.ssh/authorized_keys && chown -R tutu: /home/tutu/.ssh`)
	home := func(host string) string {
		t.Helper()
		return on(host, "cd /home/tutu && find . -type f -exec sha256sum {} + | sort")
	}
	before := home("b")
	if before != home("a") || !strings.Contains(before, "authorized_keys") {
		t.Fatalf("the home is not shared: %s", before)
	}

	run([]string{"a, b share the home of tutu: they have one key, which a enters"}, "apply", "-auto-approve", "-no-verify")
	run(nil, "plan", "-detailed-exitcode")
	if out := run(nil, "verify", "-only", "login"); strings.Count(out, "2 of 2") != 3 {
		t.Errorf("not all logins were proven:\n%s", out)
	}
	for _, host := range []string{"a", "b"} {
		if files := on(host, "ls -A /home/tutu/.ssh"); files != "authorized_keys\nfabricform_train\n" {
			t.Errorf("%s has %s", host, files)
		}
	}
	for host, entries := range map[string]string{"a": "a c", "c": "a"} { // that of a is for b, too
		var got []string
		for line := range strings.Lines(on(host, "grep restrict /home/tutu/.ssh/authorized_keys")) {
			got = append(got, strings.TrimSpace(line[strings.LastIndexByte(line, ':')+1:]))
			if strings.HasSuffix(line, ":a\n") && (!strings.Contains(line, "10.44.0.1") || !strings.Contains(line, "10.44.0.2")) {
				t.Errorf("on %s: %s", host, line)
			}
		}
		if strings.Join(got, " ") != entries {
			t.Errorf("%s has entries for %s", host, got)
		}
	}

	run(nil, "destroy", "-auto-approve")
	if after := home("a"); after != before {
		t.Errorf("destroyed:\n%s\nbefore:\n%s", after, before)
	}
}
