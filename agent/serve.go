// Package agent is the protocol between the operator's machine and the helper on a host: requests and answers over any
// byte stream, with heartbeats in both directions. Serve runs on the host, Client on the operator's machine.
package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// errClientLost is the error of Serve if the client was silent.
var errClientLost = errors.New("the client stopped responding")

// Serve answers requests from r on w until the stream ends or the client stops responding. Requests run in parallel;
// handlers that must not run in parallel take a lock.
func Serve(ctx context.Context, r io.Reader, w io.Writer, version string, table Table) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if _, err := io.WriteString(w, magic); err != nil {
		return fmt.Errorf("greet client: %w", err)
	}
	fw := &frameWriter{w: w}
	if err := fw.write(frame{Hello: &Hello{Version: version}}); err != nil {
		return fmt.Errorf("greet client: %w", err)
	}
	// A helper may outlive its client for a while: the lease ends whatever the client has started.
	p := newPulse(mostPatience)
	go p.run(ctx, func() error { return fw.write(frame{}) }, func() { cancel(errClientLost) })
	frames := make(chan frame)
	failed := make(chan error, 1)
	go func() { // ends with the stream or the process, because a blocked read cannot be interrupted
		br := bufio.NewReader(r)
		for {
			f, err := readFrame(br)
			if err != nil {
				failed <- err
				return
			}
			p.noteHeard()
			if f.Method == "" {
				continue
			}
			select {
			case frames <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read request: %w", err)
		case f := <-frames:
			running.Add(1)
			unload := p.countRequest(f.Method)
			var once sync.Once
			reply := func(out frame) {
				once.Do(func() {
					defer running.Done()
					defer unload()
					// A broken stream ends the loop above. Here it only means that nobody reads the answer.
					_ = fw.write(out)
				})
			}
			abandon := func(why *Error) { reply(frame{ID: f.ID, Error: why}) }
			go func() { reply(answer(context.WithValue(ctx, abandonKey{}, abandon), f, table)) }() // Serve waits for its reply
		}
	}
}

type abandonKey struct{}

// Abandon answers the request of ctx with an error, although its handler has not returned. Serve no longer waits for that
// handler, and drops its answer.
func Abandon(ctx context.Context, why *Error) {
	if abandon, ok := ctx.Value(abandonKey{}).(func(*Error)); ok {
		abandon(why)
	}
}

func answer(ctx context.Context, f frame, table Table) frame {
	out := frame{ID: f.ID}
	h, ok := table[f.Method]
	if !ok {
		out.Error = &Error{Message: fmt.Sprintf("this helper has no method %q", f.Method)}
		return out
	}
	result, err := h(ctx, f.Params)
	if err == nil {
		out.Result, err = json.Marshal(result)
	}
	if len(out.Result) > maxResult {
		err = fmt.Errorf("the answer to %s has %d bytes, but a host can send at most %d", f.Method, len(out.Result), maxResult)
		out.Result = nil
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Message: err.Error()}
		}
		out.Error = e
	}
	return out
}
