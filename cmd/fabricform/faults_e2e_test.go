package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shortLease keeps the rows short; what is measured is the time beyond it.
const shortLease = 5 * time.Second

// faultLab is a lab whose hosts' files can be looked at from outside while an apply runs.
type faultLab struct {
	t     *testing.T
	state string
	roots map[string]string // of the hosts' file systems
	old   map[string]string
}

func newFaultLab(t *testing.T) *faultLab {
	t.Helper()
	l := &faultLab{t: t, state: labUpFor(t, pair), roots: map[string]string{}, old: map[string]string{}}
	raw, err := os.ReadFile(filepath.Join(l.state, "fabricform", "lab", "roce-pair", "lab.json"))
	var saved struct {
		Hosts map[string]struct{ Process struct{ PID int } }
	}
	if err != nil || json.Unmarshal(raw, &saved) != nil {
		t.Fatal(err)
	}
	// A foreign thing beside ours: it must come back too.
	inside(t, l.state, pair, "a", "ip", "link", "set", "ens19f0np0", "up")
	inside(t, l.state, pair, "a", "ip", "addr", "add", "172.30.0.1/24", "dev", "ens19f1np1")
	time.Sleep(3 * time.Second) // duplicate address detection ends, and with it what the kernel adds by itself
	for host, h := range saved.Hosts {
		l.roots[host] = fmt.Sprintf("/proc/%d/root", h.Process.PID)
		try(t, l.state, "plan", "-lab", pair) // brings the helper
		l.old[host] = wholeState(t, l.state, host)
	}
	return l
}

// wholeState is all that an apply could leave behind: links, addresses, routes and rules of every
// table, the NICs' settings, and /etc.
func wholeState(t *testing.T, state, host string) string {
	t.Helper()
	script := "ip -d -o link | grep -v mgmt0 | sed 's/ qdisc [a-z]*//; s/ state [A-Z]*//; s/,LOWER_UP//; s/NO-CARRIER,//'; ip -o addr | grep -v mgmt0 | sed 's/ tentative//; s/valid_lft.*//'; " +
		"(ip route show table all; ip -6 route show table all) | grep -v mgmt0 | sed 's/ linkdown//; s/ dead//' | sort; ip rule; ip -6 rule; " +
		"sysctl -a 2>/dev/null | grep -E '^net.ipv[46].conf.ens19|tcp_mtu_probing|icmp_echo_ignore_all'; find /etc -type f | sort | xargs sha256sum | sha256sum"
	return inside(t, state, pair, host, "sh", "-c", script)
}

// noted is how many values a host's ownership record holds: each is entered just before it is set.
func (l *faultLab) noted(host string) int {
	raw, err := os.ReadFile(l.roots[host] + "/var/lib/fabricform/roce-pair.json")
	var r struct{ Atoms map[string]any }
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return 0
	}
	return len(r.Atoms)
}

// tx is a host's latest transaction.
func (l *faultLab) tx(host string) (state, why string) {
	files, err := filepath.Glob(l.roots[host] + "/var/lib/fabricform/transactions/[0-9]*.json")
	if err != nil || len(files) == 0 {
		return "none", ""
	}
	raw, err := os.ReadFile(files[len(files)-1])
	var t struct {
		State, Why string
		Left       []string
	}
	if err != nil || json.Unmarshal(raw, &t) != nil {
		return "unreadable", ""
	}
	return t.State, strings.Join(append(t.Left, t.Why), "; ")
}

// apply runs an apply and calls fault once host a has entered n values.
func (l *faultLab) apply(n int, fault func(client *os.Process)) answer {
	l.t.Helper()
	cmd := exec.Command(bin, "apply", "-lab", "-auto-approve", "-no-verify", "-lease", shortLease.String(), pair)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+l.state, "NO_COLOR=1", "SSH_AUTH_SOCK=")
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for l.noted("a") < n {
		select {
		case err := <-ended:
			l.t.Fatalf("the apply was over before the fault: %v\n%s%s", err, out.String(), errs.String())
		default:
		}
	}
	if state, _ := l.tx("a"); state != "armed" {
		l.t.Fatalf("the fault comes too late: the transaction is %s already", state)
	}
	fault(cmd.Process)
	err := <-ended
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		l.t.Fatal(err)
	}
	a := answer{code: cmd.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
	l.t.Logf("apply, with a fault at value %d: exit %d\n%s%s", n, a.code, a.out, a.err)
	return a
}

// back waits until both hosts are as they were, and fails if that takes longer than the limit.
func (l *faultLab) back(since time.Time, limit time.Duration) {
	l.t.Helper()
	for host, old := range l.old {
		for {
			state, why := l.tx(host)
			if state == "reverted" {
				l.t.Logf("host %s is back %.2f s after the fault: %s", host, time.Since(since).Seconds(), why)
				break
			}
			if time.Since(since) > limit {
				l.t.Fatalf("host %s is %s %s after the fault: %s", host, state, time.Since(since), why)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if now := wholeState(l.t, l.state, host); now != old {
			l.t.Errorf("host %s is not as it was: %s", host, cmp.Diff(strings.Split(old, "\n"), strings.Split(now, "\n")))
		}
		if n := l.noted(host); n != 0 {
			l.t.Errorf("host %s: its record still holds %d values", host, n)
		}
	}
}

// TestFaults breaks an apply in the middle, and wants every host in the old state, by itself, and
// told so. Each row sees that its fault happened while the transaction was open.
func TestFaults(t *testing.T) {
	e2e(t)
	l := newFaultLab(t)
	values := []int{1, 4, 7}
	if os.Getenv("FABRICFORM_FAULTS") != "" {
		values = []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	}
	row := func(name string, do func(l *faultLab)) {
		t.Run(name, func(t *testing.T) { own := *l; own.t = t; do(&own) })
	}
	for _, n := range values {
		row(fmt.Sprintf("client killed at value %d", n), func(l *faultLab) {
			var at time.Time
			l.apply(n, func(client *os.Process) { _ = client.Kill(); at = time.Now() })
			l.back(at, shortLease+time.Second)
		})
		row(fmt.Sprintf("helper killed at value %d", n), func(l *faultLab) {
			var at time.Time
			l.apply(n, func(*os.Process) {
				inside(l.t, l.state, pair, "a", "pkill", "-KILL", "-f", " agent")
				at = time.Now()
			}).want(l.t, 6, "reverted", "every host that it touched is as it was before")
			l.back(at, shortLease+time.Second)
		})
		row(fmt.Sprintf("both killed at value %d", n), func(l *faultLab) {
			var at time.Time
			l.apply(n, func(client *os.Process) {
				_ = client.Kill()
				// It may have seen its client go, and ended by itself.
				try(l.t, l.state, "lab", "exec", pair, "a", "--", "pkill", "-KILL", "-f", " agent")
				at = time.Now()
			})
			l.back(at, shortLease+time.Second)
		})
	}
	row("interrupted", func(l *faultLab) {
		var at time.Time
		l.apply(2, func(client *os.Process) { _ = client.Signal(os.Interrupt); at = time.Now() }).want(l.t, 6, "interrupted", "reverted")
		l.back(at, shortLease+time.Second)
	})
	row("the path to one host is a black hole", func(l *faultLab) {
		var at time.Time
		l.apply(2, func(*os.Process) {
			// What a says from now on goes to a station that is not there.
			inside(l.t, l.state, pair, "a", "ip", "neigh", "replace", "100.64.0.2", "lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "mgmt0")
			at = time.Now()
		}).want(l.t, 7, "a  lost", "b  reverted")
		l.back(at, time.Minute)
		inside(l.t, l.state, pair, "a", "ip", "neigh", "del", "100.64.0.2", "dev", "mgmt0")
	})
	row("another program undoes a change", func(l *faultLab) {
		stop := make(chan struct{})
		var undoing sync.WaitGroup
		undoing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					try(l.t, l.state, "lab", "exec", pair, "b", "--", "ip", "addr", "del", "192.168.88.6/30", "dev", "ens19f1np1")
				}
			}
		})
		at := time.Now()
		a := try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", pair)
		close(stop)
		undoing.Wait()
		a.want(l.t, 6, "reverted")
		l.back(at, time.Minute)
	})
	row("two operators", func(l *faultLab) {
		var both sync.WaitGroup
		var answers [2]answer
		for i := range answers {
			both.Go(func() { answers[i] = try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", pair) })
		}
		both.Wait()
		codes := fmt.Sprint(answers[0].code, answers[1].code)
		if codes != "0 8" && codes != "8 0" && codes != "0 0" { // 0 0: one came when the other was done
			l.t.Errorf("exit codes %s", codes)
		}
		try(l.t, l.state, "plan", "-lab", "-detailed-exitcode", pair).want(l.t, 0)
		try(l.t, l.state, "rollback", "-lab", pair).want(l.t, 0, "a, b  reverted: rollback by")
		l.back(time.Now(), time.Second)
	})
	row("confirmed by hand, or not", func(l *faultLab) {
		manual := func(timeout string) {
			try(l.t, l.state, "apply", "-lab", "-auto-approve", "-confirm", "manual", "-confirm-timeout", timeout, pair).want(l.t, 0, "wait until", "fabricform confirm")
		}
		manual("6s")
		try(l.t, l.state, "pending", "-lab", pair).want(l.t, 0, `a transaction of fabric "roce-pair" is open`, "goes back by itself in")
		try(l.t, l.state, "destroy", "-lab", "-auto-approve", pair).want(l.t, 8, "nothing was changed", "is open, by")
		l.back(time.Now(), 7*time.Second)
		try(l.t, l.state, "confirm", "-lab", pair).want(l.t, 6, "too late to persist: the transaction is reverted", "a, b  reverted")
		manual("60s")
		try(l.t, l.state, "confirm", "-lab", pair).want(l.t, 0, "a, b  committed")
		try(l.t, l.state, "history", "-lab", pair).want(l.t, 0, "apply   26 changes on a, b")
		try(l.t, l.state, "confirm", "-lab", pair).want(l.t, 1, "no apply of fabric")
		try(l.t, l.state, "plan", "-lab", "-detailed-exitcode", pair).want(l.t, 0)
		try(l.t, l.state, "rollback", "-lab", pair).want(l.t, 0)
	})
	row("a failed check takes the fabric back, where that is asked for", func(l *faultLab) {
		try(l.t, l.state, "lab", "fault", pair, "rail1", "cut").want(l.t, 0)
		try(l.t, l.state, "apply", "-lab", "-auto-approve", "-on-failed-check", "rollback", pair).want(l.t, 3, "committed", "a, b  reverted: a check failed")
		try(l.t, l.state, "lab", "fault", pair, "rail1", "none").want(l.t, 0)
		l.back(time.Now(), time.Second)
	})
	row("a change breaks what worked", func(l *faultLab) {
		try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", pair).want(l.t, 0)
		raw, err := os.ReadFile(pair)
		if err != nil {
			l.t.Fatal(err)
		}
		text := strings.Replace(strings.ReplaceAll(string(raw), "mtu       = 9000", "mtu       = 8000"), `sysctl  = { "net.ipv4.tcp_mtu_probing" = 1 }`, `sysctl  = { "net.ipv4.tcp_mtu_probing" = 1, "net.ipv4.icmp_echo_ignore_all" = 1 }`, 1)
		fabric := filepath.Join(l.t.TempDir(), "f.hcl")
		if err := os.WriteFile(fabric, []byte(text), 0o600); err != nil {
			l.t.Fatal(err)
		}
		try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", fabric).want(l.t, 6, "the changes broke what worked before: ping", "reverted")
		try(l.t, l.state, "plan", "-lab", "-detailed-exitcode", pair).want(l.t, 0)
		try(l.t, l.state, "rollback", "-lab", pair)
	})
}
