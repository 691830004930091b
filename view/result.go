package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/validators"
	"github.com/fabricform/fabricform/widearea"
)

// What names the item that a result is about, for people.
func What(r validators.Result) string {
	if r.Item == validators.ClassCounted && r.Check == validators.CheckVerbs {
		return "class of " + r.Object
	}
	word, known := map[validators.Item]string{
		validators.SmallPing: "ping " + r.Object, validators.FullSizePing: "full size", validators.Throughput: "throughput",
		validators.GroupThroughput: "all links at once", validators.RDMADevice: "RDMA device", validators.RDMAMTU: "RDMA MTU",
		validators.PerftestRelease: "perftest release",
		validators.PerftestRun:     r.Object, validators.NCCLPort: cmp.Or(r.Object, "HCA and GID"),
		validators.GPUPlacement:    "GPUs and NICs",
		validators.SocketInterface: "socket interface",
		validators.Job:             "collectives", validators.CollectiveData: r.Object + " values",
		validators.BusBandwidth: r.Object, validators.RankLog: "log",
		validators.DeclaredRTT: "round trip", validators.DeclaredJitter: "jitter", validators.DeclaredLoss: "loss", validators.RateModel: "model of " + r.Object, validators.WorkloadBound: r.Object,
		validators.Version: r.Object, validators.Firmware: "firmware of " + r.Object, validators.Installing: r.Object,
		validators.CameUp:    r.Object,
		validators.NCCLClass: "class on " + r.Object, validators.CommonCause: "common cause", validators.MTU: "MTU", validators.PFCIsOn: "PFC", validators.LoginsWork: "login_mesh " + r.Object,
		validators.LoginFailed: "login_mesh " + r.Object,
	}[r.Item]
	switch {
	case r.Place != nil && r.Place.Line > 0:
		return fmt.Sprintf("%s:%d", r.Place.File, r.Place.Line)
	case r.Place != nil:
		return r.Place.File
	case known && strings.TrimSpace(word) != "":
		word = strings.TrimSpace(word)
	case r.Item != "":
		word = strings.ReplaceAll(string(r.Item), "_", " ")
	default:
		return string(r.Check)
	}
	switch s := r.Setup; {
	case s == nil || s.MessageBytes == 0:
		return word
	case r.Item == validators.FullSizePing: // an MTU is shown as a plain number
		return fmt.Sprintf("%s %d", word, s.MessageBytes)
	}
	return word + " " + bytesText(r.Setup.MessageBytes)
}

// Measured describes what was measured or found, for people.
func Measured(r validators.Result) string {
	if r.Unmeasured {
		return "not measured"
	}
	var parts []string
	for _, v := range r.FoundOn {
		value := v.Value
		if value == "" {
			value = "none"
		}
		parts = append(parts, value+" on "+planner.Names(v.Hosts))
	}
	found := r.Found
	switch {
	case r.Item == validators.Carrier:
		found = r.Object + " has " + found
	case r.Item == validators.ConfVariable && r.Place != nil:
		found = r.Object + " is " + found
	case r.Item == validators.Rebooted:
		found, _ = bootText(r)
	case r.Item == validators.LoginFailed:
		found = strings.ReplaceAll(found, "_", " ")
	case r.Attribute != "":
		found = r.Attribute + " " + cmp.Or(found, "absent")
	}
	parts = append(parts, nonEmpty(found)...)
	switch r.Item {
	case validators.Rebooted:
		if len(r.Values) > 0 {
			return value(r.Values[0]) + " " + found
		}
	case validators.CommonCause:
		return fmt.Sprintf("all %s of %s fail", Count(int(r.Values[0].OutOf), "path"),
			strings.TrimSuffix(r.Subject.Name+"."+r.Subject.NIC, "."))
	case validators.Ranks:
		parts = append(parts, fmt.Sprintf("%g on %s", r.Values[0].Value, Count(len(r.Hosts), "host")))
	case validators.RateModel:
		parts = append(parts, fmt.Sprintf("measured %s, %.0f %% of the most", widearea.Exactly(r.Values[1].Value).In(widearea.Gbps), r.Values[2].Value))
	case validators.BusBandwidth:
		parts = append(parts, sweep(r.Values)...)
	case validators.CollectiveData:
		parts = append(parts, correct(r)...)
	default:
		for _, v := range r.Values {
			parts = append(parts, nonEmpty(value(v))...)
		}
	}
	return strings.Join(append(parts, setup(r)...), ", ")
}

// beside returns a rate with two digits, or more if it would otherwise look like the bound that it misses.
func beside(v validators.Measurement) string {
	digits := 2
	text := strconv.FormatFloat(v.Value, 'f', digits, 64)
	for v.Threshold != nil && v.Threshold.AtLeast != nil && !v.Met() && digits < 6 && text == strconv.FormatFloat(*v.Threshold.AtLeast, 'f', digits, 64) {
		digits++
		text = strconv.FormatFloat(v.Value, 'f', digits, 64)
	}
	return text
}

// value formats a value with its unit. More digits would be below the noise of such measurements.
func value(v validators.Measurement) string {
	text := ""
	switch v.Name {
	case validators.MetricLoss, validators.MetricMaxRTT, validators.MetricDuration:
		return "" // another value implies it
	case validators.MetricPackets, validators.MetricLogins:
		return fmt.Sprintf("%g of %g", v.Value, v.OutOf)
	case validators.MetricRTT:
		return fmt.Sprintf("%.0f / %.0f / %.0f µs", v.Spread.Min, v.Value, v.Spread.Max)
	case validators.MetricLatency:
		text = figure(v.Value) + " µs average"
		if v.Spread.Average > 0 {
			text = figure(v.Value) + " µs median, " + figure(v.Spread.Average) + " average"
		}
		if v.Spread.P99 > 0 {
			text += fmt.Sprintf(", %s at 99 %%, %s at 99.9 %%", figure(v.Spread.P99), figure(v.Spread.P999))
		}
	case validators.MetricWork:
		return "" // the formula has it
	case validators.MetricThroughput, validators.MetricBandwidth:
		text = beside(v) + " Gb/s"
		if v.Spread != nil {
			text += fmt.Sprintf(", peak %.2f", v.Spread.Max)
		}
	case validators.MetricSpeed:
		text = fmt.Sprintf("%g Gb/s", v.Value)
	case validators.MetricMTU:
		text = fmt.Sprintf("%g", v.Value)
	case validators.MetricGIDIndex:
		text = fmt.Sprintf("GID %g", v.Value)
	case validators.MetricResources:
		text = Count(int(v.Value), "resource")
	case validators.MetricRetransmits:
		text = Count(int(v.Value), "retransmit")
	case validators.MetricFindingsOmitted:
		text = fmt.Sprintf("%g more findings", v.Value)
	case validators.MetricProcesses:
		text = fmt.Sprintf("%g left", v.Value)
	default:
		text = strings.TrimSpace(fmt.Sprintf("%s %s %s", strings.ReplaceAll(string(v.Name), "_", " "), figure(v.Value), v.Unit))
	}
	if v.Of != "" {
		return v.Of + " " + text
	}
	return text
}

// sweep formats the bandwidth by message size, the largest size first.
func sweep(values []validators.Measurement) (out []string) {
	var sizes, beyond []string
	var largest validators.Measurement
	for _, v := range values {
		if v.Name == validators.MetricPassTime {
			beyond = append(beyond, fmt.Sprintf("ended before %s: one pass would take %s s", bytesText(v.MessageBytes), figure(v.Value)))
			continue
		}
		largest = v
		sizes = append(sizes, bytesText(v.MessageBytes)+" "+figure(v.Value))
	}
	if len(sizes) == 0 {
		return nil
	}
	return append([]string{fmt.Sprintf("%s GB/s bus bandwidth at %s (%s)",
		figure(largest.Value), bytesText(largest.MessageBytes), strings.Join(sizes, ", "))}, beyond...)
}

// correct says whether the values of a collective were correct.
func correct(r validators.Result) []string {
	var wrong, sizes validators.Measurement
	for _, v := range r.Values {
		switch v.Name {
		case validators.MetricValuesWrong:
			wrong = v
		case validators.MetricSizes:
			sizes = v
		}
	}
	switch {
	case wrong.Value > 0 && wrong.OutOf > 0:
		return []string{fmt.Sprintf("%.0f of %.0f wrong", wrong.Value, wrong.OutOf)}
	case !wrong.Met():
		return []string{fmt.Sprintf("%.0f wrong, first with %s", wrong.Value, bytesText(wrong.MessageBytes))}
	case sizes.Value > 0:
		return []string{fmt.Sprintf("%s on %s, all correct", Count(int(sizes.Value), "size"), Count(r.Setup.Ranks, "rank"))}
	case r.Setup != nil:
		return []string{fmt.Sprintf("%.0f on %s, all correct", wrong.OutOf, Count(r.Setup.Ranks, "rank"))}
	}
	return nil
}

// setup describes how a result was measured.
func setup(r validators.Result) (out []string) {
	s := r.Setup
	if s == nil {
		return nil
	}
	if s.Streams > 0 {
		out = append(out, Count(s.Streams, "stream"))
	}
	out = append(out, nonEmpty(s.CongestionControl)...)
	if s.From != nil && s.To != nil && s.RDMAMTU > 0 {
		out = append(out, fmt.Sprintf("%s GID %d → %s GID %d, RDMA MTU %d",
			s.From.Device, s.From.GIDIndex, s.To.Device, s.To.GIDIndex, s.RDMAMTU))
	}
	if s.TrafficClass != nil {
		out = append(out, fmt.Sprintf("traffic class %d", *s.TrafficClass))
	}
	if s.ServiceLevel != nil && *s.ServiceLevel != 0 {
		out = append(out, fmt.Sprintf("service level %d", *s.ServiceLevel))
	}
	out = append(out, s.Software...)
	if s.Transport != "" {
		out = append(out, s.Transport+" on "+strings.Join(s.Devices, ","))
	}
	return out
}

// Expected describes what the result was compared with, for people; "" if with nothing.
func Expected(r validators.Result) string {
	if r.Unmeasured {
		return ""
	}
	if r.Item == validators.FullSizePing && len(r.Values) > 0 { // one that is lost was too large for a hop
		return "all answered, unfragmented"
	}
	wanted := r.Wanted
	switch {
	case r.Item == validators.Rebooted:
		_, wanted = bootText(r)
	case r.Attribute != "":
		wanted = r.Attribute + " " + cmp.Or(wanted, "absent")
	case r.Item == validators.CameUp:
		wanted = "as declared"
	}
	out := nonEmpty(wanted)
	for _, v := range r.Values {
		if v.Threshold != nil {
			out = append(out, threshold(v))
		}
	}
	return strings.Join(out, ", ")
}

// bootText describes what is known of a host's reboot, and what was wanted.
func bootText(r validators.Result) (found, wanted string) {
	last := r.Applied.Local().Format(time.DateTime)
	switch state := validators.BootState(r.Found); state {
	case validators.NeverApplied:
		return "never applied here", "an apply, and a reboot"
	case validators.NotRebooted:
		return "not rebooted since " + last, "a reboot since the last apply"
	case validators.RebootUnknown:
		return "not known to have rebooted since " + last, "a reboot since the last apply"
	default:
		return strings.ReplaceAll(string(state), "_", " "), ""
	}
}

// threshold describes the limit for a value, and its origin.
func threshold(v validators.Measurement) string {
	t, of := v.Threshold, ""
	if why, none := map[validators.NotJudged]string{
		validators.NothingDeclared: "no speed or threshold declared", validators.NoLatencyDeclared: "no max_latency declared",
		validators.NoBusbwDeclared: "sockets, and no min_busbw_gbs declared", validators.VirtualMachines: "virtual machines",
		validators.SharedLabLinks: "a lab's links are shared",
	}[t.NotJudged]; none {
		return "any value: " + why + carries(t)
	}
	switch v.Name {
	case validators.MetricLoss:
		of = "loss "
	case validators.MetricMaxRTT:
		of = "max "
	}
	var out []string
	for _, b := range []struct {
		sign  string
		bound *float64
	}{{"≥ ", t.AtLeast}, {"≤ ", t.AtMost}, {"", t.Exactly}} {
		if b.bound != nil {
			out = append(out, of+b.sign+strings.TrimSpace(bound(v, *b.bound)+" "+string(unit(v))))
		}
	}
	text := strings.Join(out, ", ")
	switch {
	case t.Fraction > 0:
		return text + fmt.Sprintf(", %g %% of the links' capacity", 100*t.Fraction)
	case t.LabGbps > 0 && t.DeclaredGbps > 0:
		return text + fmt.Sprintf("; lab link, %g Gb/s scaled to %g", t.DeclaredGbps, t.LabGbps)
	case t.LabGbps > 0:
		return text + fmt.Sprintf("; lab link of %g Gb/s, no speed declared", t.LabGbps)
	}
	return text + carries(t)
}

func carries(t *validators.Threshold) string {
	if t.Ceiling == 0 {
		return ""
	}
	return fmt.Sprintf("; capacity of the links: %s GB/s", figure(t.Ceiling))
}

func bound(v validators.Measurement, b float64) string {
	switch v.Name {
	case validators.MetricThroughput, validators.MetricBandwidth:
		return fmt.Sprintf("%.2f", b)
	case validators.MetricBusBandwidth:
		return figure(b)
	}
	return fmt.Sprintf("%g", b)
}

func unit(v validators.Measurement) validators.Unit {
	if v.Name == validators.MetricMTU {
		return ""
	}
	return v.Unit
}

// figure formats a value with about three digits.
func figure(v float64) string {
	switch {
	case v >= 100 || v == float64(int(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// bytesText formats a size, for people.
func bytesText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// Why joins the cause and the cure, for people.
func Why(r validators.Result) string {
	return strings.Join(nonEmpty(r.Cause, r.Cure), "; ")
}
