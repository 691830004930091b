// Package qos gives NICs their class of traffic: DSCP, priority, PFC, trust, shares, buffers, pause frames, ECN, and the defaults of
// rdma_cm. The kernel is asked by dcbnl (DCB over netlink), by ethtool's netlink, and by files below /sys.
package qos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/dcb"
	"github.com/fabricform/fabricform/resource"
)

// Kind is this package's resource kind: one resource for each NIC that has a class.
const Kind = "qos"

// Spec is the class of one NIC. What is not set is left alone.
type Spec struct {
	On       facts.Selector `json:"on"`
	Class    string         `json:"class"` // the name of the block
	DSCP     *int           `json:"dscp,omitempty"`
	Priority *int           `json:"priority,omitempty"`
	PFC      *bool          `json:"pfc,omitempty"`
	ECN      *bool          `json:"ecn,omitempty"`
	Trust    string         `json:"trust,omitempty"`
	CNPDSCP  *int           `json:"cnp_dscp,omitempty"`
	ETS      map[int]int    `json:"ets,omitempty"`    // percent by priority
	Buffer   map[int]int    `json:"buffer,omitempty"` // bytes by priority
	Pause    *bool          `json:"pause,omitempty"`
	RDMACM   *bool          `json:"rdma_cm,omitempty"`
	TOS      int            `json:"tos,omitempty"`  // the traffic class byte, for rdma_cm
	Soft     bool           `json:"soft,omitempty"` // a Soft-RoCE device on the NIC is declared, which may be made first
}

// Status is what was found on the NIC.
type Status struct {
	state
	Netdev string
	Remark []string // what the NIC cannot do
	want   map[string]string
}

// Notes returns what the NIC cannot do.
func (provider) Notes(got *Status) []string { return got.Remark }

// Kinds returns the kinds of this package.
func Kinds() resource.Kinds { return resource.Kinds{resource.Erase[Spec, Status](Kind, provider{})} }

// Desired returns the classes of the host's NICs.
func Desired(_ *fabric.Fabric, h *fabric.Host) (out []resource.Resource) {
	for _, n := range h.NICs {
		q := n.QoS
		if q == nil || n.Bond != nil || n.VLAN != nil { // a class belongs to ports, which have that of the bond or VLAN above
			continue
		}
		s := specOf(facts.Selector{Netdev: n.Netdev, MAC: n.Match.MAC, PCI: n.Match.PCI, RDMA: n.Match.RDMA}, q)
		// The NIC comes first: its link is left out if the other end is missing, and a class at one end only loses packets.
		after := []resource.Addr{{Host: h.Name, Kind: "nic", Name: n.Name}}
		for _, x := range h.RXE {
			if on := h.NIC(x.NIC.NIC); on != nil && slices.Contains(h.Ports(on), n) {
				s.Soft, after = true, append(after, resource.Addr{Host: h.Name, Kind: "rxe", Name: x.Name})
			}
		}
		if b := h.BondOf(n); b != nil {
			after = append(after, resource.Addr{Host: h.Name, Kind: "bond", Name: b.Name})
			if h.Members(b)[0] != n {
				s.RDMACM = nil // the members have one RDMA device, and with it one default
			}
		}
		out = append(out, resource.New(h.Name, Kind, n.Name, q.Pos, s, after...))
	}
	return out
}

// specOf is the spec of a class on one NIC.
func specOf(on facts.Selector, q *fabric.QoS) Spec {
	tos, _ := q.TrafficClass()
	return Spec{On: on, Class: q.Name, DSCP: q.DSCP, Priority: q.Priority, PFC: q.PFC, ECN: q.ECN, Trust: q.Trust, CNPDSCP: q.CNPDSCP, ETS: q.ETS, Buffer: q.Buffer,
		Pause: q.Pause, RDMACM: q.RDMACM, TOS: tos}
}

type provider struct{}

// part holds what was found, by interface.
const part = facts.Part[map[string]state](Kind)

// Part is the snapshot's part with the settings of NICs.
func (provider) Part() facts.AnyPart { return part }

// Gather reads the NICs of the wanted classes and of the atoms.
func (provider) Gather(ctx context.Context, r host.Reader, look resource.Look[Spec]) error {
	found := map[string]state{}
	add := func(l *host.Link) (err error) {
		if _, done := found[l.Name]; !done {
			found[l.Name], err = read(ctx, r, look.Snapshot, *l)
		}
		return err
	}
	for _, want := range look.Wants {
		if l, err := look.Snapshot.Find(want.On); err == nil { // Observe reports the error
			if err := add(l); err != nil {
				return err
			}
		}
	}
	for _, a := range look.Atoms {
		if l := look.Snapshot.Link(a.Thing()); l != nil {
			if err := add(l); err != nil {
				return err
			}
		}
	}
	part.Put(look.Snapshot, found)
	return nil
}

// Observe returns an error if the NIC cannot have the class.
func (p provider) Observe(snap *facts.Snapshot, want Spec) (*Status, error) {
	l, err := snap.Find(want.On)
	if err != nil {
		return nil, err
	}
	s := &Status{state: part.Of(snap)[l.Name], Netdev: l.Name}
	if l.OnParent() {
		return nil, fmt.Errorf("%s is a %s, and a class of traffic belongs to the port: set qos on the NIC below it", l.Name, l.Kind)
	}
	if s.want, s.Remark, err = s.wanted(want); err != nil {
		return nil, fmt.Errorf("%s (driver %s): %w", l.Name, orUnknown(l.Driver), err)
	}
	if s.Managed && slices.ContainsFunc(p.Diff(want, s), func(c resource.Change) bool { return isDCB(c.Attribute) }) {
		return nil, fmt.Errorf("the firmware of %s (driver %s) speaks DCBX with the switch and decides its class of traffic: let it, and set the class "+
			"on the switch; or end it with `%s`, and plan again", l.Name, orUnknown(l.Driver), endsLLDP(l.Driver, l.Name))
	}
	return s, nil
}

func orUnknown(driver string) string {
	if driver == "" {
		return "unknown"
	}
	return driver
}

// endsLLDP is the command that ends DCBX in the firmware: private flags of ice and i40e (their pages in Documentation/networking of the
// kernel), and for others dcb-dcbx(8).
func endsLLDP(driver, netdev string) string {
	netdev = fabric.Quote(netdev) // the host names it
	switch driver {
	case ice:
		return "ethtool --set-priv-flags " + netdev + " fw-lldp-agent off"
	case "i40e":
		return "ethtool --set-priv-flags " + netdev + " disable-fw-lldp on"
	}
	return "dcb dcbx set dev " + netdev + " host ieee"
}

// isDCB reports whether dcbnl sets the attribute.
func isDCB(attribute string) bool {
	name, _ := cut(attribute)
	return slices.Contains([]string{attrFlow, attrETS, attrBuffer, attrTrust, attrDSCP}, name)
}

// atom names an attribute of a NIC, such as "qos eth1 dscp 40".
func atom(netdev, attribute string) resource.Atom {
	return resource.NewAtom(Kind, append([]string{netdev}, strings.Fields(attribute)...)...)
}

// flaps reports whether a change of the attribute takes the port down: mlx5 toggles it when PFC changes, others negotiate pause frames anew,
// and ice closes and opens the interface for each change by dcbnl (ice_dcbnl_devreset in ice_dcb_nl.c).
func flaps(driver, attribute string) bool {
	return attribute == attrFlow || driver == ice && isDCB(attribute)
}

// change returns the change of an attribute.
func change(driver, netdev, attribute, from, to string) resource.Change {
	c := atom(netdev, attribute).Change(from, to)
	if flaps(driver, attribute) {
		c.Disruption = resource.LinkFlap
	}
	return c
}

// Diff returns the attributes that differ, in the order in which they are set.
func (provider) Diff(_ Spec, got *Status) (out []resource.Change) {
	if got == nil {
		return nil
	}
	for _, a := range slices.SortedFunc(maps.Keys(got.want), func(a, b string) int {
		if r := rank(a, got.want[a]) - rank(b, got.want[b]); r != 0 {
			return r
		}
		return strings.Compare(a, b)
	}) {
		if from, to := got.Values[a], got.want[a]; from != to {
			out = append(out, change(got.Driver, got.Netdev, a, from, to))
		}
	}
	return out
}

// Present returns the attributes that the class sets.
func (provider) Present(_ Spec, got *Status) map[resource.Atom]string {
	out := map[resource.Atom]string{}
	for a := range got.want {
		out[atom(got.Netdev, a)] = got.Values[a]
	}
	return out
}

// Touches refuses to take the port of the operator's connection down.
func (provider) Touches(snap *facts.Snapshot, _ Spec, changes []resource.Change) string {
	for _, c := range changes {
		if why := touches(snap, c); why != "" {
			return why
		}
	}
	return ""
}

func touches(snap *facts.Snapshot, c resource.Change) string {
	m := snap.Management
	switch {
	case !flaps(driverOf(snap, c.Atom.Thing()), c.Attribute):
		return ""
	case m.Unknown != "":
		return "the path of your own connection is unknown (" + m.Unknown + "), and this may interrupt it"
	case m.Client.IsValid() && slices.Contains(m.Devices, c.Atom.Thing()):
		return fmt.Sprintf("%s carries your %s (%s to %s), and a change of %s takes the port down for a moment",
			c.Atom.Thing(), m.Connection(), m.Client, m.Server, c.Attribute)
	}
	return ""
}

func driverOf(snap *facts.Snapshot, netdev string) string {
	if l := snap.Link(netdev); l != nil {
		return l.Driver
	}
	return ""
}

// Apply makes the changes in their order.
func (provider) Apply(ctx context.Context, h host.Host, _ Spec, changes []resource.Change) error {
	snap, err := facts.Gather(ctx, h, facts.Connection{None: true})
	if err != nil {
		return err
	}
	for _, c := range changes {
		p, err := portOf(h, snap, c.Atom.Thing())
		if err == nil && c.Attribute == attrRDMACM && c.From == "" {
			err = p.hidden(ctx, c.To)
		}
		if err == nil {
			err = p.set(ctx, c.Attribute, c.To)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// portOf finds the NIC of that name.
func portOf(h host.Host, snap *facts.Snapshot, netdev string) (port, error) {
	l := snap.Link(netdev)
	if l == nil {
		return port{}, fmt.Errorf("%s does not exist any more", netdev)
	}
	p := port{h: h, link: *l}
	if ports := RDMAOn(snap, *l); len(ports) > 0 {
		p.device, p.number = ports[0].Name, ports[0].Port
	}
	return p, nil
}

// RDMAOn returns the RDMA ports of a NIC whose connections leave by it: of a member, those of its bond, because RoCE LAG makes one device of all
// members (mlx5_bond_0), and Soft-RoCE is on the bond.
func RDMAOn(snap *facts.Snapshot, l host.Link) []*facts.RDMADevice {
	if own := snap.RDMAOn(l.Name); len(own) > 0 {
		return own
	}
	if m := snap.LinkByIndex(l.Master); m != nil && m.Kind == "bond" {
		return snap.RDMAOn(m.Name)
	}
	return nil
}

// Names reports whether the atom is an attribute of a NIC.
func (provider) Names(a resource.Atom) bool { return slices.Contains(attributesOf(), a.Value()) }

// Claims reports whether the class sets the attribute.
func (provider) Claims(snap *facts.Snapshot, want Spec, a resource.Atom) bool {
	l, err := snap.Find(want.On)
	if err != nil || l.Name != a.Thing() {
		return false
	}
	s := part.Of(snap)[l.Name]
	values, _, err := s.wanted(want)
	_, sets := values[a.Value()]
	// Without a table of trust, PCP means that no DSCP has an entry.
	name, _ := cut(a.Value())
	return err != nil || sets || name == attrDSCP && want.Trust == trustPCP && !s.Table
}

// Undo returns the change to the earlier value.
func (provider) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	c := change(driverOf(snap, a.Thing()), a.Thing(), a.Value(), part.Of(snap)[a.Thing()].Values[a.Value()], to)
	return c, touches(snap, c)
}

// Between recognizes what is left of a change of several steps: each part of the value is the earlier one or ours. A default of rdma_cm
// outlives its folder.
func (provider) Between(a resource.Atom, o resource.Owned, live string) bool {
	switch {
	case a.Value() == attrTrust:
		return trustBetween(o, live)
	case a.Value() == attrDCBX: // a driver that was loaded again may know both versions
		return hasIEEE(live)
	case strings.HasPrefix(a.Value(), attrDSCP+" "):
		return dscpBetween(o, live)
	case a.Value() == attrRDMACM && o.Earlier == "":
		o.Earlier = rdmaCMText(0, roceV2)
	case a.Value() == attrRDMACM && live == "":
		return true
	}
	now, was, ours := valueParts(live), valueParts(o.Earlier), valueParts(o.Ours)
	if len(now) != len(was) || len(now) != len(ours) {
		return false
	}
	for i, part := range now {
		if part != was[i] && part != ours[i] {
			return false
		}
	}
	return true
}

// dscpBetween is Between of the priority of a DSCP: entries are added and removed one by one, in the order that the driver needs, so that
// a DSCP may have none in between, or both.
func dscpBetween(o resource.Owned, live string) bool {
	if o.Earlier == "" { // one step
		return false
	}
	known := strings.Split(o.Earlier+","+o.Ours, ",")
	for p := range strings.SplitSeq(live, ",") {
		if live != "" && !slices.Contains(known, p) {
			return false
		}
	}
	return true
}

// trustBetween is Between of a driver that shows its trust as a map of DSCPs. A loaded mlx5 shows all 64 DSCPs while it trusts them
// (mlx5e_dcbnl_init_app in en_dcbnl.c), instead of the one that we have mapped; and all but one, once our entry is removed.
func trustBetween(o resource.Owned, live string) bool {
	now, err := parseTable(live)
	was, errWas := parseTable(o.Earlier)
	if err != nil || errWas != nil {
		return false
	}
	if o.Ours == trustDSCP {
		return len(now) == 1 || len(now) >= dcb.Codepoints-1
	}
	for dscp, list := range now {
		if !slices.Equal(was[dscp], list) {
			return false
		}
	}
	return o.Ours == trustPCP
}

// ApplyUndo sets the earlier value. A NIC that is gone has none.
func (provider) ApplyUndo(ctx context.Context, h host.Host, snap *facts.Snapshot, a resource.Atom, to string) error {
	if snap.Link(a.Thing()) == nil {
		return nil
	}
	p, err := portOf(h, snap, a.Thing())
	if err != nil {
		return err
	}
	return p.set(ctx, a.Value(), to)
}

// wanted returns the values that the class sets on the NIC, and what the NIC cannot do. An attribute that is as the class wants it,
// although it says more, keeps its value.
func (s state) wanted(want Spec) (out map[string]string, remarks []string, err error) {
	out = map[string]string{}
	if err := want.check(); err != nil {
		return out, nil, err
	}
	return out, s.files(want, out), errors.Join(s.needs(want), s.ieee(want, out), s.flowOf(want, out), s.mapOf(want, out), s.shares(want, out), s.buffers(want, out),
		s.defaults(want, out))
}

// check returns an error if no file can declare the class: the spec came over a connection.
func (want Spec) check() error {
	named := slices.Concat(slices.Collect(maps.Keys(want.ETS)), slices.Collect(maps.Keys(want.Buffer)))
	if want.Priority != nil {
		named = append(named, *want.Priority)
	}
	if slices.ContainsFunc(named, func(p int) bool { return p < 0 || p >= dcb.Priorities }) || want.PFC != nil && want.Priority == nil ||
		want.DSCP != nil && (*want.DSCP < 0 || *want.DSCP >= dcb.Codepoints) {
		return errors.New("the class has a priority or a DSCP that does not exist")
	}
	return nil
}

// needs returns an error if the class needs DCB, and the NIC has none.
func (s state) needs(want Spec) error {
	if s.DCB || !want.dcb() {
		return nil
	}
	return errors.New("the driver has no DCB, so that it cannot sort packets into priorities. Virtual functions have the class of their physical " +
		"function, and virtual NICs have none: remove qos from this NIC")
}

// dcb reports whether dcbnl sets an attribute of the class.
func (want Spec) dcb() bool {
	return want.DSCP != nil || want.PFC != nil || want.Trust != "" || want.ETS != nil || want.Buffer != nil
}

// ieee adds the version of DCBX where the host has DCBX and another program, such as lldpad, has chosen CEE: ice and bnxt_en refuse every
// change then (ice_dcbnl_setets in ice_dcb_nl.c, bnxt_dcbnl_ieee_setets in bnxt_dcb.c). They know only one version at a time.
func (s state) ieee(want Spec, out map[string]string) error {
	now := s.Values[attrDCBX]
	if now == "" || !want.dcb() {
		return nil
	}
	if out[attrDCBX] = now; hasIEEE(now) {
		return nil
	}
	mode, err := parseDCBX(now)
	out[attrDCBX] = dcbxText(mode&^dcb.DCBXCEE | dcb.DCBXIEEE)
	return err
}

// flowOf adds PFC and pause frames.
func (s state) flowOf(want Spec, out map[string]string) error {
	if want.PFC == nil && want.Pause == nil || want.PFC != nil && !s.DCB {
		return nil
	}
	now := parseFlow(s.Values[attrFlow])
	to := now
	switch mask, err := parseMask(now.pfc); {
	case want.PFC == nil:
	case now.pfc == "" || err != nil:
		return errors.New("the driver has no PFC: remove pfc from the qos block")
	case *want.PFC && s.Driver == bnxt && want.ETS == nil && s.unshared():
		other := 0
		if *want.Priority == 0 {
			other = 1
		}
		return fmt.Errorf("the driver accepts PFC only once priorities share the link: set ets in the qos block, such as ets = { %d = 60, %d = 40 }",
			*want.Priority, other)
	case *want.PFC:
		to.pfc = strconv.Itoa(*want.Priority)
	default:
		to.pfc = maskText(mask &^ (1 << *want.Priority))
	}
	if want.Pause != nil {
		if now.pause == "" {
			return errors.New("the driver does not tell or set pause frames: remove pause from the qos block")
		}
		if to.pause = off; *want.Pause {
			to.pause = "on"
		}
	}
	if to.pfc != none && to.pfc != "" && to.pause != off && to.pause != "" {
		if want.Pause == nil {
			return errors.New("pause frames of the whole port are on, and exclude PFC: set pause = false in the qos block")
		}
		return fmt.Errorf("PFC is on for priority %s, and excludes pause frames of the whole port: set pfc = false in the qos block", to.pfc)
	}
	out[attrFlow] = to.String()
	return nil
}

// unshared reports whether no priority has a traffic class of its own, as bnxt_en shows it before shares are set for the first time. It then
// refuses PFC (bnxt_hwrm_queue_pfc_cfg in bnxt_dcb.c); and later, PFC of one priority would make all priorities of its class lossless.
func (s state) unshared() bool {
	_, classes, ok := pair(s.Values[attrETS])
	return ok && len(slices.Compact(classes)) == 1
}

// mapOf adds the trust, and the priority of the DSCP.
func (s state) mapOf(want Spec, out map[string]string) error {
	if !s.DCB {
		return nil
	}
	if want.DSCP != nil && want.Priority != nil {
		if s.Driver == ice && *want.Priority >= s.limit() {
			return fmt.Errorf("the NIC has %d traffic classes, and its driver gives a DSCP a priority below that: choose another priority", s.limit())
		}
		out[keyed(attrDSCP, *want.DSCP)] = strconv.Itoa(*want.Priority)
	}
	if want.Trust == "" {
		return nil
	}
	now := s.Values[attrTrust]
	first, _, _ := strings.Cut(now, ",")
	switch {
	case s.Table && first == want.Trust, !s.Table && want.Trust == trustDSCP && now != trustPCP:
		out[attrTrust] = now
	case !s.Table && want.Trust == trustDSCP && want.DSCP == nil:
		return errors.New("the driver trusts the DSCP only while a DSCP has a priority: set dscp and priority in the qos block")
	default:
		out[attrTrust] = want.Trust
	}
	return nil
}

// shares adds ETS: each of the priorities gets a traffic class that no other of them has. Priorities without a share may stay in
// such a class: a class of theirs would have no share at all.
func (s state) shares(want Spec, out map[string]string) error {
	byDSCP := s.Driver == ice && want.DSCP != nil
	if !s.DCB || want.ETS == nil && !byDSCP {
		return nil
	}
	ways, classes, ok := pair(s.Values[attrETS])
	if !ok {
		return errors.New("the driver has no ETS: remove ets from the qos block")
	}
	limit := s.limit()
	if byDSCP {
		s.sortByDSCP(ways, classes)
	}
	if len(want.ETS) > limit {
		return fmt.Errorf("the NIC has %d traffic classes, and ets names %d priorities: name fewer", limit, len(want.ETS))
	}
	own(classes, slices.Sorted(maps.Keys(want.ETS)), limit, false)
	for i, way := range ways {
		if want.ETS != nil && strings.HasSuffix(way, "%") {
			ways[i] = "0%"
		}
	}
	for p, share := range want.ETS {
		ways[classes[p]] = strconv.Itoa(share) + "%"
	}
	if s.Driver == "mlx5_core" && slices.Contains(ways, "0%") && slices.Contains(ways, "100%") {
		// mlx5 then says that the others have shares, too (mlx5e_dcbnl_ieee_getets in en_dcbnl.c).
		return errors.New("mlx5 cannot tell a share of 100 from those of the other traffic classes that share the link: give another priority 1 " +
			"percent, such as ets = { 5 = 99, 0 = 1 }")
	}
	out[attrETS] = strings.Join(ways, " ") + " / " + numbers(classes, " ")
	return nil
}

// limit is how many traffic classes the NIC has.
func (s state) limit() int {
	if s.Classes == 0 || s.Classes > dcb.Priorities {
		return dcb.Priorities
	}
	return s.Classes
}

// sortByDSCP changes shares to what ice's driver makes of them when the first DSCP gets a priority: each priority is a traffic class
// until the last DSCP has none again, and the first one has the whole link (ice_dcbnl_setapp and ice_dcbnl_setets in ice_dcb_nl.c).
func (s state) sortByDSCP(ways []string, classes []int) {
	for i := range s.limit() {
		classes[i] = i
		if s.Values[attrTrust] == trustPCP {
			ways[i] = "0%"
		}
	}
	if s.Values[attrTrust] == trustPCP {
		ways[0] = "100%"
	}
}

// buffers adds receive buffers: each of the priorities gets one that no other priority has. If the NIC has no room, the largest buffer of
// the other priorities gives it.
func (s state) buffers(want Spec, out map[string]string) error {
	if want.Buffer == nil || !s.DCB {
		return nil
	}
	texts, buffers, ok := pair(s.Values[attrBuffer])
	if !ok {
		return errors.New("the driver does not set receive buffers: remove buffer from the qos block")
	}
	sizes, err := parseNumbers(strings.Join(texts, " "), " ", 1<<32)
	if err != nil {
		return err
	}
	own(buffers, slices.Sorted(maps.Keys(want.Buffer)), dcb.Priorities, true)
	gives, sum := -1, 0
	for i := range sizes {
		p := slices.Index(buffers, i)
		if size, named := want.Buffer[p]; named {
			sizes[i] = size
		} else if gives < 0 || sizes[i] > sizes[gives] {
			gives = i
		}
		sum += sizes[i]
	}
	if over := sum - s.Buffers; s.Buffers > 0 && over > 0 {
		if gives < 0 || sizes[gives] <= over {
			return fmt.Errorf("the NIC has %d bytes of receive buffers, and the buffers would have %d: make them smaller", s.Buffers, sum)
		}
		sizes[gives] -= over
	}
	out[attrBuffer] = numbers(sizes, " ") + " / " + numbers(buffers, " ")
	return nil
}

// pair splits the text of ETS or of buffers: a value for each class, and the class of each priority.
func pair(text string) (values []string, of []int, ok bool) {
	first, rest, _ := strings.Cut(text, " / ")
	values = strings.Fields(first)
	of, err := parseNumbers(rest, " ", dcb.Priorities)
	return values, of, err == nil && len(values) == dcb.Priorities && len(of) == dcb.Priorities
}

// own gives each of the named priorities a class below limit that no other of them has; alone, that no other priority has. It changes as
// little as it can: a priority stays where it is unless one before it, or alone any other, is there, and then takes an empty class if there is one.
func own(class []int, named []int, limit int, alone bool) {
	taken := map[int]bool{}
	for _, p := range named {
		shared := false
		for o := range class {
			shared = shared || alone && o != p && class[o] == class[p]
		}
		if c := class[p]; !taken[c] && c < limit && !shared {
			taken[c] = true
			continue
		}
		free := func(empty bool) int {
			for c := range limit {
				held := slices.ContainsFunc(named, func(o int) bool { return o != p && class[o] == c })
				if !held && (!empty || !slices.Contains(class, c)) {
					return c
				}
			}
			return -1
		}
		if class[p] = free(true); class[p] < 0 {
			class[p] = free(false)
		}
		taken[class[p]] = true
	}
}

// files adds what mlx5's files switch, and returns what there is no file for, and what contradicts the class.
func (s state) files(want Spec, out map[string]string) (remarks []string) {
	if tc, err := strconv.Atoi(s.Forced); err == nil && want.DSCP != nil && tc>>2 != *want.DSCP {
		remarks = append(remarks, fmt.Sprintf("the driver gives traffic class %d (DSCP %d) to all RC connections, whatever programs choose: write %d to %s",
			tc, tc>>2, *want.DSCP<<2, forcedFile(s.Device, s.Port)))
	}
	if want.ECN != nil && want.Priority != nil {
		a := keyed(attrECN, *want.Priority)
		if s.Values[a] != "" {
			out[a] = ecnText(*want.ECN, *want.ECN)
		} else {
			remarks = append(remarks, "ecn: this driver has no switch for the reaction of RDMA to ECN, so that its firmware decides it")
		}
	}
	if want.CNPDSCP != nil {
		if s.Values[attrCNP] != "" {
			out[attrCNP] = strconv.Itoa(*want.CNPDSCP)
		} else {
			remarks = append(remarks, fmt.Sprintf("cnp_dscp: this driver has no switch for the DSCP of CNPs, so that its firmware decides it, and it may "+
				"not be %d", *want.CNPDSCP))
		}
	}
	return remarks
}

// defaults adds the class of connections through rdma_cm. Without a folder of the device, they have those of the driver.
func (s state) defaults(want Spec, out map[string]string) error {
	switch now := s.Values[attrRDMACM]; {
	case want.RDMACM == nil:
	case s.Device == "" && !want.Soft:
		return errors.New("there is no RDMA device on the NIC, so that rdma_cm does not use it: remove rdma_cm from the qos block")
	case *want.RDMACM:
		out[attrRDMACM] = rdmaCMText(want.TOS, roceV2)
	case now != "":
		_, mode, err := parseRDMACM(now)
		if err != nil {
			return err
		}
		out[attrRDMACM] = rdmaCMText(0, mode)
	}
	return nil
}

// Local marks what is read from the kernel alone.
func (provider) Local() {}
