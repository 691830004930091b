package resource

import (
	"context"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// Importer is a kind that can say in the words of the files what a host already has. Import only reads the host, and adds to the draft
// what its kind would plan no change for.
type Importer interface {
	Import(ctx context.Context, r host.Reader, d *Draft) error
}

// Draft is the model of a host as it is found. The kinds complete it in the order of their table.
type Draft struct {
	Snapshot *facts.Snapshot
	Host     *fabric.Host
	// Persist: the files are to keep what they declare over a reboot. Otherwise, they leave that to whoever does it now.
	Persist bool
	// Cabled are devices whose cables were found although they are down and have no settings.
	Cabled  []string
	Remarks []Remark
}

// Remark is what the model does not say, for a comment.
type Remark struct {
	NIC string `json:"nic,omitempty"` // the block that it is about; "": the host
	// Left says that the remark is about something that is on the host, and not in the model.
	Left bool `json:"left,omitempty"`
	// Before says that the remark is what a person must do before the first apply.
	Before bool   `json:"before,omitempty"`
	Text   string `json:"text"`
}

// Leave remarks on something that the model does not hold.
func (d *Draft) Leave(nic, text string) {
	d.Remarks = append(d.Remarks, Remark{NIC: nic, Left: true, Text: text})
}

// Note remarks on something in the model.
func (d *Draft) Note(nic, text string) { d.Remarks = append(d.Remarks, Remark{NIC: nic, Text: text}) }

// First remarks on what a person must do before the first apply.
func (d *Draft) First(nic, text string) {
	d.Remarks = append(d.Remarks, Remark{NIC: nic, Before: true, Text: text})
}

// NIC returns the draft's NIC on the link of that index; nil if there is none.
func (d *Draft) NIC(index int) *fabric.NIC {
	l := d.Snapshot.LinkByIndex(index)
	for _, n := range d.Host.NICs {
		if l != nil && n.Netdev == l.Name {
			return n
		}
	}
	return nil
}

// Import completes the draft of a host with all kinds.
func (k Kinds) Import(ctx context.Context, r host.Reader, d *Draft) error {
	d.Host = &fabric.Host{}
	for _, kind := range k {
		if kind.Import != nil {
			if err := kind.Import(ctx, r, d); err != nil {
				return err
			}
		}
	}
	return nil
}
