//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dualStack is a pair with IPv6, one NIC found by its MAC, and a policy route for each family, of the same key, on each host.
const dualStack = `fabric "dual-stack" {}
locals {
  hosts = { left = 1, right = 2 }
}
host "h" {
  for_each = local.hosts
  nic "rail" {
    match     = { mac = "02:00:00:00:00:0${each.value}" }
    addresses = ["10.7.0.${self.value}/30", "fd00:7::${self.value}/64"]
    mtu       = 4200
    sysctl    = { "ipv4.conf.arp_ignore" = 1 }
  }
  policy_route "v4" {
    for_each = { rail = 107 }
    nic      = nic.rail
    from     = nic.rail.ip
    table    = each.value
    route {
      to = "10.7.0.0/30"
    }
    route {
      to  = "10.8.0.0/16"
      via = "10.7.0.${3 - self.value}"
    }
  }
  policy_route "v6" {
    for_each = { rail = 107 }
    nic      = nic.rail
    from     = nic.rail.ip6
    table    = each.value
    route {
      to  = "fd00:8::/32"
      via = "fd00:7::${3 - self.value}"
    }
  }
}
link "cable" {
  endpoints = [host.h["left"].nic.rail, host.h["right"].nic.rail]
}
validate {
  tcp {
    enabled = false
  }
}
`

func TestDualStackPolicyRoutesSettleAndSurviveABounce(t *testing.T) {
	together(t)
	fabric := filepath.Join(t.TempDir(), "fabric.hcl")
	if err := os.WriteFile(fabric, []byte(dualStack), 0o600); err != nil {
		t.Fatal(err)
	}
	state := labUpFor(t, fabric)
	try(t, state, "apply", "-lab", "-auto-approve", fabric).want(t, 0, "fd00:7::2", "full size 4200", "from 10.7.0.1/32 lookup 107 priority 10107",
		`policy_route.v4["rail"]`, `policy_route.v6["rail"]`, "from fd00:7::1/128 lookup 107 priority 10107", "Fabric verified")
	try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 0, "No changes")
	rules := inside(t, state, fabric, "left", "ip", "rule")
	if !strings.Contains(rules, "10107:\tfrom 10.7.0.1 lookup 107 proto 251") {
		t.Fatal(rules)
	}
	// A bounce empties the table: the kernel drops routes of a link that goes down.
	inside(t, state, fabric, "left", "sh", "-c", "ip link set rail down && ip link set rail up")
	try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 2, "route 10.8.0.0/16", "fd00:7::1/64")
	try(t, state, "apply", "-lab", "-auto-approve", fabric).want(t, 0, "Fabric verified")
	try(t, state, "plan", "-lab", "-detailed-exitcode", fabric).want(t, 0)
	// A foreign route in the declared place is refused, not replaced.
	inside(t, state, fabric, "right", "ip", "route", "replace", "10.8.0.0/16", "dev", "rail", "table", "107", "proto", "static")
	try(t, state, "plan", "-lab", fabric).want(t, 1, "fabricform did not add the existing route")
	if got := inside(t, state, fabric, "right", "ip", "route", "show", "table", "107"); !strings.Contains(got, "proto static") {
		t.Fatal(got)
	}
}
