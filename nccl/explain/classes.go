package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// classMap is how a NIC chooses and protects priorities, as a file shows it: by mlnx_qos -i (mlnx-tools), or by dcb app, apptrust and pfc
// show (iproute2). These do not name the NIC, so that outputs that differ leave out what differs.
type classMap struct {
	trust shown[string] // dscp or pcp
	dscp  map[int]shown[int]
	whole bool          // what is not in the map has no entry
	pfc   shown[string] // the priorities with PFC, such as "3,5"; "none"
}

// shown is a value and the line that shows it. Its zero value is not known.
type shown[T comparable] struct {
	value  T
	line   int
	differ bool // two lines show different values
}

// add notes a value.
func (s *shown[T]) add(line int, value T) {
	if s.line == 0 {
		s.value, s.line = value, line
	}
	s.differ = s.differ || s.value != value
}

func (s shown[T]) known() bool { return s.line > 0 && !s.differ }

// row reads a row of one of the programs.
func (m *classMap) row(number int, line string, fields []string) bool {
	switch first, rest := fields[0], fields[1:]; {
	case strings.HasPrefix(strings.TrimSpace(line), "Priority trust state: "):
		m.trust.add(number, fields[3])
	case first == "order:" && (rest[0] == "dscp" || rest[0] == "pcp"): // dcb apptrust show
		m.trust.add(number, rest[0])
	case strings.HasPrefix(first, "prio:") && strings.HasPrefix(rest[0], "dscp:"): // mlnx_qos
		p, ok := below(strings.TrimPrefix(first, "prio:"), 8)
		for d := range strings.SplitSeq(strings.Trim(strings.TrimPrefix(rest[0], "dscp:"), ","), ",") {
			if dscp, is := below(d, 64); ok && is {
				m.maps(number, dscp, p)
			}
		}
	case first == "dscp-prio": // dcb app show, with names of /etc/iproute2/rt_dsfield
		m.whole = true
		for _, f := range rest {
			name, priority, _ := strings.Cut(f, ":")
			p, ok := below(priority, 8)
			if dscp, is := codepoint(name); ok && is {
				m.maps(number, dscp, p)
			}
		}
	case first == "enabled" && len(rest) == 8: // mlnx_qos
		return m.protects(number, rest, "1", "0")
	case first == "prio-pfc" && len(rest) == 8: // dcb pfc show
		states := make([]string, 0, len(rest))
		for i, f := range rest {
			state, is := strings.CutPrefix(f, strconv.Itoa(i)+":")
			if !is {
				return false
			}
			states = append(states, state)
		}
		return m.protects(number, states, "on", "off")
	default:
		return false
	}
	return true
}

func (m *classMap) maps(line, dscp, priority int) {
	if m.dscp == nil {
		m.dscp = map[int]shown[int]{}
	}
	s := m.dscp[dscp]
	s.add(line, priority)
	m.dscp[dscp] = s
}

// protects notes the priorities with PFC. It returns false if the states are others than on and off.
func (m *classMap) protects(line int, states []string, on, off string) bool {
	var with []string
	for i, s := range states {
		switch s {
		case on:
			with = append(with, strconv.Itoa(i))
		case off:
		default:
			return false
		}
	}
	if with == nil {
		with = []string{"none"}
	}
	m.pfc.add(line, strings.Join(with, ","))
	return true
}

// below reads a number from 0 to n-1.
func below(text string, n int) (int, bool) {
	v, err := strconv.Atoi(text)
	return v, err == nil && v >= 0 && v < n
}

// codepoint reads a DSCP: a number, or a name of RFC 2474 (CS0 to CS7), RFC 2597 (AF11 to AF43) or RFC 3246 (EF).
func codepoint(name string) (int, bool) {
	if name == "EF" {
		return 46, true
	}
	if rest, is := strings.CutPrefix(name, "CS"); is {
		class, ok := below(rest, 8)
		return class << 3, ok
	}
	if rest, is := strings.CutPrefix(name, "AF"); is && len(rest) == 2 {
		class, drop := int(rest[0]-'0'), int(rest[1]-'0')
		return class<<3 | drop<<1, class >= 1 && class <= 4 && drop >= 1 && drop <= 3
	}
	return below(name, 64)
}

// priorityOf returns the priority of a DSCP, and the line that says so; ok is false if that is not known.
func (m *classMap) priorityOf(dscp int) (priority int, says string, ok bool) {
	s := m.dscp[dscp]
	if !s.known() || m.trust.line > 0 && (m.trust.differ || m.trust.value != "dscp") {
		return 0, "", false
	}
	return s.value, fmt.Sprintf("the NIC's map in line %d", s.line), true
}

// judge compares NCCL's traffic class with the NIC.
func (m *classMap) judge(r *reading, all []setting) {
	tc, ok := find(all, "NCCL_IB_TC")
	n := env.ParseNumber(tc.value).Value
	if !ok || tc.dynamic || n <= 0 || n > 255 {
		return
	}
	dscp := int(n >> 2)
	p, says, known := m.priorityOf(dscp)
	warn := func(summary, wrong, instead string) {
		r.add(tc.line, env.Finding{Severity: env.Warning, Name: tc.name, Summary: summary, Wrong: fmt.Sprintf("%s = %d is DSCP %d, and %s.", tc.name, n, dscp, wrong),
			Costs: "The packets are not protected by PFC: they are dropped under congestion, and each loss costs RDMA a timeout.", Instead: instead})
	}
	switch {
	case m.trust.known() && m.trust.value == "pcp":
		warn("The NIC does not look at the DSCP", fmt.Sprintf("the NIC trusts the PCP of VLAN tags instead (line %d), so that untagged packets have priority 0", m.trust.line),
			"Let it trust the DSCP (mlnx_qos -i NIC --trust=dscp), or declare the class in a qos block.")
	case m.whole && m.dscp[dscp].line == 0:
		warn("The NIC has no priority for the class", "the NIC's map does not have it, so that its packets have the default priority",
			fmt.Sprintf("Map it (dcb app add dev NIC dscp-prio %d:PRIORITY), or declare the class in a qos block.", dscp))
	case known && m.pfc.known() && !slices.Contains(strings.Split(m.pfc.value, ","), strconv.Itoa(p)):
		warn("The class has no PFC", fmt.Sprintf("%s leads it to priority %d, but PFC is on for %s (line %d)", says, p, ofPriorities(m.pfc.value), m.pfc.line),
			fmt.Sprintf("Turn PFC on for priority %d on NICs and switches, or use the traffic class of a priority that has it.", p))
	}
}

func ofPriorities(list string) string {
	if list == "none" {
		return "no priority"
	}
	return "priority " + strings.ReplaceAll(list, ",", ", ")
}
