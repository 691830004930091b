package netif

import (
	"context"
	"fmt"

	"github.com/fabricform/fabricform/host"
)

// compare reads the host again and lists the differences. converged is false while links still come up.
func (r *restoration) compare(ctx context.Context) (diffs []string, converged bool, err error) {
	if r.links, err = r.host.Links(ctx); err != nil {
		return nil, false, err
	}
	converged = true
	for _, name := range r.gone {
		diffs = append(diffs, "device "+name+" is gone")
	}
	devices, err := r.backup.deviceDiffs(ctx, r.host)
	if err != nil {
		return diffs, false, err
	}
	diffs = append(diffs, devices...)
	for _, l := range r.backup.Links {
		now := r.link(l)
		converged = converged && (now == nil || now.OperState == l.State)
	}
	r.eachDifference(func(l host.Link, s setting, was string) {
		diffs = append(diffs, fmt.Sprintf("%s of %s is %s, was %s", s.attribute, l.Name, s.get(l), was))
	})
	for _, s := range r.backup.Sysctls {
		if now, differs := sysctlDiffers(ctx, r.host, s); differs && !r.onGone(s.Path) {
			diffs = append(diffs, fmt.Sprintf("%s is %s, was %s", sysctlName(s.Path), now, s.Value))
		}
	}
	live, err := r.backup.find(ctx, r.host)
	if err != nil {
		return diffs, converged, err
	}
	live = r.live(live)
	for _, pair := range [][2][]object{
		{r.want.addrs, live.addrs}, {r.want.neighbours, live.neighbours}, {r.want.nexthops, live.nexthops},
		{r.want.routes, live.routes}, {r.want.rules, live.rules},
	} {
		diffs = append(diffs, r.differences(pair[0], pair[1])...)
	}
	return diffs, converged, nil
}

func (r *restoration) differences(want, live []object) []string {
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
func (r *restoration) on(o object) string {
	name := r.backup.Names[o.device()]
	switch {
	case name == "":
		return ""
	case r.lacksDevice(o):
		return " on " + name + ", which is gone,"
	}
	return " on " + name
}
