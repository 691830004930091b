package fabric

import "net/netip"

// PolicyRoute is a rule and the routes of its table.
type PolicyRoute struct {
	Block
	Name string
	Host string

	// Selects packets from this address or network; all without it.
	From netip.Prefix `ff:"from"`
	// Selects packets to this address or network; all without it.
	To netip.Prefix `ff:"to"`
	// Number of the routing table.
	Table int `ff:"table,required,min=1,max=2147483647"`
	// Where the rule stands among the host's rules, the smallest first; 10000 + table without it.
	Priority int `ff:"priority,min=1,max=2147483647"`
	// The NIC of the routes: `nic = nic.rail0`.
	NIC NICRef `ff:"nic,required"`
	// A route of the table. One without `via` is on-link on the NIC.
	Routes []Route `ff:"route,block"`
}

// Route is one route of a table. Without Via it is on-link on the block's NIC.
type Route struct {
	Block

	// Destination network, or `"default"`.
	To netip.Prefix `ff:"to,required"`
	// Gateway, on a subnet of the NIC unless `on_link` is set.
	Via netip.Addr `ff:"via"`
	// Source address that the host prefers on this route; an address of the host.
	Src netip.Addr `ff:"src"`
	// The gateway is reached directly although no subnet of the NIC has it.
	OnLink bool `ff:"on_link"`
	// Preference, the smallest first; the kernel's default without it: 0 for IPv4, 1024 for IPv6.
	Metric int `ff:"metric,min=0,max=2147483647"`
}

// MainRoute is one route of the main table.
type MainRoute struct {
	Route
	Name string
	Host string

	// The NIC of the route; the one whose subnet has `via` without it.
	NIC NICRef `ff:"nic"`
}
