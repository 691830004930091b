package perftest

import (
	"fmt"
	"strings"
)

// Outcome is how one end's program ended.
type Outcome struct {
	Stdout []byte
	Stderr []byte
	Exit   int    // the exit status; without meaning where Signal, TimedOut or Missing is set
	Signal string // what ended it from outside, such as "killed"; not set for a time-out's own
	// TimedOut: its time was over, and whoever started it ended it.
	TimedOut bool
	// Missing: there is no such program on the host.
	Missing bool
}

// Side is an end of a test.
type Side string

// The sides.
const (
	Server Side = "server"
	Client Side = "client"
)

// Cause is why a test failed.
type Cause string

// The causes.
const (
	NotInstalled      Cause = "not-installed"      // the program is missing
	BadArguments      Cause = "bad-arguments"      // the program does not take an option or its value
	NoProvider        Cause = "no-provider"        // libibverbs has no library for the device
	NoDevices         Cause = "no-devices"         // the host has no RDMA device
	NoSuchDevice      Cause = "no-such-device"     // it has others
	NoAccess          Cause = "no-access"          // the device cannot be opened
	PortDown          Cause = "port-down"          // the RDMA port is not active
	NoGID             Cause = "no-gid"             // the GID index is empty or beyond the table
	GIDFamilies       Cause = "gid-families"       // one end's GID is of IPv4, the other's of IPv6
	Memlock           Cause = "memlock"            // memory could not be registered
	NoQueues          Cause = "no-queues"          // the device gives no queue pair or completion queue
	NoPath            Cause = "no-path"            // the queue pairs could not be connected
	VersionsDiffer    Cause = "versions-differ"    // the two perftests do not understand each other
	OptionsDiffer     Cause = "options-differ"     // they were told different tests
	RetriesExceeded   Cause = "retries-exceeded"   // packets or their acknowledgements do not arrive
	ReceiverNotReady  Cause = "receiver-not-ready" // the other end posts no receive buffers
	AccessRefused     Cause = "access-refused"     // the other end refused what was asked
	CompletionError   Cause = "completion-error"   // any other completion with an error
	PortBusy          Cause = "port-busy"          // the control port is taken on the server
	NoControl         Cause = "no-control"         // the TCP control connection fails
	ClockUnusable     Cause = "clock-unusable"     // no report for want of a steady CPU frequency
	Killed            Cause = "killed"             // a signal ended the program
	SilentControl     Cause = "silent-control"     // time over before the ends knew each other
	SilentData        Cause = "silent-data"        // time over while data should have flowed
	PeerGone          Cause = "peer-gone"          // the other end went away and left no reason
	UnexplainedStatus Cause = "unexplained"        // an exit status, and no words that are known
)

// Failure is a failed test explained.
type Failure struct {
	Cause Cause `json:"cause"`
	// Side is where the cause lies, as far as the programs tell.
	Side Side `json:"side"`
	// Sentence says what happened and Cure what to do. Both name hosts as "the server" and "the client".
	Sentence string `json:"sentence"`
	Cure     string `json:"cure"`
	// Said is the program's own line, if there is one.
	Said string `json:"said,omitempty"`
}

// Text is what happened, with the program's own line, and what to do; both name the hosts.
func (f Failure) Text(hosts map[Side]string) (cause, cure string) {
	named := strings.NewReplacer("the server", hosts[Server], "the client", hosts[Client])
	cause = named.Replace(f.Sentence)
	if f.Said != "" {
		cause += fmt.Sprintf(" (perftest on %s: %s)", hosts[f.Side], f.Said)
	}
	return cause, named.Replace(f.Cure)
}
