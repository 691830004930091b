package main

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

func TestDisruptionsWantToBeAllowed(t *testing.T) {
	plan := func(worst ...resource.Disruption) *planner.Plan {
		p := &planner.Plan{}
		for i, w := range worst {
			p.Hosts = append(p.Hosts, planner.HostPlan{Name: string(rune('a' + i)), Actions: []planner.Action{{Changes: []resource.Change{{Disruption: w}}}}})
		}
		return p
	}
	for _, c := range []struct {
		allow allowances
		plan  *planner.Plan
		want  string
	}{
		{nil, plan(resource.Live, resource.LinkFlap), ""},
		{nil, plan(resource.DriverReload), "a driver reload of a; run with -allow=driver-reload"},
		{nil, plan(resource.DriverReload, resource.Reboot), "a reboot of b and a driver reload of a; run with -allow=reboot"},
		{allowances{allowDriverReload}, plan(resource.DriverReload), ""},
		{allowances{allowDriverReload}, plan(resource.DriverReload, resource.Reboot), "a reboot of b; run with -allow=reboot"},
		{allowances{allowReboot}, plan(resource.DriverReload, resource.Reboot), ""},
	} {
		err := c.allow.disruptive(c.plan)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.allow, err, c.want)
		}
	}
	if err := (allowances{"everything"}).check(); err == nil {
		t.Error("anything may be allowed")
	}
}
