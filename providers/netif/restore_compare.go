package netif

import (
	"context"
	"fmt"
)

// compare reads the host again and lists the differences. settled is false while links still come up.
func (r *restorer) compare(ctx context.Context) (diffs []string, settled bool, err error) {
	if r.links, err = r.host.Links(ctx); err != nil {
		return nil, false, err
	}
	settled = true
	for _, name := range r.gone {
		diffs = append(diffs, "device "+name+" is gone")
	}
	for _, l := range r.kept.Links {
		now := r.link(l)
		if now == nil {
			continue
		}
		if now.MTU != l.MTU {
			diffs = append(diffs, fmt.Sprintf("mtu of %s is %d, was %d", l.Name, now.MTU, l.MTU))
		}
		if now.Up != l.Up {
			diffs = append(diffs, fmt.Sprintf("%s is %s, was %s", l.Name, state(now.Up), state(l.Up)))
		}
		settled = settled && now.OperState == l.State
	}
	for _, s := range r.kept.Sysctls {
		if now, differs := sysctlDiffers(ctx, r.host, s); differs && !r.onGone(s.Path) {
			diffs = append(diffs, fmt.Sprintf("%s is %s, was %s", sysctlName(s.Path), now, s.Value))
		}
	}
	live, err := r.kept.find(ctx, r.host)
	if err != nil {
		return diffs, settled, err
	}
	live = r.live(live)
	for _, pair := range [][2][]object{
		{r.want.addrs, live.addrs}, {r.want.neighbours, live.neighbours}, {r.want.nexthops, live.nexthops},
		{r.want.routes, live.routes}, {r.want.rules, live.rules},
	} {
		diffs = append(diffs, r.differences(pair[0], pair[1])...)
	}
	return diffs, settled, nil
}

func (r *restorer) differences(want, live []object) []string {
	var out []string
	for _, s := range steps(want, live) {
		what := "is missing"
		if s.remove {
			what = "is unexpected, or out of order"
		}
		out = append(out, s.object.String()+r.on(s.object)+" "+what)
	}
	return out
}

// on names the device of an object, if it has one.
func (r *restorer) on(o object) string {
	name := r.kept.Names[o.device()]
	switch {
	case name == "":
		return ""
	case r.lacksDevice(o):
		return " on " + name + ", which is gone,"
	}
	return " on " + name
}
