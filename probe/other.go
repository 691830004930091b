//go:build !linux

package probe

import (
	"context"
	"errors"

	"github.com/fabricform/fabricform/probe/perftest"
)

var errLinux = errors.New("a fabric's host runs Linux")

// Ping needs Linux.
func Ping(context.Context, PingSpec) ([]PingResult, error) { return nil, errLinux }

// TCPServer needs Linux.
type TCPServer struct{}

// Listen needs Linux.
func (*TCPServer) Listen(context.Context, TCPListenSpec) (TCPListenResult, error) {
	return TCPListenResult{}, errLinux
}

// Collect needs Linux.
func (*TCPServer) Collect(context.Context, string) (TCPResult, error) { return TCPResult{}, errLinux }

// Send needs Linux.
func Send(context.Context, TCPSendSpec) (TCPResult, error) { return TCPResult{}, errLinux }

// ReadCounters needs Linux.
func ReadCounters(string) (Counters, error) { return Counters{}, errLinux }

// Capturer needs Linux.
type Capturer struct{}

// OpenCapture needs Linux.
func OpenCapture(CaptureSpec) (*Capturer, error) { return nil, errLinux }

// Run needs Linux.
func (*Capturer) Run(context.Context, func(Frame) error) (CaptureResult, error) {
	return CaptureResult{}, errLinux
}

// Close needs Linux.
func (*Capturer) Close() error { return errLinux }

// VerbsServer needs Linux.
type VerbsServer struct{}

// Serve needs Linux.
func (*VerbsServer) Serve(context.Context, VerbsServeSpec) (VerbsServeResult, error) {
	return VerbsServeResult{}, errLinux
}

// Collect needs Linux.
func (*VerbsServer) Collect(context.Context, string) (VerbsOutcome, error) {
	return VerbsOutcome{}, errLinux
}

// Run needs Linux.
func (*VerbsServer) Run(context.Context, VerbsRunSpec) (VerbsOutcome, error) {
	return VerbsOutcome{}, errLinux
}

// Version needs Linux.
func (*VerbsServer) Version(context.Context, perftest.Test) (perftest.Version, error) {
	return perftest.Version{}, errLinux
}

// ReadRDMACounters needs Linux.
func ReadRDMACounters(string, int) (RDMACounters, error) { return nil, errLinux }

// CaptureServer needs Linux.
type CaptureServer struct{}

// Start needs Linux.
func (*CaptureServer) Start(context.Context, CaptureSpec) (string, error) { return "", errLinux }

// Collect needs Linux.
func (*CaptureServer) Collect(context.Context, string) (CaptureReport, error) {
	return CaptureReport{}, errLinux
}

// Collectives needs Linux.
type Collectives struct{}

// Look needs Linux.
func (*Collectives) Look(context.Context, CollectiveLook) (CollectiveHas, error) {
	return CollectiveHas{}, errLinux
}

// Run needs Linux.
func (*Collectives) Run(context.Context, CollectiveSpec) ([]CollectiveRank, error) {
	return nil, errLinux
}

// Stop needs Linux.
func (*Collectives) Stop(context.Context, string) (struct{}, error) { return struct{}{}, errLinux }

// LaunchLook needs Linux.
func (*Collectives) LaunchLook(context.Context, LaunchLook) (LaunchHas, error) {
	return LaunchHas{}, errLinux
}

// Launch needs Linux.
func (*Collectives) Launch(context.Context, LaunchSpec) (LaunchEnded, error) {
	return LaunchEnded{}, errLinux
}

// Daemon needs Linux.
func (*Collectives) Daemon(context.Context, DaemonSpec) (LaunchEnded, error) {
	return LaunchEnded{}, errLinux
}

// Asked needs Linux.
func (*Collectives) Asked(context.Context, string) (LaunchAsk, error) { return LaunchAsk{}, errLinux }

// Told needs Linux.
func (*Collectives) Told(context.Context, LaunchTold) (struct{}, error) { return struct{}{}, errLinux }
