package cabling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/probe/lldp"
)

// Judge says what the answers of a run mean.
func Judge(s *Survey, a *Answers) *Report {
	j := &judge{survey: s, answers: a, report: &Report{Listened: a.Listened, Sent: map[string]int{}, Failed: maps.Clone(s.Failed)},
		unitOf: map[Port]int{}, heard: map[pair]sound{}, senders: map[int][]int{}, others: map[int][]other{}}
	for host, why := range a.Failed {
		j.fail(host, why)
	}
	j.group()
	j.listen()
	j.states()
	for _, members := range j.components() {
		j.component(members)
	}
	j.switches()
	return j.report
}

type judge struct {
	survey  *Survey
	answers *Answers
	report  *Report
	units   []unit
	unitOf  map[Port]int
	heard   map[pair]sound  // by listener and sender
	senders map[int][]int   // those that a unit heard
	others  map[int][]other // devices other than the hosts' ports, by the unit that heard them
}

// unit is a physical port.
type unit struct {
	End
	state State // Sends if one of its functions has sent
	over  string
	full  bool // it heard more than was kept
}

type pair struct{ listener, sender int }

// sound is which kinds of frames were heard.
type sound struct{ group, broadcast bool }

func (s sound) both() bool { return s.group && s.broadcast }

// with adds a frame.
func (s sound) with(group bool) sound {
	return sound{group: s.group || group, broadcast: s.broadcast || !group}
}

// other is a device other than the hosts' ports, such as a switch.
type other struct {
	name string // for people
	lldp *lldp.Neighbour
	id   string
}

// group makes units of the functions of one port.
func (j *judge) group() {
	for _, p := range j.survey.Ports {
		if _, known := j.unitOf[p.Port]; known {
			continue
		}
		u := unit{End: End{p.Host, []string{p.Netdev}}, state: p.State, over: p.Over}
		j.unitOf[p.Port] = len(j.units)
		for _, twin := range p.Twins {
			at := Port{p.Host, twin}
			j.unitOf[at] = len(j.units)
			u.Netdevs = append(u.Netdevs, twin)
			for _, q := range j.survey.Ports {
				if q.Port == at && (u.state == Down || u.state == NoCarrier || q.State == Sends) {
					u.state = q.State
				}
			}
		}
		j.units = append(j.units, u)
	}
}

// listen records the frames that each unit heard, by their sender.
func (j *judge) listen() {
	for _, port := range slices.SortedFunc(maps.Keys(j.answers.Ports), comparePorts) {
		said := j.answers.Ports[port]
		if said.Failed != "" {
			j.fail(port.String(), said.Failed)
		}
		if said.Eats != "" {
			j.report.TakesLLDP = append(j.report.TakesLLDP, LLDPTaken{port, said.Eats})
		}
	}
	for _, port := range slices.SortedFunc(maps.Keys(j.answers.Sent), comparePorts) {
		said := j.answers.Sent[port]
		if said.Failed != "" {
			j.fail(port.String(), said.Failed)
		}
		if said.Frames > 0 {
			j.report.Sent[port.String()] = said.Frames
		}
	}
	for _, host := range slices.Sorted(maps.Keys(j.answers.Heard)) {
		heard := j.answers.Heard[host]
		for _, p := range heard.Probes {
			at, known := j.unitOf[Port{host, p.Netdev}]
			if !known || int64(p.Number) >= int64(len(j.survey.Ports)) {
				continue
			}
			k := pair{at, j.unitOf[j.survey.Ports[p.Number].Port]}
			if _, known := j.heard[k]; !known {
				j.senders[at] = append(j.senders[at], k.sender)
			}
			j.heard[k] = j.heard[k].with(p.Group)
		}
		for _, o := range heard.Others {
			if at, known := j.unitOf[Port{host, o.Netdev}]; known {
				j.other(at, o.Data)
			}
		}
		for _, netdev := range heard.Full {
			if at, known := j.unitOf[Port{host, netdev}]; known {
				j.units[at].full = true
			}
		}
	}
}

func (j *judge) fail(what, why string) {
	if j.report.Failed == nil {
		j.report.Failed = map[string]string{}
	}
	j.report.Failed[what] = why
}

// known reports whether an address is that of a host that was heard there, or of the listening host: the host describes itself. An address that
// another host claims says nothing: it could hide a switch.
func (j *judge) known(at int, mac string) bool {
	return slices.ContainsFunc(j.survey.macs[mac], func(host string) bool {
		return host == j.units[at].Host || slices.ContainsFunc(j.senders[at], func(from int) bool { return j.units[from].Host == host })
	})
}

// other records a device other than the hosts' ports. The probes that the unit heard are known before.
func (j *judge) other(at int, frame []byte) {
	f, ok := lldp.Decode(frame)
	if !ok || j.known(at, f.Source) {
		return
	}
	o := other{id: f.Source}
	switch {
	case f.LLDP != nil && j.known(at, f.LLDP.ChassisM):
		return
	case f.LLDP != nil:
		o.lldp, o.id = f.LLDP, "lldp "+f.LLDP.Chassis+" "+f.LLDP.Port
		o.name = fmt.Sprintf("switch %s, port %s (LLDP)", cmp.Or(f.LLDP.Name, f.LLDP.Chassis), f.LLDP.Port)
	case f.Bridge != "":
		o.name, o.id = "bridge "+f.Bridge+" (STP)", "stp "+f.Bridge
	default:
		o.name = fmt.Sprintf("a device with address %s (frames of type 0x%04x)", f.Source, f.Type)
	}
	if !slices.ContainsFunc(j.others[at], func(known other) bool { return known.id == o.id }) {
		j.others[at] = append(j.others[at], o)
	}
}

// states lists the ports that did not send.
func (j *judge) states() {
	for _, u := range j.units {
		switch u.state {
		case Down:
			j.report.Down = append(j.report.Down, u.End)
			for _, p := range j.survey.Ports {
				if p.LeftAlone != "" && p.Host == u.Host && slices.Contains(u.Netdevs, p.Netdev) {
					if j.report.LeftAlone == nil {
						j.report.LeftAlone = map[string]string{}
					}
					j.report.LeftAlone[p.String()] = p.LeftAlone
				}
			}
		case NoCarrier:
			j.report.NoCarrier = append(j.report.NoCarrier, u.End)
		case Management:
			j.report.Management = append(j.report.Management, u.End)
		}
	}
}

// components returns the units that are connected by what was heard, each set in order. A unit that heard nothing, and was not heard, is
// alone.
func (j *judge) components() (out [][]int) {
	next := map[int][]int{}
	for k := range j.heard {
		next[k.listener] = append(next[k.listener], k.sender)
		next[k.sender] = append(next[k.sender], k.listener)
	}
	seen := map[int]bool{}
	for at := range j.units {
		if seen[at] {
			continue
		}
		seen[at] = true
		members := []int{at}
		for i := 0; i < len(members); i++ {
			for _, n := range next[members[i]] {
				if !seen[n] {
					seen[n] = true
					members = append(members, n)
				}
			}
		}
		slices.Sort(members)
		out = append(out, members)
	}
	return out
}

func (j *judge) component(members []int) {
	switch {
	case len(members) == 1:
		j.alone(members[0])
	case j.isCable(members):
		j.report.Cables = append(j.report.Cables, [2]End{j.units[members[0]].End, j.units[members[1]].End})
	case j.isSegment(members, false):
		j.report.Segments = append(j.report.Segments, Segment{Ends: j.ends(members)})
	case (len(members) > 2 || j.switched(members)) && j.isSegment(members, true):
		j.report.Segments = append(j.report.Segments, Segment{Ends: j.ends(members), Forwards: true})
	default:
		j.report.Unclear = append(j.report.Unclear, Unclear{j.ends(members), j.story(members)})
	}
}

func (j *judge) alone(at int) {
	u := j.units[at]
	_, itself := j.heard[pair{at, at}]
	switch {
	case itself:
		j.report.Unclear = append(j.report.Unclear, Unclear{[]End{u.End}, j.story([]int{at})})
	case u.state == Sends && len(j.others[at]) == 0 && j.answers.Failed[u.Host] == "" && !j.failed(u):
		j.report.Silent = append(j.report.Silent, u.End)
	}
}

// failed reports whether a function of the port could not listen or send, so that silence means nothing.
func (j *judge) failed(u unit) bool {
	return slices.ContainsFunc(u.Netdevs, func(netdev string) bool { return j.report.Failed[Port{u.Host, netdev}.String()] != "" })
}

func (j *judge) ends(members []int) (out []End) {
	for _, at := range members {
		out = append(out, j.units[at].End)
	}
	return out
}

// isCable is the rule of a direct cable. A unit of two functions hears its own frames, because the NIC passes them from one to the other.
func (j *judge) isCable(members []int) bool {
	if len(members) != 2 || !j.heard[pair{members[0], members[1]}].both() || !j.heard[pair{members[1], members[0]}].both() {
		return false
	}
	for _, at := range members {
		_, itself := j.heard[pair{at, at}]
		if len(j.others[at]) > 0 || j.units[at].full || itself && len(j.units[at].Netdevs) == 1 {
			return false
		}
	}
	return true
}

// isSegment is the rule of a segment: what each sender broadcast was heard by all others, and the other kind by nobody, or by all.
func (j *judge) isSegment(members []int, forwards bool) bool {
	senders := 0
	for _, u := range members {
		if j.units[u].state != Sends {
			continue
		}
		senders++
		for _, v := range members {
			if u != v && j.heard[pair{v, u}] != (sound{group: forwards, broadcast: true}) {
				return false
			}
		}
	}
	return senders > 0
}

// switched is whether every member hears a switch.
func (j *judge) switched(members []int) bool {
	return !slices.ContainsFunc(members, func(at int) bool {
		return !slices.ContainsFunc(j.others[at], func(o other) bool { return o.lldp != nil })
	})
}

// maxStory limits the lines of a story: a host that lies may have heard all ports.
const maxStory = 100

// story lists what was heard, for people.
func (j *judge) story(members []int) (out []string) {
	for _, v := range members {
		if len(out) > maxStory {
			return append(out[:maxStory], "and more, which is not listed")
		}
		for _, u := range slices.Sorted(slices.Values(j.senders[v])) {
			s, kind := j.heard[pair{v, u}], "both kinds of frames"
			switch {
			case !s.broadcast:
				kind = "only the frames that bridges do not forward"
			case !s.group:
				kind = "only the broadcasts"
			}
			from := j.units[u].String()
			if u == v {
				from = "itself"
			}
			out = append(out, fmt.Sprintf("%s heard %s of %s", j.units[v], kind, from))
		}
		for _, o := range j.others[v] {
			out = append(out, fmt.Sprintf("%s heard %s", j.units[v], o.name))
		}
		u := j.units[v]
		if u.state == Management {
			out = append(out, u.String()+" may carry your connection and sent nothing")
		}
		if u.over != "" {
			out = append(out, fmt.Sprintf("%s belongs to %s", u, u.over))
		}
		if u.full {
			out = append(out, u.String()+" heard more than is kept")
		}
	}
	return out
}

func comparePorts(a, b Port) int {
	return cmp.Or(strings.Compare(a.Host, b.Host), strings.Compare(a.Netdev, b.Netdev))
}
