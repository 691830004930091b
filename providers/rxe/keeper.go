package rxe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// keeper restores the Soft-RoCE devices that a transaction can affect.
type keeper struct{}

// Keeper implements resource.Kept.
func (provider) Keeper() resource.Keeper { return keeper{} }

// kept is the netdev of a device; On is empty if there was no device.
type kept struct {
	Device string `json:"device"`
	On     string `json:"on,omitempty"`
}

// Room names the part.
func (keeper) Room() string { return Kind }

// Save reads the netdevs of the atoms' devices.
func (keeper) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	snap, err := facts.Gather(ctx, r, facts.Connection{})
	if err != nil {
		return nil, err
	}
	var out []kept
	for _, a := range atoms {
		k := kept{a.Thing(), provider{}.live(snap, a)}
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return json.Marshal(out)
}

// Restore removes devices that were added, and adds those that were removed.
func (keeper) Restore(ctx context.Context, h host.Host, part json.RawMessage) (left []string, err error) {
	var want []kept
	if err := json.Unmarshal(part, &want); err != nil {
		return nil, fmt.Errorf("decode the backup of RDMA devices: %w", err)
	}
	now := func() (map[string]string, error) {
		snap, err := facts.Gather(ctx, h, facts.Connection{})
		out := map[string]string{}
		if err == nil {
			for _, k := range want {
				out[k.Device] = provider{}.live(snap, atom(k.Device))
			}
		}
		return out, err
	}
	found, err := now()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, k := range want {
		if found[k.Device] != "" && found[k.Device] != k.On {
			errs = append(errs, h.DelRDMA(k.Device))
		}
	}
	for _, k := range want {
		if k.On != "" && found[k.Device] != k.On {
			errs = append(errs, h.AddRXE(k.Device, k.On))
		}
	}
	if found, err = now(); err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	for _, k := range want {
		if found[k.Device] != k.On {
			left = append(left, fmt.Sprintf("RDMA device %s was on %q, but is on %q", k.Device, k.On, found[k.Device]))
		}
	}
	return left, errors.Join(errs...)
}
