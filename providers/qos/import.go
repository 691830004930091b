package qos

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/dcb"
	"github.com/fabricform/fabricform/resource"
)

// Import drafts the class of traffic of each NIC: what is set on it, if a qos block with that changes nothing. A bond or VLAN has the class
// that all its ports have.
func (provider) Import(ctx context.Context, r host.Reader, d *resource.Draft) error {
	marks := -1 // the DSCP that NCCL uses
	for line := range strings.Lines(host.Text(ctx, r, fabric.NCCLConf)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if tc, err := strconv.Atoi(value); err == nil && name == "NCCL_IB_TC" {
			marks = tc >> 2
		}
	}
	for _, n := range d.Host.NICs {
		l := d.Snapshot.Link(n.Netdev)
		if l == nil || n.Bond != nil || n.VLAN != nil {
			continue
		}
		s, err := read(ctx, r, d.Snapshot, *l)
		if err != nil {
			d.Leave(n.Name, "class of traffic: "+err.Error())
			continue
		}
		c := classOf{state: s, marks: marks}
		n.QoS = c.draft()
		for _, why := range c.left {
			d.Leave(n.Name, why)
		}
		if c.guess != "" {
			d.Note(n.Name, c.guess)
		}
	}
	for _, n := range d.Host.NICs {
		for i, p := range d.Host.Ports(n) {
			if i == 0 {
				n.QoS = p.QoS
			} else if !reflect.DeepEqual(n.QoS, p.QoS) {
				n.QoS = nil
			}
		}
	}
	return nil
}

// classOf drafts the class of one NIC.
type classOf struct {
	state
	marks int // the DSCP that NCCL uses; -1: not known
	guess string
	left  []string // what a block cannot say
}

func (c *classOf) leave(format string, args ...any) {
	c.left = append(c.left, "class of traffic: "+fmt.Sprintf(format, args...))
}

// draft returns the class; nil if nothing is set.
func (c *classOf) draft() *fabric.QoS {
	q := &fabric.QoS{}
	on := true
	f := parseFlow(c.Values[attrFlow])
	lossless, _ := parseNumbers(f.pfc, ",", dcb.Priorities)
	switch {
	case len(lossless) > 1:
		c.leave("PFC is on for priorities %s, and a qos block has one lossless priority", f.pfc)
	case len(lossless) == 1:
		q.Priority, q.PFC = &lossless[0], &on
		if c.Values[attrTrust] == trustPCP {
			q.Trust = trustPCP
		}
		if f.pause == off {
			no := false
			q.Pause = &no
		}
	}
	c.draftDSCP(q)
	c.draftECN(q)
	c.draftShares(q)
	if q.PFC == nil && q.DSCP == nil && q.ETS == nil {
		return nil
	}
	return c.unchanged(q)
}

// draftDSCP takes the DSCP of the priority. Where several have the priority, it is the one that rdma_cm or NCCL use, or else a guess.
func (c *classOf) draftDSCP(q *fabric.QoS) {
	if first, _, _ := strings.Cut(strings.ReplaceAll(c.Values[attrTrust], " ", ","), ","); first != trustDSCP {
		return
	}
	byPriority := map[int][]int{}
	entries := 0
	for a, value := range c.Values {
		name, dscp := cut(a)
		if p, err := strconv.Atoi(value); name == attrDSCP && err == nil {
			byPriority[p] = append(byPriority[p], dscp)
			entries++
		}
	}
	tos, _, err := parseRDMACM(c.Values[attrRDMACM])
	known := []int{c.marks}
	if err == nil && tos != 0 {
		known = []int{tos >> 2, c.marks}
	}
	if q.Priority == nil { // without PFC, only a DSCP that somebody uses, or the only one, tells the class
		for _, dscp := range known {
			if p, err := strconv.Atoi(c.Values[keyed(attrDSCP, dscp)]); err == nil && q.Priority == nil {
				q.Priority = &p
			}
		}
		for p := range byPriority {
			if entries == 1 {
				q.Priority = &p
			}
		}
		if q.Priority == nil {
			c.leave("the NIC trusts the DSCP, and nothing tells which one is that of RDMA")
			return
		}
	}
	of := slices.Sorted(slices.Values(byPriority[*q.Priority]))
	if len(of) == 0 {
		c.leave("no DSCP leads to its priority %d", *q.Priority)
		return
	}
	dscp := of[0]
	if usual := *q.Priority << 3; slices.Contains(of, usual) {
		dscp = usual
	}
	i := slices.IndexFunc(known, func(dscp int) bool { return slices.Contains(of, dscp) })
	if i >= 0 {
		dscp = known[i]
	} else if len(of) > 1 {
		c.guess = fmt.Sprintf("DSCP %d of the class is a guess: DSCPs %s lead to priority %d", dscp, numbers(of, ", "), *q.Priority)
	}
	q.DSCP, q.Trust = &dscp, trustDSCP
	if err == nil && tos>>2 == dscp {
		on := true
		if q.RDMACM = &on; tos&3 != 0 {
			q.ECN = &on
		}
	}
}

// draftECN takes the switches for ECN of the priority.
func (c *classOf) draftECN(q *fabric.QoS) {
	if q.Priority == nil {
		return
	}
	yes := c.Values[keyed(attrECN, *q.Priority)] == ecnText(true, true)
	if !yes && c.Values[keyed(attrECN, *q.Priority)] != ecnText(false, false) {
		return
	}
	q.ECN = &yes
	if dscp, err := strconv.Atoi(c.Values[attrCNP]); err == nil && yes {
		q.CNPDSCP = &dscp
	}
}

// draftShares takes the shares of the bandwidth, if there are several, and the receive buffer that only the priority of the class has.
func (c *classOf) draftShares(q *fabric.QoS) {
	of := func(classes []int, class int) int { // the priority that names a traffic class or a buffer; -1: none
		if q.Priority != nil && classes[*q.Priority] == class {
			return *q.Priority
		}
		return slices.Index(classes, class)
	}
	shares := map[int]int{}
	ways, classes, ok := pair(c.Values[attrETS])
	for i, way := range ways {
		if share, is := strings.CutSuffix(way, "%"); ok && is && share != "0" {
			if n, err := strconv.Atoi(share); err == nil && of(classes, i) >= 0 {
				shares[of(classes, i)] = n
			}
		}
	}
	if len(shares) > 1 {
		q.ETS = shares
	}
	sizes, buffers, ok := pair(c.Values[attrBuffer])
	if !ok || q.Priority == nil {
		return
	}
	own := buffers[*q.Priority]
	alone := !slices.ContainsFunc([]int{0, 1, 2, 3, 4, 5, 6, 7}, func(p int) bool { return p != *q.Priority && buffers[p] == own })
	if n, err := strconv.Atoi(sizes[own]); err == nil && n > 0 && alone {
		q.Buffer = map[int]int{*q.Priority: n}
	}
}

// unchanged returns the class without what would change the NIC, or what no block can say; nil if the NIC cannot have the class.
func (c *classOf) unchanged(q *fabric.QoS) *fabric.QoS {
	parts := []struct {
		attribute string
		set       func() bool
		remove    func()
	}{
		{attrBuffer, func() bool { return q.Buffer != nil }, func() { q.Buffer = nil }},
		{attrETS, func() bool { return q.ETS != nil }, func() { q.ETS = nil }},
		{attrRDMACM, func() bool { return q.RDMACM != nil }, func() { q.RDMACM = nil }},
		{attrFlow, func() bool { return q.Pause != nil }, func() { q.Pause = nil }},
	}
	for {
		want, _, err := c.wanted(specOf(facts.Selector{}, q))
		differ := differences(c.Values, want)
		if err == nil && len(differ) == 0 && declarable(q) {
			return q
		}
		worst := -1
		for i, p := range parts {
			if p.set() && (worst < 0 || slices.Contains(differ, p.attribute)) {
				worst = i
			}
		}
		if worst < 0 {
			c.leave("the NIC has a combination of settings that a qos block cannot say")
			return nil
		}
		parts[worst].remove()
		c.leave("%s %s is more than a qos block can say", parts[worst].attribute, c.Values[parts[worst].attribute])
	}
}

// differences returns the attributes that would change.
func differences(values, want map[string]string) (out []string) {
	for _, a := range slices.Sorted(maps.Keys(want)) {
		if values[a] != want[a] {
			out = append(out, a)
		}
	}
	return out
}

// declarable reports whether a file may have the class.
func declarable(q *fabric.QoS) bool {
	return !slices.ContainsFunc(fabric.Check(&fabric.Fabric{Classes: []*fabric.QoS{q}}), func(p fabric.Problem) bool { return p.Severity == fabric.Error })
}
