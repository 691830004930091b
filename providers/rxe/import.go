package rxe

import (
	"context"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Import drafts the Soft-RoCE devices on the draft's NICs.
func (provider) Import(_ context.Context, _ host.Reader, d *resource.Draft) error {
	for _, dev := range d.Snapshot.RDMA {
		if dev.Driver != Kind {
			continue
		}
		l := d.Snapshot.Link(dev.Netdev)
		if l == nil || d.NIC(l.Index) == nil {
			d.Leave("", "Soft-RoCE device "+dev.Name+" is on "+dev.Netdev+", which is not imported")
			continue
		}
		d.Host.RXE = append(d.Host.RXE, &fabric.RXE{Name: dev.Name, NIC: fabric.NICRef{NIC: d.NIC(l.Index).Name}, Persist: true})
	}
	return nil
}
