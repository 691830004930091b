package perftest

// overhead is what one full packet of RoCE v2 over IPv4 costs beside its payload, in bytes: preamble,
// Ethernet header, FCS and gap 38, IPv4 20, UDP 8, BTH 12, ICRC 4. overhead6 is that over IPv6.
const (
	overhead  = 38 + 20 + 8 + 12 + 4
	overhead6 = overhead + 20
)

// Goodput is the payload in Gb/s that a link of gbps Gb/s can carry as RoCE v2 over IPv4 with messages
// much larger than activeMTU, the path MTU in bytes. 0 for an MTU that is not above 0.
func Goodput(gbps float64, activeMTU int) float64 { return goodput(gbps, activeMTU, overhead) }

// Goodput6 is Goodput over IPv6.
func Goodput6(gbps float64, activeMTU int) float64 { return goodput(gbps, activeMTU, overhead6) }

func goodput(gbps float64, activeMTU, overhead int) float64 {
	if activeMTU <= 0 {
		return 0
	}
	return gbps * float64(activeMTU) / float64(activeMTU+overhead)
}
