package config

import (
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// hostRest decodes everything in a host except its NICs: all that may use addresses.
func (l *loader) hostRest() {
	var top fabric.SSH
	for _, k := range l.blocks["ssh"] {
		l.ssh(k, scope{}, &top)
	}
	l.f.SSH = top
	for _, k := range l.blocks["slurm"] {
		l.f.Slurm = newSlurm()
		l.slurm(k, scope{}, l.f.Slurm)
		for _, other := range l.blocks["ssh"] {
			l.errorf(other.DefRange(), "Two ways to the hosts", "The fabric has a slurm block as well. Keep one of them, and give the other to the hosts that need it.")
		}
	}
	spec := language().block("host")
	for _, hi := range l.insts {
		h, s := hi.h, hi.s
		for _, kind := range nicKinds {
			s = s.with(kind, hi.nicsValue(kind, true))
		}
		h.SSH, h.Slurm = top, l.wayOf(hi.k)
		if !l.attributes(spec, hi.k.Body, s, value(h), func(n string) bool { return n != "address" && n != "labels" }) {
			h.Invalid = true
		}
		l.sysctlKeys(h.Sysctl, h.Block, true)
		if h.Memlock != "" && h.Memlock != "unlimited" && strings.Trim(h.Memlock, "0123456789") != "" {
			l.errorf(l.ranges[h.At("memlock")], "Unknown value", `memlock must be "unlimited" or a whole number of bytes.`)
		}
		for _, k := range hi.k.Body.Blocks {
			l.hostBlock(hi, k, s)
		}
	}
	l.machines()
	for _, m := range l.f.LoginMeshes {
		for _, name := range m.Hosts {
			if h := l.f.Host(string(name)); h != nil && h.Slurm != nil {
				l.errorf(l.ranges[m.At("hosts")], "Not over Slurm", "Host %s is reached by Slurm, which proves no host key, and logins between hosts need one. "+
					"Give this host an ssh block, or leave it out.", h.Name)
				break
			}
		}
	}
}

// machines reports hosts that are reached in the same way, and so are one machine.
func (l *loader) machines() {
	type way struct {
		address, jump string
		port          int
	}
	seen := map[way]string{}
	for _, h := range l.f.Hosts {
		w := way{strings.ToLower(h.Address), h.SSH.ProxyJump, h.SSH.Port}
		if first := seen[w]; first != "" && !h.Invalid {
			l.errorf(l.ranges[h.At("address")], "Same machine", "Hosts %s and %s have the same address, %s: both would be one machine. "+
				"Give each host its own address, or merge their blocks.", first, h.Name, h.Address)
		}
		seen[w] = h.Name
	}
}

func (l *loader) hostBlock(hi *hostInstance, k *hclsyntax.Block, s scope) {
	kind := language().block("host").block(k.Type)
	if kind == nil || slices.Contains(nicKinds, k.Type) || kind.label != "" && len(k.Labels) != 1 {
		return // decoded earlier, or reported by names
	}
	h := hi.h
	switch k.Type {
	case "ssh":
		l.ssh(k, s, &h.SSH)
		return
	case "slurm":
		l.slurm(k, s, h.Slurm)
		return
	case "nccl":
		l.nccl(k, s, &h.NCCL)
		for _, r := range h.NCCL.HCA {
			if r.Host != h.Name {
				l.errorf(l.ranges[h.NCCL.At("hca")], "Not a NIC of this host",
					"%s is a NIC of host %s, but this block belongs to host %s. Use its own NICs, such as hca = [nic.rail0].",
					r, r.Host, h.Name)
			}
		}
		return
	case "ofed":
		h.OFED = &fabric.OFED{Block: l.place(k)}
		kind.defaults(value(h.OFED))
		h.OFED.Invalid = !l.attributes(kind, k.Body, s, value(h.OFED), nil)
		if h.Slurm != nil {
			l.errorf(k.DefRange(), "Not over Slurm", "A driver stack is installed over SSH only: it may reload drivers and reboot the host, which ends the job step. "+
				"Give this host an ssh block, or remove the ofed block.")
		}
		return
	}
	insts, _ := l.expand(k, s)
	if k.Type != "rxe" {
		insts = l.labelled(k, insts)
	}
	for _, i := range insts {
		if !i.on {
			continue
		}
		switch k.Type {
		case "route":
			l.mainRoute(k, i, h, kind)
		case "policy_route":
			l.policyRoute(k, i, h, kind)
		case "rxe":
			l.rxe(k, i, h, kind)
		}
	}
}

// wayOf returns the Slurm settings with which a host's own block begins: those of the fabric, none if only the host has a block, and nil if
// the host is reached by SSH.
func (l *loader) wayOf(host *hclsyntax.Block) *fabric.Slurm {
	var ssh, slurm *hclsyntax.Block
	for _, k := range host.Body.Blocks {
		switch k.Type {
		case "ssh":
			ssh = k
		case "slurm":
			slurm = k
		}
	}
	switch {
	case ssh != nil && slurm != nil:
		l.errorf(slurm.DefRange(), "Two ways to a host", "This host has an ssh block as well. Remove one of them: a host is reached by SSH or by Slurm.")
	case ssh != nil || slurm == nil && l.f.Slurm == nil:
		return nil
	}
	if l.f.Slurm == nil {
		return newSlurm()
	}
	own := *l.f.Slurm
	return &own
}

func newSlurm() *fabric.Slurm {
	v := new(fabric.Slurm)
	language().block("slurm").defaults(value(v))
	return v
}

func (l *loader) slurm(k *hclsyntax.Block, s scope, v *fabric.Slurm) {
	l.attributes(language().block("slurm"), k.Body, s, value(v), nil)
	for name, text := range map[string]string{"partition": v.Partition, "reservation": v.Reservation, "account": v.Account, "qos": v.QOS} {
		odd := func(r rune) bool {
			return r != '-' && r != '_' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}
		if a := k.Body.Attributes[name]; a != nil && (strings.HasPrefix(text, "-") || strings.ContainsFunc(text, odd)) {
			l.errorf(a.Expr.Range(), "Value not allowed", "%s must be one name of letters, digits, '-', '_' and '.', as Slurm knows it.", name)
		}
	}
	if a := k.Body.Attributes["time_limit"]; a != nil && v.TimeLimit < time.Minute {
		l.errorf(a.Expr.Range(), "Value not allowed", `time_limit must be at least "1m": Slurm counts minutes.`)
	}
}

func (l *loader) ssh(k *hclsyntax.Block, s scope, v *fabric.SSH) {
	spec := language().block("ssh")
	if !l.attributes(spec, k.Body, s, value(v), nil) {
		return
	}
	for name, text := range map[string]string{"user": v.User, "identity_file": v.IdentityFile,
		"known_hosts": v.KnownHosts, "proxy_jump": v.ProxyJump} {
		a := k.Body.Attributes[name]
		if a == nil {
			continue
		}
		if strings.HasPrefix(text, "-") {
			l.errorf(a.Expr.Range(), "Value not allowed", "%s must not begin with '-': ssh would read it as an option.", name)
		}
		if strings.ContainsFunc(text, unicode.IsControl) || (name == "user" || name == "proxy_jump") &&
			strings.ContainsFunc(text, unicode.IsSpace) {
			l.errorf(a.Expr.Range(), "Value not allowed", "%s must not contain spaces or control characters.", name)
		}
	}
}

func (l *loader) nccl(k *hclsyntax.Block, s scope, v *fabric.NCCL) {
	v.Block = l.place(k)
	v.Invalid = !l.attributes(language().block("nccl"), k.Body, s, value(v), nil)
	if _, err := env.ParseVersion(v.Version); v.Version != "" && err != nil {
		l.errorf(l.ranges[v.At("version")], "Not an NCCL version", `version must look like "2.27.5".`)
	}
	own := path.Dir(v.File) == "/etc" && path.Clean(v.File) == v.File && strings.Contains(path.Base(v.File), "fabricform")
	if v.File != "" && v.File != fabric.NCCLConf && !own {
		l.errorf(l.ranges[v.At("file")], "Value not allowed",
			"file must be %s, or a file in /etc on the host whose name contains \"fabricform\", such as /etc/nccl-fabricform.conf; "+
				"set NCCL_CONF_FILE to it in jobs. NCCL settings are written to no other file.", fabric.NCCLConf)
	}
}

// own reports whether a NIC is an enabled NIC of the host, and adds a diagnostic if it is not.
func (l *loader) own(r fabric.NICRef, h *fabric.Host, b fabric.Block, attr string) bool {
	switch {
	case r == (fabric.NICRef{}):
		return false
	case r.Host != h.Name:
		l.errorf(l.ranges[b.At(attr)], "Not a NIC of this host",
			"%s is a NIC of host %s, but this block belongs to host %s. Use one of its own NICs, such as nic.rail0.",
			r, r.Host, h.Name)
		return false
	case l.off[r] && h.NIC(r.NIC) == nil:
		l.errorf(l.ranges[b.At(attr)], "NIC is disabled",
			"%s has enabled = false. Set enabled = false in this block as well, or use another NIC.", r)
		return false
	}
	return true
}

func (l *loader) rxe(k *hclsyntax.Block, i instance, h *fabric.Host, kind *block) {
	r := &fabric.RXE{Block: l.place(k), Name: i.name, Host: h.Name}
	kind.defaults(value(r))
	if r.Invalid = !l.attributes(kind, k.Body, i.s, value(r), nil); r.Invalid {
		return
	}
	if !shapes()["device"].re.MatchString(r.Name) {
		l.errorf(k.DefRange(), "Name not allowed", "The name of an RDMA device has only lower-case letters, digits, '_', '.' and '-'.")
	}
	if (r.NIC == fabric.NICRef{}) == (r.Netdev == "") {
		l.errorf(k.DefRange(), "rxe needs one device", "Set exactly one of nic and netdev in rxe %q.", r.Name)
	}
	if problem := netdevProblem(r.Netdev); problem != "" {
		l.errorf(l.ranges[r.At("netdev")], "Not an interface name", "netdev %q: %s", r.Netdev, problem)
	}
	l.own(r.NIC, h, r.Block, "nic")
	if slices.ContainsFunc(h.RXE, func(o *fabric.RXE) bool { return o.Name == r.Name }) {
		l.duplicate(k.DefRange(), "Duplicate rxe name", "Host %s has another rxe %q. %s", h.Name, r.Name, another("rxe", i))
	}
	h.RXE = append(h.RXE, r)
}

func (l *loader) mainRoute(k *hclsyntax.Block, i instance, h *fabric.Host, kind *block) {
	r := &fabric.MainRoute{Name: i.name, Host: h.Name}
	r.Block = l.place(k)
	r.Invalid = !l.attributes(kind, k.Body, i.s, value(r), nil)
	if slices.ContainsFunc(h.Routes, func(o *fabric.MainRoute) bool { return o.Name == r.Name }) {
		l.duplicate(k.DefRange(), "Duplicate route name", "Host %s has another route.%s. %s", h.Name, r.Name, another("route", i))
	}
	if !r.Invalid {
		switch {
		case r.NIC != fabric.NICRef{}:
			r.Invalid = !l.own(r.NIC, h, r.Block, "nic")
		case r.Via.IsValid():
			r.NIC = reaches(h, r.Via)
			if r.Invalid = r.NIC == (fabric.NICRef{}); r.Invalid && !h.Invalid && !l.unnamed["nic"] {
				l.errorf(l.ranges[r.At("via")], "Unreachable gateway",
					"via %s is in no declared subnet of host %s. Correct via, or set nic and on_link = true.", r.Via, h.Name)
			}
		default:
			l.errorf(k.DefRange(), "Route without a next hop",
				"Set via (the gateway) in route.%s, or nic if the destination is on the link.", r.Name)
			r.Invalid = true
		}
		l.destination(&r.Route, h.NIC(r.NIC.NIC))
	}
	h.Routes = append(h.Routes, r)
}

// reaches returns the NIC whose declared subnet contains the address; zero if there is none.
func reaches(h *fabric.Host, a netip.Addr) fabric.NICRef {
	for _, n := range h.NICs {
		for _, p := range n.Addresses {
			if p.Masked().Contains(a) {
				return n.Ref()
			}
		}
	}
	return fabric.NICRef{}
}

// destination replaces `to = "default"` with 0.0.0.0/0 or ::/0, by the family of the rest of the route.
func (l *loader) destination(r *fabric.Route, nic *fabric.NIC) {
	if r.To.IsValid() || r.Invalid {
		return
	}
	is6 := r.Via.Is6() || r.Src.Is6()
	if !r.Via.IsValid() && !r.Src.IsValid() && nic != nil && len(nic.Addresses) > 0 {
		is6 = nic.Addresses[0].Addr().Is6()
	}
	r.To = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if is6 {
		r.To = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
}

func (l *loader) policyRoute(k *hclsyntax.Block, i instance, h *fabric.Host, kind *block) {
	p := &fabric.PolicyRoute{Block: l.place(k), Name: i.name, Host: h.Name}
	p.Invalid = !l.attributes(kind, k.Body, i.s, value(p), nil)
	if slices.ContainsFunc(h.Policy, func(o *fabric.PolicyRoute) bool { return o.Name == p.Name }) {
		l.duplicate(k.DefRange(), "Duplicate policy_route name", "Host %s has another policy_route.%s. %s", h.Name, p.Name,
			another("policy_route", i))
	}
	if p.Table >= 253 && p.Table <= 255 {
		l.errorf(l.ranges[p.At("table")], "Reserved table", "Tables 253 to 255 (default, main, local) exist on every host, "+
			"and this is %d. Use another number, such as 100, or a route block for the main table.", p.Table)
	}
	if p.Priority == 0 {
		p.Priority = 10000 + p.Table
	}
	if !p.Invalid && !l.own(p.NIC, h, p.Block, "nic") || p.Table >= 253 && p.Table <= 255 {
		p.Invalid = true
	}
	for _, rb := range sub(k.Body, "route") {
		r := fabric.Route{Block: l.place(rb)}
		r.Invalid = !l.attributes(kind.block("route"), rb.Body, i.s, value(&r), nil)
		l.destination(&r, h.NIC(p.NIC.NIC))
		p.Routes = append(p.Routes, r)
	}
	if len(p.Routes) == 0 && !p.Invalid {
		l.errorf(k.DefRange(), "Missing route",
			"policy_route.%s has no route: its table would be empty and its rule would have no effect. Add a route block.", p.Name)
	}
	h.Policy = append(h.Policy, p)
}
