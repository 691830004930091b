package widearea

import (
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

// trainingAcross is a fabric of one link of role training between two hosts, over a span.
func trainingAcross(span fabric.Span) *fabric.Fabric {
	nic := func(host string) *fabric.Host {
		return &fabric.Host{Name: host, NICs: []*fabric.NIC{{Name: "wan", Host: host, Netdev: "eth2", MTU: 9000}}}
	}
	return &fabric.Fabric{Hosts: []*fabric.Host{nic("a"), nic("b")}, Links: []*fabric.Link{{Name: "wan", Role: "training", ExpectGbps: 100, Span: span,
		Endpoints: []fabric.NICRef{{Host: "a", NIC: "wan"}, {Host: "b", NIC: "wan"}}}}}
}

func span(km float64, rtt, jitter time.Duration) fabric.Span {
	s := fabric.Span{DistanceKm: km}
	if rtt > 0 {
		s.RTT = &rtt
	}
	if jitter > 0 {
		s.Jitter = &jitter
	}
	return s
}

// TestJitterCountsOnce: a timeout exceeds the longest round trip, by the same rule wherever one is named.
func TestJitterCountsOnce(t *testing.T) {
	f := trainingAcross(span(0, 16*time.Millisecond, time.Millisecond)) // up to 17 ms; 2^12 are 16.8 ms, 2^13 33.6
	f.NCCL.Env = map[string]string{"NCCL_IB_TIMEOUT": "12"}
	p := Segments(f)[0].Path(f)
	if got, ok := Timeout(p.RTT); got != 13 || !ok || p.Timeout != 13 {
		t.Errorf("Timeout says %d, the path %d", got, p.Timeout)
	}
	if got := RetryTimeout(p); got.Value != Exactly(13) || !strings.Contains(got.Numbers, "RTT = 15 to 17 ms") {
		t.Errorf("estimate says %s, by %s", got.Text(), got.Numbers)
	}
	said := func() string {
		for _, p := range Check(f) {
			if p.Summary == "Retry timeout shorter than the round trip" {
				return p.Detail
			}
		}
		return ""
	}
	if got := said(); !strings.Contains(got, "takes 15 to 17 ms") || !strings.Contains(got, "Set it to at least 13 (33.6 ms)") {
		t.Errorf("validate says %q", got)
	}
	f.NCCL.Env["NCCL_IB_TIMEOUT"] = "13"
	if got := said(); got != "" {
		t.Error(got)
	}
	// Of a distance alone only the shortest round trip is known.
	if got := RetryTimeout(Path{RTT: atLeast(0.01)}).Text(); got != "at least 12" {
		t.Error(got)
	}
}

// TestRoundTripsAreNotUpsideDown: where rtt is shorter than light needs, the range is light's.
func TestRoundTripsAreNotUpsideDown(t *testing.T) {
	for _, s := range []fabric.Span{span(2000, 10*time.Millisecond, 0), span(2000, 19*time.Millisecond, time.Millisecond), span(2000, 30*time.Millisecond, 5*time.Millisecond)} {
		if r := Roundtrip(s); r.Low > r.High || r.Low < 0.0195 {
			t.Errorf("%+v is %v", s, r)
		}
	}
	all := Check(trainingAcross(span(2000, 10*time.Millisecond, 0)))
	for _, p := range all {
		if strings.Contains(p.Detail, "19.6 to 10 ms") {
			t.Error(p.Detail)
		}
	}
	if len(all) == 0 || all[0].Summary != "Round trip faster than light" {
		t.Errorf("%+v", all)
	}
}

// TestJitterHidesNoDistance: a way is as long as its round trips are in the mean.
func TestJitterHidesNoDistance(t *testing.T) {
	for jitter, want := range map[time.Duration]string{29500 * time.Microsecond: "Collectives over a wide area", 30 * time.Millisecond: "Jitter as long as the round trip"} {
		if all := Check(trainingAcross(span(0, 30*time.Millisecond, jitter))); len(all) == 0 || all[0].Summary != want {
			t.Errorf("%s: %+v", jitter, all)
		}
	}
}

// TestADeclaredBoundIsNoWarning: nobody can prove that it holds over NICs, whose windows are not published, so a warning would stay for good.
func TestADeclaredBoundIsNoWarning(t *testing.T) {
	w := &fabric.Workload{Name: "llm", Parameters: seconds(1e9), Precision: "bf16", Sites: 2, StepsPerSync: 1, MaxStepSeconds: seconds(60)}
	f := trainingAcross(span(0, 20*time.Millisecond, 0))
	f.Workloads, f.Links[0].Workload = []*fabric.Workload{w}, "llm"
	if all := Check(f); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	if e := Estimates(f); e[0].Bound.Verdict != Undecided || len(e[0].Bound.Unknown) == 0 {
		t.Errorf("%+v", e[0].Bound)
	}
	w.MaxStepSeconds = nil
	if all := Check(f); len(all) != 1 || all[0].Summary != "Collectives over a wide area" {
		t.Errorf("without a bound: %+v", all)
	}
}
