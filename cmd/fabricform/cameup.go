package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

// cameUp judges what is on hosts that were started anew since the fabric was last applied there: all
// that a plan would change did not come up.
func cameUp(p *planner.Plan, records map[string][]resource.Record, seen map[string]*facts.Snapshot) []validators.Result {
	var out []validators.Result
	for _, h := range p.Hosts {
		if h.Unreachable != "" || seen[h.Name] == nil {
			continue // the checks that follow say so
		}
		say := func(v validators.Verdict, what, measured, expected, cause string) {
			out = append(out, validators.Result{Check: "boot", Host: h.Name, Verdict: v, What: what, Measured: measured, Expected: expected, Cause: cause})
		}
		applied, ok := lastApplied(p.Fabric, records[h.Name])
		asDeclared := len(h.Problems) == 0 && !slices.ContainsFunc(h.Actions, func(a planner.Action) bool { return len(a.Changes) > 0 })
		switch {
		case (!ok || applied.Boot == "") && asDeclared:
			say(validators.Warn, "reboot", fmt.Sprintf("%d resources are as declared", h.Settled), "",
				"no apply that changed this host has kept in which boot it was made: whether it was started anew since is not known")
			continue
		case !ok:
			say(validators.Fail, "reboot", "never applied here", "an apply, and a reboot", "apply the fabric first")
			continue
		case applied.Boot == "":
			say(validators.Fail, "reboot", "not known to be since "+applied.Time.Local().Format(time.DateTime), "a reboot since the last apply",
				"it was not kept in which boot the fabric was applied: apply it, reboot the host, and verify again")
			continue
		case applied.Boot == seen[h.Name].System.BootID:
			say(validators.Fail, "reboot", "not since "+applied.Time.Local().Format(time.DateTime), "a reboot since the last apply",
				"the host runs as it was applied, which proves nothing of its next start: reboot it, and verify again")
			continue
		}
		for _, q := range h.Problems {
			say(validators.Fail, q.Addr.Kind+"."+q.Addr.Name, q.Message, "as declared", "")
		}
		for _, a := range h.Actions {
			for _, c := range a.Changes {
				say(validators.Fail, a.Resource.Addr.Kind+"."+a.Resource.Addr.Name, c.Attribute+" "+orAbsent(c.From), c.Attribute+" "+orAbsent(c.To),
					"it did not come up as declared: `fabricform plan` shows all that differs, and `apply` makes it so again")
			}
		}
		if asDeclared {
			say(validators.Pass, "reboot", fmt.Sprintf("%d resources came up as declared", h.Settled), "", "")
		}
	}
	return out
}

// lastApplied is the latest entry of the fabric that changed the host.
func lastApplied(fabric string, records []resource.Record) (last resource.Entry, ok bool) {
	for _, r := range records {
		for _, e := range r.History {
			if r.Fabric == fabric && e.Changes > 0 {
				last, ok = e, true
			}
		}
	}
	return last, ok
}

func orAbsent(value string) string {
	if value == "" {
		return "absent"
	}
	return value
}
