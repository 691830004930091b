package perftest

import (
	"fmt"
	"strings"
)

// ProgramRun is one run of a program on one end: what it printed, and how it ended.
type ProgramRun struct {
	Stdout []byte
	Stderr []byte
	Exit   int    // the exit status; meaningless if Signal, TimedOut or Missing is set
	Signal string // the signal that ended it, such as "killed"; not set after a timeout
	// TimedOut: the time was over, and the caller stopped the program.
	TimedOut bool
	// Missing: the host does not have the program.
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
	BadArguments      Cause = "bad-arguments"      // the program does not accept an option or its value
	NoProvider        Cause = "no-provider"        // libibverbs has no library for the device
	NoDevices         Cause = "no-devices"         // the host has no RDMA device
	NoSuchDevice      Cause = "no-such-device"     // the host has other RDMA devices
	NoAccess          Cause = "no-access"          // the device cannot be opened
	PortDown          Cause = "port-down"          // the RDMA port is not active
	NoGID             Cause = "no-gid"             // the GID index is empty or beyond the table
	GIDFamilies       Cause = "gid-families"       // one end's GID is an IPv4 address, the other's IPv6
	Memlock           Cause = "memlock"            // memory could not be registered
	NoQueues          Cause = "no-queues"          // the device has no free queue pair or completion queue
	NoPath            Cause = "no-path"            // the queue pairs could not be connected
	VersionsDiffer    Cause = "versions-differ"    // the two perftests do not understand each other
	OptionsDiffer     Cause = "options-differ"     // the two ends were started with different tests
	RetriesExceeded   Cause = "retries-exceeded"   // packets or acknowledgements do not arrive
	ReceiverNotReady  Cause = "receiver-not-ready" // the other end posts no receive buffers
	AccessRefused     Cause = "access-refused"     // the other end refused a memory access
	CompletionError   Cause = "completion-error"   // any other completion with an error
	PortBusy          Cause = "port-busy"          // the control port is taken on the server
	NoControl         Cause = "no-control"         // the TCP control connection fails
	ClockUnusable     Cause = "clock-unusable"     // no report, because the CPU frequency is not steady
	Killed            Cause = "killed"             // a signal ended the program
	SilentControl     Cause = "silent-control"     // timed out before the control connection was complete
	SilentData        Cause = "silent-data"        // timed out while data should have flowed
	PeerGone          Cause = "peer-gone"          // the other end closed the connection without a reason
	UnexplainedStatus Cause = "unexplained"        // an exit status without a known message
)

// Failure is a failed test explained.
type Failure struct {
	Cause Cause `json:"cause"`
	// Side is the end with the cause, as far as it is known.
	Side Side `json:"side"`
	// Sentence says what happened, and Cure what to do. Both call the hosts "the server" and "the client".
	Sentence string `json:"sentence"`
	Cure     string `json:"cure"`
	// Said is the program's own line, if there is one.
	Said string `json:"said,omitempty"`
}

// Text returns what happened, with the program's own line, and what to do. Both use the hosts' names.
func (f Failure) Text(hosts map[Side]string) (cause, cure string) {
	named := strings.NewReplacer("the server", hosts[Server], "the client", hosts[Client])
	cause = named.Replace(f.Sentence)
	if f.Said != "" {
		cause += fmt.Sprintf(" (perftest on %s: %s)", hosts[f.Side], f.Said)
	}
	return cause, named.Replace(f.Cure)
}
