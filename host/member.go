package host

// LACP is the state of a bond in mode 802.3ad.
type LACP struct {
	Aggregator int    `json:"aggregator"`        // ID of the group of members that carries traffic
	Partner    string `json:"partner,omitempty"` // MAC address of the other system; "": no other system answers
	System     string `json:"system,omitempty"`  // MAC address that stands for this system; "": that of the bond
}

// Member is the state of a device as a member of a bond.
type Member struct {
	Works      bool `json:"works"`                // the bond's own check of the link (MII status)
	Active     bool `json:"active"`               // the bond may send over it
	Aggregator int  `json:"aggregator,omitempty"` // LACP: ID of the group that it belongs to; 0 in other modes
}
