// Package persist keeps what is declared over a reboot: it finds out which network manager owns each
// NIC and says the declared state in that manager's own files, so that the manager neither undoes it
// nor forgets it. Files and their differences are computed purely from a snapshot; only Apply and
// Check touch a host.
package persist

import (
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/providers/rxe"
)

// Spec is all that one fabric keeps on one host.
type Spec struct {
	Fabric  string             `json:"fabric"`
	Manager string             `json:"manager,omitempty"` // as declared; "": found out
	NICs    []netmanager.NIC   `json:"nics,omitempty"`
	Sysctls []netif.SysctlSpec `json:"sysctls,omitempty"` // of the whole host
	Modules []string           `json:"modules,omitempty"`
	RXE     []rxe.Spec         `json:"rxe,omitempty"`
	Memlock string             `json:"memlock,omitempty"` // "unlimited", bytes, or "": left alone
}

// Status is the persisted column of one host: what should be there, and what is.
type Status struct {
	Wanted  []netmanager.File // sorted by path
	Found   map[string]facts.File
	Folders []string // of the wanted ones, those that are there
	Taken   []Taking // NICs whose manager tells by which file it configures them
	Notes   []string // what is not kept, and why
}

// Absent says whether nothing is kept, as on a host where no network manager runs.
func (s *Status) Absent() bool { return len(s.Wanted)+len(s.Found)+len(s.Taken) == 0 }

// Taking is by which file a manager configures a NIC, and by which it should.
type Taking struct {
	Netdev, Now, Want string
	link              netmanager.Link
}
