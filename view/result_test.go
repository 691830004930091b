package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/validators"
)

// A result's sentences are made of its values.
func TestResultsInWords(t *testing.T) {
	v := func(name validators.Metric, value float64, unit validators.Unit) validators.Measurement {
		return validators.Measurement{Name: name, Value: value, Unit: unit}
	}
	with := func(m validators.Measurement, change func(*validators.Measurement)) validators.Measurement {
		change(&m)
		return m
	}
	size := func(name validators.Metric, value float64, unit validators.Unit, bytes int64) validators.Measurement {
		return with(v(name, value, unit), func(m *validators.Measurement) { m.MessageBytes = bytes })
	}
	number := func(n int) *int { return &n }
	values := func(m ...validators.Measurement) []validators.Measurement { return m }
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.Local)
	for _, c := range []struct {
		name                     string
		r                        validators.Result
		what, measured, expected string
	}{
		{"a carrier", validators.Result{Check: validators.CheckLink, Item: validators.Carrier, Object: "eth0", Found: "no carrier", Wanted: "carrier"}, "carrier", "eth0 has no carrier", "carrier"},
		{"the GID of a host that was not reached", validators.Result{Check: validators.CheckNCCL, Item: validators.NCCLPort, Verdict: validators.Skip}, "HCA and GID", "", ""},
		{"MTUs that differ", validators.Result{Item: validators.MTU, Wanted: "the same", Values: values(validators.Measurement{Name: validators.MetricMTU, Value: 9000, Unit: validators.Bytes, Of: "a.rail0"}, validators.Measurement{Name: validators.MetricMTU, Value: 1500, Unit: validators.Bytes, Of: "b.rail0"})},
			"MTU", "a.rail0 9000, b.rail0 1500", "the same"},
		{"an MTU that drifted", validators.Result{Item: validators.MTU, Values: values(with(v(validators.MetricMTU, 1500, validators.Bytes), func(m *validators.Measurement) { m.Threshold = &validators.Threshold{Exactly: new(9000.0)} }))}, "MTU", "1500", "9000"},
		{"a speed", validators.Result{Item: validators.Speed, Values: values(with(v(validators.MetricSpeed, 10, validators.Gbps), func(m *validators.Measurement) { m.Threshold = &validators.Threshold{Exactly: new(25.0)} }))}, "speed", "10 Gb/s", "25 Gb/s"},
		{"pings", validators.Result{Item: validators.SmallPing, Object: "10.0.0.2", Values: values(
			with(v(validators.MetricPackets, 9, ""), func(m *validators.Measurement) { m.OutOf = 10 }),
			with(v(validators.MetricLoss, 10, validators.Percent), func(m *validators.Measurement) { m.Threshold = &validators.Threshold{AtMost: new(0.0)} }),
			with(v(validators.MetricRTT, 14, validators.Micros), func(m *validators.Measurement) { m.Spread = &validators.Spread{Min: 13, Max: 15} }),
			with(v(validators.MetricMaxRTT, 15, validators.Micros), func(m *validators.Measurement) { m.Threshold = &validators.Threshold{AtMost: new(100.0)} }))},
			"ping 10.0.0.2", "9 of 10, 13 / 14 / 15 µs", "loss ≤ 0 %, max ≤ 100 µs"},
		{"full-size pings", validators.Result{Item: validators.FullSizePing, Object: "10.0.0.2", Setup: &validators.Setup{MessageBytes: 4200}, Values: values(
			with(v(validators.MetricPackets, 0, ""), func(m *validators.Measurement) { m.OutOf = 3 }), with(v(validators.MetricLoss, 100, validators.Percent), func(m *validators.Measurement) { m.Threshold = &validators.Threshold{AtMost: new(0.0)} }))},
			"full size 4200", "0 of 3", "all answered, unfragmented"},
		{"throughput in a lab", validators.Result{Item: validators.Throughput, Values: values(with(v(validators.MetricThroughput, 0.95, validators.Gbps), func(m *validators.Measurement) {
			m.Threshold = &validators.Threshold{AtLeast: new(0.9), LabGbps: 1, DeclaredGbps: 25}
		}), v(validators.MetricRetransmits, 1, "")), Setup: &validators.Setup{Streams: 4, CongestionControl: "cubic"}}, "throughput", "0.95 Gb/s, 1 retransmit, 4 streams, cubic", "≥ 0.90 Gb/s; lab link, 25 Gb/s scaled to 1"},
		{"throughput that nobody judges", validators.Result{Item: validators.Throughput, Values: values(with(v(validators.MetricThroughput, 3, validators.Gbps), func(m *validators.Measurement) {
			m.Threshold = &validators.Threshold{NotJudged: validators.NothingDeclared}
		}))}, "throughput", "3.00 Gb/s", "any value: no speed or threshold declared"},
		{"latency", validators.Result{Check: validators.CheckVerbs, Item: validators.PerftestRun, Object: "send_lat", Values: values(with(v(validators.MetricLatency, 1.83, validators.Micros), func(m *validators.Measurement) { m.Spread = &validators.Spread{Average: 1.9, P99: 2.5, P999: 4} })),
			Setup: &validators.Setup{MessageBytes: 2, RDMAMTU: 4096, TrafficClass: number(106), ServiceLevel: number(3), From: &validators.UsedPort{Device: "mlx5_0", GIDIndex: 3}, To: &validators.UsedPort{Device: "mlx5_1", GIDIndex: 1}}},
			"send_lat 2 B", "1.83 µs median, 1.90 average, 2.50 at 99 %, 4 at 99.9 %, mlx5_0 GID 3 → mlx5_1 GID 1, RDMA MTU 4096, traffic class 106, service level 3", ""},
		{"an average latency alone", validators.Result{Item: validators.PerftestRun, Object: "send_lat", Values: values(with(v(validators.MetricLatency, 1.9, validators.Micros), func(m *validators.Measurement) { m.Spread = &validators.Spread{} }))}, "send_lat", "1.90 µs average", ""},
		{"nothing measured", validators.Result{Item: validators.PerftestRun, Object: "write_bw", Unmeasured: true, Setup: &validators.Setup{MessageBytes: 64 << 10}}, "write_bw 64 KiB", "not measured", ""},
		{"a class", validators.Result{Check: validators.CheckVerbs, Item: validators.ClassCounted, Object: "write_bw", Found: "on priority 5 at both ends"}, "class of write_bw", "on priority 5 at both ends", ""},
		{"a class of pings", validators.Result{Check: validators.CheckQoS, Item: validators.ClassCounted, Object: "10.0.0.2", Wanted: "priority 5 at both ends"}, "class", "", "priority 5 at both ends"},
		{"a GID", validators.Result{Item: validators.NCCLPort, Object: "rail0", Found: "rxe0 on eth1", Values: values(v(validators.MetricGIDIndex, 1, ""))}, "rail0", "rxe0 on eth1, GID 1", ""},
		{"a variable", validators.Result{Item: validators.ConfVariable, Object: "NCCL_IB_DISABLE", Found: `"true"`, Wanted: `"1"`, Place: &validators.FileLine{File: "/etc/nccl.conf"}}, "/etc/nccl.conf", `NCCL_IB_DISABLE is "true"`, `"1"`},
		{"a line of a file", validators.Result{Item: validators.ConfFinding, Found: "Set twice", Place: &validators.FileLine{File: "/etc/nccl.conf", Line: 7}}, "/etc/nccl.conf:7", "Set twice", ""},
		{"ranks", validators.Result{Item: validators.Ranks, Hosts: []string{"a", "b"}, Values: values(v(validators.MetricRanks, 4, "")), Setup: &validators.Setup{Ranks: 4, Software: []string{"torch 2.7.0", "NCCL 2.26.2"}, Transport: "RDMA", Devices: []string{"rdma0", "rdma1"}}},
			"ranks", "4 on 2 hosts, torch 2.7.0, NCCL 2.26.2, RDMA on rdma0,rdma1", ""},
		{"right values", validators.Result{Item: validators.CollectiveData, Object: "broadcast", Values: values(with(v(validators.MetricValuesWrong, 0, ""), func(m *validators.Measurement) { m.OutOf = 72 })), Setup: &validators.Setup{Ranks: 4}}, "broadcast values", "72 on 4 ranks, all correct", ""},
		{"wrong values", validators.Result{Item: validators.CollectiveData, Object: "broadcast", Values: values(with(v(validators.MetricValuesWrong, 2, ""), func(m *validators.Measurement) { m.OutOf = 9 })), Setup: &validators.Setup{Ranks: 4}}, "broadcast values", "2 of 9 wrong", ""},
		{"a sweep", validators.Result{Item: validators.BusBandwidth, Object: "all_reduce", Setup: &validators.Setup{Ranks: 4}, Values: values(size(validators.MetricBusBandwidth, 0.03, validators.GBps, 1024), with(size(validators.MetricBusBandwidth, 15, validators.GBps, 512<<20), func(m *validators.Measurement) {
			m.Threshold = &validators.Threshold{AtLeast: new(5.0), Fraction: 0.8, Ceiling: 6.25}
		}), size(validators.MetricPassTime, 20.5, validators.Seconds, 1<<30))}, "all_reduce", "15 GB/s bus bandwidth at 512 MiB (1 KiB 0.03, 512 MiB 15), ended before 1024 MiB: one pass would take 20.5 s", "≥ 5 GB/s, 80 % of the links' capacity"},
		{"versions", validators.Result{Item: validators.Version, Object: "kernel", FoundOn: []validators.FoundOn{{Value: "6.12", Hosts: []string{"h1", "h2", "h3"}}, {Hosts: []string{"h4"}}}, Wanted: "the same on all hosts"}, "kernel", "6.12 on h[1-3], none on h4", "the same on all hosts"},
		{"a reboot", validators.Result{Check: validators.CheckBoot, Item: validators.Rebooted, Found: string(validators.CameUpAsDeclared), Values: values(v(validators.MetricResources, 7, ""))}, "reboot", "7 resources came up as declared", ""},
		{"no boot ID", validators.Result{Check: validators.CheckBoot, Item: validators.Rebooted, Found: string(validators.AsDeclared), Values: values(v(validators.MetricResources, 1, ""))}, "reboot", "1 resource as declared", ""},
		{"never applied", validators.Result{Check: validators.CheckBoot, Item: validators.Rebooted, Found: string(validators.NeverApplied)}, "reboot", "never applied here", "an apply, and a reboot"},
		{"not rebooted", validators.Result{Check: validators.CheckBoot, Item: validators.Rebooted, Found: string(validators.NotRebooted), Applied: noon}, "reboot", "not rebooted since 2026-11-20 12:00:00", "a reboot since the last apply"},
		{"perhaps rebooted", validators.Result{Check: validators.CheckBoot, Item: validators.Rebooted, Found: string(validators.RebootUnknown), Applied: noon}, "reboot", "not known to have rebooted since 2026-11-20 12:00:00", "a reboot since the last apply"},
		{"a value that did not come up", validators.Result{Check: validators.CheckBoot, Item: validators.CameUp, Object: "nic.rail0", Attribute: "mtu", Found: "1500", Wanted: "9000"}, "nic.rail0", "mtu 1500", "mtu 9000"},
		{"an address that did not come up", validators.Result{Check: validators.CheckBoot, Item: validators.CameUp, Object: "nic.rail0", Attribute: "address", Wanted: "10.0.0.1/24"}, "nic.rail0", "address absent", "address 10.0.0.1/24"},
		{"a NIC that did not come up", validators.Result{Check: validators.CheckBoot, Item: validators.CameUp, Object: "nic.rail0"}, "nic.rail0", "", "as declared"},
		{"a culprit", validators.Result{Item: validators.CommonCause, Subject: validators.Subject{Kind: validators.SubjectHost, Name: "h04", NIC: "rail"}, Values: values(with(v(validators.MetricPathsFailed, 11, ""), func(m *validators.Measurement) { m.OutOf = 11 }))}, "common cause", "all 11 paths of h04.rail fail", ""},
		{"a check as a whole", validators.Result{Check: validators.CheckTCP, Verdict: validators.Skip}, "tcp", "", ""},
		{"an item that view does not know", validators.Result{Check: "toy", Item: "boot_time", Values: values(with(v("boot_time", 41, validators.Seconds), func(m *validators.Measurement) { m.Threshold = &validators.Threshold{AtMost: new(60.0)} }))}, "boot time", "boot time 41 s", "≤ 60 s"},
	} {
		if what, measured, expected := What(c.r), Measured(c.r), Expected(c.r); what != c.what || measured != c.measured || expected != c.expected {
			t.Errorf("%s: %q, %q, %q; want %q, %q, %q", c.name, what, measured, expected, c.what, c.measured, c.expected)
		}
	}
}

// The summary decides by typed values: every sentence can be reworded.
func TestTheSummaryReadsNoSentence(t *testing.T) {
	for want, r := range map[string]validators.Result{
		"unreachable hosts were not verified": {Verdict: validators.Skip, Skipped: validators.HostUnreachable, Cause: "x"},
		"Nothing was verified":                {Verdict: validators.Skip, Skipped: validators.Disabled, Cause: "host h could not be reached"},
	} {
		var b strings.Builder
		if New(&b).Results([]validators.Result{r}, false); !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

// TestTheSummaryNamesWhatItCovers: pings alone do not verify a fabric, and a warning is no plain tick.
func TestTheSummaryNamesWhatItCovers(t *testing.T) {
	of := func(v validators.Verdict, checks ...validators.Check) (out []validators.Result) {
		for _, c := range checks {
			out = append(out, validators.Result{Check: c, Verdict: v})
		}
		return out
	}
	all := of(validators.Pass, validators.CheckLink, validators.CheckCabling, validators.CheckPing, validators.CheckTCP)
	job := validators.Result{Check: validators.CheckNCCL, Item: validators.Job, Hosts: []string{"a", "b"}, Verdict: validators.Skip, Skipped: validators.NoLogins, Cause: "no login_mesh"}
	class := validators.Result{Check: validators.CheckQoS, Host: "b", Peer: "a", Verdict: validators.Skip, Skipped: validators.NoPriorities, Cause: "no per-priority counters on b.rail0"}
	for _, c := range []struct {
		results []validators.Result
		part    bool
		want    string
	}{
		{of(validators.Pass, validators.CheckPing), false, "✓ Verified (ping): 1 passed"},
		{append(slices.Clone(all), of(validators.Skip, validators.CheckVerbs)...), false, "✓ Fabric verified (link, cabling, ping, tcp): 4 passed"},
		{append(slices.Clone(all), append(of(validators.Pass, validators.CheckVerbs), of(validators.Warn, validators.CheckNCCL)...)...), false, "! Fabric verified (link, cabling, ping, tcp, verbs), with warnings: 5 passed"},
		{all, false, "✓ Verified (link, cabling, ping, tcp): 4 passed"},
		{append(slices.Clone(all), job), false, "! Partly verified (link, cabling, ping, tcp): 4 passed, 0 failed, 0 warned, 1 skipped; a check that the files declare was not made\n" +
			"! Not proven: nccl on a, b: no login_mesh\n"},
		{append(slices.Clone(all), class, class), true, "! Partly verified (link, cabling, ping, tcp): 4 passed, 0 failed, 0 warned, 2 skipped; a check that the files declare was not made\n" +
			"! Not proven: qos on a, b: no per-priority counters on b.rail0\n"},
		{append(slices.Clone(all), of(validators.Skip, validators.CheckVerbs)...), true, "✓ Verified (link, cabling, ping, tcp): 4 passed"},
	} {
		var b strings.Builder
		if New(&b).Results(c.results, c.part); !strings.Contains(b.String(), c.want) {
			t.Errorf("%q is missing in\n%s", c.want, b.String())
		}
	}
}

// TestTheModelStandsInOneLine: the formula with its numbers, and what was measured as a share of it.
func TestTheModelStandsInOneLine(t *testing.T) {
	r := validators.Result{Check: validators.CheckWorkload, Item: validators.RateModel, Object: "write_bw", Found: "Rate: B, with 4, is 83.9 Mb/s", Verdict: validators.Pass,
		Values: []validators.Measurement{{Name: validators.MetricPredicted, Value: 0.0839}, {Name: validators.MetricBandwidth, Value: 0.0643}, {Name: validators.MetricShare, Value: 76.6}}}
	if got, want := What(r)+": "+Measured(r), "model of write_bw: Rate: B, with 4, is 83.9 Mb/s, measured 64.3 Mb/s, 77 % of the most"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
