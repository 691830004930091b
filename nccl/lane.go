package nccl

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl/env"
)

// The variables of a class of traffic. NCCL hands both to the NIC as they are (ncclIbQpRtr in src/transport/net_ib/connect.cc, 2.30.7),
// and their default is 0 (ncclIbConnectImpl there).
const (
	trafficClass = "NCCL_IB_TC" // DSCP<<2 | ECN of RoCE packets
	serviceLevel = "NCCL_IB_SL" // the priority in the tag of a RoCE packet that has one
)

// Lane is the class of RDMA packets, by which NICs and switches choose their queue.
type Lane struct{ TrafficClass, ServiceLevel int }

// LaneOf returns the class of the packets that a NIC of a host sends: the receiver answers in the sender's class. It is that of the
// NIC's qos block, or of nccl.env, or, if fabricform writes no file there, that of the host's own /etc/nccl.conf.
func LaneOf(f *fabric.Fabric, h *fabric.Host, n *fabric.NIC, snap *facts.Snapshot) Lane {
	set := f.NCCLOf(h).Env
	number := func(value string) int { return max(int(env.ParseNumber(f.Secrets.Value(value)).Value), 0) }
	for _, s := range classSettings([]*fabric.NIC{n}) {
		// A NIC that NCCL does not use may have another class than nccl.env.
		if value, declared := set[s.Name]; !declared || n.QoS.Contradiction(s.Name, number(value)) != "" {
			set[s.Name] = s.Value
		}
	}
	if f.NCCLFile(h) == "" {
		for _, s := range env.ReadConf(snap.Files[fabric.NCCLConf].Text) {
			if _, declared := set[s.Name]; !declared {
				set[s.Name] = s.Value
			}
		}
	}
	return Lane{TrafficClass: number(set[trafficClass]), ServiceLevel: number(set[serviceLevel])}
}

// classSettings returns the variables that give packets the class of these NICs. They have one value for each process: the files must not
// give the NICs of one process different classes.
func classSettings(nics []*fabric.NIC) (out Env) {
	var class *fabric.QoS
	var with []string
	for _, n := range nics {
		if n.QoS != nil {
			class, with = n.QoS, append(with, n.Name)
		}
	}
	if class == nil {
		return nil
	}
	of := fmt.Sprintf("qos.%s of %s", class.Name, strings.Join(with, ", "))
	if tc, has := class.TrafficClass(); has {
		reason := fmt.Sprintf("%s: DSCP %d times 4", of, *class.DSCP)
		if ecn := tc - *class.DSCP<<2; ecn != 0 {
			reason += fmt.Sprintf(", plus %d because switches may mark the packets (ECN)", ecn)
		}
		out = append(out, Setting{trafficClass, strconv.Itoa(tc), reason})
	}
	if class.Priority != nil {
		out = append(out, Setting{serviceLevel, strconv.Itoa(*class.Priority), of + ": the priority of packets with a VLAN tag"})
	}
	return out
}
