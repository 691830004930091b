package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/fabric"
)

// hostBlock holds what is known about a host block before anything is evaluated.
type hostBlock struct {
	name      string
	keyed     bool
	nicBlocks map[string]map[string]bool // by kind: nic, bond, vlan
	failed    bool                       // its for_each could not be evaluated
}

// Property is an attribute of host, nic, qos, workload, self or each that expressions may use.
type Property struct{ Name, Doc string }

var properties = map[string][]Property{
	"host": {{"name", "Name of the host."}, {"address", "Management address or name."}, {"labels", "Labels of the host."},
		{"nic", "The host's NICs, by name."}, {"bond", "The host's bonds, by name."}, {"vlan", "The host's VLANs, by name."}},
	"nic": {{"host", "Name of the NIC's host."}, {"name", "Name of the NIC."}, {"netdev", "Interface name; null if the NIC uses `match`."},
		{"addresses", "All addresses, each with its prefix length."}, {"ip", "The first IPv4 address; null if there is none."},
		{"ip6", "The first IPv6 address; null if there is none."},
		{"mtu", "Bytes of an IP packet; null if no block sets it."}},
	"qos": {{"name", "Name of the class."}, {"dscp", "Its DSCP; null if it sets none."},
		{"priority", "Its priority; null if it sets none."},
		{"traffic_class", "Its traffic class byte, as `NCCL_IB_TC` and `--tclass` have it; null if it sets no DSCP."}},
	"workload": {{"name", "Name of the workload."}},
	"self": {{"name", "Name of this host."}, {"key", "Its for_each key."}, {"value", "Its for_each value."},
		{"address", "Its management address."}, {"labels", "Its labels."}},
	"each": {{"key", "Key of this instance."}, {"value", "Value of this instance."}},
}

// nicKinds are the kinds of blocks that are NICs, each after those that it refers to.
var nicKinds = []string{"nic", "bond", "vlan"}

// NICKinds returns the kinds of blocks that declare a NIC: nic, bond and vlan. Each has the same properties in expressions.
func NICKinds() []string { return slices.Clone(nicKinds) }

// Properties returns the attributes of host, nic, qos, workload, self or each that expressions may use.
func Properties(of string) []Property { return properties[of] }

// hostAttributes are the names of the attributes of a host that expressions may use.
var hostAttributes = propertyNames("host")

func propertyNames(of string) []string {
	var out []string
	for _, m := range properties[of] {
		out = append(out, m.Name)
	}
	return out
}

func (h *hostBlock) has(name string) bool {
	return slices.Contains(hostAttributes, name)
}

// hostInstance is one host during evaluation.
type hostInstance struct {
	h    *fabric.Host
	k    *hclsyntax.Block
	s    scope // each and self
	each bool
	nics map[string]map[string]*nicBlock // by kind: nic, bond, vlan
}

// nicBlock holds the instances of one nic, bond or vlan block on one host.
type nicBlock struct {
	keyed  bool
	failed bool
	nics   []*fabric.NIC
	keys   map[fabric.NICRef]string // of for_each
}

func (l *loader) declareHosts() {
	for _, k := range l.blocks["host"] {
		if o := l.hostBlocks[k.Labels[0]]; o != nil {
			l.unnamed["host"] = true // hosts reports the duplicate
			continue
		}
		h := &hostBlock{name: k.Labels[0], keyed: l.repeated(k), nicBlocks: map[string]map[string]bool{}}
		for _, kind := range nicKinds {
			h.nicBlocks[kind] = map[string]bool{}
			for _, n := range sub(k.Body, kind) {
				if len(n.Labels) == 1 {
					if h.nicBlocks[kind][n.Labels[0]] {
						l.unnamed[kind] = true
					}
					h.nicBlocks[kind][n.Labels[0]] = true
				}
			}
		}
		l.hostBlocks[h.name] = h
	}
}

// nicValue returns the value of a NIC in expressions. Its addresses and MTU are unknown unless final.
func nicValue(n *fabric.NIC, final bool) cty.Value {
	later := early{"addresses and MTUs of NICs"}
	out := map[string]cty.Value{
		"host": cty.StringVal(n.Host), "name": cty.StringVal(n.Name), "netdev": cty.NullVal(cty.String),
		"ip": cty.UnknownVal(cty.String).Mark(later), "ip6": cty.UnknownVal(cty.String).Mark(later),
		"addresses": cty.UnknownVal(cty.List(cty.String)).Mark(later), "mtu": cty.UnknownVal(cty.Number).Mark(later),
	}
	if n.Netdev != "" {
		out["netdev"] = cty.StringVal(n.Netdev)
	}
	if final && n.Invalid {
		for _, name := range []string{"ip", "ip6", "addresses", "mtu"} {
			out[name] = cty.DynamicVal.Mark(failed{})
		}
	} else if final {
		addresses(n, out)
	}
	return cty.ObjectVal(out)
}

func addresses(n *fabric.NIC, out map[string]cty.Value) {
	out["ip"], out["ip6"], out["mtu"] = cty.NullVal(cty.String), cty.NullVal(cty.String), cty.NullVal(cty.Number)
	list := make([]cty.Value, 0, len(n.Addresses))
	for i := len(n.Addresses) - 1; i >= 0; i-- { // backwards, so that the first address of each family is kept
		a := n.Addresses[i].Addr()
		if a.Is4() {
			out["ip"] = cty.StringVal(a.String())
		} else {
			out["ip6"] = cty.StringVal(a.String())
		}
	}
	for _, p := range n.Addresses {
		list = append(list, cty.StringVal(p.String()))
	}
	out["addresses"] = cty.ListValEmpty(cty.String)
	if len(list) > 0 {
		out["addresses"] = cty.ListVal(list)
	}
	if n.MTU > 0 {
		out["mtu"] = cty.NumberIntVal(int64(n.MTU))
	}
}

// nicsValue returns the value of host.a.nic, and of nic inside the host; or that of bond or vlan.
func (hi *hostInstance) nicsValue(kind string, final bool) cty.Value {
	out := map[string]cty.Value{}
	for name, b := range hi.nics[kind] {
		switch {
		case b.failed:
			out[name] = cty.DynamicVal.Mark(failed{})
		case b.keyed:
			keyed := map[string]cty.Value{}
			for _, n := range b.nics {
				keyed[b.keys[n.Ref()]] = nicValue(n, final)
			}
			out[name] = object(keyed)
		case len(b.nics) > 0:
			out[name] = nicValue(b.nics[0], final)
		}
	}
	return object(out)
}

// hostsValue returns the value of host in links and all later strata.
func (l *loader) hostsValue(final bool) cty.Value {
	out, keyed := map[string]cty.Value{}, map[string]map[string]cty.Value{}
	for name, b := range l.hostBlocks {
		if b.keyed {
			keyed[name] = map[string]cty.Value{}
		}
	}
	for _, hi := range l.insts {
		of := map[string]cty.Value{"name": cty.StringVal(hi.h.Name), "address": cty.StringVal(hi.h.Address), "labels": labels(hi.h)}
		for _, kind := range nicKinds {
			of[kind] = hi.nicsValue(kind, final)
		}
		v := cty.ObjectVal(of)
		if hi.each {
			keyed[hi.h.BlockName][hi.h.Name] = v
		} else {
			out[hi.h.BlockName] = v
		}
	}
	for name, m := range keyed {
		out[name] = object(m)
	}
	for name, b := range l.hostBlocks {
		if _, there := out[name]; b.failed || !there {
			out[name] = cty.DynamicVal.Mark(failed{})
		}
	}
	return object(out)
}

func labels(h *fabric.Host) cty.Value {
	m := map[string]cty.Value{}
	for k, v := range h.Labels {
		m[k] = cty.StringVal(v)
	}
	return object(m)
}

// nicRef converts the value of an expression to a reference to a NIC.
func (l *loader) nicRef(v cty.Value) (fabric.NICRef, bool) {
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() || !v.Type().IsObjectType() || !v.Type().HasAttribute("host") || !v.Type().HasAttribute("name") ||
		!v.Type().HasAttribute("netdev") {
		return fabric.NICRef{}, false
	}
	h, ok1 := plainString(v.GetAttr("host"))
	n, ok2 := plainString(v.GetAttr("name"))
	r := fabric.NICRef{Host: h, NIC: n}
	return r, ok1 && ok2 && l.nics[r] != nil
}

// hostRef converts the value of an expression to the name of a host.
func (l *loader) hostRef(v cty.Value) (string, bool) {
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() || !v.Type().IsObjectType() || !v.Type().HasAttribute("nic") || !v.Type().HasAttribute("name") {
		return "", false
	}
	name, ok := plainString(v.GetAttr("name"))
	return name, ok && slices.ContainsFunc(l.insts, func(h *hostInstance) bool { return h.h.Name == name })
}

func plainString(v cty.Value) (string, bool) {
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}
