package perftest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Classify finds the cause of a failed test from the outcomes of both ends. It returns false if both succeeded. An
// error at one end makes the other fail too, often with more messages. So Classify looks for causes on both ends,
// from the most specific to the least.
func Classify(server, client ProgramRun) (Failure, bool) {
	ends := []*end{newEnd(Client, client), newEnd(Server, server)}
	if !slices.ContainsFunc(ends, func(e *end) bool { return !e.ended() }) {
		return Failure{}, false
	}
	for _, e := range ends {
		if e.Missing {
			return Failure{Cause: NotInstalled, Side: e.side, Sentence: fmt.Sprintf("perftest is not installed on the %s", e.side),
				Cure: "install the package perftest there; an ofed block with packages for it does so on every host"}, true
		}
	}
	for _, r := range rules {
		for _, e := range ends {
			if said, ok := e.find(r.wordings); ok {
				return r.failure(e, said), true
			}
		}
	}
	if f, ok := completion(ends); ok {
		return f, true
	}
	for _, r := range lateRules {
		for _, e := range ends {
			if said, ok := e.find(r.wordings); ok {
				return r.failure(e, said), true
			}
		}
	}
	return wordless(ends), true
}

// end is an Outcome with its output split into lines.
type end struct {
	ProgramRun
	side  Side
	lines []string
}

func newEnd(side Side, o ProgramRun) *end {
	e := &end{ProgramRun: o, side: side}
	for _, text := range [][]byte{o.Stderr, o.Stdout} {
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" {
				e.lines = append(e.lines, line)
			}
		}
	}
	return e
}

// ended reports whether an end succeeded. A receiver that gave up waiting still exits with 0, and so does a client whose
// clock gave no times. The server's times are not used.
func (e *end) ended() bool {
	_, gaveUp := e.find([]string{gaveUpWaiting})
	_, untimed := e.find([]string{clockUnmeasured})
	return e.Exit == 0 && e.Signal == "" && !e.TimedOut && !e.Missing && !gaveUp && (!untimed || e.side == Server)
}

// find returns the first line with one of the wordings; * in a wording matches anything.
func (e *end) find(wordings []string) (string, bool) {
	for _, line := range e.lines {
		for _, w := range wordings {
			before, after, _ := strings.Cut(w, "*")
			if i := strings.Index(line, before); i >= 0 && strings.Contains(line[i+len(before):], after) {
				return shorten(line), true
			}
		}
	}
	return "", false
}

// shorten limits a line for use in a message.
func shorten(line string) string {
	const most = 200
	if len(line) <= most {
		return strings.ToValidUTF8(line, "?")
	}
	return strings.ToValidUTF8(line[:most], "?") + "…"
}

// completion finds a completion error: "Failed status 12: wr_id 0 syndrom 0x81" (NOTIFY_COMP_ERROR_SEND in
// perftest_resources.h) or "Poll send CQ error status=12 qp 0" (perftest_resources.c).
func completion(ends []*end) (Failure, bool) {
	var flushed *Failure
	for _, e := range ends {
		for _, line := range e.lines {
			status, ok := numberAfter(line, "Failed status ")
			if !ok {
				status, ok = numberAfter(line, "CQ error status=")
			}
			if !ok {
				continue
			}
			f := statusFailure(e, status)
			f.Said = shorten(line)
			// Flushed requests follow from another error, which another line may report.
			if status != flushErr {
				return f, true
			}
			if flushed == nil {
				flushed = &f
			}
		}
	}
	if flushed != nil {
		return *flushed, true
	}
	return Failure{}, false
}

func numberAfter(line, words string) (int, bool) {
	_, rest, ok := strings.Cut(line, words)
	if !ok {
		return 0, false
	}
	n := 0
	for n < len(rest) && n < 4 && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	v, err := strconv.Atoi(rest[:n])
	return v, err == nil
}

// wordless explains a failure without a known message.
func wordless(ends []*end) Failure {
	client, server := ends[0], ends[1]
	for _, e := range ends {
		if e.Signal != "" && !e.TimedOut {
			return Failure{Cause: Killed, Side: e.side,
				Sentence: fmt.Sprintf("the %s's program was ended by a signal (%s)", e.side, e.Signal),
				Cure:     "look in that host's journal for the reason: out of memory, or an operator"}
		}
	}
	if client.TimedOut || server.TimedOut {
		return silent(client, server)
	}
	for _, e := range ends {
		if said, ok := e.find(peerGone); ok {
			return Failure{Cause: PeerGone, Side: e.other(),
				Sentence: fmt.Sprintf("the %s closed the connection during the test", e.other()),
				Cure:     "run the test again; if it fails again, run perftest by hand on both hosts", Said: said}
		}
	}
	e := client
	if client.ended() {
		e = server
	}
	f := Failure{Cause: UnexplainedStatus, Side: e.side, Sentence: fmt.Sprintf("the %s's program exited with status %d", e.side, e.Exit),
		Cure: "run perftest by hand on both hosts"}
	if len(e.lines) > 0 {
		f.Said = shorten(e.lines[0])
	}
	return f
}

func (e *end) other() Side {
	if e.side == Client {
		return Server
	}
	return Client
}

// silent explains a timeout. The output shows how far the two ends got: they print the peer's queue pair only
// after the control connection and the queue pairs are connected.
func silent(client, server *end) Failure {
	for _, e := range []*end{client, server} {
		if _, ok := e.find([]string{"remote address:"}); ok {
			return Failure{Cause: SilentData, Side: Client,
				Sentence: "both ends agreed on the test over TCP, but no RDMA traffic arrived in time",
				Cure: "allow UDP port 4791 on the network between them (with Soft-RoCE in the hosts' firewalls, too), " +
					"and compare both ends' MTU: " +
					"a frame larger than the path's MTU is dropped silently"}
		}
	}
	if _, ok := server.find([]string{"Waiting for client"}); ok && server.TimedOut && !client.TimedOut && client.ended() {
		return Failure{Cause: SilentControl, Side: Server, Sentence: "the server is still waiting for a client that has already exited",
			Cure: "run the test again: another client may have connected first"}
	}
	return Failure{Cause: SilentControl, Side: Client, Sentence: "the two ends did not agree on a test in time",
		Cure: "allow the control port (TCP) in the server's firewall, and use the same perftest on both hosts"}
}
