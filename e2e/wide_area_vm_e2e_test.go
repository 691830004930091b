//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/widearea"
)

const longLink = "testdata/long-link.hcl"

// TestWideAreaRehearsal: a lab's cable is as long as the files declare, verify holds the model against what it measures there, and a
// bound that the real distance breaks fails.
func TestWideAreaRehearsal(t *testing.T) {
	e2e(t)
	state := vmLabFor(t, longLink)
	try(t, state, "lab", "status", longLink).want(t, 0, "delay 25ms, jitter 1ms each way, whole")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", longLink).want(t, 0, "✓ a.rxe.rxe0")

	a := proven(t, state, "-only", "ping,verbs,workload", longLink)
	a.want(t, 0, "model of write_bw", "Rate by the queue pairs' windows", "1 · 128 · 4096 B", "checkpoint_interval", "round trip", "jitter ")
	proven(t, state, "-only", "ping,tcp,workload", longLink).want(t, 0, "model of TCP", "Rate of TCP: at most B, and streams · mean window / RTT", " from 10 segments of 4148 B")
	for _, share := range regexp.MustCompile(`([0-9]+) % of the most`).FindAllStringSubmatch(a.out, -1) {
		t.Logf("figure: verify over a declared round trip of 50 ms: %s %% of the model's rate", share[1])
	}

	try(t, state, "lab", "fault", longLink, "wan", "delay=275ms").want(t, 0)
	a = try(t, state, "verify", "-lab", "-only", "ping,workload", longLink)
	a.want(t, 3, "the transfer of a checkpoint takes", "over what was measured", `would hold: checkpoint_interval = "0.`)
	// Losses that nobody declared are measured, and the model takes them.
	try(t, state, "lab", "fault", longLink, "wan", "loss=20%").want(t, 0)
	a = try(t, state, "verify", "-lab", "-only", "ping,verbs,workload", longLink)
	if !strings.Contains(a.out, "pings lost") || !strings.Contains(a.out, "no loss declared: the model takes the measured loss") {
		t.Errorf("a loss of 20 %%:\n%s", a.out)
	}
	try(t, state, "lab", "fault", longLink, "wan", "none").want(t, 0)
	try(t, state, "lab", "status", longLink).want(t, 0, "delay 25ms, jitter 1ms each way, whole")
}

// TestWideAreaModel measures Soft-RoCE and TCP over 50 to 200 ms, with losses, and puts the model's figures beside: what was measured, as
// a share of what was predicted from the measured round trip. It asserts no share: the ends are emulated, and the page shows where
// the model stops holding.
func TestWideAreaModel(t *testing.T) {
	long(t)
	state := vmLabFor(t, longLink)
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", longLink).want(t, 0)
	far := &farEnds{t: t, state: state}
	began, missed := time.Now(), 0
	for _, mtu := range []int{4200, 1500} {
		for _, host := range []string{"a", "b"} {
			inside(t, state, longLink, host, "ip", "link", "set", "eth1", "mtu", strconv.Itoa(mtu))
		}
		for _, rtt := range []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
			for _, loss := range []float64{0, 0.1, 1} {
				if time.Since(began) > patience {
					missed++
					continue
				}
				far.set(rtt, loss)
				p := widearea.Path{RTT: far.ping(), Rate: widearea.Range{High: 1e3}, Loss: loss / 100, MTU: map[int]int{1500: 1024, 4200: 4096}[mtu], Soft: true}
				p.Timeout, _ = widearea.Timeout(p.RTT)
				for _, pairs := range []int{1, 4} {
					far.compare(fmt.Sprintf("RTT %s, loss %g %%, RDMA MTU %d, %d QPs", rtt, loss, p.MTU, pairs), widearea.Predict(p, pairs, txDepth, verbsSize), far.verbs(pairs, p.Timeout))
				}
				tcp, got := far.tcp()
				far.compare(fmt.Sprintf("RTT %s, loss %g %%, MTU %d, TCP, %d streams", rtt, loss, mtu, tcp.Streams), tcp.Rate(p), got)
			}
		}
	}
	t.Logf("figure: %d runs gave a rate, %d gave none, and %d of 18 settings were not reached within %s", far.compared, far.failed, missed, patience)
	if far.compared < 2*far.failed || far.compared == 0 {
		t.Errorf("only %d runs gave a rate, and %d gave none", far.compared, far.failed)
	}
}

const (
	patience  = 12 * time.Minute // for the whole table
	measured  = 4 * time.Second  // as the file has it for TCP
	verbsSize = 65536
	txDepth   = 128 // perftest's
)

// farEnds are the two hosts of the long link.
type farEnds struct {
	t                *testing.T
	state            string
	compared, failed int
}

// set makes the round trip and the losses, beyond the declared 50 ms.
func (f *farEnds) set(rtt time.Duration, loss float64) {
	f.t.Helper()
	var fault []string
	if more := rtt/2 - 25*time.Millisecond; more > 0 {
		fault = append(fault, "delay="+more.String())
	}
	if loss > 0 {
		fault = append(fault, fmt.Sprintf("loss=%g%%", loss))
	}
	if fault == nil {
		fault = []string{"none"}
	}
	try(f.t, f.state, "lab", "fault", longLink, "wan", strings.Join(fault, ",")).want(f.t, 0)
}

// on runs a command on a host. It returns its output, and whether it succeeded.
func (f *farEnds) on(host string, argv ...string) (string, bool) {
	return f.run(append([]string{"lab", "exec", longLink, host, "--"}, argv...)...)
}

// run runs the program.
func (f *farEnds) run(args ...string) (string, bool) {
	cmd := exec.Command(bin, args...)
	cmd.Env = append(cmd.Environ(), "XDG_STATE_HOME="+f.state, "NO_COLOR=1", "SSH_AUTH_SOCK=")
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// ping returns the round trips, in seconds.
func (f *farEnds) ping() widearea.Range {
	f.t.Helper()
	out, _ := f.on("a", "ping", "-q", "-c", "8", "-i", "0.2", "10.40.0.2") // some packets may be lost
	m := regexp.MustCompile(`= ([0-9.]+)/[0-9.]+/([0-9.]+)/`).FindStringSubmatch(out)
	if m == nil {
		f.t.Fatalf("ping says nothing:\n%s", out)
	}
	low, _ := strconv.ParseFloat(m[1], 64)
	high, _ := strconv.ParseFloat(m[2], 64)
	return widearea.Range{Low: low / 1000, High: high / 1000}
}

// verbs returns the Gb/s of ib_write_bw from a to b; 0 if it did not end.
func (f *farEnds) verbs(pairs, timeout int) float64 {
	argv := []string{"timeout", "60", "ib_write_bw", "-d", "rxe0", "-x", "1", "-F", "-s", strconv.Itoa(verbsSize), "-D", strconv.Itoa(int(measured.Seconds())),
		"-q", strconv.Itoa(pairs), "-u", strconv.Itoa(timeout), "--report_gbits"}
	done := make(chan string, 1)
	go func() {
		out, _ := f.on("b", argv...)
		done <- out
	}()
	time.Sleep(2 * time.Second) // the server listens by then, mostly
	var out string
	for range 3 {
		var ok bool
		if out, ok = f.on("a", append(argv, "10.40.0.2")...); ok || !strings.Contains(out, "Couldn't connect") {
			break
		}
	}
	f.t.Logf("%s\nserver: %s", out, <-done)
	m := regexp.MustCompile(`(?m)^ *65536 +[0-9]+ +[0-9.]+ +([0-9.]+) +`).FindStringSubmatch(out)
	if m == nil {
		return 0
	}
	gbps, _ := strconv.ParseFloat(m[1], 64)
	return gbps
}

// tcp returns how verify's own streams sent from a to b, for the model, and their Gb/s; 0 if it measured none.
func (f *farEnds) tcp() (how widearea.TCP, gbps float64) {
	out, _ := f.run("verify", "-lab", "-only", "tcp", "-json", longLink)
	for line := range strings.Lines(out) {
		var o struct {
			Result struct {
				Check, Item, Host string
				Values            []struct {
					Name  string
					Value float64
				}
				Setup struct {
					Streams           int
					SegmentBytes      int     `json:"segment_bytes"`
					BufferBytes       float64 `json:"buffer_bytes"`
					CongestionControl string  `json:"congestion_control"`
				}
			}
		}
		if json.Unmarshal([]byte(line), &o) != nil || o.Result.Item != "throughput" || o.Result.Host != "a" {
			continue
		}
		s := o.Result.Setup
		how = widearea.TCP{Streams: s.Streams, Segment: s.SegmentBytes, Window: widearea.Range{Low: s.BufferBytes / 2, High: s.BufferBytes}, Control: s.CongestionControl}
		for _, v := range o.Result.Values {
			switch v.Name {
			case "throughput":
				gbps = v.Value
			case "duration":
				how.Seconds = v.Value
			}
		}
		return how, gbps
	}
	f.t.Logf("no throughput: %s", out)
	return how, 0
}

// compare writes a row of the table.
func (f *farEnds) compare(what string, predicted widearea.Figure, got float64) {
	if got == 0 { // TCP's prediction needs what the run reports of itself
		f.failed++
		f.t.Logf("figure: %s: no rate was measured", what)
		return
	}
	f.compared++
	f.t.Logf("figure: %s: %s predicted, %s measured, %.0f %%", what, predicted.Text(), widearea.Exactly(got).In(widearea.Gbps), 100*got/predicted.Value.High)
}
