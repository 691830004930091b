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
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/resource"
)

// reload has each manager read its files again; none is restarted, and no link is brought down or up.
func reload(ctx context.Context, h host.Host, read map[string]bool) error {
	type command struct {
		who  string
		argv []string
	}
	commands := []command{
		{"systemd", []string{"systemctl", "daemon-reload"}},
		{"udev", []string{"udevadm", "control", "--reload"}},
		{facts.Netplan, []string{"netplan", "generate"}},
		{facts.Networkd, []string{"networkctl", "reload"}},
		{facts.NetworkManager, []string{"nmcli", "connection", "reload"}},
	}
	if read[facts.Netplan] {
		for _, behind := range []string{facts.Networkd, facts.NetworkManager} {
			read[behind] = read[behind] || facts.UnitActive(h, map[string]string{facts.Networkd: "systemd-networkd.service", facts.NetworkManager: "NetworkManager.service"}[behind])
		}
	}
	for _, c := range commands {
		if !read[c.who] {
			continue
		}
		if err := run(ctx, h, c.argv...); err != nil {
			return err
		}
	}
	return nil
}

// takeUp activates our profile on a NIC where NetworkManager is busy with another: it makes one of
// its own for any NIC without (seen with 1.52: it waits for DHCP there, and then takes all addresses
// away). It may have taken ours by itself, because of its priority.
func takeUp(ctx context.Context, h host.Host, want Spec) error {
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
	for _, t := range got.Taken {
		if t.Profile == "" || t.Now == t.Want {
			continue
		}
		if err := run(ctx, h, "nmcli", "--wait", "30", "connection", "up", "id", t.Profile, "ifname", t.Netdev); err != nil {
			return err
		}
	}
	return nil
}

func run(ctx context.Context, h host.Host, argv ...string) error {
	a, err := h.Ask(ctx, nil, argv[0], argv[1:]...)
	if err != nil {
		return err
	}
	if a.Exit != 0 {
		return fmt.Errorf("%s: exit %d: %s", strings.Join(argv, " "), a.Exit, strings.TrimSpace(a.Stderr+a.Stdout))
	}
	return nil
}

// forget stops a unit whose file is gone already, and with it what it would have done when stopped:
// its device may be declared still, and be in use. Exit 5 is that it never ran (systemctl(1)).
func forget(ctx context.Context, h host.Host, unit string) error {
	a, err := h.Ask(ctx, nil, "systemctl", "stop", unit)
	if err == nil && a.Exit != 0 && a.Exit != 5 {
		err = fmt.Errorf("stop %s: exit %d: %s", unit, a.Exit, strings.TrimSpace(a.Stderr))
	}
	return err
}

// keeping reloads managers. A manager that finds its file gone takes away all that it configured by
// it (seen with networkd 257); what of it still stands then is somebody's wish, and is put back.
func keeping(ctx context.Context, h host.Host, dropped []string, reload func() error) error {
	links, err := h.Links()
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
	keeper := netif.Kinds()[0].Keeper
	part, err := keeper.Snapshot(h, atoms)
	if err != nil {
		return err
	}
	failed := errors.Join(reload(), awaitDropped(ctx, h, dropped)) // which may have dropped them all the same
	differs, err := keeper.Restore(ctx, h, part)
	if err == nil && len(differs) > 0 {
		err = fmt.Errorf("its manager took away what stood on the NIC: %s", strings.Join(differs, "; "))
	}
	return errors.Join(failed, err)
}

// awaitDropped waits until networkd has left the NICs, or took another file: until it has, it would
// take away what is put back. Before systemd 257, a reload is answered before it is done.
func awaitDropped(ctx context.Context, h host.Host, dropped []string) error {
	return await(ctx, h, func(snap *facts.Snapshot) string {
		for _, name := range dropped {
			if c := snap.Managers.Claims[name]; strings.Contains(path.Base(c.File), "fabricform-") {
				return "it configures " + name + " by " + c.File + " still"
			}
		}
		return ""
	})
}

// drops are the NICs that networkd loses by a step.
func (s step) drops() []string {
	if s.was == nil {
		return nil
	}
	switch reloads(s.path) {
	case facts.Networkd:
		if name := named(s.was.Text, "# NIC "); !s.put {
			return name
		}
	case facts.Netplan:
		still := named(s.text, "      set-name: ")
		return slices.DeleteFunc(named(s.was.Text, "      set-name: "), func(n string) bool { return slices.Contains(still, n) })
	}
	return nil
}

// named are the names that follow a word of our own files, one a line.
func named(text, word string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if name, is := strings.CutPrefix(line, word); is {
			out = append(out, strings.Trim(strings.TrimSpace(name), `"`))
		}
	}
	return out
}
