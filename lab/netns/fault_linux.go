package netns

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/fabricform/fabricform/lab/site"
)

// Fault breaks or repairs a cable.
func (l *Lab) Fault(name string, f site.Fault, said string) error {
	j, err := site.Find(l.state.Links, name)
	if err != nil {
		return err
	}
	if f.Remark || f.Pause || f.NoVLAN != 0 {
		return fmt.Errorf("fault %s: the cables of a lab of namespaces cannot do this; use `fabricform lab up -backend vm`", said)
	}
	h, err := in(l.state.Net.PID)
	if err != nil {
		return err
	}
	defer h.Close()
	before := cmp.Or(l.state.Links[j].Fault, "none")
	if err := l.put(h, j, f, said); err != nil {
		if old, unreadable := site.ParseFault(before); unreadable == nil {
			err = errors.Join(err, l.put(h, j, old, before))
		}
		return errors.Join(fmt.Errorf("fault %s: %w", said, err), l.save())
	}
	return l.save()
}

// put repairs a cable and gives it a fault.
func (l *Lab) put(h *netlink.Handle, j int, f site.Fault, said string) (err error) {
	if err := l.mend(h, j); err != nil || f.None() {
		return err
	}
	switch {
	case f.Cut:
		err = l.eachEnd(j, func(e End) error { return setDown(h, e.Device) })
	case f.Swap != "":
		err = l.swap(h, j, f.Swap)
	case f.Gbps > 0:
		err = l.eachEnd(j, func(e End) error { return limit(h, e.Device, f.Gbps) })
	default:
		err = l.disturb(h, j, f)
	}
	if err == nil {
		l.state.Links[j].Fault = said
	}
	return err
}

// eachEnd calls do for a cable's ends: two of a link, one of a network's port.
func (l *Lab) eachEnd(j int, do func(End) error) error {
	for _, e := range l.state.Links[j].Ends {
		if err := do(e); err != nil {
			return err
		}
	}
	return nil
}

// far returns the end that moves when cables are swapped.
func (c Cable) far() End { return c.Ends[len(c.Ends)-1] }

// mend repairs a cable, and the one that it was swapped with.
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
			return fmt.Errorf("repair link %s: %w", l.state.Links[i].Name, err)
		}
		l.state.Links[i].Fault = ""
	}
	return nil
}

func setDown(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	return h.LinkSetDown(link)
}

// swap exchanges the far ends of two cables, as if they were plugged in the wrong way.
func (l *Lab) swap(h *netlink.Handle, j int, other string) error {
	k := slices.IndexFunc(l.state.Links, func(c Cable) bool { return c.Name == other })
	if k < 0 || k == j {
		return fmt.Errorf("the lab has no other link %q", other)
	}
	if err := l.mend(h, k); err != nil {
		return err
	}
	a, b := l.state.Links[j].far(), l.state.Links[k].far()
	l.state.Links[k].Fault = "swap=" + l.state.Links[j].Name
	return errors.Join(join(h, a.Device, b.Bridge), join(h, b.Device, a.Bridge))
}

// disturb delays or drops packets at both ends, instead of shaping.
func (l *Lab) disturb(h *netlink.Handle, j int, f site.Fault) error {
	attrs := netlink.NetemQdiscAttrs{Limit: 10000, Latency: uint32(f.Delay.Microseconds()), Jitter: uint32(f.Jitter.Microseconds()),
		Loss: float32(f.Loss)}
	return l.eachEnd(j, func(e End) error {
		link, err := h.LinkByName(e.Device)
		if err != nil {
			return err
		}
		q := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(2, 0), Parent: netlink.HANDLE_ROOT}
		err = h.QdiscReplace(netlink.NewNetem(q, attrs))
		if errors.Is(err, syscall.ENOENT) {
			return errors.New("delay and loss need the kernel module sch_netem, which this machine does not have")
		}
		return err
	})
}
