package validators

import (
	"context"
	"fmt"
)

// The items and metrics of the check.
const (
	Carrier Item = "carrier"
	Speed   Item = "speed"
	MTU     Item = "mtu"

	MetricSpeed Metric = "link_speed"
	MetricMTU   Metric = "mtu"
)

// links checks carrier, speed and MTU of the two ports of each path.
func (r *run) links(ctx context.Context, trials []*trial) []Result {
	r.check(ctx, trials, CheckLink, false, (*trial).link)
	return nil
}

func (t *trial) link(context.Context) {
	lit := true
	for i, s := range t.ends {
		res := t.result(CheckLink, Carrier, s.host, "")
		res.Object, res.Found = s.link.Name, "carrier"
		switch {
		case !s.link.Up:
			res.Found, res.Wanted = "down", "up"
			res = res.fails("the interface is down", t.reapply())
		case !s.link.Carrier:
			res.Found, res.Wanted = "no carrier", "carrier"
			res = res.fails(fmt.Sprintf("no light from %s: the cable is unplugged, broken or in another port; "+
				"tx and rx fibres are swapped (exchange them at one end); or the modules differ in speed or FEC", t.ends[1-i].port()), "")
		}
		lit = lit && res.Verdict == Pass
		t.add(res)
	}
	for _, s := range t.ends {
		t.add(t.speed(s, lit))
	}
	t.add(t.mtus())
}

func (t *trial) speed(s side, lit bool) Result {
	res := t.result(CheckLink, Speed, s.host, "")
	got := float64(s.link.SpeedMbps) / 1000
	switch {
	case t.path.SpeedGbps == 0:
		return res.skips(NotDeclared, "no speed_gbps declared")
	case t.options.Lab:
		return res.skips(InLab, "the cables of a lab have no speed of their own")
	case !lit:
		return res.skips(NoCarrier, "no carrier")
	case got == 0:
		return res.skips(SpeedUnknown, "the driver of "+s.link.Name+" does not report its speed")
	}
	m := Measurement{Name: MetricSpeed, Value: got, Unit: Gbps, Threshold: exactly(t.path.SpeedGbps)}
	res.Values = []Measurement{m}
	if !m.Met() {
		return res.fails(
			"the port negotiated another speed: wrong type of module or cable, autonegotiation off at one end, or different FEC", "")
	}
	return res
}

func (t *trial) mtus() Result {
	a, b := t.ends[0], t.ends[1]
	res := t.both(CheckLink, MTU)
	res.Values = []Measurement{{Name: MetricMTU, Value: float64(a.link.MTU), Unit: Bytes}}
	if a.link.MTU != b.link.MTU {
		res.Values = nil
		for _, s := range t.ends {
			res.Values = append(res.Values, Measurement{Name: MetricMTU, Value: float64(s.link.MTU), Unit: Bytes, Of: s.port()})
		}
		res.Wanted = "the same MTU at both ends"
		cure := t.reapply()
		if a.spec.MTU == 0 && b.spec.MTU == 0 { // an apply changes nothing that the files do not say
			cure = "the files declare no MTU for these ports: set mtu in their link or network, then " + cure
		}
		return res.fails("with different MTUs, small pings pass, but large RDMA writes fail", cure)
	}
	for _, s := range t.ends {
		if s.spec.MTU != 0 && s.spec.MTU != s.link.MTU {
			res.Values[0].Threshold = exactly(float64(s.spec.MTU))
			res = res.fails(s.port()+" drifted from the files", t.reapply())
		}
	}
	return res
}
