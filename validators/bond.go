package validators

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/probe"
)

// The items and metrics of the check.
const (
	BondMembers Item = "members"
	LACPPartner Item = "lacp_partner"
	MemberLoad  Item = "member_traffic"

	MetricMembers Metric = "members"
)

const lacpMode = "802.3ad"

// bond is a bond that paths use, and its members.
type bond struct {
	side
	began   time.Time // when the counters of before were read
	before  ports     // of the members; nil: err says why
	err     error
	members []side
}

// under returns the NIC or bond below a VLAN, and the members of a bond: their counters have the packets of what stands on them.
func under(h *fabric.Host, n *fabric.NIC) (out []fabric.NICRef) {
	if n.VLAN != nil {
		out = append(out, n.VLAN.On)
	}
	for _, p := range h.Ports(n) {
		if p != n {
			out = append(out, p.Ref())
		}
	}
	return out
}

// watchBonds reads the counters of the members of all bonds that the paths use, before anything is sent. It returns nil if the check is
// not asked for.
func (r *run) watchBonds(ctx context.Context, trials []*trial) (out []bond) {
	if len(r.options.Only) > 0 && !slices.Contains(r.options.Only, CheckBond) {
		return nil
	}
	seen := map[fabric.NICRef]bool{}
	for _, t := range trials {
		for _, s := range t.ends {
			if t.skip != "" {
				continue
			}
			for _, ref := range append([]fabric.NICRef{s.ref()}, s.under...) {
				n := r.nics[ref]
				if n == nil || n.Bond == nil || seen[ref] {
					continue
				}
				seen[ref] = true
				out = append(out, r.bond(ctx, n))
			}
		}
	}
	return out
}

// bond finds the members of a bond, and reads their counters.
func (r *run) bond(ctx context.Context, n *fabric.NIC) bond {
	at := func(n *fabric.NIC) side {
		return side{host: n.Host, nic: n.Name, spec: n, link: nccl.Netdev(r.snapshots[n.Host], n)}
	}
	b := bond{side: at(n), began: time.Now()}
	for _, m := range r.hosts[n.Host].Members(n) {
		b.members = append(b.members, at(m))
	}
	b.before, b.err = r.membersOf(ctx, b)
	return b
}

func (r *run) membersOf(ctx context.Context, b bond) (ports, error) {
	out := ports{}
	for _, m := range b.members {
		if m.link == nil {
			continue // the item of the members reports it
		}
		c, err := probe.ReadCounters.Call(ctx, r.fleet, m.host, m.link.Name)
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", m.host, err)
		}
		out[m.ref()] = c
	}
	return out, nil
}

// bonds checks the bonds that the paths use, after everything that the other checks sent.
func (r *run) bonds(ctx context.Context, trials []*trial) (out []Result) {
	for _, b := range r.bonded {
		if b.link == nil {
			continue // ends reports it
		}
		after, err := r.membersOf(ctx, b)
		if b.err != nil {
			err = b.err
		}
		out = append(out, b.working())
		if b.spec.Bond.Mode == lacpMode {
			out = append(out, b.partner(r.peerOf(b, trials)))
		}
		out = append(out, b.load(after, err))
	}
	return out
}

// peerOf returns the bond at the other end of a direct link; nil if a switch is there.
func (r *run) peerOf(b bond, trials []*trial) *bond {
	for _, t := range trials {
		if t.path.Network != nil || t.skip != "" {
			continue
		}
		for i, s := range t.ends {
			if s.ref() != b.ref() && !slices.Contains(s.under, b.ref()) {
				continue
			}
			for j, o := range r.bonded {
				if z := t.ends[1-i]; o.ref() == z.ref() || slices.Contains(z.under, o.ref()) {
					return &r.bonded[j]
				}
			}
		}
	}
	return nil
}

func (b bond) result(item Item) Result {
	res := Result{Check: CheckBond, Item: item, Subject: onHost(b.host), Host: b.host, Object: b.link.Name, Verdict: Pass}
	res.Subject.NIC = b.nic
	return res
}

// working checks that the bond uses all its members.
func (b bond) working() Result {
	res := b.result(BondMembers)
	var out []string
	for _, m := range b.members {
		if why := b.idle(m); why != "" {
			out = append(out, m.nic+" "+why)
		}
	}
	n := len(b.members)
	res.Values = []Measurement{{Name: MetricMembers, Value: float64(n - len(out)), OutOf: float64(n)}}
	if len(out) == 0 {
		return res
	}
	return res.fails(strings.Join(out, "; "), "check the cable and the port of each of them; the bond goes on with the others")
}

// idle says why the bond does not use a member; "" if it does.
func (b bond) idle(m side) string {
	l := m.link
	switch {
	case l == nil:
		return "matches no device, or several"
	case l.Master != b.link.Index:
		return "is not a member: run apply"
	case !l.Up:
		return "is down"
	case !l.Carrier:
		return "has no carrier"
	case l.Member == nil:
		return "does not report its state in the bond"
	case !l.Member.Works:
		return "does not work for the bond, although it has a carrier"
	case b.link.LACP != nil && l.Member.Aggregator != b.link.LACP.Aggregator:
		return "is in another LACP aggregate than the bond uses: its cable leads to another system, its speed differs, or nothing answers there"
	}
	return ""
}

// system is the ID of a bond's system in LACP: its MAC, unless somebody set another one (ad_actor_system in the kernel's bonding.rst).
func (b bond) system() string {
	if b.link.LACP != nil && b.link.LACP.System != "" {
		return b.link.LACP.System
	}
	return b.link.MAC
}

// partner checks who answers by LACP. At a direct link it must be the bond at the other end.
func (b bond) partner(peer *bond) Result {
	res := b.result(LACPPartner)
	switch lacp := b.link.LACP; {
	case lacp == nil:
		return res.unmeasured("host "+b.host+" does not report the state of LACP", "")
	case lacp.Partner == "":
		return res.fails("no system answers by LACP: the other end has no bond in mode 802.3ad, or its ports are not in it",
			"set up LACP at the other end, or declare mode = \"active-backup\"")
	case peer != nil && peer.link != nil && lacp.Partner != peer.system():
		res.Found, res.Wanted = lacp.Partner, peer.system()
		return res.fails(fmt.Sprintf("the partner is not %s: the cables lead to another system, or through a switch", peer.port()), "")
	default:
		res.Found = lacp.Partner
	}
	return res
}

// fewest is the least number of packets by which the load of members is judged.
const fewest = 1000

// load checks that each member carried packets of the other checks. A member that did not is only a warning: with few connections
// the hash may leave one out.
func (b bond) load(after ports, err error) Result {
	res := b.result(MemberLoad)
	if err != nil {
		res.Verdict, res.Unmeasured, res.Cause = Warn, true, err.Error()
		return res
	}
	control := lacpFrames(time.Since(b.began))
	var all uint64
	var idle []string
	for _, m := range b.members {
		was, now := b.before[m.ref()], after[m.ref()]
		sent := grown(was.TxPackets, now.TxPackets)
		all += sent
		res.Counters = append(res.Counters, Movement{Port: m.port(), Counter: "tx_packets", Rise: sent})
		if sent <= control {
			idle = append(idle, m.nic)
		}
	}
	switch mode := b.spec.Bond.Mode; {
	case mode == "active-backup":
		return res.skips(NotDeclared, "in this mode, one member carries everything")
	case all < fewest:
		return res.skips(NoTraffic, "no other check sent enough over the bond that the kernel counts: run the check tcp, too")
	case len(idle) == 0:
		return res
	}
	res.Verdict, res.Cause = Warn, fmt.Sprintf("%s sent nothing that the kernel counts: this run had few connections, and the others took them. "+
		"RDMA of hardware is not in these counters", strings.Join(idle, ", "))
	hashes := slices.Contains([]string{lacpMode, "balance-xor", "balance-tlb"}, b.spec.Bond.Mode)
	if hashes && b.link.Bond != nil && !strings.Contains(b.link.Bond.XmitHash, "3+4") {
		res.Cause = fmt.Sprintf("%s sent nothing that the kernel counts: the hash %q sends everything to one peer over one member", strings.Join(idle, ", "), b.link.Bond.XmitHash)
		res.Cure = "declare xmit_hash = \"layer3+4\""
	}
	return res
}

// astray says where the packets of a VLAN were lost, if the counters show it; "" if they do not. The sender's own counters tell how many
// packets it sent with the tag, in the time between before and after.
func astray(before, after ports, from, to side, took time.Duration) string {
	if from.spec.VLAN == nil || to.spec.VLAN == nil || len(to.under) == 0 {
		return ""
	}
	sent := grown(before[from.ref()].TxPackets, after[from.ref()].TxPackets)
	inside := grown(before[to.ref()].RxPackets, after[to.ref()].RxPackets)
	if sent == 0 || inside > 0 {
		return ""
	}
	port := to.under[0]
	arrived := grown(before[port].RxPackets, after[port].RxPackets)
	why := "a switch between does not carry this VLAN"
	if arrived >= sent { // what arrived may be LACP
		why += ", or takes the tag away"
	}
	switch {
	case arrived >= sent && to.link.VLAN != nil && from.link.VLAN != nil && to.link.VLAN.ID != from.link.VLAN.ID:
		return fmt.Sprintf("%s sends in VLAN %d, and %s is VLAN %d", from.port(), from.link.VLAN.ID, to.port(), to.link.VLAN.ID)
	case arrived >= sent+uint64(to.lacp)*lacpFrames(took):
		return fmt.Sprintf("packets reach %s, but not in VLAN %d: what is between takes the tag away or changes it", port, to.spec.VLAN.ID)
	case arrived > 0:
		return fmt.Sprintf("nothing of VLAN %d reaches %s, while other packets do: %s", to.spec.VLAN.ID, port, why)
	case after[port].RxPackets > 0:
		return fmt.Sprintf("nothing reaches %s now, and it has received packets before: the cable is dead in that direction, or a switch between "+
			"does not carry VLAN %d", port, to.spec.VLAN.ID)
	}
	return fmt.Sprintf("%s has never received a packet: the cable is dead in that direction", port)
}

// lacpFrames is the most frames that LACP sends over one member in that time: AD_MAX_TX_IN_SECOND in the kernel's bond_3ad.c, and markers.
func lacpFrames(in time.Duration) uint64 { return 4 * (uint64(in/time.Second) + 2) }
