// Package collective defines what the ranks of a collective check receive and print. It has the script that runs
// a rank with torch, and parsers for the script's output and that of nccl-tests. It starts nothing: package probe
// starts the ranks, and package validators judges them.
package collective

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/netip"
)

// Script runs one rank in Python with torch. `python3 - ARGUMENT` reads it from stdin, so that no file stays on
// a host.
//
//go:embed torch.py
var Script []byte

// Job is what all ranks of a check have in common.
type Job struct {
	World  int            `json:"world"`  // ranks
	Master netip.AddrPort `json:"master"` // where rank 0 listens, and all ranks meet
	// Count is the number of 64-bit integers on which each operation is checked.
	Count int `json:"count"`
	// Sizes are the sizes of the sweep in bytes, ascending.
	Sizes []int64 `json:"sizes"`
	// MeetSeconds limits the time until all ranks have met, and Seconds each operation. BudgetSeconds limits
	// each size of the sweep: the sweep ends before a size that would take longer.
	MeetSeconds   int     `json:"meet_seconds"`
	Seconds       int     `json:"seconds"`
	BudgetSeconds float64 `json:"budget_seconds"`
}

// maxWorld and maxBytes limit a job.
const (
	maxWorld = 1 << 16
	maxBytes = 16 << 30
)

// Check returns an error if a job is invalid.
func (j Job) Check() error {
	switch {
	case j.World < 1 || j.World > maxWorld:
		return fmt.Errorf("invalid number of ranks %d: use 1 to %d", j.World, maxWorld)
	case !j.Master.IsValid() || j.Master.Port() == 0:
		return fmt.Errorf("a job whose ranks meet at %s: an address and a port are needed", j.Master)
	case j.Count < 1 || j.Count > maxBytes/8:
		return fmt.Errorf("a job with %d values", j.Count)
	case j.MeetSeconds < 1 || j.Seconds < 1 || j.BudgetSeconds <= 0:
		return fmt.Errorf("a job without time limits")
	}
	last := int64(0)
	for _, s := range j.Sizes {
		if s < 4 || s > maxBytes || s <= last {
			return fmt.Errorf("a sweep with %d bytes after %d: sizes must ascend from 4 to %d", s, last, int64(maxBytes))
		}
		last = s
	}
	return nil
}

// rank is the argument of Script.
type rank struct {
	Look          bool    `json:"look"`
	Rank          int     `json:"rank"`
	Device        int     `json:"device"` // of CUDA
	World         int     `json:"world"`
	Master        string  `json:"master"`
	Port          uint16  `json:"port"`
	Count         int     `json:"count"`
	Sizes         []int64 `json:"sizes"`
	MeetSeconds   int     `json:"meet_seconds"`
	Seconds       int     `json:"seconds"`
	BudgetSeconds float64 `json:"budget_seconds"`
}

// Argument returns Script's argument for one rank on a CUDA device.
func (j Job) Argument(number, device int) string {
	return encode(rank{Rank: number, Device: device, World: j.World, Master: j.Master.Addr().Unmap().String(),
		Port: j.Master.Port(), Count: j.Count,
		Sizes: j.Sizes, MeetSeconds: j.MeetSeconds, Seconds: j.Seconds, BudgetSeconds: j.BudgetSeconds})
}

// LookArgument returns the argument that makes Script only report Python, torch, NCCL and GPUs.
func LookArgument() string { return encode(rank{Look: true}) }

func encode(r rank) string {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("encode a rank's argument: %v", err)) // our own types always encode
	}
	return string(raw)
}

// BusBandwidth returns the bus bandwidth of an all-reduce in GB/s (10^9 bytes), as nccl-tests defines it: each of
// n ranks sends 2(n-1)/n of the bytes over its link (nccl-tests/doc/PERFORMANCE.md). It is 0 if nothing was
// measured.
func BusBandwidth(s Sweep, n int) float64 {
	if s.Seconds <= 0 || s.Iterations < 1 || n < 2 {
		return 0
	}
	return float64(s.Bytes) * float64(s.Iterations) / s.Seconds / 1e9 * 2 * float64(n-1) / float64(n)
}
