package calls

import (
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
	for _, s := range []string{"", "a b", "a/b", "a\n✓ b", "\x1b[8m", "\u202e", "`reboot`\x00"} {
		for _, r := range []SnapshotResult{with(s, "r", "m", "a"), with("e", s, "m", "a"), with("e", "r", s, "a"), with("e", "r", "$(x)"+s, "a"), with("e", "r", "m", "-"+s)} {
			if err := r.Check(); err == nil || strings.ContainsAny(err.Error(), "\n\x1b\u202e\x00") {
				t.Errorf("%q: %v", s, err)
			}
		}
	}
}
