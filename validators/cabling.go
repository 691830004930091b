package validators

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/cabling"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
)

// Cabled is the item of the check: where a port's own frames arrive.
const Cabled Item = "cabled"

// cablingListen is how long the check listens after it has sent. Frames of our own arrive at once, unlike what switches say of themselves.
const cablingListen = time.Second

// cables finds out where the frames of each declared port arrive, and compares that with the files.
func (r *run) cables(ctx context.Context, trials []*trial) []Result {
	declared := ready(trials, CheckCabling)
	sends := map[cabling.Port]bool{}
	for _, t := range declared {
		for _, s := range t.ends {
			sends[cabling.Port{Host: s.host, Netdev: s.link.Name}] = true
		}
	}
	if len(declared) == 0 {
		return nil
	}
	survey := cabling.Plan(r.snapshots, cabling.Options{Send: func(p cabling.Port) bool { return sends[p] }})
	answers, err := cabling.Listen(ctx, r.fleet, survey, cablingListen, func(what string) { r.options.progress("cabling: " + what) })
	for _, t := range declared {
		for i, s := range t.ends {
			res := t.result(CheckCabling, Cabled, s.host, t.ends[1-i].host)
			res.Object, res.Wanted = s.nic, t.ends[1-i].port()
			if err != nil {
				res = res.unmeasured("interrupted: "+err.Error(), "")
			} else {
				res = t.cabled(res, s, t.ends[1-i], survey, answers)
			}
			t.add(res)
		}
	}
	return nil
}

// made reports whether the end is a bond or VLAN: it has no cable of its own.
func (s side) made() bool { return s.link.Bond != nil || s.link.VLAN != nil }

// cabled judges where the frames of one end arrived.
func (t *trial) cabled(res Result, from, to side, survey *cabling.Survey, answers *cabling.Answers) Result {
	port := cabling.Port{Host: from.host, Netdev: from.link.Name}
	want := cabling.Port{Host: to.host, Netdev: to.link.Name}
	switch {
	case answers.Failed[from.host] != "":
		return res.unmeasured(answers.Failed[from.host], "")
	case answers.Failed[to.host] != "":
		return res.unmeasured(answers.Failed[to.host], "")
	case !from.link.Carrier || !from.link.Up:
		return res.skips(NoCarrier, from.port()+" has no carrier")
	case from.made() || to.made():
		return res.skips(NotDeclared, "the cables of bonds and VLANs are not compared; the check bond judges the members of a bond")
	case t.path.Routed:
		return res.skips(NotDeclared, "a routed network has no common segment")
	case answers.Sent[port].Frames == 0:
		return res.skips(NotDeclared, from.port()+" sent nothing: it may carry your connection")
	}
	both, some := answers.HeardBy(survey, port)
	all := slices.Concat(both, some)
	switch {
	case t.path.Network != nil && slices.Contains(all, want):
		res.Found = to.port()
		return res
	case t.path.Link != nil && len(both) == 1 && both[0] == want && len(some) == 0:
		res.Found = to.port()
		return res
	case len(all) == 0:
		return res.fails("no port of these hosts heard its frames: the cable leads elsewhere, or the other end is down", "")
	}
	var names []string
	for _, p := range all {
		names = append(names, t.declaredName(p))
	}
	res.Found = strings.Join(names, ", ")
	if t.path.Link == nil {
		return res.fails("the port is cabled to another segment than the files say", "exchange the cables, or correct the files")
	}
	if len(both) == 1 && len(some) == 0 {
		res.Diff = t.corrected(from, both[0])
		return res.fails(fmt.Sprintf("declared %s – %s, cabled to %s", from.port(), to.port(), names[0]), "exchange the cables, or correct the files")
	}
	return res.fails("other ports also hear what a direct cable would carry to its other end alone: a bridge or a switch is between them", "declare a network, or remove it")
}

// nicAt returns the declared NIC at a port; nil if the files do not have it.
func (r *run) nicAt(p cabling.Port) *fabric.NIC {
	h, snap := r.hosts[p.Host], r.snapshots[p.Host]
	if h == nil || snap == nil {
		return nil
	}
	for _, n := range h.NICs {
		if l := nccl.Netdev(snap, n); l != nil && l.Name == p.Netdev {
			return n
		}
	}
	return nil
}

func (r *run) declaredName(p cabling.Port) string {
	if n := r.nicAt(p); n != nil {
		return n.Ref().String()
	}
	return p.String() + " (not declared)"
}

// corrected returns the link's endpoints as they are declared and as they are cabled, as a diff; nil if the files do not declare the NIC.
func (t *trial) corrected(from side, found cabling.Port) []string {
	n := t.nicAt(found)
	if n == nil {
		return nil
	}
	is := t.path.Endpoints
	for i, ref := range is {
		if ref != from.ref() {
			is[i] = n.Ref()
		}
	}
	at := t.path.Link.At("endpoints")
	return []string{fmt.Sprintf("@@ %s:%d, link %s @@", at.File, at.Line, t.path.Link.Title()),
		"-  endpoints = " + t.references(t.path.Endpoints), "+  endpoints = " + t.references(is)}
}

func (t *trial) references(refs [2]fabric.NICRef) string {
	var out []string
	for _, ref := range refs {
		host := "host." + ref.Host
		if h := t.hosts[ref.Host]; h.BlockName != "" && h.BlockName != h.Name {
			host = fmt.Sprintf("host.%s[%q]", h.BlockName, h.Name)
		}
		out = append(out, host+".nic."+ref.NIC)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
