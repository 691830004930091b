//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// keeping is an operator outside of the lab, with hosts that log their logins.
type keeping struct {
	*outside
	runtime string // XDG_RUNTIME_DIR
	tools   string // comes first in PATH: its ssh reads a configuration of the test's own
	known   string // the content of known_hosts
}

func keepOutside(t *testing.T) *keeping {
	t.Helper()
	k := &keeping{outside: reachFromOutside(t)}
	for host, addr := range k.addr {
		k.script(host, "cp /run/fabricform-lab/sshd_config /run/logging && echo Port 2222 >> /run/logging && "+
			sshd+" -E /run/logins -f /run/logging")
		raw, err := os.ReadFile(filepath.Join(k.dir, "known_hosts"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			if rest, is := strings.CutPrefix(line, addr+" "); is {
				k.known += fmt.Sprintf("[%s]:2222 %s", addr, rest)
			}
		}
	}
	k.write("known_hosts", k.known, 0o600)
	var err error
	if k.runtime, err = os.MkdirTemp("", "k"); err != nil { // the path of a socket is short
		t.Fatal(err)
	}
	k.tools = filepath.Join(k.dir, "tools")
	if err := os.Mkdir(k.tools, 0o700); err != nil {
		t.Fatal(err)
	}
	k.write("tools/ssh", "#!/bin/sh\nexec /usr/bin/ssh -F "+k.dir+"/config \"$@\"\n", 0o700)
	k.write("config", "User tutu\n", 0o600)
	t.Cleanup(func() {
		k.run("disconnect")
		_ = os.RemoveAll(k.runtime)
	})
	return k
}

func (k *keeping) write(name, text string, mode os.FileMode) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), mode); err != nil {
		k.t.Fatal(err)
	}
}

// file writes the fabric's file: its hosts, reached as the user that ssh's configuration has, and what they declare.
func (k *keeping) file() string {
	k.t.Helper()
	path := k.fabric(k.addr["b"], "  port = 2222", "")
	raw, err := os.ReadFile(path)
	if err != nil {
		k.t.Fatal(err)
	}
	k.write("fabric.hcl", strings.Replace(string(raw), `  user          = "tutu"`, "", 1), 0o600)
	return path
}

func (k *keeping) run(args ...string) answer {
	k.t.Helper()
	argv := append([]string{"--target", fmt.Sprint(k.netPID), "--net", "--", "env", "XDG_RUNTIME_DIR=" + k.runtime,
		"PATH=" + k.tools + ":" + os.Getenv("PATH"), bin}, args...)
	return tryCommand(k.t, k.state, exec.Command("nsenter", argv...))
}

// logins returns how many logins both hosts have accepted; they must be as many on each.
func (k *keeping) logins() int {
	k.t.Helper()
	var n [2]int
	for i, host := range []string{"a", "b"} {
		said := inside(k.t, k.state, pair, host, "sh", "-c", "grep -c 'Accepted publickey' /run/logins || true")
		var err error
		if n[i], err = strconv.Atoi(strings.TrimSpace(said)); err != nil {
			k.t.Fatal(err)
		}
	}
	if n[0] != n[1] {
		k.t.Errorf("%d and %d logins", n[0], n[1])
	}
	return n[1]
}

// keepers returns how many keepers have a socket.
func (k *keeping) keepers() int {
	k.t.Helper()
	all, err := filepath.Glob(filepath.Join(k.runtime, "fabricform-keep", "*.sock"))
	if err != nil {
		k.t.Fatal(err)
	}
	return len(all)
}

// TestKeptConnectionsSaveLogins: later commands make no login, but an apply proves that new logins work. After a change of what a
// connection is made from, after its time and after disconnect, a command logs in.
func TestKeptConnectionsSaveLogins(t *testing.T) {
	together(t)
	k := keepOutside(t)
	fabric := k.file()
	logged := 0
	expect := func(what string, more, code int, texts []string, args ...string) {
		t.Helper()
		k.run(args...).want(t, code, texts...)
		if got := k.logins(); got != logged+more {
			t.Fatalf("%s: %d more logins, want %d", what, got-logged, more)
		}
		logged += more
	}
	expect("no -keep-connections", 1, 2, nil, "plan", "-detailed-exitcode", fabric)
	expect("nothing is kept", 1, 2, nil, "plan", "-detailed-exitcode", fabric)
	k.script("a", "rm -r /home/tutu/.cache/fabricform") // the keeper's connection also brings the helper
	expect("the first plan", 1, 2, nil, "plan", "-detailed-exitcode", "-keep-connections=10m", fabric)
	expect("a later plan", 0, 2, nil, "plan", "-detailed-exitcode", fabric)
	expect("one that keeps", 0, 2, nil, "plan", "-detailed-exitcode", "-keep-connections=10m", fabric)
	if n := k.keepers(); n != 1 {
		t.Errorf("%d keepers", n)
	}
	expect("the gate of an apply", 1, 0, nil, "apply", "-auto-approve", "-no-verify", fabric)
	expect("an apply that changes nothing", 0, 0, nil, "apply", "-auto-approve", "-no-verify", fabric)
	expect("the gate of a destroy", 1, 0, nil, "destroy", "-auto-approve", fabric)

	k.write("known_hosts", strings.ReplaceAll(k.known, strings.Fields(k.known)[2], otherKey), 0o600)
	expect("another host key", 0, 4, []string{"host key", "nothing was sent"}, "plan", fabric)
	k.write("known_hosts", k.known, 0o600)
	k.write("config", "User root\n", 0o600)
	expect("another user in ssh's configuration", 1, 0, nil, "plan", "-keep-connections=10m", fabric)
	expect("the same user again", 0, 0, nil, "plan", fabric)
	k.write("config", "User tutu\n", 0o600)
	expect("the first user again", 0, 0, nil, "plan", fabric)

	expect("disconnect", 0, 0, []string{"Ended 4 kept connections: a, b."}, "disconnect")
	expect("disconnect again", 0, 0, []string{"No connection is kept."}, "disconnect")
	expect("after disconnect, an apply's plan and its gate", 2, 0, nil, "apply", "-auto-approve", "-no-verify", fabric)

	expect("a short time", 1, 0, nil, "plan", "-keep-connections=1s", fabric)
	for end := time.Now().Add(30 * time.Second); k.keepers() > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the keeper does not end after its time")
		}
	}
	expect("after this time", 1, 0, nil, "plan", fabric)
}

// otherKey is a key that no host has.
const otherKey = "AAAAC3NzaC1lZDI1NTE5AAAAIJyD6zvRWnGZ2lUQO0h6c0lQ1k2YQh8N4b5rZ7d9fXwQ"
