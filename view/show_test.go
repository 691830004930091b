package view

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

func TestShowTellsHowFarGPUsAndNICsAre(t *testing.T) {
	var out bytes.Buffer
	New(&out).Show(apply.HostFacts{Name: "a", Findings: []string{"rail 0 is far"}, Facts: &facts.Snapshot{
		GPUs:      []facts.GPU{{Model: "NVIDIA H100", Slot: facts.Slot{Path: "pci0000:00/0000:00:01.0/0000:01:00.0"}}},
		RDMA:      []facts.RDMADevice{{Name: "mlx5_0", Slot: facts.Slot{Path: "pci0000:00/0000:00:02.0/0000:02:00.0"}}, {Name: "rxe0"}},
		GPUDriver: "550.90.07", NCCL: []facts.Library{{Version: "2.27.5", Path: "/usr/lib/x86_64-linux-gnu/libnccl.so.2"}},
	}})
	for _, want := range []string{"GPU0                     NVIDIA H100, 0000:01:00.0, to mlx5_0 PHB\n", "NVIDIA driver 550.90.07\n", "NCCL 2.27.5 (/usr/lib", "! rail 0 is far\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestShowNamesTheVLANOfAGID(t *testing.T) {
	var out bytes.Buffer
	New(&out).Show(apply.HostFacts{Name: "a", Facts: &facts.Snapshot{RDMA: []facts.RDMADevice{{Name: "mlx5_0", Port: 1, State: "ACTIVE", LinkLayer: "Ethernet", Netdev: "eth0",
		GIDs: []facts.GID{{Index: 3, Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Version: 2, Netdev: "eth0"}, {Index: 5, Addr: netip.MustParseAddr("::ffff:10.7.0.1"), Version: 2, Netdev: "eth0.7"}}}}}})
	for _, want := range []string{"GID 3   RoCE v2  10.0.0.1\n", "GID 5   RoCE v2  10.7.0.1  on eth0.7\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// TestShowHidesSearchesThatHaveEnded: their fabric owns nothing then. What other fabrics did last is shown also when they own nothing.
func TestShowHidesSearchesThatHaveEnded(t *testing.T) {
	holds := map[resource.Atom]resource.Owned{"nic eth0 state": {Earlier: "down", Ours: "up"}}
	for want, records := range map[string][]resource.Record{
		"":                                       {{Fabric: apply.RaisedBy}},
		"discover-ports\" owns 1 value":          {{Fabric: apply.RaisedBy, Atoms: holds}},
		"destroyed\" owns nothing here any more": {{Fabric: "destroyed"}},
	} {
		var out bytes.Buffer
		New(&out).Show(apply.HostFacts{Name: "a", Facts: &facts.Snapshot{}, Records: records})
		if strings.Contains(out.String(), "fabric \"") != (want != "") || !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
}

// TestWhatAnEndedSearchFoundOfOthersIsAWarning.
func TestWhatAnEndedSearchFoundOfOthersIsAWarning(t *testing.T) {
	var out bytes.Buffer
	New(&out).Others([]apply.Others{{Host: "b", Kept: []resource.Change{{Attribute: "address", To: "10.0.0.7/24", Atom: "nic eth2 address 10.0.0.7/24"}},
		Overwritten: []resource.Change{{Attribute: "mtu", From: "3000", To: "1500", Atom: "nic eth2 mtu"}}}})
	const want = "warning: b: nic.eth2: address 10.0.0.7/24 was added by someone else since, and is kept\n" +
		"warning: b: nic.eth2: overwritten, though fabricform had not set it: mtu 3000 → 1500\n"
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}
