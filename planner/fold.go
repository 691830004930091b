package planner

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

// Group is a set of hosts that need the same actions on things of the same names. Where values differ from host to
// host, each value names its hosts.
type Group struct {
	Hosts   []string
	Actions []GroupAction
	Each    int // changes on each host
	// Management is the plan of the host, if the group has only one; otherwise nil.
	Management *HostPlan
	// UnknownPath says why the paths of the operator's connections to these hosts are unknown; "" if they are known.
	UnknownPath string
	By          string // what made the connections (facts.Management)
}

// GroupAction is one action of all hosts of a group.
type GroupAction struct {
	Op      Op
	Kind    string
	Name    string
	Changes []GroupChange
	Kept    []resource.Change
	Adopted []string // what Action.Adopted has: whole attributes, if all hosts have the same, or else their first words, and how many of each
	Worst   resource.Disruption
}

// GroupChange is one change of hosts of a group. Values fold if they are equal, or if they rise by the same step from
// each host to the next, such as addresses; it then shows the first and the last.
type GroupChange struct {
	Attribute, From, To string
	Drift               bool
	Hosts               []string // nil: all hosts of the group
}

// Groups folds the hosts that have actions and no problem. Groups are in the order of their first hosts.
func (p *Plan) Groups() []Group {
	index := map[string]int{}
	var members [][]*HostPlan
	for _, host := range p.Hosts {
		h := &host
		h.Actions = h.Shown()
		if len(h.Actions) == 0 || len(h.Problems) > 0 || h.Unreachable != "" {
			continue
		}
		key := shape(h.Actions) + h.Management.Unknown + "\x00" + h.Management.By
		if at, ok := index[key]; ok {
			members[at] = append(members[at], h)
			continue
		}
		index[key] = len(members)
		members = append(members, []*HostPlan{h})
	}
	out := make([]Group, 0, len(members))
	for _, m := range members {
		out = append(out, fold(m))
	}
	return out
}

// shape is a key that is equal for hosts that fold: everything but the values.
func shape(actions []Action) string {
	var b strings.Builder
	for _, a := range actions {
		fmt.Fprintf(&b, "%s %s %s %v %v %t\n", a.Op, a.Resource.Addr.Kind, a.Resource.Addr.Name, a.Kept, firstWords(a.adopted()), a.Touches != "")
		for _, c := range a.Changes {
			attribute, _, _ := strings.Cut(c.Attribute, " ")
			fmt.Fprintf(&b, " %s %t %t %t %d\n", attribute, c.From == "", c.To == "", c.Drift, c.Disruption)
		}
	}
	return b.String()
}

// adopted returns the attributes of Adopted, each once.
func (a Action) adopted() (out []string) {
	for _, c := range a.Adopted {
		if !slices.Contains(out, c.Attribute) {
			out = append(out, c.Attribute)
		}
	}
	return out
}

// firstWords returns the first words of attributes, each once with the number of them: further ones differ from host to host.
func firstWords(attributes []string) (out []string) {
	n := map[string]int{}
	var words []string
	for _, a := range attributes {
		word, _, _ := strings.Cut(a, " ")
		if n[word]++; n[word] == 1 {
			words = append(words, word)
		}
	}
	for _, word := range words {
		if n[word] > 1 {
			word = fmt.Sprintf("%s (%d on each host)", word, n[word])
		}
		out = append(out, word)
	}
	return out
}

func fold(hosts []*HostPlan) Group {
	hosts = slices.Clone(hosts)
	slices.SortStableFunc(hosts, func(a, b *HostPlan) int { return byNumber(a.Name, b.Name) })
	g := Group{UnknownPath: hosts[0].Management.Unknown, By: hosts[0].Management.By}
	for _, h := range hosts {
		g.Hosts = append(g.Hosts, h.Name)
	}
	if len(hosts) == 1 {
		g.Management = hosts[0]
	}
	for i, a := range hosts[0].Actions {
		out := GroupAction{Op: a.Op, Kind: a.Resource.Addr.Kind, Name: a.Resource.Addr.Name, Kept: a.Kept, Adopted: a.adopted(), Worst: a.Disruption()}
		if slices.ContainsFunc(hosts, func(h *HostPlan) bool { return !slices.Equal(h.Actions[i].adopted(), out.Adopted) }) {
			out.Adopted = firstWords(out.Adopted)
		}
		g.Each += len(a.Changes)
		for j := range a.Changes {
			out.Changes = append(out.Changes,
				foldChange(hosts, func(h *HostPlan) resource.Change { return h.Actions[i].Changes[j].Unsalted() })...)
		}
		out.Changes = together(out.Changes, len(hosts))
		g.Actions = append(g.Actions, out)
	}
	return g
}

// together joins the changes that several hosts have at different places of their lists, such as a list of all hosts but their own. all is
// the number of hosts in the group.
func together(changes []GroupChange, all int) (out []GroupChange) {
	type values struct {
		attribute, from, to string
		drift               bool
	}
	at := map[values]int{}
	for _, c := range changes {
		v := values{c.Attribute, c.From, c.To, c.Drift}
		first, had := at[v]
		spans := strings.Contains(c.Attribute+c.From+c.To, spanned) // values of these hosts in their order
		switch {
		case c.Hosts == nil || spans:
			out = append(out, c)
		case !had:
			at[v] = len(out)
			out = append(out, c)
		default:
			o := &out[first]
			o.Hosts = slices.Concat(o.Hosts, c.Hosts)
			slices.SortFunc(o.Hosts, byNumber)
			if o.Hosts = slices.Compact(o.Hosts); len(o.Hosts) == all {
				o.Hosts = nil
			}
		}
	}
	return out
}

// foldChange folds one change of all hosts: first the values that several hosts share, the most frequent first, then
// progressions and single values in the order of hosts.
func foldChange(hosts []*HostPlan, of func(*HostPlan) resource.Change) (out []GroupChange) {
	type values struct{ attribute, from, to string }
	sharing := map[values][]*HostPlan{}
	var order []values
	for _, h := range hosts {
		c := of(h)
		v := values{c.Attribute, c.From, c.To}
		if sharing[v] == nil {
			order = append(order, v)
		}
		sharing[v] = append(sharing[v], h)
	}
	slices.SortStableFunc(order, func(a, b values) int { return len(sharing[b]) - len(sharing[a]) })
	var single []*HostPlan
	add := func(on []*HostPlan) {
		first, last := of(on[0]), of(on[len(on)-1])
		c := GroupChange{Attribute: span(first.Attribute, last.Attribute), From: span(first.From, last.From),
			To: span(first.To, last.To), Drift: first.Drift}
		for _, h := range on { // digests are in no order: the last may be that of the first again
			if _, mode, is := facts.CutDigest(first.From); is && of(h).From != first.From {
				c.From = digestsDiffer + mode
			}
			if _, mode, is := facts.CutDigest(first.To); is && of(h).To != first.To {
				c.To = digestsDiffer + mode
			}
		}
		for _, h := range on {
			c.Hosts = append(c.Hosts, h.Name)
		}
		out = append(out, c)
	}
	for _, v := range order {
		if on := sharing[v]; len(on) > 1 || len(order) == 1 {
			add(on)
		} else {
			single = append(single, on[0])
		}
	}
	slices.SortStableFunc(single, func(a, b *HostPlan) int { return byNumber(a.Name, b.Name) })
	for len(single) > 0 {
		n := run(single, of)
		add(single[:n])
		single = single[n:]
	}
	if len(out) == 1 {
		out[0].Hosts = nil
	}
	return out
}

// run returns how many of the first hosts have values that rise by the same step from each to the next. Two values
// always have one step: they count only if it is 1.
func run(hosts []*HostPlan, of func(*HostPlan) resource.Change) int {
	var step [3]int64
	n := 1
	for ; n < len(hosts); n++ {
		a, b := of(hosts[n-1]), of(hosts[n])
		var here [3]int64
		rises := true
		for i, v := range [3][2]string{{a.Attribute, b.Attribute}, {a.From, b.From}, {a.To, b.To}} {
			by, ok := rise(v[0], v[1])
			here[i], rises = by, rises && ok
		}
		if !rises || n > 1 && here != step {
			break
		}
		step = here
	}
	if n == 2 && max(step[0], step[1], step[2]) > 1 {
		return 1
	}
	return n
}

// rise returns by how much b exceeds a, if both are addresses, or texts that are equal but for one number. Equal values
// rise by 0, and so do digests of contents: a reader learns nothing from comparing them.
func rise(a, b string) (by int64, ok bool) {
	if a == b {
		return 0, true
	}
	if _, modeA, is := facts.CutDigest(a); is {
		_, modeB, both := facts.CutDigest(b)
		return 0, both && modeA == modeB
	}
	p, errA := netip.ParsePrefix(a)
	q, errB := netip.ParsePrefix(b)
	if errA == nil && errB == nil {
		x, y := p.Addr().As16(), q.Addr().As16()
		by = int64(binary.BigEndian.Uint64(y[8:]) - binary.BigEndian.Uint64(x[8:]))
		return by, by > 0 && p.Bits() == q.Bits() && [8]byte(x[:8]) == [8]byte(y[:8]) && p.Addr().Is4() == q.Addr().Is4()
	}
	i := 0 // the texts differ from here
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	i = len(strings.TrimRight(a[:i], "0123456789"))
	x, restA := leadingDigits(a[i:])
	y, restB := leadingDigits(b[i:])
	by = int64(value(y) - value(x))
	padded := strings.HasPrefix(x, "0") || strings.HasPrefix(y, "0") // 09 and 10, but not 9 and 010
	return by, restA == restB && value(x) >= 0 && value(y) >= 0 && by > 0 && (!padded || len(x) == len(y) || x == "0")
}

func leadingDigits(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}

// byNumber orders names as people count: h2 before h10.
func byNumber(a, b string) int {
	stemA, x := numbered(a)
	stemB, y := numbered(b)
	if stemA == stemB && x != "" && y != "" && value(x) != value(y) {
		return value(x) - value(y)
	}
	return strings.Compare(a, b)
}

// digestsDiffer stands for the digests of hosts that do not all have the same.
const digestsDiffer = "digests that differ,"

// spanned is between the first and the last of several values.
const spanned = " … "

// span shows one value, or the first and the last of several.
func span(a, b string) string {
	if a == b {
		return a
	}
	return a + spanned + b
}

// Names abbreviates a list of names: gpu[00-15], or a, b, c.
func Names(names []string) string {
	names = slices.Sorted(slices.Values(names))
	var parts []string
	for i := 0; i < len(names); {
		stem, digits := numbered(names[i])
		j := i + 1
		for ; digits != "" && j < len(names); j++ {
			s, d := numbered(names[j])
			if s != stem || len(d) != len(digits) || value(d) != value(digits)+j-i {
				break
			}
		}
		if j-i > 2 {
			_, end := numbered(names[j-1])
			parts = append(parts, fmt.Sprintf("%s[%s-%s]", stem, digits, end))
		} else {
			parts = append(parts, names[i:j]...)
		}
		i = j
	}
	return strings.Join(parts, ", ")
}

// numbered splits a name into its stem and the number at its end.
func numbered(name string) (stem, digits string) {
	stem = strings.TrimRight(name, "0123456789")
	return stem, name[len(stem):]
}

func value(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1 << 30 // too long for a number: never part of a range
	}
	return n
}
