// Package persist makes the declared state survive a reboot: it finds the network manager of each NIC and writes
// the declared state to that manager's own files, so that the manager neither reverts nor loses it. Files and
// their differences are computed purely from a snapshot; only Apply and Check touch a host.
package persist

import (
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/providers/qos"
	"github.com/fabricform/fabricform/providers/rxe"
)

// Spec is the state that one fabric persists on one host.
type Spec struct {
	Fabric  string             `json:"fabric"`
	Manager string             `json:"manager,omitempty"` // as declared; "" to detect it
	NICs    []netmanager.NIC   `json:"nics,omitempty"`
	Sysctls []netif.SysctlSpec `json:"sysctls,omitempty"` // of the whole host
	Modules []string           `json:"modules,omitempty"`
	RXE     []rxe.Spec         `json:"rxe,omitempty"`
	QoS     []qos.Spec         `json:"qos,omitempty"`     // classes of traffic
	Memlock string             `json:"memlock,omitempty"` // "unlimited", a number of bytes, or "" for no change
	// LeftOut names NICs whose share of the files stays as it is on the host.
	LeftOut []string `json:"left_out,omitempty"`
}

// Status compares the wanted files of one host with the found ones.
type Status struct {
	Wanted  []netmanager.File // sorted by path
	Found   map[string]facts.File
	Folders []string  // the wanted folders that exist
	InUse   []FileUse // NICs whose manager reports which file it uses
	Notes   []string  // settings that are not persisted, with the reason
}

// Absent reports whether nothing is persisted, as on a host without a network manager.
func (s *Status) Absent() bool { return len(s.Wanted)+len(s.Found)+len(s.InUse) == 0 }

// FileUse says which file a manager uses to configure a NIC, and which one it should use.
type FileUse struct {
	Netdev, Now, Want string
	link              netmanager.Link
}
