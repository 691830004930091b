// Package calls declares the remote calls that read or change a host. The calls that measure are declared in package
// probe.
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
	// Resources are the host's declared resources. Each kind reads the facts that it needs for them.
	Resources []resource.Resource `json:"resources,omitempty"`
	// Ask is set for a plan: the host's own programs check whether they would accept the changes, and home
	// folders are searched. Such a snapshot may take some seconds. It is never taken during a transaction.
	Ask bool `json:"ask,omitempty"`
}

// SnapshotResult has the host's facts and the ownership records of its fabrics.
type SnapshotResult struct {
	Snapshot *facts.Snapshot   `json:"snapshot"`
	Records  []resource.Record `json:"records,omitempty"`
	Refused  map[string]string `json:"refused,omitempty"` // why the host's programs would not accept a resource, by its address
	// Transactions are those that the host keeps, the latest last.
	Transactions []TxInfo `json:"transactions,omitempty"`
	// Guardians is how many guardians a transaction has on this host.
	Guardians int `json:"guardians"`
}
