package persist

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/resource"
)

// manageAgain makes managers manage the NICs again that they released, and activates our file if a manager uses another.
func manageAgain(ctx context.Context, h host.Host, want Spec) error {
	snap, err := resource.Gather(ctx, h, provider{}, want)
	if err != nil {
		return err
	}
	got, err := Observe(snap, want)
	if err != nil {
		return err
	}
	if err := handBack(ctx, h, snap, want); err != nil {
		return err
	}
	for _, t := range got.InUse {
		activate := t.link.By().Activate
		if activate == nil || t.Now == t.Want {
			continue
		}
		if err := activate(ctx, h, t.link); err != nil {
			return err
		}
	}
	return nil
}

// forget stops a unit whose file has been removed. Without the file, systemd does not run ExecStop, which would remove a
// device that may still be declared and in use. Exit status 5 means that the unit was not loaded (systemctl(1)).
func forget(ctx context.Context, h host.Host, unit string) error {
	a, err := h.Ask(ctx, nil, "systemctl", "stop", unit)
	if err == nil && a.Exit != 0 && a.Exit != 5 {
		err = fmt.Errorf("stop %s: exit %d: %s", unit, a.Exit, strings.TrimSpace(a.Stderr))
	}
	return err
}

// reloadKeeping runs reload and then restores the configuration of the dropped NICs. A manager whose file is gone removes
// everything that it configured by that file (seen with networkd 257), but whatever apply has left in place must stay.
func reloadKeeping(ctx context.Context, h host.Host, dropped []string, reload func() error) error {
	links, err := h.Links(ctx)
	if err != nil {
		return err
	}
	var atoms []resource.Atom
	for _, l := range links {
		if slices.Contains(dropped, l.Name) {
			atoms = append(atoms, resource.NewAtom(netif.KindNIC, l.Name, "state"))
		}
	}
	if atoms == nil {
		return reload()
	}
	restorer := netif.Kinds()[0].Restorer
	part, err := restorer.Save(ctx, h, atoms)
	if err != nil {
		return err
	}
	failed := errors.Join(reload(), awaitDropped(ctx, h, dropped)) // even a failed reload may have removed configuration
	differs, err := restorer.Restore(ctx, h, part)
	if err == nil && len(differs) > 0 {
		err = fmt.Errorf("the network manager removed configuration of the NIC: %s", strings.Join(differs, "; "))
	}
	return errors.Join(failed, err)
}

// awaitDropped waits until no manager uses our file for the NICs, because until then it would remove the restored
// configuration. Some managers' reload returns before it is complete (networkctl before systemd 257).
func awaitDropped(ctx context.Context, h host.Host, dropped []string) error {
	return await(ctx, h, func(snap *facts.Snapshot) string {
		for _, name := range dropped {
			c := netmanager.Part.Of(snap).Claims[name]
			if c.File == "" {
				continue
			}
			// A front names the file of a bond or VLAN after the device: it was ours if it is gone.
			if f, err := facts.FileAt(ctx, h, c.File); strings.Contains(path.Base(c.File), "fabricform-") || err == nil && f == nil {
				return c.Manager + " still configures " + name + " by " + c.File
			}
		}
		return ""
	})
}
