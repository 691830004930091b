package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/view"
)

// allowances are what plans may do that they otherwise refuse.
type allowances []string

// What can be allowed.
const (
	allowManagement   = "management" // the path of the operator's own connection is changed
	allowDriverReload = "driver-reload"
	allowReboot       = "reboot"
)

func (w *allowances) flag(c *cobra.Command) {
	c.Flags().StringSliceVar((*[]string)(w), "allow", nil, "allow what is refused otherwise: "+
		allowManagement+" (the path of your own connection is changed: new first, proven by a new connection, then old), "+
		allowDriverReload+" (RDMA and the links of its cards are gone for a while), "+allowReboot+" (which includes it)")
}

func (w allowances) check() error {
	known := []string{allowManagement, allowDriverReload, allowReboot}
	for _, what := range w {
		if !slices.Contains(known, what) {
			return fmt.Errorf("-allow %s: there are %s", what, strings.Join(known, ", "))
		}
	}
	return nil
}

func (w allowances) management() bool { return slices.Contains(w, allowManagement) }

// reachedAt tells where a host is reached from now on.
const reachedAt = "Host %s is reached at %s from now on: write that as its address"

// moved tells where hosts are reached from now on.
func (r *job) moved() {
	for _, o := range r.report.Outcomes {
		for _, h := range r.p.Hosts {
			if to := h.MovesTo(); h.Name == o.Host && to.IsValid() && (o.Fate == apply.Committed || o.Fate == apply.Waiting) {
				r.a.report().Note(reachedAt+", and enter it into known_hosts beside %s.", h.Name, to, h.Management.Server)
			}
		}
	}
}

// noteReturned tells where hosts are reached that went back from where they had moved to.
func noteReturned(r view.Reporter, fates []apply.HostOutcome) {
	for _, h := range fates {
		if h.Via != "" {
			r.Note(reachedAt+".", h.Host, h.Via)
		}
	}
}

// disruptive says which hosts a plan disrupts more than is allowed; nil: none.
func (w allowances) disruptive(p *planner.Plan) error {
	most := resource.LinkFlap
	if slices.Contains(w, allowDriverReload) {
		most = resource.DriverReload
	}
	if slices.Contains(w, allowReboot) {
		most = resource.Reboot
	}
	needs := map[string][]string{}
	for _, h := range p.Hosts {
		switch worst := h.Worst(); {
		case worst <= most:
		case worst == resource.Reboot:
			needs[allowReboot] = append(needs[allowReboot], h.Name)
		default:
			needs[allowDriverReload] = append(needs[allowDriverReload], h.Name)
		}
	}
	var said []string
	for _, what := range []string{allowReboot, allowDriverReload} {
		if hosts := needs[what]; hosts != nil {
			said = append(said, fmt.Sprintf("a %s of %s", strings.ReplaceAll(what, "-", " "), planner.Names(hosts)))
		}
	}
	if said == nil {
		return nil
	}
	flag := allowReboot
	if needs[allowReboot] == nil {
		flag = allowDriverReload
	}
	return fmt.Errorf("nothing was changed: the plan has %s; run with -allow=%s to let it", strings.Join(said, " and "), flag)
}
