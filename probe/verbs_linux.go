package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/probe/perftest"
	"github.com/fabricform/fabricform/retry"
)

// verbsServer holds the running servers. The zero value is ready to use. It is safe for concurrent use.
type verbsServer struct {
	open     begun[chan VerbsOutcome]
	mu       sync.Mutex // guards versions
	versions map[perftest.Test]perftest.Version
}

// Serve starts a server. It returns when the server listens or has ended.
func (s *verbsServer) Serve(_ context.Context, spec VerbsServeSpec) (VerbsServeResult, error) {
	port, err := freePort(FirstControlPort, controlPorts)
	if err != nil {
		return VerbsServeResult{}, err
	}
	spec.Test.ControlPort = port
	ctx, cancel := context.WithTimeout(context.Background(), min(spec.Limit, MeasurementLimit))
	wait, err := s.start(ctx, spec)
	if err != nil {
		cancel()
		return VerbsServeResult{}, err
	}
	ended := make(chan VerbsOutcome, 1)
	go func() {
		defer cancel()
		ended <- wait()
	}()
	id := s.open.put(ended)
	_ = retry.Until(ctx, 20*time.Millisecond, MeasurementLimit, func() (bool, error) { return len(ended) > 0 || listening(port), nil })
	return VerbsServeResult{ID: id, Port: port}, nil
}

// Collect waits for a server to end.
func (s *verbsServer) Collect(_ context.Context, id string) (VerbsOutcome, error) {
	ended, there := s.open.take(id)
	if !there {
		return VerbsOutcome{}, fmt.Errorf("no test %q is running", id)
	}
	return <-ended, nil
}

// Run runs the client. It stops when ctx is done.
func (s *verbsServer) Run(ctx context.Context, spec VerbsRunSpec) (VerbsOutcome, error) {
	ctx, cancel := context.WithTimeout(ctx, min(spec.Limit, MeasurementLimit))
	defer cancel()
	wait, err := s.start(ctx, spec)
	if err != nil {
		return VerbsOutcome{}, err
	}
	return wait(), nil
}

// Version asks a program for its version. The zero Version means that the program is missing or does not report it.
func (s *verbsServer) Version(ctx context.Context, t perftest.Test) (perftest.Version, error) {
	if !t.Valid() {
		return perftest.Version{}, fmt.Errorf("unknown perftest program ib_%.40s", t)
	}
	s.mu.Lock()
	v, known := s.versions[t]
	s.mu.Unlock()
	if known {
		return v, nil
	}
	e := process.Program{Name: t.Program(), Args: []string{"--version"}}.Start(ctx)()
	v, err := perftest.ParseVersion(append(e.Stdout, e.Stderr...))
	if err != nil {
		return perftest.Version{}, nil //nolint:nilerr // old releases do not report it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions == nil {
		s.versions = map[perftest.Test]perftest.Version{}
	}
	s.versions[t] = v
	return v, nil
}

func (s *verbsServer) start(ctx context.Context, spec VerbsServeSpec) (wait func() VerbsOutcome, err error) {
	v, err := s.Version(ctx, spec.Test.Test)
	if err != nil {
		return nil, err
	}
	dir, remove := "", func() error { return nil }
	if v.WritesJSON() {
		if dir, remove, err = process.MakeTemporary(); err != nil {
			return nil, err
		}
		spec.End.JSONFile = filepath.Join(dir, "report")
	}
	argv, err := perftest.Args(spec.Test, spec.End)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	// Without this variable, libibverbs does not report a missing library.
	ended := process.Program{Name: argv[0], Args: argv[1:], Env: []string{"IBV_SHOW_WARNINGS=1"}, ByLines: true}.Start(ctx)
	return func() VerbsOutcome {
		e := ended()
		o := VerbsOutcome{ProgramRun: perftest.ProgramRun{Stdout: e.Stdout, Stderr: e.Stderr, Exit: e.Exit, Signal: e.Signal,
			Missing: e.Missing}}
		if ctx.Err() != nil && e.Signal != "" {
			o.TimedOut, o.Signal = true, ""
		}
		if dir != "" {
			if info, err := os.Stat(filepath.Join(dir, "report")); err == nil && info.Size() < 1<<20 {
				o.JSON, _ = os.ReadFile(filepath.Join(dir, "report")) // the text report has the same values
			}
			_ = remove() // a later helper tries again
		}
		return o
	}, nil
}

// freePort finds a port on which nothing listens. If another program takes the port in between, the program
// that gets the number reports an error.
func freePort(first, count int) (uint16, error) {
	for p := first; p < first+count; p++ {
		l, err := net.Listen("tcp", ":"+strconv.Itoa(p))
		if err == nil {
			return uint16(p), l.Close()
		}
	}
	return 0, fmt.Errorf("all TCP ports from %d to %d are in use", first, first+count-1)
}

// listening reports whether a socket listens on the port, by /proc/net/tcp and tcp6. It cannot try to connect,
// because the server would take that for its client.
func listening(port uint16) bool {
	local := fmt.Sprintf(":%04X", port)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // no IPv6
		}
		for line := range strings.Lines(string(raw)) {
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], local) && f[3] == "0A" { // TCP_LISTEN
				return true
			}
		}
	}
	return false
}

// readRDMACounters reads all counters of a port, from "counters" (hardware only) and "hw_counters".
func readRDMACounters(_ context.Context, p RDMAPort) (RDMACounters, error) {
	device, port := p.Device, p.Port
	if device == "" || strings.ContainsAny(device, "/\x00") || strings.HasPrefix(device, ".") {
		return nil, fmt.Errorf("%q is not a valid name of an RDMA device", device)
	}
	out := RDMACounters{}
	dir := filepath.Join("/sys/class/infiniband", device, "ports", strconv.Itoa(port))
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("read counters of RDMA device %s: it has no port %d", device, port)
	}
	for _, kind := range []string{"counters", "hw_counters"} {
		files, err := os.ReadDir(filepath.Join(dir, kind))
		if err != nil {
			continue // Soft-RoCE has only one of the two
		}
		for _, f := range files {
			raw, err := os.ReadFile(filepath.Join(dir, kind, f.Name()))
			if err != nil {
				continue // some cannot be read while the port is down
			}
			if n, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64); err == nil {
				out[f.Name()] = n
			}
		}
	}
	return out, nil
}
