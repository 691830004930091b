package draft

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/zclconf/go-cty/cty"
)

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
		if h.Model.NetworkManager != "" {
			b.set("network_manager", quoted(h.Model.NetworkManager))
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
