package persist

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/resource"
)

// Import says what keeps the settings of the draft over a reboot. Unless the draft is to keep them itself, each NIC is left to the file that
// configures it now, and so are the host's sysctls. In a namespace lab, nothing is kept.
func (provider) Import(ctx context.Context, r host.Reader, d *resource.Draft) error {
	if d.Snapshot.System.Lab {
		return nil
	}
	netmanager.Gather(ctx, r, d.Snapshot)
	claims := netmanager.Part.Of(d.Snapshot).Claims
	for _, n := range d.Host.NICs {
		c, claimed := claims[n.Netdev]
		switch {
		case d.Persist && claimed:
			d.Note(n.Name, fmt.Sprintf("before the first apply, remove %s from %s, a file of %s", n.Netdev, c.File, c.Manager))
		case d.Persist:
		case claimed:
			n.Persist = false
			d.Note(n.Name, fmt.Sprintf("not persistent here: %s configures it, a file of %s", c.File, c.Manager))
		default:
			n.Persist = false
			d.Note(n.Name, "not persistent: no file of the host configures it, so that a reboot loses this")
		}
	}
	if d.Persist {
		return nil
	}
	for _, x := range d.Host.RXE {
		x.Persist = false
	}
	for _, key := range slices.Sorted(maps.Keys(d.Host.Sysctl)) {
		d.Leave("", fmt.Sprintf("sysctl %q = %q: what sets it at boot keeps it", key, d.Host.Sysctl[key]))
	}
	d.Host.Sysctl = nil
	return nil
}
