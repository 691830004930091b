package calls

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// TestImpossibleNamesAreErrorsOfTheirHost: no name of a host's answer comes into a command or a file unless it may be one.
func TestImpossibleNamesAreErrorsOfTheirHost(t *testing.T) {
	with := func(device, rdma, member, address string) SnapshotResult {
		return SnapshotResult{Snapshot: &facts.Snapshot{Links: []host.Link{{Name: device}}, RDMA: []facts.RDMADevice{{Name: rdma}}},
			Records: []resource.Record{{Fabric: "f", Roster: []resource.Member{{Name: member, Address: address}}}}}
	}
	if err := with("enp1s0f0np0", "mlx5_0", "gpu-01.rack", "fe80::1%eth0").Check(); err != nil {
		t.Error(err)
	}
	of := func(netdev string) SnapshotResult {
		r := with("e", "r", "m", "a")
		r.Snapshot.RDMA[0].GIDs = []facts.GID{{Netdev: netdev}}
		return r
	}
	if err := of("eth0.7").Check(); err != nil {
		t.Error(err)
	}
	for _, s := range []string{"", "a b", "a/b", "a\n✓ b", "\x1b[8m", "\u202e", "`reboot`\x00"} {
		for _, r := range []SnapshotResult{with(s, "r", "m", "a"), of(s + " "), with("e", s, "m", "a"), with("e", "r", s, "a"), with("e", "r", "$(x)"+s, "a"), with("e", "r", "m", "-"+s)} {
			if err := r.Check(); err == nil || strings.ContainsAny(err.Error(), "\n\x1b\u202e\x00") {
				t.Errorf("%q: %v", s, err)
			}
		}
	}
}

// TestImpossibleAddressesAreErrorsOfTheirHost: netip.ParseAddr takes any text for a zone, and String gives it back.
func TestImpossibleAddressesAreErrorsOfTheirHost(t *testing.T) {
	good, bad := netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::2%x\nMatch exec \"id\"\n#")
	for name, set := range map[string]func(s *facts.Snapshot, a netip.Addr, port int, device string){
		"client": func(s *facts.Snapshot, a netip.Addr, _ int, _ string) { s.Management.Client = a },
		"server": func(s *facts.Snapshot, a netip.Addr, _ int, _ string) { s.Management.Server = a },
		"path":   func(s *facts.Snapshot, a netip.Addr, _ int, _ string) { s.Management.Route.Via = a },
		"via":    func(s *facts.Snapshot, a netip.Addr, _ int, _ string) { s.Routes = []host.Route{{Via: a}} },
		"src":    func(s *facts.Snapshot, a netip.Addr, _ int, _ string) { s.Routes = []host.Route{{}, {Src: a}} },
		"gid": func(s *facts.Snapshot, a netip.Addr, _ int, _ string) {
			s.RDMA = []facts.RDMADevice{{Name: "r", GIDs: []facts.GID{{Addr: a}}}}
		},
		"port":   func(s *facts.Snapshot, _ netip.Addr, port int, _ string) { s.Management.Port = port },
		"device": func(s *facts.Snapshot, _ netip.Addr, _ int, device string) { s.Management.Devices = []string{device} },
	} {
		check := func(a netip.Addr, port int, device string) error {
			s := &facts.Snapshot{Links: []host.Link{{Name: "lo"}}}
			set(s, a, port, device)
			return SnapshotResult{Snapshot: s}.Check()
		}
		if err := errors.Join(check(good, 22, "eth0"), check(netip.Addr{}, 0, "eth0")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, port := range []int{-1, 65536} {
			if err := check(bad, port, "a\nb"); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
