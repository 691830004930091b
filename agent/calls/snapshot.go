// Package calls declares what a host is asked about itself and about changes. Calls that measure are
// declared beside their measurements, in probe.
package calls

import (
	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

// Snapshot reads a host.
var Snapshot = agent.Method[SnapshotParams, SnapshotResult]("snapshot")

// SnapshotParams asks for the host's facts.
type SnapshotParams struct {
	// Resources are what is wanted of the host: each kind reads what it looks at for them.
	Resources []resource.Resource `json:"resources,omitempty"`
	// Ask is for what is to be shown before anything changes: the host's own programs are asked whether they
	// would take what differs, and homes are looked into. Such a read may take some seconds, and never
	// happens within a transaction.
	Ask bool `json:"ask,omitempty"`
}

// SnapshotResult is the host's facts, and what fabrics made on it.
type SnapshotResult struct {
	Snapshot *facts.Snapshot   `json:"snapshot"`
	Records  []resource.Record `json:"records,omitempty"`
	Refused  map[string]string `json:"refused,omitempty"` // why, by the address of a resource that was asked about
}
