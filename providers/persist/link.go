package persist

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/netmanager"
)

// plainName matches names that can be part of a file name or a unit name. The kernel allows nearly any byte in the name
// of an interface (dev_valid_name in net/core/dev.c).
var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`) })

// links finds the spec's NICs and their managers.
func links(snap *facts.Snapshot, s Spec) ([]netmanager.Link, error) {
	managers := netmanager.Part.Of(snap)
	var out []netmanager.Link
	for _, n := range s.NICs {
		found, err := snap.Find(n.Select)
		if err != nil {
			return nil, err
		}
		if !plainName().MatchString(found.Name) {
			return nil, fmt.Errorf("nic %s: the device name %q cannot be written to files of network managers; rename the device",
				n.Name, found.Name)
		}
		l := netmanager.Link{NIC: n, Link: *found, Fabric: s.Fabric, AddrGen: snap.Sysctls[facts.LinkSysctl(netmanager.AddrGenMode,
			found.Name)]}
		l.InCharge = slices.Contains(managers.InCharge, found.Name)
		if l, err = managerOf(managers, s.Manager, l); err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}
