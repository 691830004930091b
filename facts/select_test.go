package facts

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/host"
)

func TestFindByRDMADevice(t *testing.T) {
	snap := &Snapshot{Links: []host.Link{{Index: 1, Name: "ens1f0"}}, RDMA: []RDMADevice{{Name: "rocep1s0f0", Netdev: "ens1f0"}, {Name: "ibp2s0"}}}
	l, err := snap.Find(Selector{RDMA: "rocep1s0f0"})
	if err != nil || l.Name != "ens1f0" {
		t.Fatal(l, err)
	}
	for name, says := range map[string]string{"mlx5_0": "there are rocep1s0f0 on ens1f0", "ibp2s0": "has no netdev"} {
		if _, err := snap.Find(Selector{RDMA: name}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (&Snapshot{}).Find(Selector{RDMA: "x"}); err == nil || !strings.Contains(err.Error(), "no RDMA device") {
		t.Error(err)
	}
}
