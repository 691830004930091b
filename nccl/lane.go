package nccl

import (
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl/env"
)

// Lane is the class of NCCL's RDMA packets, by which NICs and switches choose their queue.
type Lane struct {
	TrafficClass int // NCCL_IB_TC: DSCP<<2 | ECN of RoCE packets
	ServiceLevel int // NCCL_IB_SL
}

// LaneOf returns the class of the packets that a host sends: the receiver answers in the sender's class. It is the
// declared one, or, if fabricform writes no file there, that of the host's own /etc/nccl.conf. NCCL's default
// for both numbers is 0 (ncclIbConnect in src/transport/net_ib/connect.cc, 2.30.7).
func LaneOf(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) Lane {
	set := f.NCCLOf(h).Env
	if f.NCCLFile(h) == "" {
		for _, s := range env.ReadConf(snap.Files[fabric.NCCLConf].Text) {
			if _, declared := set[s.Name]; !declared {
				set[s.Name] = s.Value
			}
		}
	}
	number := func(name string) int {
		return max(int(env.ParseNumber(f.Secrets.Value(set[name])).Value), 0)
	}
	return Lane{TrafficClass: number("NCCL_IB_TC"), ServiceLevel: number("NCCL_IB_SL")}
}
