package cabling

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// switches lists the devices that described themselves, and the rails that they show.
func (j *judge) switches() {
	by := map[string]*Switch{}
	for at := range j.units {
		for _, o := range j.others[at] {
			s, p := Switch{Name: o.name}, SwitchPort{End: j.units[at].End}
			if n := o.lldp; n != nil {
				s = Switch{Name: cmp.Or(n.Name, n.Chassis), Chassis: n.Chassis, System: n.System}
				p.Port, p.About = n.Port, n.About
			}
			key := cmp.Or(s.Chassis, s.Name)
			if by[key] == nil {
				by[key] = &s
			}
			by[key].Ports = append(by[key].Ports, p)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(by)) {
		j.report.Switches = append(j.report.Switches, *by[key])
	}
	slices.SortStableFunc(j.report.Switches, func(a, b Switch) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range j.report.Switches {
		if s.Chassis != "" {
			j.report.Rails = append(j.report.Rails, railsOf(s)...)
		}
	}
	j.report.Rails = merged(j.report.Rails)
}

// railName finds the number of a rail in a switch's name or description of a port, as in "gpu01-rail3" and "Rail 3".
var railName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\brail[-_ ]?([0-9]{1,3})\b|[-_.]rail[-_]?([0-9]{1,3})\b`)
})

// railsOf returns the rails that one switch shows: by the names of its ports if each has one, else the switch itself if it has one port
// of each of several hosts.
func railsOf(s Switch) (out []Rail) {
	named, hosts := map[string][]End{}, map[string]bool{}
	for _, p := range s.Ports {
		hosts[p.End.Host] = true
		if m := railName().FindStringSubmatch(p.About + " " + p.Port); m != nil {
			name := "rail" + strings.TrimLeft(cmp.Or(m[1], m[2]), "0")
			if name == "rail" {
				name = "rail0"
			}
			named[name] = append(named[name], p.End)
		}
	}
	count := 0
	for _, name := range slices.Sorted(maps.Keys(named)) {
		count += len(named[name])
		out = append(out, Rail{name, "names of the switch's ports", named[name]})
	}
	if count == len(s.Ports) {
		return out
	}
	if len(hosts) < 2 || len(hosts) != len(s.Ports) {
		return nil
	}
	ends := make([]End, 0, len(s.Ports))
	for _, p := range s.Ports {
		ends = append(ends, p.End)
	}
	return []Rail{{s.Name, "a switch with one port of each host", ends}}
}

// merged joins the parts of a rail that several switches name.
func merged(rails []Rail) (out []Rail) {
	for _, r := range rails {
		i := slices.IndexFunc(out, func(o Rail) bool { return o.Name == r.Name && o.By == r.By })
		if i < 0 {
			out = append(out, r)
			continue
		}
		out[i].Ends = append(out[i].Ends, r.Ends...)
	}
	return out
}
