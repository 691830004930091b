package validators

import (
	"cmp"
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

// cablingListen is how long the check listens, beyond the longest declared way: the second round of frames is sent 200 ms after the first.
// Frames arrive at once, unlike what switches say of themselves.
const cablingListen = 500 * time.Millisecond

const bridged = "a bridge or a switch is between the ends: other ports hear what a direct cable carries to its end alone, or the end does not hear " +
	"what bridges hold back"

// cabled is the judgement of one end of a path.
type cabled struct {
	Result
	*trial
	wrong bool // a link is cabled to another port, at found
	found cabling.Port
}

// cables finds out where the frames of each declared port arrive, and compares that with the files. A path that has both ends right, or is
// skipped as a whole, has one result.
func (r *run) cables(ctx context.Context, trials []*trial) []Result {
	declared := ready(trials, CheckCabling)
	sends, listen := map[cabling.Port]bool{}, cablingListen
	for _, t := range declared {
		for _, s := range t.ends {
			sends[cabling.Port{Host: s.host, Netdev: s.link.Name}] = without(t.path, t.ends[0], t.ends[1]) == ""
		}
		delay, jitter, _ := t.path.Span.OneWay()
		listen = max(listen, cablingListen+delay+jitter)
	}
	if len(declared) == 0 {
		return nil
	}
	survey := cabling.Plan(r.snapshots, cabling.Options{Send: func(p cabling.Port) bool { return sends[p] }})
	j := cablingJudge{states: map[cabling.Port]cabling.State{}}
	for _, p := range survey.Ports {
		j.states[p.Port] = p.State
	}
	var err error
	j.answers, err = cabling.Listen(ctx, r.fleet, survey, listen, func(what string) { r.options.progress("cabling: " + what) })
	j.reached = j.answers.Reached(survey)
	var all []*cabled
	for _, t := range declared {
		var ends [2]*cabled
		for i, s := range t.ends {
			ends[i] = &cabled{Result: t.result(CheckCabling, Cabled, s.host, t.ends[1-i].host), trial: t}
			ends[i].Object, ends[i].Wanted = s.nic, t.ends[1-i].port()
			if err != nil {
				ends[i].Result = ends[i].unmeasured("interrupted: "+err.Error(), "")
			} else {
				j.judge(ends[i], s, t.ends[1-i])
			}
		}
		all = append(all, ends[0])
		if a, b := ends[0], ends[1]; a.Verdict == Fail || a.Verdict != b.Verdict || a.Cause != b.Cause {
			all = append(all, b)
		}
	}
	r.correct(all)
	for _, c := range all {
		c.add(c.Result)
	}
	return nil
}

// cablingJudge holds what the hosts answered.
type cablingJudge struct {
	answers *cabling.Answers
	states  map[cabling.Port]cabling.State
	reached map[cabling.Port]cabling.Reach
}

// made reports whether the end is a bond or VLAN: it has no cable of its own.
func (s side) made() bool { return s.link.Bond != nil || s.link.VLAN != nil }

// judge says where the frames of one end arrived.
func (j *cablingJudge) judge(c *cabled, from, to side) {
	port, want := cabling.Port{Host: from.host, Netdev: from.link.Name}, cabling.Port{Host: to.host, Netdev: to.link.Name}
	if why := without(c.path, from, to); why != "" {
		c.Result = c.skips(NotDeclared, why)
		return
	}
	if why := cmp.Or(j.failure(port), j.failure(want)); why != "" {
		c.Result = c.unmeasured(why, "")
		return
	}
	if skipped, why := j.skips(from, to); skipped != "" {
		c.Result = c.skips(skipped, why)
		return
	}
	all := slices.Concat(j.reached[port].Both, j.reached[port].Some)
	direct := len(all) == 1 && len(j.reached[port].Both) == 1
	var names []string
	for _, p := range all {
		names = append(names, c.declaredName(p))
	}
	c.Found = strings.Join(names, ", ")
	switch right := slices.Contains(all, want); {
	case right && (c.path.Network != nil || direct):
		c.Found = to.port()
	case right:
		c.Result = c.fails(bridged, "declare a network, or remove the bridge")
		c.Verdict = Warn
	case len(all) == 0 && c.path.Network != nil:
		c.Result = c.skips(NotMeasured, "no port of these hosts heard the frames of "+from.port()+": the network may not carry them")
	case len(all) == 0:
		c.Result = c.fails("no port of these hosts heard its frames: the cable leads elsewhere, or the other end is down", "")
	case c.path.Network != nil:
		c.Result = c.fails("the port is cabled to another segment than the files say", "exchange the cables, or correct the files")
	case direct:
		c.wrong, c.found = true, all[0]
		c.Result = c.fails(fmt.Sprintf("declared %s – %s, cabled to %s", from.port(), to.port(), names[0]), "exchange the cables, or correct the files")
	default:
		c.Result = c.fails("the port is cabled to a bridge or a switch that does not lead to "+to.port(), "exchange the cables, or correct the files")
	}
}

// failure says why nothing is known of a port; "" if it took part, or did not have to.
func (j *cablingJudge) failure(p cabling.Port) string {
	return cmp.Or(j.answers.Failed[p.Host], j.answers.Ports[p].Failed, j.answers.Sent[p].Failed)
}

// without says why a path is no cable or segment; "" if it is one.
func without(path fabric.Path, from, to side) string {
	switch {
	case from.made() || to.made():
		return "the cables of bonds and VLANs are not compared; the check bond judges the members of a bond"
	case path.Routed:
		return "a routed network has no common segment"
	}
	return ""
}

// skips says why the cable of a path's end cannot be judged; "" if it can.
func (j *cablingJudge) skips(from, to side) (reason SkipReason, why string) {
	state, port := j.states[cabling.Port{Host: from.host, Netdev: from.link.Name}], from.port()
	_, hears := j.states[cabling.Port{Host: to.host, Netdev: to.link.Name}]
	switch {
	case state == "":
		return NotDeclared, port + " is not an Ethernet port"
	case !hears:
		return NotDeclared, to.port() + " is not an Ethernet port"
	case state == cabling.Down || state == cabling.NoCarrier:
		return NoCarrier, port + " has no carrier"
	case state == cabling.Management:
		return NotDeclared, port + " sent nothing, because it may carry your connection"
	}
	return "", ""
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

// correct adds one diff to the first link that is cabled to another port: the endpoints of all such links as they are cabled.
func (r *run) correct(all []*cabled) {
	var wrong []*cabled // the first result of each link
	cables := map[fabric.NICRef]fabric.NICRef{}
	for _, c := range all {
		if !c.wrong {
			continue
		}
		if n := len(wrong); n == 0 || wrong[n-1].trial != c.trial {
			wrong = append(wrong, c)
		}
		if n := r.nicAt(c.found); n != nil && n.Host != c.Host {
			cables[fabric.NICRef{Host: c.Host, NIC: c.Object}] = n.Ref()
		}
	}
	links := make([][2]fabric.NICRef, 0, len(wrong))
	for _, c := range wrong {
		links = append(links, c.path.Endpoints)
	}
	corrected := rewired(links, cables)
	taken := map[fabric.NICRef]bool{}
	for i, is := range corrected {
		if is != links[i] {
			taken[is[0]], taken[is[1]] = true, true
		}
	}
	for i, is := range corrected {
		link := wrong[i].path.Link
		if is == links[i] {
			if taken[is[0]] || taken[is[1]] { // the corrected files would have the end in two links
				at := link.At("endpoints")
				wrong[0].Diff = append(wrong[0].Diff, fmt.Sprintf("@@ %s:%d, link %s: no cable was found for it, and another link has an end of it: remove it @@", at.File, at.Line, link.Title()))
			}
			continue
		}
		at, note := link.At("endpoints"), ""
		if link.BlockName != link.Name {
			note = " (of for_each: declare it in a block of its own)"
		}
		wrong[0].Diff = append(wrong[0].Diff, fmt.Sprintf("@@ %s:%d, link %s%s @@", at.File, at.Line, link.Title(), note),
			"-  endpoints = "+r.references(links[i]), "+  endpoints = "+r.references(is))
	}
}

// rewired returns the endpoints of links as they are cabled, each cable once. A link gets the cable between its two hosts rather than another
// one, then that of its first end. A link for which no cable is left keeps its endpoints. cables has the other end of each end; a cable that
// only one end knows is none.
func rewired(links [][2]fabric.NICRef, cables map[fabric.NICRef]fabric.NICRef) [][2]fabric.NICRef {
	out := slices.Clone(links)
	used, done := map[fabric.NICRef]bool{}, make([]bool, len(links))
	for _, same := range []bool{true, false} {
		for end := range 2 {
			for i, l := range links {
				x := l[end]
				y, known := cables[x]
				if done[i] || !known || cables[y] != x || used[x] || same && y.Host != l[1-end].Host {
					continue
				}
				out[i][end], out[i][1-end] = x, y
				done[i], used[x], used[y] = true, true, true
			}
		}
	}
	for i, l := range links { // a cable between ends of two links that both have another one by now
		for _, other := range links {
			for _, x := range other {
				y, known := cables[x]
				if !done[i] && known && cables[y] == x && !used[x] {
					out[i] = [2]fabric.NICRef{x, y}
					if y.Host == l[0].Host || x.Host == l[1].Host {
						out[i] = [2]fabric.NICRef{y, x}
					}
					done[i], used[x], used[y] = true, true, true
				}
			}
		}
	}
	return out
}

func (r *run) references(refs [2]fabric.NICRef) string {
	var out []string
	for _, ref := range refs {
		host := "host." + ref.Host
		if h := r.hosts[ref.Host]; h.BlockName != "" && h.BlockName != h.Name {
			host = fmt.Sprintf("host.%s[%q]", h.BlockName, h.Name)
		}
		out = append(out, host+".nic."+ref.NIC)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
