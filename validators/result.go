// Package validators checks a converged fabric with live measurements: one file per check, and one row for each
// in a table. It measures through the interface Fleet. A measurement passes only if the counters of the right
// port show it. A result holds typed values; package view formats them.
package validators

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
)

// Fleet calls hosts by their names in the fabric. Implementations must be safe for concurrent use.
type Fleet interface {
	agent.Caller
	// Snapshot reads a host's facts.
	Snapshot(ctx context.Context, host string) (*facts.Snapshot, error)
}

// Verdict is the outcome of a check. A check that did not run is skipped, with a reason.
type Verdict string

// The verdicts.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	Warn Verdict = "warn"
	Skip Verdict = "skip"
)

// Result is the finding of one check about one subject. Programs decide by its typed fields; Cause and Cure
// are for people only.
type Result struct {
	Check   Check   `json:"check"`
	Item    Item    `json:"item,omitempty"` // the part of the check that this result is about; empty for the whole check
	Subject Subject `json:"subject"`
	Verdict Verdict `json:"verdict"`

	Host   string    `json:"host,omitempty"`   // where it was measured, or the sending side
	Peer   string    `json:"peer,omitempty"`   // the receiving side
	Hosts  []string  `json:"hosts,omitempty"`  // that take part, or that differ from the others
	Object string    `json:"object,omitempty"` // what on the host the item is about, such as an address, a test, a package or a variable
	Place  *FileLine `json:"place,omitempty"`  // in a file of the host

	Values  []Measurement `json:"values,omitempty"`
	Found   string        `json:"found,omitempty"`    // a value that is not a number
	Wanted  string        `json:"wanted,omitempty"`   // the expected value
	FoundOn []FoundOn     `json:"found_on,omitempty"` // values that hosts have
	// Attribute is the attribute of a resource that has the values Found and Wanted; an empty value means absent.
	Attribute string `json:"attribute,omitempty"`
	// Applied is when the fabric was last applied on the host, for a result about a reboot.
	Applied  time.Time  `json:"applied,omitzero"`
	Setup    *Setup     `json:"setup,omitempty"`
	Counters []Movement `json:"counters,omitempty"`

	Unmeasured bool       `json:"unmeasured,omitempty"` // the measurement failed
	Skipped    SkipReason `json:"skip_reason,omitempty"`
	Cause      string     `json:"cause,omitempty"`
	Cure       string     `json:"cure,omitempty"`
	// Diff has lines of the files as they are (-) and as they would be right (+), below the place that they are of (@@).
	Diff []string `json:"diff,omitempty"`
}

// SubjectKind is the kind of a subject.
type SubjectKind string

// The kinds of subjects.
const (
	SubjectLink    SubjectKind = "link"
	SubjectNetwork SubjectKind = "network"
	SubjectGroup   SubjectKind = "port_group" // links that share a physical port
	SubjectHost    SubjectKind = "host"
	SubjectHosts   SubjectKind = "hosts" // several together; Result.Hosts names them
)

// Subject is what a result is about.
type Subject struct {
	Kind SubjectKind `json:"kind"`
	Name string      `json:"name,omitempty"` // of the link, network, port group or host
	Path string      `json:"path,omitempty"` // of a network: the pair of members that was measured
	NIC  string      `json:"nic,omitempty"`  // of a host, where it is about that NIC alone
}

// onHost is a host as a subject.
func onHost(name string) Subject { return Subject{Kind: SubjectHost, Name: name} }

// OnPath is a path's link or network as a subject.
func OnPath(p fabric.Path) Subject {
	if p.Network != nil {
		return Subject{Kind: SubjectNetwork, Name: p.Network.Name, Path: p.Name}
	}
	return Subject{Kind: SubjectLink, Name: p.Name}
}

// Key identifies the same measurement in two runs.
type Key struct {
	Check      Check
	Item       Item
	Subject    Subject
	Host, Peer string
	Object     string
}

// Key returns the key of the result.
func (r Result) Key() Key { return Key{r.Check, r.Item, r.Subject, r.Host, r.Peer, r.Object} }

// String names the measurement in an error.
func (k Key) String() string {
	on := k.Subject.Name
	if k.Subject.Path != "" {
		on = k.Subject.Path
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s of %s on %s", k.Item, k.Object, k.Host, on)), " ")
}

// Item is the part of a check that a result is about.
type Item string

// SkipReason is why a check did not run.
type SkipReason string

// The reasons.
const (
	HostUnreachable SkipReason = "host_unreachable"
	NotApplied      SkipReason = "not_applied"    // the apply left it out, because hosts were missing
	DeviceMissing   SkipReason = "device_missing" // a declared NIC matches no device, or several
	Disabled        SkipReason = "disabled"       // by a validate block
	NoAddressPair   SkipReason = "no_address_pair"
	NotDeclared     SkipReason = "not_declared" // nothing in the files to compare with
	InLab           SkipReason = "lab"
	NoCarrier       SkipReason = "no_carrier"
	NoTraffic       SkipReason = "no_traffic" // the other checks sent too little
	SpeedUnknown    SkipReason = "speed_unknown"
	NoRDMA          SkipReason = "no_rdma"
	NoPriorities    SkipReason = "no_priority_counters" // the NIC's driver does not count packets by priority
	NoGPU           SkipReason = "no_gpu"
	NoLogins        SkipReason = "no_logins" // a launcher of MPI needs a login_mesh
	BadSettings     SkipReason = "bad_settings"
	NotMeasured     SkipReason = "not_measured"    // what this one computes with was not measured in this run
	Undecided       SkipReason = "undecided"       // a bound that the measured values neither break nor prove
	EarlierFailure  SkipReason = "earlier_failure" // an earlier test failed in a way that this one would repeat
)

// FileLine is a line of a file on a host; line 0 is the whole file.
type FileLine struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
}

// FoundOn is a value and the hosts that have it.
type FoundOn struct {
	Value string   `json:"value"` // empty: none
	Hosts []string `json:"hosts"`
}

// Setup is how values were measured, where one must know that to compare them.
type Setup struct {
	Streams           int       `json:"streams,omitempty"`            // TCP connections at a time
	CongestionControl string    `json:"congestion_control,omitempty"` // of TCP
	SegmentBytes      int       `json:"segment_bytes,omitempty"`      // of TCP's payload
	BufferBytes       int64     `json:"buffer_bytes,omitempty"`       // to which a TCP stream's buffers may grow, at the end that allows less
	From              *UsedPort `json:"from,omitempty"`               // the client's
	To                *UsedPort `json:"to,omitempty"`                 // the server's
	RDMAMTU           int       `json:"rdma_mtu_bytes,omitempty"`
	QueuePairs        int       `json:"queue_pairs,omitempty"`          // that sent at the same time
	AckTimeout        int       `json:"ack_timeout_exponent,omitempty"` // of RDMA: 4.096 µs · 2^n; 0: perftest's default
	TrafficClass      *int      `json:"traffic_class,omitempty"`        // asked for: DSCP<<2 | ECN; nil: the kernel's default
	ServiceLevel      *int      `json:"service_level,omitempty"`        // of RDMA packets, the priority in a VLAN's tag
	MessageBytes      int64     `json:"message_bytes,omitempty"`
	Ranks             int       `json:"ranks,omitempty"`
	Software          []string  `json:"software,omitempty"`  // each with its release
	Transport         string    `json:"transport,omitempty"` // of NCCL: RDMA or sockets
	Devices           []string  `json:"devices,omitempty"`   // that the transport uses, on the first host
}

// UsedPort is a port of an RDMA device with the index of the GID in use.
type UsedPort struct {
	Device   string `json:"device"`
	Port     int    `json:"port"`
	GIDIndex int    `json:"gid_index"`
}

// Movement is how far a port's counter rose while a test ran: the proof that the test took this port.
type Movement struct {
	Port    string `json:"port"` // HOST.NIC, or HOST.DEVICE of an RDMA device
	Counter string `json:"counter"`
	Rise    uint64 `json:"rise"`
	AtLeast uint64 `json:"at_least,omitempty"` // what the test must have moved
	Shared  int    `json:"shared,omitempty"`   // tests that ran at once and moved it together; 0: this one alone
}

// fails returns the result as a failure with values.
func (r Result) fails(cause, cure string) Result {
	r.Verdict, r.Cause, r.Cure = Fail, cause, cure
	return r
}

// unmeasured returns the result as a failure without a value.
func (r Result) unmeasured(cause, cure string) Result {
	r.Unmeasured = true
	return r.fails(cause, cure)
}

// skips returns the result as a check that did not run.
func (r Result) skips(why SkipReason, cause string) Result {
	r.Verdict, r.Skipped, r.Cause = Skip, why, cause
	return r
}
