package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// captureServer keeps the captures that run. The zero value is ready; safe for concurrent use.
type captureServer struct {
	mu   sync.Mutex
	open map[string]*capturing
}

type capturing struct {
	stop   context.CancelFunc
	done   chan struct{}
	report CaptureReport
	err    error
}

// Start begins a capture: what comes after its answer is captured.
func (s *captureServer) Start(_ context.Context, spec CaptureSpec) (id string, err error) {
	if spec.MaxPackets > maxKept/max(spec.SnapLen, 1) {
		return "", fmt.Errorf("capture: %d packets of %d bytes are more than %d MiB", spec.MaxPackets, spec.SnapLen, maxKept>>20)
	}
	c, err := openCapture(spec)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(context.Background())
	run := &capturing{stop: stop, done: make(chan struct{})}
	id = newID(8)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]*capturing{}
	}
	s.open[id] = run
	go func() {
		defer close(run.done)
		run.report.CaptureResult, run.err = c.Run(ctx, func(f Frame) error {
			run.report.Records = append(run.report.Records, CaptureRecord{Time: f.Time, Length: f.Length, Data: append([]byte(nil), f.Data...), Outgoing: f.Outgoing})
			return nil
		})
		run.err = errors.Join(run.err, c.Close())
	}()
	return id, nil
}

// Collect ends a capture and answers what it kept.
func (s *captureServer) Collect(_ context.Context, id string) (CaptureReport, error) {
	s.mu.Lock()
	run := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if run == nil {
		return CaptureReport{}, fmt.Errorf("no capture %q runs here", id)
	}
	run.stop()
	<-run.done
	return run.report, run.err
}
