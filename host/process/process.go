// Package process starts programs, without a shell, and ends them with all that they started. It knows
// processes apart whose numbers are equal, and what systemd and namespaces mean for them.
package process

// ID is one run of a program. The kernel gives a number to another process once the first is
// gone; number and start together name one process of a boot.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot: field 22 of /proc/PID/stat (proc_pid_stat(5))
}
