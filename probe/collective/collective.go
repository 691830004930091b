// Package collective is the language of a collective check: what each rank is asked for, what it
// prints, and what follows from that. It is pure: probe starts the ranks, validators judges them.
package collective

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/netip"
)

// Script is one rank in Python with torch. It goes to `python3 - ARGUMENT` over stdin, so that
// nothing of it stays on a host.
//
//go:embed torch.py
var Script []byte

// Job is what all ranks of a check have in common.
type Job struct {
	World  int            `json:"world"`  // ranks
	Master netip.AddrPort `json:"master"` // where rank 0 listens, and all ranks meet
	// Count is how many whole numbers of 64 bits each operation's values are checked on.
	Count int `json:"count"`
	// Sizes of the sweep in bytes, ascending.
	Sizes []int64 `json:"sizes"`
	// MeetSeconds bounds the ranks' meeting, Seconds each operation, and BudgetSeconds each size of the
	// sweep: the sweep ends before a size that would take longer.
	MeetSeconds   int     `json:"meet_seconds"`
	Seconds       int     `json:"seconds"`
	BudgetSeconds float64 `json:"budget_seconds"`
}

// maxWorld and maxBytes bound what a rank is asked for.
const (
	maxWorld = 1 << 16
	maxBytes = 16 << 30
)

// Check says why a job cannot be; nil: it can.
func (j Job) Check() error {
	switch {
	case j.World < 1 || j.World > maxWorld:
		return fmt.Errorf("a job of %d ranks: there are 1 to %d", j.World, maxWorld)
	case !j.Master.IsValid() || j.Master.Port() == 0:
		return fmt.Errorf("a job whose ranks meet at %s: that is no address with a port", j.Master)
	case j.Count < 1 || j.Count > maxBytes/8:
		return fmt.Errorf("a job with %d values", j.Count)
	case j.MeetSeconds < 1 || j.Seconds < 1 || j.BudgetSeconds <= 0:
		return fmt.Errorf("a job without bounds of time")
	}
	last := int64(0)
	for _, s := range j.Sizes {
		if s < 4 || s > maxBytes || s <= last {
			return fmt.Errorf("a sweep with %d bytes after %d: sizes ascend from 4 to %d", s, last, int64(maxBytes))
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

// Argument is what Script is told for one rank on a CUDA device.
func (j Job) Argument(number, device int) string {
	return encode(rank{Rank: number, Device: device, World: j.World, Master: j.Master.Addr().Unmap().String(), Port: j.Master.Port(), Count: j.Count,
		Sizes: j.Sizes, MeetSeconds: j.MeetSeconds, Seconds: j.Seconds, BudgetSeconds: j.BudgetSeconds})
}

// LookArgument has Script say what Python, torch, NCCL and GPUs are there, and no more.
func LookArgument() string { return encode(rank{Look: true}) }

func encode(r rank) string {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("encode a rank's argument: %v", err)) // our own types always encode
	}
	return string(raw)
}

// BusBandwidth is nccl-tests' busbw of an all-reduce in GB/s (10^9 bytes): what each of n ranks sends
// over the narrowest link, 2(n-1)/n of the bytes (nccl-tests/doc/PERFORMANCE.md). 0 where nothing
// was measured.
func BusBandwidth(s Sweep, n int) float64 {
	if s.Seconds <= 0 || s.Iterations < 1 || n < 2 {
		return 0
	}
	return float64(s.Bytes) * float64(s.Iterations) / s.Seconds / 1e9 * 2 * float64(n-1) / float64(n)
}
