//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// outside is a fabric of the lab's hosts reached the ordinary way: by address, as a user, with
// known_hosts and sudo, from a process that stands in the lab's management network.
type outside struct {
	t      *testing.T
	state  string
	netPID int
	dir    string
	addr   map[string]string
}

func reachFromOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{t: t, state: labUpFor(t, pair), dir: t.TempDir(), addr: map[string]string{}}
	folder := filepath.Join(o.state, "fabricform", "lab", "roce-pair")
	raw, err := os.ReadFile(filepath.Join(folder, "lab.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Net   struct{ PID int }
		Hosts map[string]struct{ Address string }
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	o.netPID = s.Net.PID
	for name, h := range s.Hosts {
		o.addr[name] = h.Address
		inside(t, o.state, pair, name, "sh", "-c", "useradd -m -d /home/tutu -s /bin/sh -p '*' tutu && mkdir -p /home/tutu/.ssh && "+
			"cp /run/fabricform-lab/authorized_keys /home/tutu/.ssh/ && chown -R tutu /home/tutu/.ssh")
		o.allowSudo(name)
	}
	for _, file := range []string{"id_ed25519", "known_hosts"} {
		raw, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(o.dir, file), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// fabric writes a fabric file of both hosts; extra goes into host b, ssh into the ssh block.
func (o *outside) fabric(addrB, ssh, extra string) string {
	o.t.Helper()
	text := fmt.Sprintf(`ssh {
  user          = "tutu"
  identity_file = %q
  known_hosts   = %q
%s
}
host "a" {
  address = %q
  nic "rail0" {
    netdev    = "ens19f0np0"
    addresses = ["192.168.88.1/30"]
  }
}
host "b" {
  address = %q
  nic "rail0" {
    netdev    = "ens19f0np0"
    addresses = ["192.168.88.2/30"]
  }
%s
}
`, filepath.Join(o.dir, "id_ed25519"), filepath.Join(o.dir, "known_hosts"), ssh, o.addr["a"], addrB, extra)
	path := filepath.Join(o.dir, "fabric.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
	return path
}

// try runs the program inside the lab's management network.
func (o *outside) try(args ...string) answer {
	o.t.Helper()
	argv := append([]string{"--target", fmt.Sprint(o.netPID), "--net", "--", bin}, args...)
	return tryCommand(o.t, o.state, exec.Command("nsenter", argv...))
}

// kernel is all that the tool could have changed on the lab's hosts.
func (o *outside) kernel() string {
	o.t.Helper()
	var all strings.Builder
	for _, host := range []string{"a", "b"} {
		for _, what := range []string{"link", "addr", "route show table all", "rule"} {
			argv := append([]string{"ip", "-d", "-j"}, strings.Fields(what)...)
			cmd := exec.Command(bin, append([]string{"lab", "exec", pair, host, "--"}, argv...)...)
			cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+o.state)
			out, err := cmd.Output()
			if err != nil {
				o.t.Fatal(err)
			}
			all.Write(out)
		}
	}
	if strings.Contains(all.String(), `"tentative":true`) {
		// Duplicate address detection of the lab's management addresses is about to end.
		time.Sleep(100 * time.Millisecond)
		return o.kernel()
	}
	return all.String()
}

func (o *outside) script(host, text string) {
	o.t.Helper()
	inside(o.t, o.state, pair, host, "sh", "-c", text)
}

// fromQuestions returns a fenced block of docs/questions.md for a host of the lab: for tutu instead of deploy, with that user's ID.
func (o *outside) fromQuestions(host, block string) string {
	o.t.Helper()
	page, err := os.ReadFile("../docs/questions.md")
	if err != nil {
		o.t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "```"+block+"\n")
	text, _, ends := strings.Cut(after, "```")
	if !found || !ends {
		o.t.Fatalf("docs/questions.md has no block of %s", block)
	}
	id := strings.TrimSpace(inside(o.t, o.state, pair, host, "id", "-u", "tutu"))
	return strings.NewReplacer("deploy", "tutu", "1000", id).Replace(text)
}

func (o *outside) allowSudo(host string) {
	o.t.Helper()
	o.script(host, "umask 0337; cat >/etc/sudoers.d/tutu <<'END'\n"+o.fromQuestions(host, "sudoers")+"END\nvisudo -cf /etc/sudoers.d/tutu")
}

// The rules of docs/questions.md, with which all tests of this file run, allow the helper and nothing else.
func TestSudoersOfThePageAllowTheHelperAlone(t *testing.T) {
	together(t)
	o := reachFromOutside(t)
	o.try("plan", "-detailed-exitcode", o.fabric(o.addr["b"], "", "")).want(t, 2)
	helper := strings.TrimSpace(inside(t, o.state, pair, "b", "sh", "-c", "ls /home/tutu/.cache/fabricform/fabricform-*"))
	agent := "sudo -n -- " + helper + " agent --ssh-connection="
	if out := inside(t, o.state, pair, "b", "su", "tutu", "-c", agent+" </dev/null && echo ran"); !strings.Contains(out, "ran") {
		t.Errorf("%s: %q", agent, out)
	}
	for _, refused := range []string{
		"sudo -n id", "sudo -n -- " + helper + " version", "sudo -n -- " + helper + " lab down x", "sudo -n -u daemon -- " + helper + " agent --ssh-connection=",
		"sudo -n -- /home/tutu/.cache/fabricform/../../../../usr/bin/id agent --ssh-connection=",
	} {
		out := inside(t, o.state, pair, "b", "su", "tutu", "-c", refused+" 2>&1 && echo ran || true")
		if strings.Contains(out, "ran\n") || !strings.Contains(out, "password is required") {
			t.Errorf("%s: %q", refused, out)
		}
	}
}

// docs/questions.md says what an apply leaves on a host after destroy, and how to remove that.
func TestAHostIsCleanedAsThePageSays(t *testing.T) {
	together(t)
	o := reachFromOutside(t)
	fabric := o.fabric(o.addr["b"], "", "")
	ours := func() string {
		return inside(t, o.state, pair, "b", "sh", "-c", "find /etc /home /root /tmp /var /run/user -xdev -name '*fabricform*' -prune | sort; ls /var/lib/fabricform/*.json 2>/dev/null || true")
	}
	before := ours()
	clean := o.fromQuestions("b", "sh")
	o.try("apply", "-auto-approve", "-no-verify", fabric).want(t, 0)
	o.script("b", strings.Split(clean, "\n")[0]) // keeps what a fabric still needs
	if !strings.Contains(ours(), "/var/lib/fabricform/") {
		t.Fatal("the records of an applied fabric were removed")
	}
	o.try("destroy", "-auto-approve", fabric).want(t, 0)
	if left := ours(); strings.Contains(left, ".json") {
		t.Errorf("after destroy: %s", left)
	}
	o.script("b", clean)
	if left := ours(); left != before {
		t.Errorf("left:\n%sbefore:\n%s", left, before)
	}
	o.try("plan", "-detailed-exitcode", fabric).want(t, 2)
}

func TestErrorsOfReachingHostsAreClearAndChangeNothing(t *testing.T) {
	together(t)
	o := reachFromOutside(t)
	b := o.addr["b"]
	apply := func(path string) answer { return o.try("apply", "-auto-approve", path) }

	t.Run("sudo that asks for a password", func(t *testing.T) {
		o.t = t
		o.script("b", "rm /etc/sudoers.d/tutu")
		apply(o.fabric("192.0.2.1", "  connect_timeout = \"1s\"", "")).want(t, 4, "b: unreachable")
		o.try("plan", o.fabric(b, "", "")).want(t, 4, "sudo asks for a password", "Which sudo rule does the login need?")
		o.allowSudo("b")
		o.try("apply", "-auto-approve", "-no-verify", o.fabric(b, "", "")).want(t, 0)
		o.script("a", "ip addr flush dev ens19f0np0; ip link set ens19f0np0 down; sysctl -qw net.ipv6.conf.ens19f0np0.accept_ra=1")
		o.script("b", "ip addr flush dev ens19f0np0; ip link set ens19f0np0 down; sysctl -qw net.ipv6.conf.ens19f0np0.accept_ra=1")
	})
	before := o.kernel()
	t.Run("missing sftp subsystem", func(t *testing.T) {
		o.t = t
		o.script("b", "rm -rf /home/tutu/.cache/fabricform; grep -v Subsystem /run/fabricform-lab/sshd_config > /run/nosftp && echo Port 2222 >> /run/nosftp && "+sshd+" -f /run/nosftp")
		known := filepath.Join(o.dir, "known_hosts")
		raw, err := os.ReadFile(known)
		if err != nil {
			t.Fatal(err)
		}
		at2222 := strings.Replace(string(raw), b+" ", "["+b+"]:2222 ", 1)
		if err := os.WriteFile(known, []byte(string(raw)+at2222), 0o600); err != nil {
			t.Fatal(err)
		}
		o.try("plan", o.fabric(b, "", "  ssh {\n    port = 2222\n  }")).want(t, 4, "does not offer SFTP", "Subsystem sftp")
	})
	t.Run("full disk", func(t *testing.T) {
		o.t = t
		o.script("b", "mkdir -p /home/tutu/.cache /run/user/$(id -u tutu) && for d in /home/tutu/.cache /var/tmp /run/user/$(id -u tutu); do mount -t tmpfs -o size=1m,mode=1777 tmpfs $d; done")
		o.try("plan", o.fabric(b, "", "")).want(t, 4, "no suitable directory", "disk full")
		left := inside(t, o.state, pair, "b", "sh", "-c", "find /home/tutu/.cache /var/tmp /run/user -type f")
		if left != "" {
			t.Fatalf("the upload left %s", left)
		}
		o.script("b", "umount /home/tutu/.cache /var/tmp /run/user/$(id -u tutu)")
	})
	t.Run("another user could write, and noexec", func(t *testing.T) {
		o.t = t
		o.script("b", "rm -rf /home/tutu/.cache /var/tmp/fabricform-* && install -d -o tutu -m 0777 /home/tutu/.cache /home/tutu/.cache/fabricform")
		o.try("plan", "-detailed-exitcode", o.fabric(b, "", "")).want(t, 2, "warning: b: the helper is not kept in /home/tutu/.cache/fabricform", "run chmod go-w /home/tutu/.cache")
		where := inside(t, o.state, pair, "b", "sh", "-c", "ls -d /home/tutu/.cache/fabricform/* /var/tmp/fabricform-*/* 2>/dev/null || true")
		if strings.Contains(where, ".cache") || !strings.Contains(where, "/var/tmp/fabricform-") {
			t.Fatalf("the helper went to %q", where)
		}
		o.script("b", "rm -rf /home/tutu/.cache/fabricform /var/tmp/fabricform-* && install -d -o tutu /home/tutu/.cache && mount -t tmpfs -o noexec,mode=1777 tmpfs /home/tutu/.cache")
		o.try("plan", "-detailed-exitcode", o.fabric(b, "", "")).want(t, 2)
		where = inside(t, o.state, pair, "b", "sh", "-c", "ls -d /home/tutu/.cache/fabricform/* /var/tmp/fabricform-*/* 2>/dev/null || true")
		if strings.Contains(where, ".cache") || !strings.Contains(where, "/var/tmp/fabricform-") {
			t.Fatalf("noexec was not noticed: the helper went to %q", where)
		}
		o.script("b", "umount /home/tutu/.cache")
	})
	t.Run("unreachable host", func(t *testing.T) {
		o.t = t
		o.try("plan", o.fabric("192.0.2.1", "", "")).want(t, 4, "b: unreachable")
		o.try("verify", o.fabric("192.0.2.1", "", "")).want(t, 4, "unreachable")
	})
	t.Run("the management path is refused", func(t *testing.T) {
		o.t = t
		nic := "  nic \"mgmt\" {\n    netdev    = \"mgmt0\"\n    addresses = [\"10.9.9.9/24\"]\n  }"
		apply(o.fabric(b, "", nic)).want(t, 1, "carries your SSH connection", "Plan refused")
	})
	t.Run("a login that passes no SSH_CONNECTION", func(t *testing.T) {
		o.t = t
		o.script("b", `printf '#!/bin/sh\nunset SSH_CONNECTION\necho Welcome to b >&2\nexec /bin/sh "$@"\n' > /var/lib/mute && chmod 0755 /var/lib/mute && usermod -s /var/lib/mute tutu`)
		apply(o.fabric(b, "", "")).want(t, 1, "the login passed no SSH_CONNECTION", "-allow=management", "Plan refused")
		o.try("plan", "-detailed-exitcode", "-allow=management", o.fabric(b, "", "")).want(t, 2, "the path of your own connection is unknown", "connection."+b, `warning: b: a login prints "Welcome to b"`, "~/.bashrc")
		o.script("b", "usermod -s /bin/sh tutu")
	})
	t.Run("changed and unknown host key", func(t *testing.T) {
		o.t = t
		known := filepath.Join(o.dir, "known_hosts")
		raw, err := os.ReadFile(known)
		if err != nil {
			t.Fatal(err)
		}
		keyA := strings.Fields(strings.Split(string(raw), "\n")[0])
		lies := o.addr["a"] + " " + strings.Join(keyA[1:], " ") + "\n" + b + " " + strings.Join(keyA[1:], " ") + "\n"
		if err := os.WriteFile(known, []byte(lies), 0o600); err != nil {
			t.Fatal(err)
		}
		o.try("plan", o.fabric(b, "", "")).want(t, 4, "is changed", "nothing was sent")
		if err := os.WriteFile(known, []byte(o.addr["a"]+" "+strings.Join(keyA[1:], " ")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		o.try("plan", o.fabric(b, "", "")).want(t, 4, "is unknown", "SHA256:")
	})
	o.t = t
	if after := o.kernel(); after != before {
		t.Fatalf("something was changed:\n%s\n%s", before, after)
	}
}
