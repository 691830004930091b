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

// keeper brings back which Soft-RoCE devices there were, of those that a transaction can reach.
type keeper struct{}

// Keeper implements resource.Kept.
func (provider) Keeper() resource.Keeper { return keeper{} }

// kept is where a device was; On is empty where there was none.
type kept struct {
	Device string `json:"device"`
	On     string `json:"on,omitempty"`
}

// Room names the part.
func (keeper) Room() string { return Kind }

// Snapshot reads where the atoms' devices are.
func (keeper) Snapshot(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	snap, err := facts.Gather(ctx, r, "")
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

// Restore removes what was made, and makes again what was removed.
func (keeper) Restore(ctx context.Context, h host.Host, part json.RawMessage) (left []string, err error) {
	var want []kept
	if err := json.Unmarshal(part, &want); err != nil {
		return nil, fmt.Errorf("read what RDMA devices there were: %w", err)
	}
	now := func() (map[string]string, error) {
		snap, err := facts.Gather(ctx, h, "")
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
			left = append(left, fmt.Sprintf("RDMA device %s was on %q, and is on %q", k.Device, k.On, found[k.Device]))
		}
	}
	return left, errors.Join(errs...)
}
