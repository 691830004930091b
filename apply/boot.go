package apply

import (
	"slices"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

// afterReboot checks whether hosts came up as declared, if they rebooted since the fabric was last applied
// there: everything that a plan would still change did not come up.
func afterReboot(p *planner.Plan, records map[string][]resource.Record, seen map[string]*facts.Snapshot) []validators.Result {
	var out []validators.Result
	for _, h := range p.Hosts {
		say := func(v validators.Verdict, r validators.Result) {
			r.Check, r.Subject, r.Host, r.Verdict = validators.CheckBoot, validators.Subject{Kind: validators.SubjectHost,
				Name: h.Name}, h.Name, v
			out = append(out, r)
		}
		if h.Unreachable != "" {
			say(validators.Skip, validators.Result{Skipped: validators.HostUnreachable, Cause: "host unreachable: " + h.Unreachable})
			continue
		}
		if seen[h.Name] == nil {
			continue // not chosen
		}
		applied, ok := lastApplied(p.Fabric, records[h.Name])
		asDeclared := len(h.Problems) == 0 && !slices.ContainsFunc(h.Actions, func(a planner.Action) bool { return len(a.Changes) > 0 })
		reboot := func(state validators.BootState, v validators.Verdict, cause, cure string) {
			r := validators.Result{Item: validators.Rebooted, Found: string(state), Applied: applied.Time, Cause: cause, Cure: cure}
			if v != validators.Fail {
				r.Values = []validators.Measurement{{Name: validators.MetricResources, Value: float64(h.Unchanged)}}
			}
			say(v, r)
		}
		switch {
		case !ok && asDeclared:
			reboot(validators.AsDeclared, validators.Warn, "fabricform has never changed this host: it was only compared with the files",
				"")
			continue
		case applied.Boot == "" && asDeclared:
			reboot(validators.AsDeclared, validators.Warn,
				"no boot ID was recorded when this host was last changed; cannot tell whether it has rebooted since", "")
			continue
		case !ok:
			reboot(validators.NeverApplied, validators.Fail, "", "run "+p.Invocation.Hint("apply")+" first")
			continue
		case applied.Boot == "":
			reboot(validators.RebootUnknown, validators.Fail, "no boot ID was recorded when the fabric was applied",
				"run "+p.Invocation.Hint("apply")+", reboot the host, and verify again")
			continue
		case applied.Boot == seen[h.Name].System.BootID:
			reboot(validators.NotRebooted, validators.Fail, "the host has not rebooted since the last apply, so persistence is untested",
				"reboot the host, and verify again")
			continue
		}
		for _, q := range h.Problems {
			say(validators.Fail, validators.Result{Item: validators.CameUp, Object: q.Addr.Kind + "." + q.Addr.Name, Cause: q.Message})
		}
		for _, a := range h.Actions {
			for _, c := range a.Changes {
				say(validators.Fail, validators.Result{Item: validators.CameUp, Object: a.Resource.Addr.Kind + "." + a.Resource.Addr.Name,
					Attribute: c.Attribute, Found: c.From, Wanted: c.To,
					Cause: "not as declared after the reboot", Cure: "run " + p.Invocation.Hint("plan") + " to see all differences, and " +
						p.Invocation.Hint("apply") + " to correct them"})
			}
		}
		if asDeclared {
			reboot(validators.CameUpAsDeclared, validators.Pass, "", "")
		}
	}
	return out
}

// lastApplied returns the latest history entry in which the fabric changed the host.
func lastApplied(fabric string, records []resource.Record) (last resource.HistoryEntry, ok bool) {
	for _, r := range records {
		for _, e := range r.History {
			if r.Fabric == fabric && e.Changes > 0 {
				last, ok = e, true
			}
		}
	}
	return last, ok
}
