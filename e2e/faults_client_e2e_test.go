//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
		try(l.t, l.state, "rollback", "-lab", l.fabric).want(l.t, 8, "only its token allows to end it earlier")
		try(l.t, l.state, "confirm", "-lab", "-takeover", elsewhere, l.fabric).want(l.t, 1, "belongs to an apply that is not pending", "rollback -takeover "+elsewhere)
		try(l.t, l.state, "rollback", "-lab", "-takeover", elsewhere, l.fabric).want(l.t, 0, "a, b  reverted: rollback by")
		l.back(at, 5*time.Minute) // of the lease's 10
		l.applyOf(l.fabric, 3, func(client *os.Process) { _ = client.Kill(); at = time.Now() }, "-lease", "10m")
		try(l.t, l.state, "rollback", "-lab", l.fabric).want(l.t, 0, "a, b  reverted: rollback by")
		l.back(at, 5*time.Minute)
	})
	return rows
}
