//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// controller is a machine with a repository and the timer's script, in the lab's management network.
type controller struct {
	*outside
	home, work string
}

// script runs a script of bash and returns its exit code and what it said.
func (c controller) run(script string) (code int, said string) {
	c.t.Helper()
	cmd := exec.Command("nsenter", "--target", fmt.Sprint(c.netPID), "--net", "--", "bash", "-c", script)
	cmd.Dir = c.work
	cmd.Env = []string{"PATH=" + c.home + "/bin:" + os.Getenv("PATH"), "HOME=" + c.home, "NO_COLOR=1", "XDG_STATE_HOME=" + c.state,
		"FABRIC_REPOSITORY=" + c.work, "FABRIC_SIGNERS=" + c.home + "/allowed_signers", "STATE_DIRECTORY=" + c.home + "/state",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
	out, err := cmd.CombinedOutput()
	c.t.Logf("$ %s\n%s%v", script, out, err)
	return cmd.ProcessState.ExitCode(), string(out)
}

// timer runs the script of the timer and expects its exit code and words.
func (c controller) timer(code int, words ...string) string {
	c.t.Helper()
	got, said := c.run("fabric-timer")
	for _, w := range words {
		if got != code || !strings.Contains(said, w) {
			c.t.Fatalf("exit %d, want %d and %q:\n%s", got, code, w, said)
		}
	}
	return said
}

// commit commits a fabric with that MTU, signed with a key; "": unsigned.
func (c controller) commit(mtu int, key string) {
	c.t.Helper()
	text := fmt.Sprintf("ssh {\n  user          = \"tutu\"\n  known_hosts   = %q\n  identity_file = %q\n}\n", c.dir+"/known_hosts", c.dir+"/id_ed25519")
	for i, host := range []string{"a", "b"} {
		text += fmt.Sprintf("\nhost %q {\n  address = %q\n\n  nic \"rail0\" {\n    netdev    = \"ens19f0np0\"\n    addresses = [\"192.168.88.%d/30\"]\n    mtu       = %d\n  }\n}\n",
			host, c.addr[host], i+1, mtu)
	}
	if err := os.WriteFile(filepath.Join(c.work, "fabric", "fabric.hcl"), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.git("git add -A; git commit -q --allow-empty " + c.signing(key) + fmt.Sprintf(" -m 'mtu %d'", mtu))
}

func (c controller) signing(key string) string {
	if key == "" {
		return "--no-gpg-sign"
	}
	return "-S" + c.home + "/" + key
}

func (c controller) git(script string) {
	c.t.Helper()
	if code, said := c.run("set -e; " + script); code != 0 {
		c.t.Fatal(said)
	}
}

func (c controller) mtu(want int) {
	c.t.Helper()
	for _, host := range []string{"a", "b"} {
		if got := inside(c.t, c.state, pair, host, "cat", "/sys/class/net/ens19f0np0/mtu"); got != fmt.Sprintln(want) {
			c.t.Fatalf("the MTU of host %s is %s, want %d", host, strings.TrimSpace(got), want)
		}
	}
}

// TestTheTimerAppliesOnlyWhatIsSigned: an unsigned commit and one that a stranger signed are planned and reported; one that an allowed key
// signed is applied, and so is a plan whose digest such a commit names. An old signed commit is not applied again.
func TestTheTimerAppliesOnlyWhatIsSigned(t *testing.T) {
	together(t)
	installed(t, "git", "ssh-keygen", "flock")
	o := reachFromOutside(t)
	home := t.TempDir()
	c := controller{o, home, filepath.Join(home, "work")}
	if err := os.MkdirAll(filepath.Join(c.work, "fabric"), 0o700); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(gitops + "controller/fabric-timer")
	if err != nil {
		t.Fatal(err)
	}
	c.git("mkdir ../bin ../state; ln -s " + bin + " ../bin/fabricform; ln -s " + script + " ../bin/fabric-timer; " +
		"git init -q -b main; git config gpg.format ssh; for k in anna stranger; do ssh-keygen -q -t ed25519 -N '' -C '' -f ../$k; done; " +
		`echo "anna@example namespaces=\"git\" $(cat ../anna.pub)" > ../allowed_signers`)

	c.commit(4000, "")
	c.timer(3, "not applied: commit ", "1500 → 4000")
	c.mtu(1500)
	c.commit(4000, "stranger")
	c.timer(3, "not applied: commit ", "has no signature that "+home+"/allowed_signers allows")
	// A repository cannot bring its own signers, and no key of OpenPGP is asked for.
	c.git("cp ../stranger.pub .git-signers; printf 'stranger@example %s\\n' \"$(cat ../stranger.pub)\" > allowed_signers; printf '[gpg \"ssh\"]\\n\\tallowedSignersFile = allowed_signers\\n' > .gitconfig; git add -A; git commit -q " +
		c.signing("stranger") + " -m signers")
	c.timer(3, "not applied: commit ")
	c.mtu(1500)
	c.commit(4000, "anna")
	c.timer(0, "the commit is signed: applying its plan", "✓ a.nic.rail0")
	c.mtu(4000)
	c.timer(0, "the hosts are as main declares")

	// Drift of what is signed is repaired; an unsigned commit on top of it is not applied.
	c.script("b", "ip link set ens19f0np0 mtu 2000")
	c.timer(0, "2000 → 4000", "applying its plan")
	c.mtu(4000)
	c.git("git tag old")
	c.commit(5000, "")
	digest := regexp.MustCompile(`--trailer Fabric-Plan=([0-9a-f]{64})`).FindStringSubmatch(c.timer(3, "4000 → 5000"))
	if digest == nil {
		t.Fatal("it does not name the plan")
	}

	// The plan is approved by a stranger, by somebody without a key, and by anna.
	approve := func(key string) {
		c.git("git checkout -q -B approvals; git commit -q --allow-empty " + c.signing(key) + " -m 'Approve a plan' --trailer Fabric-Plan=" + digest[1] + "; git checkout -q main")
	}
	approve("stranger")
	approve("")
	c.timer(3, "not applied: commit ")
	c.mtu(4000)
	approve("anna")
	c.timer(0, "approves plan "+digest[1], "✓ b.nic.rail0")
	c.mtu(5000)
	c.script("a", "ip link set ens19f0np0 mtu 4000")
	c.timer(3, "4000 → 5000") // the approval was for that plan, once
	c.script("a", "ip link set ens19f0np0 mtu 5000")

	// Whoever controls the server offers the old commit again.
	c.commit(6000, "anna")
	c.timer(0, "applying its plan")
	c.mtu(6000)
	// A host that is away keeps nothing of the other one waiting.
	addr := c.addr["b"]
	c.addr["b"] = "127.0.0.9"
	c.commit(7000, "anna")
	c.timer(4, "hosts that were not read are left out", "b: unreachable", "applying its plan", "✓ a.nic.rail0")
	if said := c.timer(4, "hosts that were not read are left out"); strings.Contains(said, "applying") {
		t.Error("there was nothing to apply")
	}
	c.addr["b"] = addr
	c.commit(7000, "anna")
	c.timer(0, "✓ b.nic.rail0")
	c.mtu(7000)
	c.git("git reset -q --hard old")
	c.timer(3, "it does not come after ", "7000 → 4000")
	c.mtu(7000)
}
