package lab

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
)

// Fault breaks a cable, or mends it: cut, swap=LINK2, limit=RATE, delay=TIME, loss=PERCENT, none.
// A cable has one fault at a time.
func (l *Lab) Fault(name, fault string) error {
	j := slices.IndexFunc(l.state.Links, func(c Cable) bool { return c.Name == name })
	if j < 0 {
		names := make([]string, 0, len(l.state.Links))
		for _, c := range l.state.Links {
			names = append(names, c.Name)
		}
		return fmt.Errorf("the lab has no link %q; there are %s", name, strings.Join(names, ", "))
	}
	h, err := in(l.state.Net.PID)
	if err != nil {
		return err
	}
	defer h.Close()
	if err := l.mend(h, j); err != nil {
		return err
	}
	kind, value, _ := strings.Cut(fault, "=")
	switch kind {
	case "none":
		return l.save()
	case "cut":
		err = l.eachEnd(j, func(e End) error { return down(h, e.Device) })
	case "swap":
		err = l.swap(h, j, value)
	case "limit":
		err = l.slow(h, j, value)
	case "delay", "loss":
		err = l.disturb(h, j, kind, value)
	default:
		return fmt.Errorf("fault %q: there are cut, swap=LINK2, limit=RATE, delay=TIME, loss=PERCENT and none", fault)
	}
	if err != nil {
		return fmt.Errorf("fault %s: %w", fault, err)
	}
	l.state.Links[j].Fault = fault
	return l.save()
}

// eachEnd does something to a cable's ends: two of a link, one of a network's port.
func (l *Lab) eachEnd(j int, do func(End) error) error {
	for _, e := range l.state.Links[j].Ends {
		if err := do(e); err != nil {
			return err
		}
	}
	return nil
}

// far is the end that moves when cables are swapped.
func (c Cable) far() End { return c.Ends[len(c.Ends)-1] }

// mend puts a cable back, and the one that it was swapped with.
func (l *Lab) mend(h *netlink.Handle, j int) error {
	todo := []int{j}
	for i, c := range l.state.Links {
		if c.Fault == "swap="+l.state.Links[j].Name || l.state.Links[j].Fault == "swap="+c.Name {
			todo = append(todo, i)
		}
	}
	for _, i := range todo {
		whole := func(e End) error {
			return errors.Join(join(h, e.Device, e.Bridge), limit(h, e.Device, l.state.Links[i].Gbps))
		}
		if err := l.eachEnd(i, whole); err != nil {
			return fmt.Errorf("mend link %s: %w", l.state.Links[i].Name, err)
		}
		l.state.Links[i].Fault = ""
	}
	return nil
}

func down(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	return h.LinkSetDown(link)
}

// swap lets the far ends of two cables change places, as a person does who plugs them the wrong way.
func (l *Lab) swap(h *netlink.Handle, j int, other string) error {
	k := slices.IndexFunc(l.state.Links, func(c Cable) bool { return c.Name == other })
	if k < 0 || k == j {
		return fmt.Errorf("there is no other link %q", other)
	}
	if err := l.mend(h, k); err != nil {
		return err
	}
	a, b := l.state.Links[j].far(), l.state.Links[k].far()
	return errors.Join(join(h, a.Device, b.Bridge), join(h, b.Device, a.Bridge))
}

func (l *Lab) slow(h *netlink.Handle, j int, rate string) error {
	gbps, err := parseRate(rate)
	if err != nil {
		return err
	}
	return l.eachEnd(j, func(e End) error { return limit(h, e.Device, gbps) })
}

// parseRate reads rates as tc(8) writes them: 100mbit, 2.5gbit.
func parseRate(s string) (gbps float64, err error) {
	for suffix, scale := range map[string]float64{"gbit": 1, "mbit": 1e-3, "kbit": 1e-6} {
		if digits, ok := strings.CutSuffix(s, suffix); ok {
			v, err := strconv.ParseFloat(digits, 64)
			if err == nil && v > 0 && v*scale <= 100 {
				return v * scale, nil
			}
		}
	}
	return 0, fmt.Errorf("rate %q: write it like 100mbit or 2.5gbit", s)
}

// disturb delays or loses packets at both ends, in place of the shaping.
func (l *Lab) disturb(h *netlink.Handle, j int, kind, value string) error {
	attrs := netlink.NetemQdiscAttrs{Limit: 10000}
	if kind == "delay" {
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 || d > time.Minute {
			return fmt.Errorf("time %q: write it like 20ms", value)
		}
		attrs.Latency = uint32(d.Microseconds())
	} else {
		p, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 32)
		if err != nil || p < 0 || p > 100 {
			return fmt.Errorf("percentage %q: write it like 1 or 0.1%%", value)
		}
		attrs.Loss = float32(p)
	}
	return l.eachEnd(j, func(e End) error {
		link, err := h.LinkByName(e.Device)
		if err != nil {
			return err
		}
		q := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(2, 0), Parent: netlink.HANDLE_ROOT}
		err = h.QdiscReplace(netlink.NewNetem(q, attrs))
		if errors.Is(err, syscall.ENOENT) {
			return errors.New("this machine's kernel has no sch_netem module, which delays and loses packets")
		}
		return err
	})
}
