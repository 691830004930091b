//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// clientRows: programs that die.
func clientRows() (rows []faultRow) {
	add := func(name string, short bool, do func(l *faultLab)) { rows = append(rows, faultRow{name, short, do}) }
	for n := 1; n <= 9; n++ {
		add(fmt.Sprintf("client killed at value %d", n), n == 4, func(l *faultLab) {
			var at time.Time
			l.apply(n, func(client *os.Process) { _ = client.Kill(); at = time.Now() })
			l.backUnrenewed(at)
		})
		add(fmt.Sprintf("helper killed at value %d", n), n == 1, func(l *faultLab) {
			var at time.Time
			l.apply(n, func(*os.Process) {
				inside(l.t, l.state, pair, "a", "pkill", "-KILL", "-f", " agent")
				at = time.Now()
			}).want(l.t, 6, "reverted", "every host that it changed was rolled back")
			l.back(at, byItsLease)
		})
		add(fmt.Sprintf("both killed at value %d", n), n == 7, func(l *faultLab) {
			var at time.Time
			l.apply(n, func(client *os.Process) {
				_ = client.Kill()
				// It may have seen its client go, and ended by itself.
				if a := try(l.t, l.state, "lab", "exec", pair, "a", "--", "pkill", "-KILL", "-f", " agent"); a.code != 0 && a.code != 1 {
					l.t.Errorf("pkill: exit %d", a.code)
				}
				at = time.Now()
			})
			l.backUnrenewed(at)
		})
	}
	add("interrupted", true, func(l *faultLab) {
		var at time.Time
		l.apply(2, func(client *os.Process) { _ = client.Signal(os.Interrupt); at = time.Now() }).want(l.t, 6, "interrupted", "reverted")
		l.back(at, byItsLease)
	})
	add("stopped for a while, and continued", true, func(l *faultLab) {
		// While it was stopped it heard nothing from the hosts. It must not blame them for that.
		l.applyOf(l.fabric, 2, func(*os.Process) { time.Sleep(5 * time.Second) }, "-lease", longLease.String()).want(l.t, 0, "a, b  committed")
		try(l.t, l.state, "rollback", "-lab", "-auto-approve", l.fabric).want(l.t, 0, "a, b  reverted")
		l.unchanged()
	})
	add("the path to one host is a black hole", true, func(l *faultLab) {
		var at time.Time
		l.apply(2, func(*os.Process) {
			// What a says from now on goes to a station that is not there.
			inside(l.t, l.state, pair, "a", "ip", "neigh", "replace", "100.64.0.2", "lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "mgmt0")
			at = time.Now()
		}).want(l.t, 7, "a  lost", "b  reverted")
		if left := tokensIn(l.t, tokenFile(l.t, l.state, filepath.Join(l.name, "lab", l.name), true)); len(left) != 1 || left["a"].Token == "" {
			l.t.Errorf("tokens are kept of %v: of a, which may answer again, they must be", slices.Collect(maps.Keys(left)))
		}
		l.back(at, time.Minute)
		inside(l.t, l.state, pair, "a", "ip", "neigh", "del", "100.64.0.2", "dev", "mgmt0")
	})
	add("the program dies, and another run ends what it began", true, func(l *faultLab) {
		var at time.Time
		l.applyOf(l.fabric, 3, func(client *os.Process) { _ = client.Kill(); at = time.Now() }, "-lease", "10m")
		file := tokenFile(l.t, l.state, filepath.Join(l.name, "lab", l.name), true)
		elsewhere := filepath.Join(l.t.TempDir(), "tokens.json")
		if err := os.Rename(file, elsewhere); err != nil {
			l.t.Fatal(err)
		}
		try(l.t, l.state, "apply", "-lab", "-auto-approve", l.fabric).want(l.t, 8, "nothing was changed", "the host reverts automatically in")
		try(l.t, l.state, "rollback", "-lab", "-auto-approve", l.fabric).want(l.t, 8, "only its token allows to end it earlier")
		try(l.t, l.state, "confirm", "-lab", "-takeover", elsewhere, l.fabric).want(l.t, 1, "belongs to an apply that is not pending", "rollback -takeover "+elsewhere)
		try(l.t, l.state, "rollback", "-lab", "-auto-approve", "-takeover", elsewhere, l.fabric).want(l.t, 0, "a, b  reverted: rollback by")
		l.back(at, 5*time.Minute) // of the lease's 10
		l.applyOf(l.fabric, 3, func(client *os.Process) { _ = client.Kill(); at = time.Now() }, "-lease", "10m")
		try(l.t, l.state, "rollback", "-lab", "-auto-approve", l.fabric).want(l.t, 0, "a, b  reverted: rollback by")
		l.back(at, 5*time.Minute)
	})
	add("the program and the guardian are killed", true, func(l *faultLab) {
		l.apply(2, func(client *os.Process) {
			_ = client.Kill()
			inside(l.t, l.state, pair, "a", "pkill", "-KILL", "-f", " guard watch")
		})
		l.backOn(time.Now(), byItsLease, "b")
		if state, _ := l.tx("a"); state != "armed" {
			l.t.Fatalf("a is %s without a guardian", state)
		}
		at := time.Now()
		try(l.t, l.state, "pending", "-lab", pair).want(l.t, 0, "No open transactions", "a: the lease had expired during a transaction", "the transaction is now reverted")
		l.backOn(at, time.Second, "a")
		try(l.t, l.state, "plan", "-lab", pair).want(l.t, 0, "a, b: without systemd, one process alone guards the rollback")
	})
	add("the program is killed between two commits", true, func(l *faultLab) {
		l.applyOf(l.fabric, 2, func(client *os.Process) {
			_ = client.Signal(syscall.SIGCONT)
			// Each step of a transaction takes its host's lock: b is held back until a has committed.
			releaseB := l.hold("b", "armed")
			releaseA := l.hold("a", "prepared")
			releaseB()
			releaseB = l.hold("b", "persisting")
			releaseA()
			l.until("a", "committed")
			_ = client.Kill()
			inside(l.t, l.state, pair, "b", "pkill", "-KILL", "-f", " agent")
			releaseB()
		}, "-lease", "10s")
		l.backOn(time.Now(), byItsLease, "b")
		for _, command := range []string{"plan", "history", "verify"} {
			a := try(l.t, l.state, command, "-lab", pair)
			if said := a.out + a.err; !strings.Contains(said, "fabricform ended or lost a host between two commits: it is committed on a, reverted on b. To complete it, run `fabricform apply -lab") {
				l.t.Errorf("%s does not say that the hosts differ:\n%s", command, said)
			}
		}
		try(l.t, l.state, "rollback", "-lab", "-auto-approve", pair).want(l.t, 0, "a  reverted: rollback by")
		l.back(time.Now(), time.Second)
	})
	return rows
}

// until waits for a state of a host's latest transaction.
func (l *faultLab) until(host, state string) {
	l.t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		now, why := l.tx(host)
		if now == state {
			return
		}
		if time.Since(began) > time.Minute {
			l.t.Fatalf("host %s is %s, never %s: %s", host, now, state, why)
		}
	}
}

// hold waits for a state and takes the lock that each step of the host's transactions needs.
func (l *faultLab) hold(host, state string) (release func()) {
	l.t.Helper()
	l.until(host, state)
	f, err := os.Open(l.roots[host] + "/var/lib/fabricform/transactions/lock")
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	if now, _ := l.tx(host); now != state {
		l.t.Fatalf("host %s is %s, not %s", host, now, state)
	}
	return func() { f.Close() }
}
