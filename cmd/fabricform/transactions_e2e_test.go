package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/agent"
)

// TestHostsEndApartOnlyWhereTheyMay is one host that goes back alone, and confirmations
// that find the hosts otherwise than they were left.
func TestHostsEndApartOnlyWhereTheyMay(t *testing.T) {
	e2e(t)
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
	t.Run("what is not as declared any more is not confirmed", func(t *testing.T) {
		apply(t, "-confirm", "manual").want(t, 0, "wait until")
		inside(t, state, pair, "b", "ip", "link", "set", "ens19f1np1", "mtu", "1400")
		try(t, state, "confirm", "-lab", pair).want(t, 6, "mtu is 1400", "a, b  reverted: the changes were made, but did not stay")
		try(t, state, "confirm", "-lab", pair).want(t, 1, "no apply of fabric")
	})
	t.Run("a transaction that was taken over in part is ended from here", func(t *testing.T) {
		apply(t, "-confirm", "manual").want(t, 0, "wait until")
		file, elsewhere := filepath.Join(state, "fabricform", "transactions", "roce-pair.json"), filepath.Join(t.TempDir(), "tokens.json")
		if err := os.Rename(file, elsewhere); err != nil {
			t.Fatal(err)
		}
		inside(t, state, pair, "b", "ip", "link", "set", "mgmt0", "down")
		try(t, state, "confirm", "-lab", "-takeover", elsewhere, pair).want(t, 1, "take the transaction over: host b", "held from this machine now")
		inside(t, state, pair, "b", "ip", "link", "set", "mgmt0", "up")
		try(t, state, "rollback", "-lab", "-host", "b", pair).want(t, 0, "b  reverted")
		if left := tokensIn(t, file); len(left) != 1 || left["a"].Token == tokensIn(t, elsewhere)["a"].Token {
			t.Errorf("tokens are kept of %d hosts, or that of host a is the dead one", len(left))
		}
		try(t, state, "rollback", "-lab", pair).want(t, 0, "a  reverted")
		if _, err := os.Stat(file); err == nil {
			t.Error("the tokens are still there")
		}
	})
}

// TestTokensFollowAMoveOfTheManagementPath: the connection through the new address has a new token, and
// it is the one that is left when the program dies.
func TestTokensFollowAMoveOfTheManagementPath(t *testing.T) {
	e2e(t)
	o := reachFromOutside(t)
	t.Setenv("XDG_STATE_HOME", o.state)
	const old, moved = "10.55.0.2", "10.55.0.77"
	o.secondManagement("b", "10.55.0.1/24", old+"/24")
	fabric := o.fabric(old, "", "  nic \"mgmt\" {\n    netdev    = \"mgmt0\"\n    addresses = [\""+moved+"/24\", \""+o.addr["b"]+"/31\"]\n  }")
	o.try("plan", "-allow=management", fabric).want(t, 0, "moved to "+moved) // brings the helper

	cmd := exec.Command("nsenter", "--target", fmt.Sprint(o.netPID), "--net", "--", bin, "apply", "-auto-approve", "-no-verify", "-allow=management", fabric)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+o.state, "SSH_AUTH_SOCK=")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kept := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		files, _ := filepath.Glob(filepath.Join(o.state, "fabricform", "transactions", "*.running.json"))
		if len(files) == 0 {
			continue
		}
		now := tokensIn(t, files[0])["b"].Token
		if kept != "" && now != kept {
			kept = now
			break
		}
		kept = now
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	raw := inside(t, o.state, pair, "b", "sh", "-c", "cat $(ls /var/lib/fabricform/transactions/[0-9]*.json | tail -1)")
	if !strings.Contains(raw, `"`+kept+`"`) || kept == "" {
		t.Fatalf("the token that is kept is not the host's")
	}
	o.try("rollback", fabric).want(t, 0, "a, b  reverted: rollback by")
}

func tokensIn(t *testing.T, path string) map[string]agent.TxRef {
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
