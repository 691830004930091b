package perftest

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"
)

// Spec is a test as both ends run it. The programs do not compare all of it: if the two ends differ, they can
// hang or measure something else.
type Spec struct {
	Test Test `json:"test"`
	// Size is the size of a message in bytes.
	Size int `json:"size"`
	// Iterations is the number of messages, from 5 to 10^8 (MIN_ITER and 4.5's MAX_ITER). Set either this
	// or Duration.
	Iterations int `json:"iterations,omitempty"`
	// Duration is how long messages are sent, in whole seconds, at least 2. With a duration, perftest
	// reports no peak and no percentiles.
	Duration time.Duration `json:"duration,omitempty"`
	// QPs is the number of queue pairs that send in parallel; 0 means 1. Bandwidth only.
	QPs int `json:"qps,omitempty"`
	// Bidirectional sends in both directions; the result is the sum. Bandwidth only.
	Bidirectional bool `json:"bidirectional,omitempty"`
	// TrafficClass is the DSCP and ECN byte in the IP header, from 0 to 255.
	TrafficClass int `json:"traffic_class,omitempty"`
	// ServiceLevel is the InfiniBand service level, or the priority in the VLAN tag of a RoCE packet, from 0 to 15 (MAX_SL).
	ServiceLevel int `json:"service_level,omitempty"`
	// AckTimeout is the exponent of the local ACK timeout, 4.096 µs · 2^AckTimeout, up to 31; 0 leaves DefaultAckTimeout. It must exceed the
	// round trip.
	AckTimeout int `json:"ack_timeout,omitempty"`
	// ControlPort is the TCP port of the control connection.
	ControlPort uint16 `json:"control_port"`
	// ControlIPv6 runs that connection over IPv6, which releases before 23.07 refuse.
	ControlIPv6 bool `json:"control_ipv6,omitempty"`
}

// End has the settings of one end.
type End struct {
	Device   string `json:"device"`    // such as rxe0 or mlx5_0
	Port     int    `json:"port"`      // of the device, from 1
	GIDIndex int    `json:"gid_index"` // in that port's table, at most 64
	// Peer is the address that the client connects to. The server has none.
	Peer netip.Addr `json:"peer,omitzero"`
	// JSONFile also gets the report, if it is not empty. See Version.WritesJSON.
	JSONFile string `json:"json_file,omitempty"`
}

// Defaults of perftest_parameters.h (DEF_QP_TIME, DEF_TX_BW).
const (
	DefaultAckTimeout = 14  // 67 ms
	TxDepth           = 128 // messages that a queue pair of a bandwidth test has posted
)

// maxDuration prevents a wrong unit from occupying two hosts for days.
const maxDuration = time.Hour

// Args returns the argument vector of one end, with the program's name first. The vectors of the two ends differ
// only by End.
//
// -F is always set: without it, perftest writes no report if a CPU changes its frequency. With
// IBV_SHOW_WARNINGS=1 in the environment, libibverbs reports if it has no library for a device.
func Args(s Spec, e End) ([]string, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := e.check(s); err != nil {
		return nil, err
	}
	args := []string{s.Test.Program(), "-F", "-d", e.Device, "-i", strconv.Itoa(e.Port), "-x", strconv.Itoa(e.GIDIndex),
		"-p", strconv.Itoa(int(s.ControlPort)), "-s", strconv.Itoa(s.Size)}
	if s.Duration > 0 {
		args = append(args, "-D", strconv.Itoa(int(s.Duration/time.Second)))
	} else {
		args = append(args, "-n", strconv.Itoa(s.Iterations))
	}
	if s.Test.Bandwidth() {
		args = append(args, "--report_gbits", "-q", strconv.Itoa(max(s.QPs, 1)))
	}
	if s.Bidirectional {
		args = append(args, "-b")
	}
	if s.TrafficClass != 0 {
		args = append(args, "--tclass="+strconv.Itoa(s.TrafficClass))
	}
	if s.ServiceLevel != 0 {
		args = append(args, "--sl="+strconv.Itoa(s.ServiceLevel))
	}
	if s.AckTimeout != 0 {
		args = append(args, "-u", strconv.Itoa(s.AckTimeout))
	}
	if s.ControlIPv6 {
		args = append(args, "--ipv6-addr")
	}
	if e.JSONFile != "" {
		args = append(args, "--out_json", "--out_json_file="+e.JSONFile)
	}
	if e.Peer.IsValid() {
		args = append(args, e.Peer.String())
	}
	return args, nil
}

// check applies the limits of perftest_parameters.h, so that a bad test is reported before it occupies hosts.
func (s Spec) check() error {
	switch {
	case !s.Test.Valid():
		return fmt.Errorf("unknown perftest program ib_%.40s", s.Test)
	case s.Size < 1 || s.Size > 1<<30:
		return fmt.Errorf("%s: invalid message size %d: use 1 to 2^30 bytes", s.Test.Program(), s.Size)
	case (s.Iterations > 0) == (s.Duration > 0):
		return fmt.Errorf("%s: give a number of iterations or a duration, not both", s.Test.Program())
	case s.Duration == 0 && (s.Iterations < 5 || s.Iterations > 1e8):
		return fmt.Errorf("%s: invalid number of iterations %d: use 5 to 10^8", s.Test.Program(), s.Iterations)
	case s.Duration != 0 && (s.Duration%time.Second != 0 || s.Duration < 2*time.Second || s.Duration > maxDuration):
		return fmt.Errorf("%s: invalid duration %s: use whole seconds from 2 to %d",
			s.Test.Program(), s.Duration, int(maxDuration.Seconds()))
	case s.QPs < 0 || s.QPs > 16384:
		return fmt.Errorf("%s: invalid number of queue pairs %d: use 1 to 16384", s.Test.Program(), s.QPs)
	case !s.Test.Bandwidth() && (s.QPs > 1 || s.Bidirectional):
		return fmt.Errorf("%s: a latency test uses one queue pair, in both directions", s.Test.Program())
	case s.TrafficClass < 0 || s.TrafficClass > 255:
		return fmt.Errorf("%s: invalid traffic class %d: use 0 to 255", s.Test.Program(), s.TrafficClass)
	case s.ServiceLevel < 0 || s.ServiceLevel > 15:
		return fmt.Errorf("%s: invalid service level %d: use 0 to 15", s.Test.Program(), s.ServiceLevel)
	case s.AckTimeout < 0 || s.AckTimeout > 31:
		return fmt.Errorf("%s: invalid exponent %d of the ACK timeout: use 1 to 31", s.Test.Program(), s.AckTimeout)
	case s.ControlPort == 0:
		return fmt.Errorf("%s: the control port is missing", s.Test.Program())
	}
	return nil
}

func (e End) check(s Spec) error {
	switch {
	case !deviceName(e.Device):
		return fmt.Errorf("%s: %.70q is not a valid name of an RDMA device", s.Test.Program(), e.Device)
	case e.Port < 1 || e.Port > 254:
		return fmt.Errorf("%s: %s has no port %d", s.Test.Program(), e.Device, e.Port)
	case e.GIDIndex < 0 || e.GIDIndex > 64: // MAX_GID_IX
		return fmt.Errorf("%s: GID index %d of %s: perftest accepts only 0 to 64", s.Test.Program(), e.GIDIndex, e.Device)
	case e.Peer.IsValid() && (e.Peer.Unmap().Is6() != s.ControlIPv6 || e.Peer.Zone() != "" || e.Peer.Is4In6()):
		return fmt.Errorf("%s: the control connection cannot go to %s", s.Test.Program(), e.Peer)
	}
	return nil
}

// deviceName reports whether the kernel accepts the name: at most 63 bytes (IB_DEVICE_NAME_MAX in
// include/rdma/ib_verbs.h). It rejects names that look like an option.
func deviceName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[0] == '.' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
