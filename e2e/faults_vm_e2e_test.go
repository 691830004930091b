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

// lone is one machine whose NIC is kept by its network manager.
const lone = `fabric "lone" {}
host "node1" {
  address = "192.168.1.101"
  nic "rail0" {
    netdev    = "eth1"
    addresses = ["10.20.0.1/30"]
    mtu       = 4200
  }
}
`

// guest is a machine that resets itself, and is looked at from outside.
type guest struct {
	t             *testing.T
	state, fabric string
}

func (g *guest) on(line string) string {
	g.t.Helper()
	return inside(g.t, g.state, g.fabric, "node1", "sh", "-c", line)
}

func (g *guest) run(command string, flags ...string) answer {
	g.t.Helper()
	return try(g.t, g.state, append(append([]string{command, "-lab"}, flags...), g.fabric)...)
}

// tx is the state of the latest transaction, as its file says.
func (g *guest) tx() string {
	g.t.Helper()
	return strings.TrimSpace(g.on(`f=$(ls /var/lib/fabricform/transactions/[0-9]*.json | tail -1); sed -n 's/^ "state": "\(.*\)",$/\1/p' $f`))
}

// resetAt has the machine reset itself, without a sync, as soon as a shell condition holds. The
// returned function waits for it, and fails if it does not happen.
func (g *guest) resetAt(condition string) (wait func()) {
	g.t.Helper()
	before := g.on("cat /proc/sys/kernel/random/boot_id")
	g.on("echo 1 > /proc/sys/kernel/sysrq; setsid sh -c 'until " + condition + "; do :; done; echo b > /proc/sysrq-trigger' >/dev/null 2>&1 </dev/null &")
	return func() {
		g.t.Helper()
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			a := try(g.t, g.state, "lab", "exec", g.fabric, "node1", "--", "cat", "/proc/sys/kernel/random/boot_id")
			if a.code == 0 && a.out != before {
				return
			}
		}
		g.t.Fatal("the machine did not reset itself")
	}
}

// old fails unless the machine runs, and would boot, what it did before the apply.
func (g *guest) old() {
	g.t.Helper()
	if got := g.on("cat /sys/class/net/eth1/mtu; ip -4 -o addr show dev eth1; find /etc -name '*fabricform*'"); got != "1500\n" {
		g.t.Errorf("not the old state: %q", got)
	}
}

// until waits for a transaction's state.
func (g *guest) until(state string, limit time.Duration) (took time.Duration) {
	g.t.Helper()
	began := time.Now()
	for g.tx() != state {
		if time.Since(began) > limit {
			g.t.Fatalf("it is %s after %s, not %s", g.tx(), limit, state)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return time.Since(began)
}

// TestTransactionsOutliveResets needs a kernel and a systemd of the host's own.
func TestTransactionsOutliveResets(t *testing.T) {
	long(t)
	fabric := filepath.Join(t.TempDir(), "lone.hcl")
	if err := os.WriteFile(fabric, []byte(lone), 0o600); err != nil {
		t.Fatal(err)
	}
	state := vmLabFor(t, fabric)
	const latest = "$(ls /var/lib/fabricform/transactions/[0-9]*.json 2>/dev/null | tail -1)"
	row := func(name string, do func(g *guest)) {
		t.Run(name, func(t *testing.T) { do(&guest{t, state, fabric}) })
	}
	row("systemd may not run the helper", func(g *guest) {
		g.on("mkdir -p /etc/systemd/system/service.d && printf '[Service]\\nInaccessiblePaths=-/root/.cache\\n' > /etc/systemd/system/service.d/forbid.conf && systemctl daemon-reload")
		g.run("apply", "-auto-approve", "-no-verify").want(g.t, 1, "nothing was changed on any host", "the systemd timer did not fire in the rehearsal")
		g.on("rm -r /etc/systemd/system/service.d && systemctl daemon-reload")
		g.old()
		if left := g.on("ls /var/lib/fabricform/transactions"); strings.Contains(left, ".json") {
			g.t.Errorf("a transaction was opened: %s", left)
		}
	})
	row("a reset while armed", func(g *guest) {
		wait := g.resetAt(`[ -e /var/lib/fabricform/lone.json ]`)
		a := g.run("apply", "-auto-approve", "-no-verify")
		wait()
		if a.code != 6 && a.code != 7 {
			g.t.Errorf("exit %d: went back is 6, lost is 7", a.code)
		}
		g.old()
		g.run("rollback") // the next contact; the apply above may have been it
		if got := g.tx(); got != "reverted" {
			g.t.Errorf("it is %s", got)
		}
		g.run("pending").want(g.t, 0, "No open transactions")
	})
	row("a reset while prepared", func(g *guest) {
		g.run("apply", "-auto-approve", "-confirm", "manual", "-confirm-timeout", "5m").want(g.t, 0, "pending until")
		if got := g.tx(); got != "prepared" {
			g.t.Fatalf("it is %s", got)
		}
		try(g.t, g.state, "lab", "reboot", "-hard", g.fabric, "node1").want(g.t, 0)
		g.old()
		g.run("confirm").want(g.t, 6, "reverted")
		if got := g.tx(); got != "reverted" {
			g.t.Errorf("it is %s", got)
		}
	})
	row("the guardian is killed", func(g *guest) {
		g.run("apply", "-auto-approve", "-confirm", "manual", "-confirm-timeout", "60s").want(g.t, 0, "pending until")
		g.on("pkill -KILL -f 'guard watc[h]' && sleep 1 && ! pgrep -f 'guard watc[h]' && systemctl list-timers --all | grep -q fabricform-0")
		g.t.Logf("back %.1f s after the guardian was killed", g.until("reverted", 3*time.Minute).Seconds())
		g.old()
	})
	row("the clock is set by years", func(g *guest) {
		const lease = 40 * time.Second
		began := time.Now()
		g.run("apply", "-auto-approve", "-confirm", "manual", "-confirm-timeout", lease.String()).want(g.t, 0, "pending until")
		opened := time.Since(began)
		for _, date := range []string{"2046-01-01", "2006-01-01"} {
			g.on("timedatectl set-ntp false 2>/dev/null; date -s " + date + " && sleep 2 && date +%Y | grep -q " + date[:4])
			if got := g.tx(); got != "prepared" {
				g.t.Fatalf("it is %s once the clock says %s", got, date)
			}
		}
		g.until("reverted", opened+lease+60*time.Second)
		took := time.Since(began)
		g.t.Logf("back %.1f s after the apply began, %.1f s of which it took itself; the lease is %s", took.Seconds(), opened.Seconds(), lease)
		if took < lease-time.Second || took > opened+lease+60*time.Second {
			g.t.Error("a clock that was set moved the deadline")
		}
		g.old()
		g.on(fmt.Sprintf("date -s @%d", time.Now().Unix()))
	})
	row("a reset as soon as it is committed", func(g *guest) {
		wait := g.resetAt(`grep -q "\"state\": \"committed\"" ` + latest)
		g.run("apply", "-auto-approve", "-no-verify")
		wait()
		if got := g.tx(); got != "committed" {
			g.t.Errorf("it is %s", got)
		}
		g.run("plan", "-detailed-exitcode").want(g.t, 0, "No changes")
	})
	row("a reset in the middle of a way back", func(g *guest) {
		for n := 1; ; n++ {
			wait := g.resetAt(`grep -q "\"state\": \"revert[a-z]*\"" ` + latest)
			g.run("rollback", "-auto-approve")
			wait()
			got := g.tx()
			if got == "reverting" {
				break
			}
			if n == 5 || got != "reverted" {
				g.t.Fatalf("it is %s: the reset came at another moment", got)
			}
			g.run("apply", "-auto-approve", "-no-verify").want(g.t, 0)
		}
		g.run("rollback", "-auto-approve").want(g.t, 0, "reverted")
		g.old()
		try(g.t, g.state, "lab", "reboot", g.fabric, "node1").want(g.t, 0)
		g.old()
	})
}
