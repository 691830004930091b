package validators

import (
	"context"
	"fmt"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/probe"
)

// NCCLClass is an item of the check nccl: the priority that a NIC gives to the traffic class of NCCL's packets.
const NCCLClass Item = "traffic_class"

// ncclClasses judges the traffic class of NCCL's packets by the map, trust and PFC of each NIC. NICs without DCB, and packets without a
// class, have no result.
func (r *run) ncclClasses(ctx context.Context, h *fabric.Host, snap *facts.Snapshot) (out []Result) {
	for _, p := range nccl.Ports(r.fabric, h, snap) {
		n := h.NIC(p.NIC)
		tc := nccl.LaneOf(r.fabric, h, n, snap).TrafficClass
		if p.HCA == "" || tc == 0 {
			continue
		}
		res := Result{Check: CheckNCCL, Item: NCCLClass, Subject: onHost(h.Name), Host: h.Name, Object: p.NIC, Verdict: Pass, Setup: &Setup{TrafficClass: &tc}}
		found, err := probe.ReadPriorities.Call(ctx, r.fleet, h.Name, snap.RDMAOn(p.Netdev)[0].Netdev)
		if err != nil {
			out = append(out, res.unmeasured(err.Error(), ""))
			continue
		}
		if found.DCB == nil {
			continue
		}
		dscp := tc >> 2
		priority, mapped := found.DCB.DSCP[dscp]
		lossy := n.QoS != nil && !n.QoS.Lossless()
		res.Found = fmt.Sprintf("DSCP %d, priority %d", dscp, priority)
		warns := func(why string) {
			res.Verdict, res.Cure = Warn, "declare the class in a qos block, or set NCCL_IB_TC to the one of the NICs and switches"
			res.Cause = fmt.Sprintf("NCCL_IB_TC = %d is DSCP %d, and %s", tc, dscp, why)
		}
		switch {
		case found.DCB.TrustsPCP:
			res.Found = ""
			warns(p.Netdev + " trusts the PCP of VLAN tags instead of the DSCP: packets without a tag have priority 0")
		case !mapped:
			res.Found = ""
			warns("the map of " + p.Netdev + " has no entry for it")
		case !lossy && !slices.Contains(found.DCB.PFC, priority):
			warns(fmt.Sprintf("%s leads it to priority %d, which has no PFC: packets are dropped under congestion", p.Netdev, priority))
		}
		out = append(out, res)
	}
	return out
}
