package config

import (
	"testing"
)

// TestBondsAndVLANsAreNICs: they have the attributes of a NIC, stand in links and networks, give their members MTU and class, and may have the
// keys of the NICs below them.
func TestBondsAndVLANsAreNICs(t *testing.T) {
	f, _, diags := Load(write(t, "f.hcl", `
locals {
  rails = toset(["rail0", "rail1"])
}
qos "lossless" {
  priority = 3
  pfc      = true
}
host "h" {
  for_each = toset(["a", "b"])
  nic "p0" {
    netdev = "eth0"
  }
  nic "p1" {
    netdev = "eth1"
  }
  nic "rail" {
    for_each = local.rails
    netdev   = each.key
    mtu      = 9000
  }
  bond "b0" {
    nics = [nic.p1, nic.p0]
    mode = "802.3ad"
    qos  = qos.lossless
  }
  vlan "storage" {
    for_each    = local.rails
    on          = nic.rail[each.key]
    id          = 200
    netdev      = "${each.key}.200"
    host_number = self.key == "a" ? 1 : 2
    mtu         = 9000
  }
  route "r" {
    nic = vlan.storage["rail0"]
    to  = "10.9.0.0/16"
    via = "10.2.0.9"
  }
}
link "bonded" {
  endpoints = [host.h["a"].bond.b0, host.h["b"].bond.b0]
  subnet    = "192.168.1.0/30"
  mtu       = 9000
}
network "storage" {
  members = [for h in values(host.h) : h.vlan.storage["rail0"]]
  subnet  = "10.2.0.0/24"
}
`), Options{})
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	h := f.Host("a")
	b, p, v := h.NIC("b0"), h.NIC("p1"), h.NIC(`storage["rail0"]`)
	switch {
	case b.Kind() != "bond" || b.Netdev != "b0" || b.Addresses[0].String() != "192.168.1.1/30" || !b.Persist || b.Bond.MIIMon != 100:
		t.Errorf("%+v, %+v", b, b.Bond)
	case p.MTU != 9000 || p.QoS == nil || p.QoS != b.QoS || h.BondOf(p) != b || h.BondOf(v) != nil:
		t.Errorf("%+v", p)
	case len(h.Members(b)) != 2 || h.Members(b)[0] != p:
		t.Errorf("members %v", h.Members(b))
	case v.Kind() != "vlan" || v.Netdev != "rail0.200" || v.VLAN.On.NIC != "rail0" || v.Addresses[0].String() != "10.2.0.1/24":
		t.Errorf("%+v, %+v", v, v.VLAN)
	case len(h.Ports(v)) != 1 || h.Ports(v)[0].Name != "rail0" || h.Routes[0].NIC != v.Ref():
		t.Errorf("%v, %v", h.Ports(v), h.Routes[0].NIC)
	}
}
