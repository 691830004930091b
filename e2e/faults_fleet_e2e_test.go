//go:build linux

package e2e

import (
	"fmt"
	"os"
	"time"
)

// fleetRows: one of many hosts fails.
func fleetRows() (rows []faultRow) {
	for _, n := range []int{2, 8, 64} {
		rows = append(rows, faultRow{fmt.Sprintf("one host of %d fails", n), n == 8, func(l *faultLab) {
			fabric := fleetFabric(l.t, fmt.Sprintf("fleet-%d", n), n, 9000)
			f := newFaultLab(l.t, fabric, fmt.Sprintf("fleet-%d", n), "h00")
			f.remember()
			victim := fmt.Sprintf("h%02d", n-1)
			var at time.Time
			f.applyOf(fabric, 1, func(*os.Process) {
				inside(f.t, f.state, fabric, victim, "pkill", "-KILL", "-f", " agent")
				at = time.Now()
			}).want(l.t, 6, "reverted", "every host that it changed was rolled back")
			f.back(at, 120*time.Second)
		}})
	}
	return rows
}
