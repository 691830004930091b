package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/validators"
)

// VerifyOptions select the live checks.
type VerifyOptions struct {
	Only        []validators.Check // nil for all
	Link        string             // a link, a network or a path of a network; "" for all
	AfterReboot bool               // first check that the state after a reboot matches the files
}

// Verify runs the live checks; it changes nothing.
func Verify(ctx context.Context, s *Session, o VerifyOptions, e Events) *Report {
	r := s.newReport("verify")
	var booted []validators.Result
	if o.AfterReboot {
		p := s.compare(ctx)
		booted = afterReboot(p, s.Records(), s.Facts())
	}
	unreachable := s.Unreachable()
	ending, results := s.conclude(ctx, o, append(booted, s.measure(ctx, o, nil, e)...), unreachable, e)
	if ctx.Err() != nil {
		return r.end(ending, errors.New("interrupted; the fabric was not verified"))
	}
	if others := s.otherEnds(o.Link); len(results) == 0 && len(others) > 0 {
		e.Note("A link is checked only if both of its hosts are chosen, and other ends are at %s: choose them, too.", planner.Names(others))
	}
	if ending == Done && !slices.ContainsFunc(results, func(r validators.Result) bool { return r.Verdict != validators.Skip }) {
		ending = CheckFailed // nothing was verified, and not because of unreachable hosts
	}
	r.Results, r.After = results, s.Facts()
	return r.end(ending, nil)
}

// otherEnds returns the excluded hosts at the other ends of the chosen hosts' links. link may narrow them; "" for all.
func (s *Session) otherEnds(link string) (out []string) {
	for _, p := range s.Fabric.Paths() {
		if link != "" && p.Name != link && (p.Network == nil || p.Network.Name != link) {
			continue
		}
		for i, end := range p.Endpoints {
			if s.Excluded(end.Host) && !s.Excluded(p.Endpoints[1-i].Host) && !slices.Contains(out, end.Host) {
				out = append(out, end.Host)
			}
		}
	}
	return out
}

// omitsPath says why the path is not as declared: the latest proposed plan left it out.
func (s *Session) omitsPath(p fabric.Path) string {
	for _, l := range s.latest.leftOut {
		if !l.Half && (p.Link != nil && l.Kind == planner.OfLink && l.Name == p.Link.Name ||
			p.Network != nil && l.Kind == planner.OfNetwork && l.Name == p.Network.Name) {
			return fmt.Sprintf("%s was not applied without %s", l, planner.Names(l.Missing))
		}
	}
	return ""
}

// omitsHost says why the host is not as declared: the latest proposed plan left out some of its changes.
func (s *Session) omitsHost(host string) string {
	if !s.latest.incomplete[host] {
		return ""
	}
	return "its settings depend on what was not applied"
}

// measure runs the live checks of the paths; nil: of all.
func (s *Session) measure(ctx context.Context, o VerifyOptions, paths func(fabric.Path) bool, e Events) []validators.Result {
	vo := validators.Options{Only: o.Only, Link: o.Link, Where: paths, Unreachable: s.unmeasurable(), Excluded: s.Excluded, OmitPath: s.omitsPath,
		OmitHost: s.omitsHost, Invocation: s.Options.Invocation,
		Progress: func(what string) { e.Progress("%s", what) }}
	if s.keysOnly {
		vo.OmitLogins = "the saved plan only made the keys; the next apply enters them at the other hosts"
	}
	if s.Options.Lab != nil {
		vo.Lab, vo.LabCapGbps = true, s.Options.Lab.LinkCapGbps()
	}
	return validators.Run(ctx, s.Fabric, s.Fleet, vo)
}

// conclude reports the results of live checks. After an interrupt it reports none: checks that were cut short look like failed ones.
func (s *Session) conclude(ctx context.Context, o VerifyOptions, results []validators.Result, unreachable map[string]string,
	e Events) (Ending, []validators.Result) {
	if ctx.Err() != nil {
		return Failed, nil
	}
	part := o.Link != "" || slices.ContainsFunc(s.Fabric.Hosts, func(h *fabric.Host) bool { return s.Excluded(h.Name) })
	e.Results(results, part)
	ending := Done
	if len(unreachable) > 0 {
		e.Unreachable(unreachable)
		ending = HostsUnreachable
	}
	if failedAny(results) {
		ending = max(ending, CheckFailed)
	}
	return ending, results
}

// failedAny reports whether a live check failed.
func failedAny(results []validators.Result) bool {
	return slices.ContainsFunc(results, func(r validators.Result) bool { return r.Verdict == validators.Fail })
}
