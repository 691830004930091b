package perftest

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"
)

// Spec is a test as both ends run it. The programs do not compare all of it: where it differs they
// hang, or measure something else.
type Spec struct {
	Test Test `json:"test"`
	// Size is the message's, in bytes.
	Size int `json:"size"`
	// Iterations is how many messages are sent, from 5 to 10^8 (MIN_ITER and 4.5's MAX_ITER). Either
	// this or Duration.
	Iterations int `json:"iterations,omitempty"`
	// Duration is for how long messages are sent, in whole seconds, at least 2. There is no peak and
	// there are no percentiles then.
	Duration time.Duration `json:"duration,omitempty"`
	// QPs is how many queue pairs send side by side; 0 is 1. Bandwidth only.
	QPs int `json:"qps,omitempty"`
	// Bidirectional sends both ways; the result is the sum. Bandwidth only.
	Bidirectional bool `json:"bidirectional,omitempty"`
	// TrafficClass is the byte of DSCP and ECN in the packets' IP header.
	TrafficClass uint8 `json:"traffic_class,omitempty"`
	// ControlPort is the TCP port over which the ends agree.
	ControlPort uint16 `json:"control_port"`
	// ControlIPv6 runs that connection over IPv6, which releases before 23.07 refuse.
	ControlIPv6 bool `json:"control_ipv6,omitempty"`
}

// End is what one end has of its own.
type End struct {
	Device   string `json:"device"`    // such as rxe0 or mlx5_0
	Port     int    `json:"port"`      // of the device, from 1
	GIDIndex int    `json:"gid_index"` // in that port's table, at most 64
	// Peer is the address that the client connects to. The server has none.
	Peer netip.Addr `json:"peer,omitzero"`
	// JSONFile is where a report is also written, if it is not empty. See Version.WritesJSON.
	JSONFile string `json:"json_file,omitempty"`
}

// maxDuration keeps a slip of the unit from occupying two hosts for days.
const maxDuration = time.Hour

// Args is the argument vector of one end, the program's name first. Both ends' vectors differ only in
// what End says.
//
// -F is always there: without it a CPU that changes its frequency ends the test without a report. With
// IBV_SHOW_WARNINGS=1 in the environment, libibverbs says when it lacks the library for a device.
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
		args = append(args, "--tclass="+strconv.Itoa(int(s.TrafficClass)))
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

// check holds the limits of perftest_parameters.h, so that a bad test is told before hosts are busy.
func (s Spec) check() error {
	switch {
	case !s.Test.Valid():
		return fmt.Errorf("there is no perftest program ib_%.40s", s.Test)
	case s.Size < 1 || s.Size > 1<<30:
		return fmt.Errorf("%s: messages of %d bytes: from 1 to 2^30 are possible", s.Test.Program(), s.Size)
	case (s.Iterations > 0) == (s.Duration > 0):
		return fmt.Errorf("%s: give a number of iterations or a duration, and not both", s.Test.Program())
	case s.Duration == 0 && (s.Iterations < 5 || s.Iterations > 1e8):
		return fmt.Errorf("%s: %d iterations: from 5 to 10^8 are possible", s.Test.Program(), s.Iterations)
	case s.Duration != 0 && (s.Duration%time.Second != 0 || s.Duration < 2*time.Second || s.Duration > maxDuration):
		return fmt.Errorf("%s: a duration of %s: whole seconds from 2 to %d are possible", s.Test.Program(), s.Duration, int(maxDuration.Seconds()))
	case s.QPs < 0 || s.QPs > 16384:
		return fmt.Errorf("%s: %d queue pairs: from 1 to 16384 are possible", s.Test.Program(), s.QPs)
	case !s.Test.Bandwidth() && (s.QPs > 1 || s.Bidirectional):
		return fmt.Errorf("%s: latency is measured on one queue pair, there and back", s.Test.Program())
	case s.ControlPort == 0:
		return fmt.Errorf("%s: no control port is given", s.Test.Program())
	}
	return nil
}

func (e End) check(s Spec) error {
	switch {
	case !deviceName(e.Device):
		return fmt.Errorf("%s: %.70q is no name of an RDMA device", s.Test.Program(), e.Device)
	case e.Port < 1 || e.Port > 254:
		return fmt.Errorf("%s: %s has no port %d", s.Test.Program(), e.Device, e.Port)
	case e.GIDIndex < 0 || e.GIDIndex > 64: // MAX_GID_IX
		return fmt.Errorf("%s: GID index %d of %s: perftest takes 0 to 64 only", s.Test.Program(), e.GIDIndex, e.Device)
	case e.Peer.IsValid() && (e.Peer.Unmap().Is6() != s.ControlIPv6 || e.Peer.Zone() != "" || e.Peer.Is4In6()):
		return fmt.Errorf("%s: the control connection cannot go to %s", s.Test.Program(), e.Peer)
	}
	return nil
}

// deviceName is true of what the kernel takes: at most 63 bytes (IB_DEVICE_NAME_MAX in
// include/rdma/ib_verbs.h). A name that looks like an option is none of ours.
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
