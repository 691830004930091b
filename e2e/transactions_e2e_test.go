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

	"github.com/fabricform/fabricform/agent/calls"
)

// TestHostsEndApartOnlyWhereTheyMay reverts one host alone, and confirms applies whose hosts have
// changed since.
func TestHostsEndApartOnlyWhereTheyMay(t *testing.T) {
	together(t)
	state := labUpFor(t, pair)
	apply := func(t *testing.T, flags ...string) answer {
		return try(t, state, append(append([]string{"apply", "-lab", "-auto-approve", "-no-verify"}, flags...), pair)...)
	}
	t.Run("a host that fails goes back alone, and what lasts is written on the others", func(t *testing.T) {
		const key = "/proc/sys/net/ipv4/tcp_mtu_probing"
		inside(t, state, pair, "b", "sh", "-c", "mount --bind "+key+" "+key+" && mount -o remount,bind,ro "+key)
		apply(t, "-on-failure", "rollback-host").want(t, 6, "read-only file system", "✓ a.nccl.file", "a  committed", "b  reverted")
		inside(t, state, pair, "a", "test", "-e", confFile)
		inside(t, state, pair, "b", "test", "!", "-e", confFile)
		inside(t, state, pair, "b", "umount", key)
		apply(t).want(t, 0, "b  committed")
		try(t, state, "plan", "-lab", "-detailed-exitcode", pair).want(t, 0, "No changes")
		try(t, state, "destroy", "-lab", "-auto-approve", pair).want(t, 0)
	})
	t.Run("programs read what is open, what was done, and the lab", func(t *testing.T) { programsReadLists(t, state, apply) })
	t.Run("what is not as declared any more is not confirmed", func(t *testing.T) {
		apply(t, "-confirm", "manual").want(t, 0, "pending until")
		inside(t, state, pair, "b", "ip", "link", "set", "ens19f1np1", "mtu", "1400")
		try(t, state, "confirm", "-lab", pair).want(t, 6, "mtu is 1400", "a  reverted: the changes were made, but did not stay", "b  reverted: the changes were made, but did not stay", "overwritten, though fabricform had not set it: mtu 1400 → 1500")
		try(t, state, "confirm", "-lab", pair).want(t, 1, "no pending apply of fabric")
	})
	t.Run("a transaction that was taken over in part is ended from here", func(t *testing.T) {
		apply(t, "-confirm", "manual").want(t, 0, "pending until")
		file, elsewhere := tokenFile(t, state, "roce-pair/lab/roce-pair", false), filepath.Join(t.TempDir(), "tokens.json")
		if err := os.Rename(file, elsewhere); err != nil {
			t.Fatal(err)
		}
		inside(t, state, pair, "b", "ip", "link", "set", "mgmt0", "down")
		try(t, state, "confirm", "-lab", "-takeover", elsewhere, pair).want(t, 1, "take the transaction over: host b", "This machine now holds the tokens")
		inside(t, state, pair, "b", "ip", "link", "set", "mgmt0", "up")
		try(t, state, "rollback", "-lab", "-auto-approve", "-host", "b", pair).want(t, 0, "b  reverted")
		if left := tokensIn(t, file); len(left) != 2 || left["a"].Token == tokensIn(t, elsewhere)["a"].Token {
			t.Errorf("tokens are kept of %d hosts of 2, or that of host a is the dead one", len(left))
		}
		try(t, state, "rollback", "-lab", "-auto-approve", pair).want(t, 0, "a  reverted")
		if _, err := os.Stat(file); err == nil {
			t.Error("the tokens are still there")
		}
	})
	t.Run("what is back on one host is not kept on the other", func(t *testing.T) {
		apply(t, "-confirm", "manual").want(t, 0, "pending until")
		try(t, state, "rollback", "-lab", "-auto-approve", "-host", "b", pair).want(t, 0, "b  reverted")
		try(t, state, "confirm", "-lab", pair).want(t, 6, "a  reverted: host b: persist: too late", "b  reverted: rollback by")
		try(t, state, "confirm", "-lab", pair).want(t, 1, "no pending apply of fabric")
		apply(t, "-confirm", "manual").want(t, 0, "pending until") // and from another machine
		elsewhere := filepath.Join(t.TempDir(), "tokens.json")
		if err := os.Rename(tokenFile(t, state, "roce-pair/lab/roce-pair", false), elsewhere); err != nil {
			t.Fatal(err)
		}
		try(t, state, "rollback", "-lab", "-auto-approve", "-takeover", elsewhere, "-host", "b", pair).want(t, 0, "b  reverted")
		try(t, state, "confirm", "-lab", "-takeover", elsewhere, pair).want(t, 6, "a  reverted: host b: persist: too late", "b  reverted: rollback by")
		apply(t, "-confirm", "manual").want(t, 0, "pending until")
		try(t, state, "rollback", "-lab", "-auto-approve", "-host", "b", pair).want(t, 0, "b  reverted")
		apply(t, "-host", "b").want(t, 0, "b  committed")
		try(t, state, "confirm", "-lab", pair).want(t, 6, "a  reverted: it has already ended on b, and a newer transaction has started there")
		try(t, state, "confirm", "-lab", pair).want(t, 1, "no pending apply of fabric")
		try(t, state, "destroy", "-lab", "-auto-approve", pair).want(t, 0)
	})
	t.Run("what went back by itself waits for nothing once it was asked", func(t *testing.T) {
		apply(t, "-confirm", "manual", "-confirm-timeout", "5s").want(t, 0, "pending until")
		for end := time.Now().Add(time.Minute); strings.Contains(try(t, state, "pending", "-lab", pair).out, "reverts automatically"); time.Sleep(time.Second) {
			if time.Now().After(end) {
				t.Fatal("it did not go back")
			}
		}
		try(t, state, "rollback", "-lab", pair).want(t, 1, "Rolls back the transaction of", "approval needs a terminal") // the one before
		try(t, state, "confirm", "-lab", pair).want(t, 1, "no pending apply of fabric")
	})
	t.Run("applies side by side are confirmed each by itself", func(t *testing.T) {
		apply(t, "-confirm", "manual", "-host", "a").want(t, 0, "pending until")
		apply(t, "-confirm", "manual", "-host", "b").want(t, 0, "pending until")
		try(t, state, "confirm", "-lab", "-host", "a", pair).want(t, 0, "a  committed")
		try(t, state, "confirm", "-lab", "-host", "a", pair).want(t, 1, "no pending apply of fabric")
		try(t, state, "confirm", "-lab", pair).want(t, 0, "b  committed")
		try(t, state, "plan", "-lab", "-detailed-exitcode", pair).want(t, 0, "No changes")
	})
	saved := filepath.Join(t.TempDir(), "tonight.plan")
	t.Run("a saved plan that gives everything back is confirmed", func(t *testing.T) {
		try(t, state, "plan", "-lab", "-destroy", "-out", saved, pair).want(t, 0, "Saved")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", "-confirm", "manual", saved).want(t, 0, "pending until")
		try(t, state, "confirm", "-lab", pair).want(t, 0, "a, b  committed")
		inside(t, state, pair, "a", "test", "!", "-e", confFile)
	})
	t.Run("a plan is confirmed as it was made, whatever the variables are now", func(t *testing.T) {
		raw, err := os.ReadFile(pair)
		if err != nil {
			t.Fatal(err)
		}
		fabric := filepath.Join(t.TempDir(), "f.hcl")
		text := strings.ReplaceAll(string(raw), "mtu       = 9000", "mtu       = var.mtu") + "variable \"mtu\" {\n  type    = number\n  default = 9000\n}\n"
		if err := os.WriteFile(fabric, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		try(t, state, "plan", "-lab", "-var", "mtu=8000", "-out", saved, fabric).want(t, 0, "Saved")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", "-confirm", "manual", saved).want(t, 0, "pending until")
		try(t, state, "confirm", "-lab", fabric).want(t, 0, "a, b  committed")
		try(t, state, "plan", "-lab", "-var", "mtu=8000", "-detailed-exitcode", fabric).want(t, 0, "No changes")
	})
}

// TestTokensFollowAMoveOfTheManagementPath: the connection through the new address has a new token, and
// it is the one that is left when the program dies, and where it waits for a confirmation.
func TestTokensFollowAMoveOfTheManagementPath(t *testing.T) {
	together(t)
	o := reachFromOutside(t)
	const old, moved = "10.55.0.2", "10.55.0.77"
	o.secondManagement("b", "10.55.0.1/24", old+"/24")
	nic := "  nic \"mgmt\" {\n    netdev    = \"mgmt0\"\n    addresses = [\"" + moved + "/24\", \"" + o.addr["b"] + "/31\"]\n  }"
	o.try("plan", "-allow=management", o.fabric(old, "", nic)).want(t, 0, "moved to "+moved) // brings the helper
	o.known(old, moved)
	isHosts := func(kept string) {
		t.Helper()
		if !strings.Contains(o.latestOnB(), `"`+kept+`"`) || kept == "" {
			t.Fatalf("the token that is kept is not the host's")
		}
	}
	back := func() {
		t.Helper()
		o.try("apply", "-auto-approve", "-no-verify", "-allow=management", o.fabric(moved, "", "")).want(t, 0, "moved to "+old)
	}

	o.try("apply", "-auto-approve", "-no-verify", "-allow=management", "-confirm", "manual", o.fabric(old, "", nic)).want(t, 0, "pending until")
	isHosts(tokensIn(t, tokenFile(t, o.state, "default", false))["b"].Token)
	o.try("confirm", o.fabric(moved, "", nic)).want(t, 0, "a, b  committed")
	back()

	fabric := o.fabric(old, "", nic)
	for range 3 {
		if kept := o.killedOnceMoved(fabric); kept != "" {
			isHosts(kept)
			a := o.try("rollback", fabric)
			if a.code == 4 { // the old address had gone before the program was killed
				a = o.try("rollback", o.fabric(moved, "", nic))
			}
			a.want(t, 0, "b  reverted: rollback by")
			return
		}
		back()
		fabric = o.fabric(old, "", nic)
	}
	t.Fatal("the apply was over each time before it was killed")
}

// latestOnB is host b's latest transaction, as it is kept there.
func (o *outside) latestOnB() string {
	o.t.Helper()
	return inside(o.t, o.state, pair, "b", "sh", "-c", "cat $(ls /var/lib/fabricform/transactions/[0-9]*.json | tail -1)")
}

// killedOnceMoved kills an apply when host b has a new token, and answers that; "" where the apply was
// over before.
func (o *outside) killedOnceMoved(fabric string) (kept string) {
	o.t.Helper()
	cmd := exec.Command("nsenter", "--target", fmt.Sprint(o.netPID), "--net", "--", bin, "apply", "-auto-approve", "-no-verify", "-allow=management", fabric)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+o.state, "SSH_AUTH_SOCK=")
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	first := ""
	for {
		select {
		case err := <-ended:
			if err != nil {
				o.t.Fatalf("the apply failed by itself: %v", err)
			}
			return ""
		case <-time.After(time.Millisecond):
		}
		var w tokens
		for _, f := range tokenFiles(o.t, o.state, "default", true) {
			if raw, err := os.ReadFile(f); err == nil && json.Unmarshal(raw, &w) != nil { // one that is gone is over
				o.t.Fatalf("%s is torn: %s", f, raw)
			}
		}
		now := w.Hosts["b"].Token
		if first != "" && now != "" && now != first {
			_ = cmd.Process.Kill()
			<-ended
			if strings.Contains(o.latestOnB(), `"committed"`) {
				return ""
			}
			return now
		}
		if first == "" {
			first = now
		}
	}
}

func tokensIn(t *testing.T, path string) map[string]calls.TxRef {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var w tokens
	if err := json.Unmarshal(raw, &w); err != nil {
		t.Fatal(err)
	}
	return w.Hosts
}

// tokens are what a file of tokens says of its hosts.
type tokens struct{ Hosts map[string]calls.TxRef }

// tokenFiles are a fabric's on the operator's machine: of applies that run or died, or that wait.
func tokenFiles(t *testing.T, state, fabric string, running bool) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "fabricform", "transactions", fabric, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, ".running.json") == running {
			out = append(out, f)
		}
	}
	return out
}

// tokenFile is the only one.
func tokenFile(t *testing.T, state, fabric string, running bool) string {
	t.Helper()
	files := tokenFiles(t, state, fabric, running)
	if len(files) != 1 {
		t.Fatalf("there are %d files of tokens: %v", len(files), files)
	}
	return files[0]
}

// programsReadLists reads the JSON of pending, history and lab status, as docs/json.md describes it, of hosts with an open transaction.
func programsReadLists(t *testing.T, state string, apply func(t *testing.T, flags ...string) answer) {
	apply(t, "-confirm", "manual").want(t, 0, "pending until")
	inside(t, state, pair, "b", "ip", "link", "set", "mgmt0", "down")
	var pending struct {
		Fabric       string
		Transactions []struct {
			Host, ID, State, Fabric, Plan, Who, From string
			Since                                    time.Time
			Lease                                    time.Duration `json:"lease_ns"`
			Hosts                                    []string
		}
		Unreachable map[string]string
	}
	decode(t, try(t, state, "pending", "-lab", "-json", pair), 4, &pending)
	open := pending.Transactions
	if pending.Fabric != "roce-pair" || len(open) != 1 || open[0].Host != "a" || open[0].State != "prepared" || open[0].Fabric != "roce-pair" ||
		open[0].ID == "" || open[0].Plan == "" || !strings.Contains(open[0].Who, "@") || open[0].From == "" || time.Since(open[0].Since) > time.Hour ||
		open[0].Lease <= 0 || open[0].Lease > 10*time.Minute || strings.Join(open[0].Hosts, " ") != "a b" || pending.Unreachable["b"] == "" {
		t.Errorf("%+v", pending)
	}
	inside(t, state, pair, "b", "ip", "link", "set", "mgmt0", "up")
	try(t, state, "rollback", "-lab", "-auto-approve", pair).want(t, 0, "a, b  reverted")
	var left map[string]json.RawMessage
	decode(t, try(t, state, "pending", "-lab", "-json", pair), 0, &left)
	if string(left["transactions"]) != "[]" || len(left["unreachable"]) > 0 {
		t.Errorf("%s", left)
	}
	var history struct {
		Fabric string
		Runs   []struct {
			Time                                   time.Time
			Command, Who, Plan, Build, Why, Failed string
			Changes                                int
			Hosts                                  []string
		}
	}
	decode(t, try(t, state, "history", "-lab", "-json", pair), 0, &history)
	runs := history.Runs
	if len(runs) < 2 || history.Fabric != "roce-pair" {
		t.Fatalf("%+v", history)
	}
	for i, last := range runs {
		if last.Command == "" || !strings.Contains(last.Who, "@") || (last.Build == "") != (last.Command == "revert") || len(last.Hosts) == 0 || i > 0 && last.Time.Before(runs[i-1].Time) {
			t.Errorf("%+v", last)
		}
	}
	try(t, state, "lab", "fault", pair, "rail1", "cut").want(t, 0)
	var lab struct {
		Name, Backend string
		Hosts         []struct {
			Name, Address string
			Alive         bool
		}
		Links []struct{ Name, A, B, Fault string }
	}
	decode(t, try(t, state, "lab", "status", "-json", pair), 0, &lab)
	if lab.Name != "roce-pair" || lab.Backend != "netns" || len(lab.Hosts) != 2 || !lab.Hosts[0].Alive || lab.Hosts[1].Address == "" || len(lab.Links) != 2 ||
		lab.Links[0].Fault != "" || lab.Links[1].Fault != "cut" || lab.Links[1].A != "a.rail1" || lab.Links[1].B != "b.rail1" {
		t.Errorf("%+v", lab)
	}
	try(t, state, "lab", "fault", pair, "rail1", "none").want(t, 0)
}

// decode reads the one JSON object that a command prints.
func decode(t *testing.T, a answer, code int, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(a.out))
	if err := d.Decode(into); err != nil || a.code != code || d.More() {
		t.Fatalf("exit %d: %v\n%s%s", a.code, err, a.out, a.err)
	}
}
