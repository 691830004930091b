// Package draft writes the files of a fabric from the models of running hosts and from what was found out about their cables. It is pure:
// models in, text out. Hosts that are alike become one block with for_each; so do rails.
package draft

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/cabling"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/resource"
)

// Host is a host that was read.
type Host struct {
	Name    string // a name that files can declare, different from those of the other hosts
	Address string // "": its name
	User    string // "": ssh's own
	Model   *fabric.Host
	Remarks []resource.Remark
	// Asked is the name of the host in the report.
	Asked string
}

// Input is what files are written from.
type Input struct {
	Fabric string
	Hosts  []Host // sorted by name
	Report *cabling.Report
	NCCL   []string // remarks on the settings of NCCL
	// Left is what no file can declare, and why. A link or network, such as "link a-b-rail0", is written as a comment, and its NICs declare
	// their MTUs and addresses themselves. A NIC, such as "nic a.rail0", gets no addresses. A class of traffic, such
	// as "qos lossless-2", is written as a comment, and NICs do not refer to it. A variable of NCCL, such as "env a.NCCL_DEBUG", or
	// "env .NCCL_DEBUG" if all hosts have the same settings, is left out.
	Left map[string]string
	Flat bool // no block is folded, so that each has a line of its own
	// Origin says where the hosts come from, for the first comment; "": they were read.
	Origin string
}

// Write returns the text of the file.
func Write(in Input) []byte {
	w := &writer{in: in, printer: &printer{group: map[string]string{}, family: map[string]family{}}, number: map[fabric.NICRef]int{},
		byLink: map[fabric.NICRef]bool{}, mtu: map[fabric.NICRef]bool{}, comments: map[fabric.NICRef][]string{}}
	w.in.Hosts = slices.Clone(in.Hosts)
	for i := range w.in.Hosts {
		w.leaveAddresses(&w.in.Hosts[i])
	}
	w.folder = &folder{printer: w.printer, flat: in.Flat}
	links := w.links()
	networks := w.networks()
	hosts := w.folder.hosts(w.hosts())
	links = w.folder.fold(links, "link", false, nil)
	networks = w.folder.fold(networks, "network", false, nil)
	return w.text(hosts, slices.Concat(links, networks))
}

type writer struct {
	in      Input
	folder  *folder
	printer *printer
	classes []*block               // the qos blocks
	number  map[fabric.NICRef]int  // host numbers that networks give
	byLink  map[fabric.NICRef]bool // a link gives the addresses
	mtu     map[fabric.NICRef]bool // a link or network gives the MTU
	// comments are further comments of NICs.
	comments map[fabric.NICRef][]string
	left     []string // of what could not be written
}

// leaveAddresses copies the model of a host, without the addresses that no file can declare.
func (w *writer) leaveAddresses(h *Host) {
	model := *h.Model
	model.NICs = slices.Clone(model.NICs)
	for i, n := range model.NICs {
		at := fabric.NICRef{Host: h.Name, NIC: n.Name}
		own := *n
		model.NICs[i] = &own
		if why := w.in.Left["nic "+at.String()]; why != "" {
			own.Addresses, own.AddressesSet = nil, false
			w.comments[at] = append(w.comments[at], fmt.Sprintf("addresses are left out (%s): %s", strings.Trim(fmt.Sprint(n.Addresses), "[]"), why))
		}
	}
	h.Model = &model
}

func (w *writer) nic(r fabric.NICRef) *fabric.NIC {
	for _, n := range w.nics(r.Host) {
		if n.Name == r.NIC {
			return n
		}
	}
	return nil
}

func (w *writer) nics(host string) []*fabric.NIC {
	for _, h := range w.in.Hosts {
		if h.Name == host {
			return h.Model.NICs
		}
	}
	return nil
}

// end returns the NIC at the end of a cable; false if it was not imported.
func (w *writer) end(e cabling.End) (fabric.NICRef, bool) {
	for _, h := range w.in.Hosts {
		if h.Asked != e.Host {
			continue
		}
		for _, n := range h.Model.NICs {
			if slices.Contains(e.Netdevs, n.Netdev) {
				return fabric.NICRef{Host: h.Name, NIC: n.Name}, true
			}
		}
	}
	return fabric.NICRef{}, false
}

// links drafts a link for each direct cable, for each pair of bonds whose members are cabled one to one, and for the VLANs on both. Its name is
// that of both hosts and of the first end's NIC.
func (w *writer) links() (out []*block) {
	if w.in.Report == nil {
		return nil
	}
	names := map[string]bool{}
	cables := map[[2]fabric.NICRef][][2]fabric.NICRef{} // of bonds
	for _, c := range w.in.Report.Cables {
		a, okA := w.end(c[0])
		b, okB := w.end(c[1])
		switch ends := [2]fabric.NICRef{w.outer(a), w.outer(b)}; {
		case !okA || !okB:
			w.left = append(w.left, fmt.Sprintf("direct cable %s – %s: a NIC is not imported", c[0], c[1]))
		case len(c[0].Netdevs) > 1:
			w.left = append(w.left, fmt.Sprintf("direct cable %s – %s: each end is several functions of one port; write a link for each pair, with one port_group", c[0], c[1]))
		case ends == [2]fabric.NICRef{a, b}:
			out = append(out, w.link(names, a, b)...)
		default:
			cables[ends] = append(cables[ends], [2]fabric.NICRef{a, b})
		}
	}
	for _, ends := range slices.SortedFunc(maps.Keys(cables), func(x, y [2]fabric.NICRef) int {
		return cmp.Or(cmp.Compare(x[0].String(), y[0].String()), cmp.Compare(x[1].String(), y[1].String()))
	}) {
		a, b := w.nic(ends[0]), w.nic(ends[1])
		if n := len(cables[ends]); a.Bond == nil || b.Bond == nil || len(a.Bond.NICs) != n || len(b.Bond.NICs) != n {
			for _, c := range cables[ends] {
				w.left = append(w.left, fmt.Sprintf("direct cable %s – %s: members of a bond are cabled to more than one other bond, or to no bond", c[0], c[1]))
			}
			continue
		}
		w.pair(a, b, cables[ends])
		out = append(out, w.link(names, ends[0], ends[1])...)
	}
	return out
}

// pair orders the members of the second bond as the cables lead from the first one.
func (w *writer) pair(a, b *fabric.NIC, cables [][2]fabric.NICRef) {
	ordered := *b.Bond
	ordered.NICs = nil
	for _, m := range a.Bond.NICs {
		for _, c := range cables {
			if c[0].NIC == m.NIC {
				ordered.NICs = append(ordered.NICs, fabric.NICRef{NIC: c[1].NIC})
			}
		}
	}
	b.Bond = &ordered
}

// link drafts the link of two ends, and those of VLANs on both that have one ID.
func (w *writer) link(names map[string]bool, a, b fabric.NICRef) (out []*block) {
	x := w.shared("link", unique(names, a.Host+"-"+b.Host+"-"+a.NIC))
	subnets, swapped := pairSubnets(w.nic(a), w.nic(b))
	first, second := a, b
	if swapped {
		first, second = b, a
	}
	x.set("endpoints", refs{w.ref(first), w.ref(second)})
	if x.left == "" && len(subnets) > 0 {
		x.set("subnet", subnetText(subnets))
		w.byLink[a], w.byLink[b] = true, true
	}
	w.sharedMTU(x, first, second)
	out = append(out, x)
	for _, v := range w.vlansOn(a) {
		for _, u := range w.vlansOn(b) {
			if w.nic(v).VLAN.ID == w.nic(u).VLAN.ID {
				out = append(out, w.link(names, v, u)...)
			}
		}
	}
	return out
}

// outer is the bond that has the NIC as a member, or else the NIC itself.
func (w *writer) outer(r fabric.NICRef) fabric.NICRef {
	for _, n := range w.nics(r.Host) {
		if n.Bond != nil && slices.ContainsFunc(n.Bond.NICs, func(m fabric.NICRef) bool { return m.NIC == r.NIC }) {
			return fabric.NICRef{Host: r.Host, NIC: n.Name}
		}
	}
	return r
}

// vlansOn returns the VLANs on a NIC or bond.
func (w *writer) vlansOn(r fabric.NICRef) (out []fabric.NICRef) {
	for _, n := range w.nics(r.Host) {
		if n.VLAN != nil && n.VLAN.On.NIC == r.NIC {
			out = append(out, fabric.NICRef{Host: r.Host, NIC: n.Name})
		}
	}
	return out
}

// ref refers to a NIC from outside of its host.
func (w *writer) ref(r fabric.NICRef) ref { return ref{NICRef: r, kind: kindOf(w.nic(r))} }

// refHere refers to a NIC of the host itself.
func refHere(h *fabric.Host, r fabric.NICRef) ref {
	return ref{NICRef: fabric.NICRef{NIC: r.NIC}, kind: kindOf(h.NIC(r.NIC))}
}

// kindOf is the kind of block of a reference; "" for a plain NIC, and for none.
func kindOf(n *fabric.NIC) string {
	if n == nil || n.Kind() == "nic" {
		return ""
	}
	return n.Kind()
}

// shared is a link or network, which gives its NICs what they share, unless it is left out.
func (w *writer) shared(kind, label string) *block {
	return &block{kind: kind, label: label, left: w.in.Left[kind+" "+label]}
}

// sharedMTU gives a link or network the MTU that all its NICs have.
func (w *writer) sharedMTU(x *block, all ...fabric.NICRef) {
	mtu := w.nic(all[0]).MTU
	for _, r := range all {
		if x.left != "" || w.nic(r).MTU != mtu || mtu == 0 {
			return
		}
	}
	x.set("mtu", literal(cty.NumberIntVal(int64(mtu))))
	for _, r := range all {
		w.mtu[r] = true
	}
}

func subnetText(subnets []netip.Prefix) text {
	if len(subnets) == 1 {
		return quoted(subnets[0].String())
	}
	return list(subnets)
}

// pairSubnets returns the subnets that give two ends exactly their addresses, one for each family; none if there are no such ones.
// swapped: the second end has the first addresses.
func pairSubnets(a, b *fabric.NIC) (out []netip.Prefix, swapped bool) {
	if len(a.Addresses) != len(b.Addresses) || len(a.Addresses) == 0 || !onePerFamily(a) {
		return nil, false
	}
	for i, p := range sorted(a.Addresses) {
		q := sorted(b.Addresses)[i]
		first, second := usable(p.Masked())
		here := p.Addr() == second
		if p.Masked() != q.Masked() || p.Bits() != q.Bits() || i > 0 && here != swapped ||
			!slices.Contains([][2]netip.Addr{{first, second}, {second, first}}, [2]netip.Addr{p.Addr(), q.Addr()}) {
			return nil, false
		}
		swapped = here
		out = append(out, p.Masked())
	}
	return out, swapped
}

func sorted(all []netip.Prefix) []netip.Prefix {
	return slices.SortedFunc(slices.Values(all), func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
}

func onePerFamily(n *fabric.NIC) bool {
	count := map[bool]int{}
	for _, p := range n.Addresses {
		count[p.Addr().Is4()]++
	}
	return count[true] <= 1 && count[false] <= 1
}

// usable returns the first two usable addresses of a subnet: both of a /31 or /127, else those behind its own.
func usable(p netip.Prefix) (first, second netip.Addr) {
	first = p.Addr()
	if p.Bits() < p.Addr().BitLen()-1 {
		first = first.Next()
	}
	return first, first.Next()
}

// networks drafts a network for each segment, under the name of its NICs.
func (w *writer) networks() (out []*block) {
	if w.in.Report == nil {
		return nil
	}
	names := map[string]bool{}
	for _, s := range w.in.Report.Segments {
		var members []fabric.NICRef
		for _, e := range s.Ends {
			if r, ok := w.end(e); ok && !slices.Contains(members, w.outer(r)) {
				members = append(members, w.outer(r))
			}
		}
		if len(members) < 2 {
			continue
		}
		out = append(out, w.network(names, members))
		byID := map[int][]fabric.NICRef{}
		for _, r := range members {
			for _, v := range w.vlansOn(r) {
				byID[w.nic(v).VLAN.ID] = append(byID[w.nic(v).VLAN.ID], v)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(byID)) {
			if subnets, _ := w.sharedSubnets(byID[id]); len(byID[id]) > 1 && subnets != nil {
				x := w.network(names, byID[id])
				x.comments = append(x.comments, fmt.Sprintf("guessed from the addresses: what is between these ports carries VLAN %d", id))
				out = append(out, x)
			}
		}
	}
	return out
}

// network drafts the network of its members.
func (w *writer) network(names map[string]bool, members []fabric.NICRef) *block {
	slices.SortFunc(members, func(a, b fabric.NICRef) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.NIC, b.NIC)) })
	name := members[0].NIC
	if slices.ContainsFunc(members, func(r fabric.NICRef) bool { return r.NIC != name }) {
		name = "segment"
	}
	x := w.shared("network", unique(names, name))
	var all refs
	for _, r := range members {
		all = append(all, w.ref(r))
	}
	x.set("members", all)
	if subnets, numbers := w.sharedSubnets(members); x.left == "" && subnets != nil {
		x.set("subnet", subnetText(subnets))
		for i, r := range members {
			w.number[r] = numbers[i]
		}
	}
	w.sharedMTU(x, members...)
	return x
}

// sharedSubnets returns the subnets, one for each family, in which each member has exactly the address of its number.
func (w *writer) sharedSubnets(members []fabric.NICRef) (subnets []netip.Prefix, numbers []int) {
	for _, r := range members {
		n := w.nic(r)
		if len(n.Addresses) == 0 || !onePerFamily(n) {
			return nil, nil
		}
		var own []netip.Prefix
		number := 0
		for i, p := range sorted(n.Addresses) {
			own = append(own, p.Masked())
			at, ok := offset(p)
			if !ok || i > 0 && at != number {
				return nil, nil
			}
			number = at
		}
		if subnets == nil {
			subnets = own
		}
		if !slices.Equal(own, subnets) {
			return nil, nil
		}
		numbers = append(numbers, number)
	}
	return subnets, numbers
}

// offset returns the number of an address in its subnet. It is from 1 to 65535.
func offset(p netip.Prefix) (int, bool) {
	base, raw := p.Masked().Addr().AsSlice(), p.Addr().AsSlice()
	n := 0
	for i := range raw {
		d := int(raw[i]) - int(base[i])
		if d != 0 && i < len(raw)-2 {
			return 0, false
		}
		n = n<<8 + d
	}
	return n, n > 0
}

func unique(taken map[string]bool, name string) string {
	out := name
	for n := 2; taken[out]; n++ {
		out = fmt.Sprintf("%s-%d", name, n)
	}
	taken[out] = true
	return out
}

// hosts drafts the host blocks.
func (w *writer) hosts() (out []*block) {
	for _, h := range w.in.Hosts {
		b := &block{kind: "host", label: h.Name}
		if h.Address != "" && h.Address != h.Name {
			b.set("address", quoted(h.Address))
		}
		if len(h.Model.Sysctl) > 0 {
			b.set("sysctl", settings(h.Model.Sysctl))
		}
		if h.Model.Memlock != "" {
			b.set("memlock", quoted(h.Model.Memlock))
		}
		if class := w.hostClass(h); class != "" {
			b.set("qos", class)
		}
		if h.User != "" && !w.oneUser() {
			s := &block{kind: "ssh"}
			s.set("user", quoted(h.User))
			b.blocks = append(b.blocks, s)
		}
		for _, n := range h.Model.NICs {
			b.blocks = append(b.blocks, w.nicBlock(h, n))
		}
		for _, m := range h.Model.Routes {
			x := &block{kind: "route", label: m.Name}
			x.set("nic", refHere(h.Model, m.NIC))
			w.route(x, m.Route)
			b.blocks = append(b.blocks, x)
		}
		for _, p := range h.Model.Policy {
			b.blocks = append(b.blocks, w.policy(h, p))
		}
		if !w.oneNCCL() && h.Model.NCCL.Env != nil {
			b.blocks = append(b.blocks, w.ncclBlock(h.Name, h.Model.NCCL))
		}
		for _, x := range h.Model.RXE {
			in := &block{kind: "rxe", label: x.Name}
			in.set("nic", refHere(h.Model, x.NIC))
			if !x.Persist {
				in.set("persist", text("false"))
			}
			b.blocks = append(b.blocks, in)
		}
		out = append(out, b)
	}
	return out
}

// oneUser reports whether all hosts have one login.
func (w *writer) oneUser() bool {
	return !slices.ContainsFunc(w.in.Hosts, func(h Host) bool { return h.User != w.in.Hosts[0].User })
}

// oneNCCL reports whether all hosts have the same settings of NCCL.
func (w *writer) oneNCCL() bool {
	return !slices.ContainsFunc(w.in.Hosts, func(h Host) bool {
		a, b := h.Model.NCCL, w.in.Hosts[0].Model.NCCL
		return (a.Env == nil) != (b.Env == nil) || !maps.Equal(a.Env, b.Env) || (a.Write == nil) != (b.Write == nil)
	})
}

// nccl is the block of the settings that all hosts have.
func (w *writer) nccl() []*block {
	if len(w.in.Hosts) == 0 || !w.oneNCCL() || w.in.Hosts[0].Model.NCCL.Env == nil {
		return nil
	}
	b := w.ncclBlock("", w.in.Hosts[0].Model.NCCL)
	b.comments = append(b.comments, w.in.NCCL...)
	return []*block{b}
}

// ncclBlock is the block of a host; "" for the one of all hosts.
func (w *writer) ncclBlock(host string, n fabric.NCCL) *block {
	b := &block{kind: "nccl"}
	vars := maps.Clone(n.Env)
	for _, name := range slices.Sorted(maps.Keys(n.Env)) {
		if why := w.in.Left["env "+host+"."+name]; why != "" {
			delete(vars, name)
			b.comments = append(b.comments, fmt.Sprintf("%s is left out: %s", name, why))
		}
	}
	if len(vars) > 0 {
		b.set("env", settings(vars))
	}
	if n.Write != nil {
		b.comments = append(b.comments, "somebody else wrote the file: write = false leaves it to them")
		b.set("write", text("false"))
	}
	return b
}

func (w *writer) nicBlock(h Host, n *fabric.NIC) *block {
	at := fabric.NICRef{Host: h.Name, NIC: n.Name}
	b := &block{kind: n.Kind(), label: n.Name, comments: w.comments[at]}
	for _, r := range h.Remarks {
		if r.NIC == n.Name && !r.Left {
			b.comments = append(b.comments, r.Text)
		}
	}
	made(b, h.Model, n)
	if n.Kind() == "nic" || n.Netdev != n.Name {
		b.set("netdev", quoted(n.Netdev))
	}
	if !n.Up {
		b.set("up", text("false"))
	}
	switch number := w.number[at]; {
	case number > 0:
		b.set("host_number", literal(cty.NumberIntVal(int64(number))))
	case n.AddressesSet && !w.byLink[at]:
		b.set("addresses", list(n.Addresses))
	}
	if n.MTU != 0 && !w.mtu[at] && w.outer(at) == at { // members have that of their bond
		b.set("mtu", literal(cty.NumberIntVal(int64(n.MTU))))
	}
	if n.AcceptRA != nil {
		b.set("accept_ra", text(fmt.Sprint(*n.AcceptRA)))
	}
	if n.IPv6LinkLocal != "" && n.IPv6LinkLocal != "keep" {
		b.set("ipv6_link_local", quoted(n.IPv6LinkLocal))
	}
	if len(n.Sysctl) > 0 {
		b.set("sysctl", settings(n.Sysctl))
	}
	if class := w.class(n.QoS); class != "" && w.hostClass(h) == "" {
		b.set("qos", class)
	}
	if !n.Persist {
		b.set("persist", text("false"))
	}
	return b
}

// made adds what makes a NIC a bond or a VLAN.
func made(b *block, h *fabric.Host, n *fabric.NIC) {
	number := func(n int) text { return literal(cty.NumberIntVal(int64(n))) }
	switch {
	case n.Bond != nil:
		var all refs
		for _, r := range n.Bond.NICs {
			all = append(all, refHere(h, r))
		}
		b.set("nics", all)
		b.set("mode", quoted(n.Bond.Mode))
		if n.Bond.LACPRate != "" {
			b.set("lacp_rate", quoted(n.Bond.LACPRate))
		}
		if n.Bond.XmitHash != "" {
			b.set("xmit_hash", quoted(n.Bond.XmitHash))
		}
		if n.Bond.MIIMon != usualMIIMon {
			b.set("miimon", number(n.Bond.MIIMon))
		}
		if n.Bond.MinLinks != nil {
			b.set("min_links", number(*n.Bond.MinLinks))
		}
	case n.VLAN != nil:
		b.set("on", refHere(h, n.VLAN.On))
		b.set("id", number(n.VLAN.ID))
		if len(n.VLAN.PriorityMap) > 0 {
			b.set("priority_map", byNumber(n.VLAN.PriorityMap))
		}
	}
}

// usualMIIMon is the miimon of a bond block that sets none.
const usualMIIMon = 100

func (w *writer) route(b *block, r fabric.Route) {
	to := quoted(r.To.String())
	if r.To.Bits() == 0 && r.Via.IsValid() {
		to = quoted("default")
	}
	b.set("to", to)
	if r.Via.IsValid() {
		b.set("via", quoted(r.Via.String()))
	}
	if r.Src.IsValid() {
		b.set("src", quoted(r.Src.String()))
	}
	if r.OnLink {
		b.set("on_link", text("true"))
	}
	if r.Metric != 0 {
		b.set("metric", literal(cty.NumberIntVal(int64(r.Metric))))
	}
}

// rulePriority is the priority of a policy_route that declares none, less its table.
const rulePriority = 10000

func (w *writer) policy(h Host, p *fabric.PolicyRoute) *block {
	b := &block{kind: "policy_route", label: p.Name}
	b.set("nic", refHere(h.Model, p.NIC))
	if p.From.IsValid() {
		b.set("from", w.from(h, p))
	}
	if p.To.IsValid() {
		b.set("to", quoted(p.To.String()))
	}
	b.set("table", literal(cty.NumberIntVal(int64(p.Table))))
	if p.Priority != rulePriority+p.Table {
		b.set("priority", literal(cty.NumberIntVal(int64(p.Priority))))
	}
	for _, r := range p.Routes {
		in := &block{kind: "route"}
		w.route(in, r)
		b.blocks = append(b.blocks, in)
	}
	return b
}

// from is the NIC's own first address as a reference to it, and any other as it is.
func (w *writer) from(h Host, p *fabric.PolicyRoute) expr {
	n := h.Model.NIC(p.NIC.NIC)
	for _, of := range []struct {
		attr string
		four bool
	}{{"ip", true}, {"ip6", false}} {
		i := -1
		if n != nil {
			i = slices.IndexFunc(n.Addresses, func(a netip.Prefix) bool { return a.Addr().Is4() == of.four })
		}
		if i >= 0 && p.From == netip.PrefixFrom(n.Addresses[i].Addr(), n.Addresses[i].Addr().BitLen()) {
			out := refHere(h.Model, p.NIC)
			out.attr = of.attr
			return out
		}
	}
	return quoted(p.From.String())
}

// text writes the file.
func (w *writer) text(hosts, rest []*block) []byte {
	p := w.printer
	fmt.Fprintf(&p.Builder, "# %s\n", cmp.Or(w.in.Origin, "Imported from running hosts. NICs are named by their order on the PCI bus."))
	fmt.Fprintf(&p.Builder, "fabric %q {}\n\n", w.in.Fabric)
	if len(w.in.Hosts) > 0 && w.in.Hosts[0].User != "" && w.oneUser() {
		fmt.Fprintf(&p.Builder, "ssh {\n  user = %s\n}\n\n", string(quoted(w.in.Hosts[0].User)))
	}
	for _, b := range slices.Concat(w.classes, w.nccl()) {
		p.block(b, "")
		fmt.Fprintln(&p.Builder)
	}
	if locals := w.folder.used(slices.Concat(hosts, rest)); len(locals) > 0 {
		fmt.Fprintln(&p.Builder, "locals {")
		for _, l := range locals {
			l.write(&p.Builder)
		}
		fmt.Fprint(&p.Builder, "}\n\n")
	}
	for i, b := range slices.Concat(hosts, rest) {
		if i > 0 {
			fmt.Fprintln(&p.Builder)
		}
		p.at = b.label
		if b.each != nil && b.kind == "host" {
			p.at = b.each.keys[0]
		}
		p.block(b, "")
	}
	w.notImported(p)
	return hclwrite.Format([]byte(p.String()))
}

// notImported lists what the files do not say, each text once with the hosts that it is about.
func (w *writer) notImported(p *printer) {
	hosts := map[string][]string{}
	for _, h := range w.in.Hosts {
		for _, r := range h.Remarks {
			if !r.Left {
				continue
			}
			text := r.Text
			if r.NIC != "" {
				text = r.NIC + ": " + text
			}
			hosts[text] = append(hosts[text], h.Name)
		}
	}
	if len(hosts)+len(w.left) == 0 {
		return
	}
	fmt.Fprint(&p.Builder, "\n# On the hosts, but not in these files:\n")
	for _, text := range slices.Sorted(maps.Keys(hosts)) {
		fmt.Fprintf(&p.Builder, "# - %s: %s\n", clean(names(hosts[text])), clean(text))
	}
	for _, text := range w.left {
		fmt.Fprintf(&p.Builder, "# - %s\n", clean(text))
	}
}

// names lists hosts, the first few by name.
func names(hosts []string) string {
	if len(hosts) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(hosts[:2], ", "), len(hosts)-2)
	}
	return strings.Join(hosts, ", ")
}
