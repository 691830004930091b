package probe

import (
	"context"
	"errors"
	"fmt"
)

// captureServer holds the running captures. The zero value is ready to use. It is safe for concurrent use.
type captureServer struct{ open begun[*capturing] }

type capturing struct {
	stop   context.CancelFunc
	done   chan struct{}
	report CaptureReport
	err    error
}

// Start starts a capture. It captures every packet that arrives after Start returns.
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
	go func() {
		defer close(run.done)
		run.report.CaptureResult, run.err = c.Run(ctx, func(f Frame) error {
			run.report.Records = append(run.report.Records, CaptureRecord{Time: f.Time, Length: f.Length,
				Data: append([]byte(nil), f.Data...), Outgoing: f.Outgoing})
			return nil
		})
		run.err = errors.Join(run.err, c.Close())
	}()
	return s.open.put(run), nil
}

// Collect stops a capture and returns its packets.
func (s *captureServer) Collect(_ context.Context, id string) (CaptureReport, error) {
	run, there := s.open.take(id)
	if !there {
		return CaptureReport{}, fmt.Errorf("no capture %q is running", id)
	}
	run.stop()
	<-run.done
	return run.report, run.err
}
