package fabric

import "net/netip"

// PolicyRoute is a rule and the routes of its table.
type PolicyRoute struct {
	Block
	Name string // the label of its block; under for_each with the key: v4["rail0"]
	Host string

	// Selects packets from this address or network. Default: any.
	From netip.Prefix `ff:"from"`
	// Selects packets to this address or network. Default: any.
	To netip.Prefix `ff:"to"`
	// Number of the routing table.
	Table int `ff:"table,required,min=1,max=2147483647"`
	// Priority among the host's rules, lowest number first. Default: 10000 + `table`.
	Priority int `ff:"priority,min=1,max=2147483647"`
	// The NIC of the routes, such as `nic.rail0`.
	NIC NICRef `ff:"nic,required"`
	// A route of the table. Without `via`, its destination is on the link of the NIC.
	Routes []Route `ff:"route,block"`
}

// Route is one route of a table. Without Via, its destination is on the link of the block's NIC.
type Route struct {
	Block

	// Destination network, or `"default"`.
	To netip.Prefix `ff:"to,required"`
	// Gateway, in a subnet of the NIC unless `on_link` is set.
	Via netip.Addr `ff:"via"`
	// Preferred source address on this route: an address of the host.
	Src netip.Addr `ff:"src"`
	// Whether the gateway is directly reachable although it is in no subnet of the NIC.
	OnLink bool `ff:"on_link"`
	// Preference among routes to the same destination, lowest number first. Default: the kernel's, 0 for IPv4 and 1024 for IPv6.
	Metric int `ff:"metric,min=0,max=2147483647"`
}

// MainRoute is one route of the main table.
type MainRoute struct {
	Route
	Name string // the label of its block; under for_each with the key: v4["rail0"]
	Host string

	// The NIC of the route. Default: the NIC whose subnet contains `via`.
	NIC NICRef `ff:"nic"`
}
