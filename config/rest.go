package config

import (
	"net/netip"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

func (l *loader) links() {
	seen := map[string]bool{}
	for _, k := range l.blocks["link"] {
		l.known(k.Body, "endpoints mtu speed_gbps expect_gbps port_group role validate for_each enabled", "subnet")
		for _, i := range l.expand(k, scope{}) {
			if seen[i.name] {
				l.errorf(k.DefRange(), "Link name stands twice", "Another link is named %q. Rename one.", i.name)
			}
			seen[i.name] = true
			if i.on {
				l.link(k, i)
			}
		}
	}
}

func (l *loader) link(k *hclsyntax.Block, i instance) {
	b := body{l, k.Body, i.s}
	n := &fabric.Link{Name: i.name, Block: k.Labels[0], MTU: b.integer("mtu", 0, 68, 65535), PortGroup: b.str("port_group"),
		Role:     b.oneOf("role", "training", "training", "inference", "checkpoint", "storage"),
		Validate: l.f.Validate, Pos: l.pos(k.DefRange()), AttrPos: l.attrPos(k.Body)}
	if v := b.float("speed_gbps"); v != nil {
		n.SpeedGbps, n.ExpectGbps = *v, *v
	}
	if v := b.float("expect_gbps"); v != nil {
		n.ExpectGbps = *v
	}
	for _, vb := range k.Body.Blocks {
		l.validate(vb.Body, i.s, &n.Validate)
	}
	a := k.Body.Attributes["endpoints"]
	if a == nil {
		l.errorf(k.DefRange(), "Link needs endpoints", "Write endpoints = [host.a.nic.rail0, host.b.nic.rail0].")
		return
	}
	v, ok := l.eval(a.Expr, i.s)
	if !ok {
		return
	}
	refs := l.refs(v)
	if len(refs) != 2 {
		l.errorf(a.Expr.Range(), "Link needs two NICs", "endpoints takes two NICs, such as [host.a.nic.rail0, host.b.nic.rail0].")
		return
	}
	n.Endpoints = [2]fabric.NICRef{refs[0], refs[1]}
	if l.off[refs[0]] || l.off[refs[1]] {
		return // a link with a disabled end drops out
	}
	for _, r := range refs {
		if nic := l.f.NIC(r); nic != nil && n.MTU != 0 && nic.MTU == 0 {
			nic.MTU = n.MTU
		}
	}
	l.f.Links = append(l.f.Links, n)
}

// refs reads NIC objects; anything else makes the result nil.
func (l *loader) refs(v cty.Value) []fabric.NICRef {
	if v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return nil
	}
	var out []fabric.NICRef
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if e.IsNull() || !e.IsKnown() || !e.Type().IsObjectType() || !e.Type().HasAttribute("netdev") || !e.Type().HasAttribute("host") || !e.Type().HasAttribute("name") {
			return nil
		}
		h, ok1 := toString(e.GetAttr("host"))
		n, ok2 := toString(e.GetAttr("name"))
		r := fabric.NICRef{Host: h, NIC: n}
		if _, exists := l.off[r]; !ok1 || !ok2 || !exists {
			return nil
		}
		out = append(out, r)
	}
	return out
}

func defaultValidate() fabric.Validate {
	return fabric.Validate{Ping: fabric.PingCheck{Enabled: true, Count: 10}, TCP: fabric.TCPCheck{Enabled: true, Duration: 3 * time.Second, Streams: 4}}
}

func (l *loader) validate(b *hclsyntax.Body, s scope, v *fabric.Validate) {
	l.known(b, "pairs ping tcp", "verbs nccl")
	v.Pairs = body{l, b, s}.oneOf("pairs", v.Pairs, "ring", "all")
	for _, k := range b.Blocks {
		c := body{l, k.Body, s}
		switch k.Type {
		case "ping":
			l.known(k.Body, "enabled count max_loss_percent max_rtt", "")
			v.Ping.Enabled, v.Ping.Count = c.boolean("enabled", v.Ping.Enabled), c.integer("count", v.Ping.Count, 1, 100000)
			if x := c.float("max_loss_percent"); x != nil {
				v.Ping.MaxLossPercent = *x
			}
			if x := c.duration("max_rtt"); x != nil {
				v.Ping.MaxRTT = x
			}
		case "tcp":
			l.known(k.Body, "enabled duration streams min_gbps min_fraction", "")
			v.TCP.Enabled, v.TCP.Streams = c.boolean("enabled", v.TCP.Enabled), c.integer("streams", v.TCP.Streams, 1, 128)
			if x := c.duration("duration"); x != nil {
				v.TCP.Duration = *x
			}
			if x := c.float("min_gbps"); x != nil {
				v.TCP.MinGbps = x
			}
			if x := c.float("min_fraction"); x != nil {
				v.TCP.MinFraction = x
			}
		}
	}
}

func (l *loader) ssh(k *hclsyntax.Block, s scope, v *fabric.SSH) {
	l.known(k.Body, "user port identity_file known_hosts proxy_jump sudo connect_timeout", "")
	b := body{l, k.Body, s}
	for name, to := range map[string]*string{"user": &v.User, "identity_file": &v.IdentityFile, "known_hosts": &v.KnownHosts, "proxy_jump": &v.ProxyJump} {
		x := b.str(name)
		if x == "" {
			continue
		}
		if x[0] == '-' {
			l.errorf(b.rng(name), "Value not allowed", "%s must not begin with '-': ssh would take it for an option.", name)
		}
		if name == "known_hosts" || name == "identity_file" {
			x = relative(x, k.DefRange())
		}
		*to = x
	}
	v.Port = b.integer("port", v.Port, 1, 65535)
	if x := b.boolPtr("sudo"); x != nil {
		v.Sudo = x
	}
	if x := b.duration("connect_timeout"); x != nil {
		v.ConnectTimeout = *x
	}
}

func (l *loader) hostRest() {
	var top fabric.SSH
	for _, k := range l.blocks["ssh"] {
		l.ssh(k, scope{}, &top)
	}
	for _, hi := range l.insts {
		h, s := hi.h, hi.s.with("nic", hi.nicsValue(true))
		h.SSH = top
		h.Sysctl = l.sysctl(body{l, hi.k.Body, s}, true)
		for _, k := range hi.k.Body.Blocks {
			switch k.Type {
			case "ssh":
				l.ssh(k, s, &h.SSH)
			case "nccl":
				h.NCCL = l.nccl(k, s)
			case "policy_route":
				l.known(k.Body, "from to table priority nic route for_each enabled", "")
				for _, i := range l.expand(k, s) {
					if i.on {
						h.Policy = append(h.Policy, l.policy(k, i, h))
					}
				}
			}
		}
	}
}

func (l *loader) nccl(k *hclsyntax.Block, s scope) fabric.NCCL {
	l.known(k.Body, "transport hca socket_ifname gid_index env write file", "")
	b := body{l, k.Body, s}
	n := fabric.NCCL{Transport: b.oneOf("transport", "", "ib", "socket", "auto"), Env: b.strMap("env"), Write: b.boolPtr("write"), File: b.str("file"), Pos: l.pos(k.DefRange())}
	if n.Transport == "auto" {
		n.Transport = ""
	}
	if x := b.integer("gid_index", -1, 0, 255); x >= 0 {
		n.GIDIndex = &x
	}
	if a := k.Body.Attributes["hca"]; a != nil {
		if v, ok := l.eval(a.Expr, s); ok && !v.IsNull() {
			if n.HCA = l.refs(v); n.HCA == nil {
				l.errorf(a.Expr.Range(), "hca takes NICs", "Write a list such as [nic.rail0, nic.rail1].")
			}
		}
	}
	if a := k.Body.Attributes["socket_ifname"]; a != nil {
		if v, ok := l.eval(a.Expr, s); ok {
			if r := l.refs(cty.TupleVal([]cty.Value{v})); r != nil {
				n.SocketIfname = r[0].NIC
			} else if n.SocketIfname = b.str("socket_ifname"); n.SocketIfname == "auto" {
				n.SocketIfname = ""
			}
		}
	}
	return n
}

func (b body) prefix(name string) netip.Prefix {
	v, r, ok := b.value(name, cty.String)
	if !ok || v.AsString() == "all" {
		return netip.Prefix{}
	}
	if p, err := netip.ParsePrefix(v.AsString()); err == nil {
		if p != p.Masked() {
			b.l.errorf(r, "Host bits set in a network", "%s is no network: did you mean %q?", p, p.Masked())
		}
		return p
	}
	a, err := netip.ParseAddr(v.AsString())
	if err != nil {
		b.l.errorf(r, "Not an address", "%s must be an address or a network such as 10.0.0.0/24.", name)
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, a.BitLen())
}

func (b body) addr(name string) netip.Addr {
	v, r, ok := b.value(name, cty.String)
	if !ok {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(v.AsString())
	if err != nil {
		b.l.errorf(r, "Not an address", "%s must be an address such as 10.0.0.1.", name)
	}
	return a
}

func (l *loader) policy(k *hclsyntax.Block, i instance, h *fabric.Host) *fabric.PolicyRoute {
	b := body{l, k.Body, i.s}
	p := &fabric.PolicyRoute{Name: i.name, Host: h.Name, From: b.prefix("from"), To: b.prefix("to"), Table: b.integer("table", 0, 1, 1<<31-1), Pos: l.pos(k.DefRange()), AttrPos: l.attrPos(k.Body)}
	p.Priority = b.integer("priority", 10000+p.Table, 1, 1<<31-1)
	if p.Table == 0 {
		l.errorf(b.rng("table"), "Table needed", "Give policy_route a table number, such as 100.")
	}
	if a := k.Body.Attributes["nic"]; a != nil {
		if v, ok := l.eval(a.Expr, i.s); ok {
			if r := l.refs(cty.TupleVal([]cty.Value{v})); r != nil && r[0].Host == h.Name {
				p.NIC = r[0].NIC
			} else {
				l.errorf(a.Expr.Range(), "Not a NIC of this host", "Write nic = nic.rail0, with a NIC of this host.")
			}
		}
	} else {
		l.errorf(k.DefRange(), "NIC needed", "Write nic = nic.rail0, the NIC of the routes.")
	}
	for _, rb := range k.Body.Blocks {
		l.known(rb.Body, "to via src on_link metric", "")
		r := body{l, rb.Body, i.s}
		to := r.prefix("to")
		if v, _, ok := (r).value("to", cty.String); ok && v.AsString() == "default" {
			to = netip.MustParsePrefix("0.0.0.0/0")
		}
		p.Routes = append(p.Routes, fabric.Route{To: to, Via: r.addr("via"), Src: r.addr("src"), OnLink: r.boolean("on_link", false), Metric: r.integer("metric", 0, 0, 1<<31-1), Pos: l.pos(rb.DefRange())})
		if !to.IsValid() {
			l.errorf(rb.DefRange(), "Route needs a destination", "Give the route to, such as \"10.0.0.0/8\" or \"0.0.0.0/0\".")
		}
	}
	return p
}
