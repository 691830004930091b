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

// restorer restores the Soft-RoCE devices that a transaction can affect.
type restorer struct{}

// Restorer implements resource.Restorable.
func (provider) Restorer() resource.Restorer { return restorer{} }

// kept is the netdev of a device; On is empty if there was no device.
type kept struct {
	Device string `json:"device"`
	On     string `json:"on,omitempty"`
}

// Name names the part.
func (restorer) Name() string { return Kind }

// Save reads the netdevs of the atoms' devices.
func (restorer) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	var devices []string
	for _, a := range atoms {
		if !slices.Contains(devices, a.Thing()) {
			devices = append(devices, a.Thing())
		}
	}
	return read(ctx, r, devices)
}

// read reads the netdevs of devices.
func read(ctx context.Context, r host.Reader, devices []string) (json.RawMessage, error) {
	snap, err := facts.Gather(ctx, r, facts.Connection{})
	if err != nil {
		return nil, err
	}
	out := make([]kept, 0, len(devices))
	for _, d := range devices {
		out = append(out, kept{d, provider{}.live(snap, atom(d))})
	}
	return json.Marshal(out)
}

func decode(part json.RawMessage) (all []kept, err error) {
	if err := json.Unmarshal(part, &all); err != nil {
		return nil, fmt.Errorf("decode the backup of RDMA devices: %w", err)
	}
	return all, nil
}

// Again reads the netdevs of the same devices.
func (restorer) Again(ctx context.Context, r host.Reader, part json.RawMessage) (json.RawMessage, error) {
	was, err := decode(part)
	if err != nil {
		return nil, err
	}
	var devices []string
	for _, k := range was {
		devices = append(devices, k.Device)
	}
	return read(ctx, r, devices)
}

// Items has an item for each device that exists.
func (restorer) Items(part json.RawMessage) ([]resource.Item, error) {
	all, err := decode(part)
	var out []resource.Item
	for _, k := range all {
		if k.On != "" {
			out = append(out, resource.Item{Key: k.Device, State: k.On, Shown: k.On,
				As: resource.Change{Attribute: "netdev", Atom: atom(k.Device)}})
		}
	}
	return out, err
}

// Merge copies the netdevs of the devices that the keys name.
func (restorer) Merge(part, now json.RawMessage, keys map[string]bool) (json.RawMessage, []string, error) {
	was, err := decode(part)
	if err != nil {
		return nil, nil, err
	}
	live, err := decode(now)
	if err != nil {
		return nil, nil, err
	}
	for i, k := range was {
		for _, o := range live {
			if o.Device == k.Device && keys[k.Device] {
				was[i] = o
			}
		}
	}
	out, err := json.Marshal(was)
	return out, nil, err
}

// Restore removes devices that were added, and adds those that were removed.
func (restorer) Restore(ctx context.Context, h host.Host, part json.RawMessage) (left []string, err error) {
	want, err := decode(part)
	if err != nil {
		return nil, err
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
