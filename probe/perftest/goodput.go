package perftest

// overhead is the number of bytes in a full RoCE v2 packet over IPv4, without the payload: preamble, Ethernet
// header, FCS and gap 38, IPv4 20, UDP 8, BTH 12, ICRC 4. overhead6 is the same over IPv6.
const (
	overhead  = 38 + 20 + 8 + 12 + 4
	overhead6 = overhead + 20
)

// Goodput returns the payload in Gb/s that a link of gbps Gb/s can carry as RoCE v2 over IPv4. Messages are much
// larger than activeMTU, the path MTU in bytes. It is 0 if the MTU is not above 0.
func Goodput(gbps float64, activeMTU int) float64 { return goodput(gbps, activeMTU, overhead) }

// Goodput6 is Goodput over IPv6.
func Goodput6(gbps float64, activeMTU int) float64 { return goodput(gbps, activeMTU, overhead6) }

func goodput(gbps float64, activeMTU, overhead int) float64 {
	if activeMTU <= 0 {
		return 0
	}
	return gbps * float64(activeMTU) / float64(activeMTU+overhead)
}
