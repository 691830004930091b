package validators

import (
	"context"
	"fmt"

	"github.com/fabricform/fabricform/fabric"
)

// carrier judges what the two ports say of the cable, or the switch, between them: light, speed, MTU.
func (t *trial) carrier(context.Context) {
	l, ends := t.path, t.ends
	lit := true
	for i, s := range ends {
		res := Result{Check: "link", Link: l.Name, Host: s.host, Verdict: Pass, What: "carrier", Measured: s.link.Name + " has carrier"}
		switch {
		case !s.link.Up:
			res.Verdict, res.Measured, res.Expected = Fail, s.link.Name+" is down", "up"
			res.Cause = "the interface is switched off: run plan, then apply"
		case !s.link.Carrier:
			res.Verdict, res.Measured, res.Expected = Fail, s.link.Name+" has no carrier", "carrier"
			res.Cause = fmt.Sprintf("no light from %s: the cable is unplugged, broken or in another port; tx and rx fibres are swapped (turn them at one end); or the modules differ in speed or FEC", ends[1-i].port())
		}
		lit = lit && res.Verdict == Pass
		t.add(res)
	}
	for _, s := range ends {
		t.add(t.speed(l, s, lit))
	}
	t.add(mtus(l, ends))
}

func (r *run) speed(l fabric.Path, s side, lit bool) Result {
	res := Result{Check: "link", Link: l.Name, Host: s.host, Verdict: Skip, What: "speed"}
	got := float64(s.link.SpeedMbps) / 1000
	switch {
	case l.SpeedGbps == 0:
		res.Cause = "no speed_gbps is declared"
	case r.options.Lab:
		res.Cause = "lab link"
	case !lit:
		res.Cause = "there is no carrier"
	case got == 0:
		res.Cause = "the driver of " + s.link.Name + " does not say its speed"
	default:
		res.Measured, res.Expected = fmt.Sprintf("%g Gb/s", got), fmt.Sprintf("%g Gb/s", l.SpeedGbps)
		res.Verdict = Pass
		if got != l.SpeedGbps {
			res.Verdict = Fail
			res.Cause = "the port negotiated another speed: a module or cable of another kind, autonegotiation off at one end, or FEC that differs"
		}
	}
	return res
}

func mtus(l fabric.Path, ends [2]side) Result {
	a, b := ends[0], ends[1]
	res := Result{Check: "link", Link: l.Name, Host: a.host, Peer: b.host, Verdict: Pass, What: "MTU",
		Measured: fmt.Sprintf("%d", a.link.MTU)}
	if a.link.MTU != b.link.MTU {
		res.Verdict, res.Measured, res.Expected = Fail, fmt.Sprintf("%s has %d, %s has %d", a.port(), a.link.MTU, b.port(), b.link.MTU), "the same MTU at both ends"
		res.Cause = "small pings pass and large RDMA writes fail with such a pair: run plan, then apply"
		return res
	}
	for _, s := range ends {
		if s.spec.MTU != 0 && s.spec.MTU != s.link.MTU {
			res.Verdict, res.Expected, res.Cause = Fail, fmt.Sprintf("%d", s.spec.MTU), s.port()+" drifted from the files: run plan, then apply"
		}
	}
	return res
}
