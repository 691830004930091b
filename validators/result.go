// Package validators judges a settled fabric: one file per check. It measures through the small
// interface Fleet, and never passes what it did not see on the right port's counters.
package validators

import (
	"context"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/perftest"
)

// Fleet measures on hosts by their fabric names. Implementations are safe for concurrent use.
type Fleet interface {
	Snapshot(ctx context.Context, host string) (*facts.Snapshot, error)
	// Ping answers with one result for each of the targets, in their order.
	Ping(ctx context.Context, host string, s probe.PingSpec) ([]probe.PingResult, error)
	TCPListen(ctx context.Context, host string, s probe.TCPListenSpec) (probe.TCPListenResult, error)
	TCPSend(ctx context.Context, host string, s probe.TCPSendSpec) (probe.TCPResult, error)
	TCPCollect(ctx context.Context, host, id string) (probe.TCPResult, error)
	Counters(ctx context.Context, host, netdev string) (probe.Counters, error)
	VerbsServe(ctx context.Context, host string, s probe.VerbsServeSpec) (probe.VerbsServeResult, error)
	VerbsRun(ctx context.Context, host string, s probe.VerbsRunSpec) (probe.VerbsOutcome, error)
	VerbsCollect(ctx context.Context, host, id string) (probe.VerbsOutcome, error)
	VerbsVersion(ctx context.Context, host string, t perftest.Test) (perftest.Version, error)
	CollectiveLook(ctx context.Context, host string, l probe.CollectiveLook) (probe.CollectiveHas, error)
	CollectiveRun(ctx context.Context, host string, s probe.CollectiveSpec) ([]probe.CollectiveRank, error)
	// CollectiveStop ends a host's part of a job, or of a launch.
	CollectiveStop(ctx context.Context, host, id string) error
	LaunchLook(ctx context.Context, host string, l probe.LaunchLook) (probe.LaunchHas, error)
	// Launch runs mpirun on a host to its end. What it would have a remote shell do on others, LaunchAsked
	// waits for, LaunchDaemon does there, and LaunchTold answers.
	Launch(ctx context.Context, host string, s probe.LaunchSpec) (probe.LaunchEnded, error)
	LaunchAsked(ctx context.Context, host, id string) (probe.LaunchAsk, error)
	LaunchTold(ctx context.Context, host string, t probe.LaunchTold) error
	LaunchDaemon(ctx context.Context, host string, s probe.DaemonSpec) (probe.LaunchEnded, error)
	RDMACounters(ctx context.Context, host, device string, port int) (probe.RDMACounters, error)
}

// Verdict is how a check ended. A check that did not run is skipped, with the reason.
type Verdict string

// The verdicts.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	Warn Verdict = "warn"
	Skip Verdict = "skip"
)

// Result is one check of one link, or of one host.
type Result struct {
	Check    string  `json:"check"` // "link", "ping", "tcp", "verbs", "nccl", "parity"
	Link     string  `json:"link,omitempty"`
	Host     string  `json:"host"`           // the culprit or the sending side
	Peer     string  `json:"peer,omitempty"` // the other side
	Verdict  Verdict `json:"verdict"`
	What     string  `json:"what"` // "carrier", "speed", "full-size packet", "a -> b"
	Measured string  `json:"measured,omitempty"`
	Expected string  `json:"expected,omitempty"`
	Cause    string  `json:"cause,omitempty"` // likely cause and what to do, or why it was skipped
}
