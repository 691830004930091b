package persist

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/resource"
)

func uncharged(s *facts.Snapshot) { found(s, func(f *netmanager.Found) { f.InCharge = nil }) }

func TestNetworkManagerKeepsOffUntilItsFileIsThere(t *testing.T) {
	nm := func(change func(*facts.Snapshot)) func() *facts.Snapshot {
		return func() *facts.Snapshot {
			s := snapshot(networkManager)
			s.Files = map[string]facts.File{}
			change(s)
			return s
		}
	}
	const first = "/etc/NetworkManager/system-connections/fabricform-lab-ens1f0.nmconnection"
	for name, c := range map[string]struct {
		snap func() *facts.Snapshot
		want string
	}{
		"it is in charge": {nm(func(*facts.Snapshot) {}), "ens1f0 ens2f0"},
		"it keeps off":    {nm(uncharged), ""},
		"our file is there": {nm(func(s *facts.Snapshot) {
			s.Files[first] = facts.File{Text: netmanager.Header("lab")}
		}), "ens2f0"},
		"a file of others is in its place": {nm(func(s *facts.Snapshot) {
			s.Files[first] = facts.File{Text: "[connection]\n"}
		}), "ens1f0 ens2f0"},
		"another manager configures": {func() *facts.Snapshot { return snapshot(networkd) }, ""},
		"nobody does":                {func() *facts.Snapshot { return snapshot() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := handsOff{}.Observe(c.snap(), rich())
			if err != nil || strings.Join(got.NICs, " ") != c.want {
				t.Errorf("%v, %v; want %q", got, err, c.want)
			}
			if n := len(handsOff{}.Diff(rich(), got)); n != len(got.NICs) {
				t.Errorf("%d changes for %v", n, got.NICs)
			}
		})
	}
	atom := resource.NewAtom(KindManager, "ens1f0", "charge")
	for want, s := range map[string]*facts.Snapshot{inCharge: nm(func(*facts.Snapshot) {})(), unmanaged: nm(uncharged)(), "": snapshot(networkd)} {
		if got := (handsOff{}).live(s, atom); got != want {
			t.Errorf("live %q, want %q", got, want)
		}
	}
	if !(handsOff{}).Claims(snapshot(networkManager), rich(), atom) || (handsOff{}).Claims(snapshot(networkManager), Spec{Fabric: "lab"}, atom) {
		t.Error("claims")
	}
}

// TestWhatNetworkManagerIsKeptOffIsSaid: it takes such a NIC up when it is told to, and not at boot.
func TestWhatNetworkManagerIsKeptOffIsSaid(t *testing.T) {
	for name, want := range map[string]string{"networkd": "", "ifupdown": "", "networkmanager": "rail0 rail1", "netplan-networkmanager": "rail0 rail1"} {
		for _, charge := range []bool{true, false} {
			snap := *managedHosts[name]
			if !charge {
				uncharged(&snap)
			}
			_, notes := wantFiles(t, &snap)
			var said []string
			for _, n := range notes {
				if nic, _, is := strings.Cut(strings.TrimPrefix(n, "nic "), ": NetworkManager does not manage "); is {
					said = append(said, nic)
				}
			}
			if got := strings.Join(said, " "); charge && got != "" || !charge && got != want {
				t.Errorf("%s, in charge %v: %q", name, charge, notes)
			}
		}
	}
}

// gone is a host whose reads end with their context, as those of a dead file server do.
type gone struct{ host.Host }

func (gone) Links(ctx context.Context) ([]host.Link, error) { return nil, ctx.Err() }

func TestTheSnapshotOfManagedNICsEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (handsOff{}).Restorer().Save(ctx, gone{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
