package apply

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
		allowed resource.Disruption
		plan    *planner.Plan
		want    string
	}{
		{resource.LinkFlap, plan(resource.Live, resource.LinkFlap), ""},
		{resource.LinkFlap, plan(resource.DriverReload), "a driver reload of a. To allow this, run with -allow=driver-reload"},
		{resource.LinkFlap, plan(resource.DriverReload, resource.Reboot), "a reboot of b and a driver reload of a. To allow this, run with -allow=reboot"},
		{resource.DriverReload, plan(resource.DriverReload), ""},
		{resource.DriverReload, plan(resource.DriverReload, resource.Reboot), "a reboot of b. To allow this, run with -allow=reboot"},
		{resource.Reboot, plan(resource.DriverReload, resource.Reboot), ""},
	} {
		err := disruptive(c.plan, c.allowed)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.allowed, err, c.want)
		}
	}
}
