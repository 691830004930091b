// Package process starts programs without a shell, and ends them with all their children. It handles reused process
// IDs, systemd and namespaces.
package process

// ID identifies a process. The kernel reuses process IDs, so only the PID together with the start time is unique within
// a boot.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot: field 22 of /proc/PID/stat (proc_pid_stat(5))
}
