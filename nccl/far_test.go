package nccl

import (
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
)

// TestTheRetryTimeoutExceedsALongRoundTrip: where NCCL's default does not, and nobody has set another one; NICs of another role stay out.
func TestTheRetryTimeoutExceedsALongRoundTrip(t *testing.T) {
	a, snap := machine("a", "eth0 10.0.0.1/30", "eth1 10.1.0.1/30")
	b, _ := machine("bb", "eth0 10.0.0.2/30", "eth1 10.1.0.2/30")
	f := &fabric.Fabric{Hosts: []*fabric.Host{a, b}, Links: []*fabric.Link{cable("ab", "", "a.rail0", "bb.rail0"), cable("wan", "", "a.rail1", "bb.rail1")}}
	f.Links[1].Role = "inference"
	rtt := 120 * time.Millisecond
	for _, c := range []struct {
		version string
		role    string
		rtt     time.Duration
		env     map[string]string
		want    string // of NCCL_IB_TIMEOUT
	}{
		{"2.12.10", "training", rtt, nil, "15"},
		{"2.12.10", "training", 60 * time.Millisecond, nil, ""}, // 14 is 67 ms
		{"2.27.5", "training", rtt, nil, ""},                    // 20 is 4.3 s
		{"2.12.10", "training", rtt, map[string]string{"NCCL_IB_TIMEOUT": "22"}, "22"},
		{"2.12.10", "inference", rtt, nil, ""},
	} {
		f.Links[1].Role, f.Links[1].RTT, f.NCCL.Env = c.role, &c.rtt, c.env
		snap.NCCL = []facts.Library{{Version: c.version}}
		e, _ := Derive(f, a, snap)
		if got, _ := e.Get("NCCL_IB_TIMEOUT"); got != c.want {
			t.Errorf("%+v: NCCL_IB_TIMEOUT=%s", c, got)
		}
		hca, _ := e.Get("NCCL_IB_HCA")
		if crosses := strings.Contains(hca, "mlx5_1"); crosses != (c.role == "training") {
			t.Errorf("%+v: NCCL_IB_HCA=%s", c, hca)
		}
	}
}
