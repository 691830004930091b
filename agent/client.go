package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// errLinkDead is the reason of a client that ended because the host was silent.
var errLinkDead = errors.New("the host stopped responding: nothing was received for some seconds")

// Client sends requests to a helper. It is safe for concurrent use.
type Client struct {
	Hello  Hello
	stream io.ReadWriteCloser
	fw     *frameWriter
	cancel context.CancelFunc
	pulse  *pulse
	mu     sync.Mutex
	next   uint64
	wait   map[uint64]chan frame
	err    error // why the client ended; set once
	done   chan struct{}
}

// Connect waits for the helper's greeting, and checks that it is the same build. It takes ownership of stream. The
// client ends when it receives nothing for longer than patience.
func Connect(ctx context.Context, stream io.ReadWriteCloser, version string, patience time.Duration) (*Client, error) {
	br := bufio.NewReaderSize(stream, 512) // large answers bypass it
	type greeting struct {
		hello Hello
		err   error
	}
	got := make(chan greeting, 1)
	go func() {
		h, err := greet(br)
		got <- greeting{h, err}
	}()
	var g greeting
	select {
	case g = <-got:
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("wait for the helper's greeting: %w", ctx.Err()), stream.Close())
	}
	if g.err != nil {
		return nil, errors.Join(g.err, stream.Close())
	}
	if g.hello.Version != version {
		return nil, errors.Join(fmt.Errorf("the helper on the host is build %q, this program is build %q",
			clip(g.hello.Version, 80), version), stream.Close())
	}
	pctx, cancel := context.WithCancel(context.Background())
	c := &Client{Hello: g.hello, stream: stream, fw: &frameWriter{w: stream}, cancel: cancel, pulse: newPulse(patience),
		wait: map[uint64]chan frame{}, done: make(chan struct{})}
	go c.pulse.run(pctx, func() error { return c.fw.write(frame{}) }, func() { c.end(errLinkDead) })
	go c.read(br)
	return c, nil
}

func greet(br *bufio.Reader) (Hello, error) {
	noise, err := skipToMagic(br)
	if err != nil {
		if noise != "" {
			return Hello{}, fmt.Errorf("start helper: %w; it printed: %s", err, noise)
		}
		return Hello{}, fmt.Errorf("start helper: %w", err)
	}
	f, err := readFrame(br)
	if err != nil {
		return Hello{}, fmt.Errorf("read the helper's greeting: %w", err)
	}
	if f.Hello == nil {
		return Hello{}, errors.New("read the helper's greeting: received another message")
	}
	return *f.Hello, nil
}

func (c *Client) read(br *bufio.Reader) {
	for {
		f, err := readFrame(br)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the helper ended")
			}
			c.end(err)
			return
		}
		c.pulse.noteHeard()
		c.mu.Lock()
		ch := c.wait[f.ID]
		delete(c.wait, f.ID)
		c.mu.Unlock()
		if ch != nil {
			ch <- f
		}
	}
}

// end closes the stream and fails every waiting call. Only the first reason is kept.
func (c *Client) end(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = why
	c.mu.Unlock()
	c.cancel()
	close(c.done)
	// The path may be broken: Close has a time limit, and its error does not matter.
	_ = c.stream.Close()
}

// Close ends the conversation.
func (c *Client) Close() { c.end(errors.New("the connection was closed")) }

// Stream returns the client's stream. An SSH stream can also transfer files.
func (c *Client) Stream() io.ReadWriteCloser { return c.stream }

// Dead is closed when the conversation has ended.
func (c *Client) Dead() <-chan struct{} { return c.done }

// Call implements Caller. A client is connected to one host, so it ignores the name.
func (c *Client) Call(ctx context.Context, _, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	defer c.pulse.countRequest(method)()
	ch := make(chan frame, 1)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return c.err
	}
	c.next++
	id := c.next
	c.wait[id] = ch
	c.mu.Unlock()
	if err := c.fw.write(frame{ID: id, Method: method, Params: raw}); err != nil {
		c.forget(id)
		return c.reason(err)
	}
	select {
	case f := <-ch:
		if f.Error != nil {
			return f.Error.limited()
		}
		switch result := result.(type) {
		case nil:
			return nil
		case *json.RawMessage:
			*result = f.Result
			return nil
		}
		return decodeAnswer(method, f.Result, result)
	case <-c.done:
		return c.reason(nil)
	case <-ctx.Done():
		c.forget(id)
		return ctx.Err()
	}
}

// forget drops a request: nobody waits for an answer that comes late, or not at all.
func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wait, id)
}

// reason returns why the conversation ended, instead of a broken pipe. It waits for the reader, which may be a moment behind.
func (c *Client) reason(err error) error {
	select {
	case <-c.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.err
	case <-time.After(50 * time.Millisecond):
		return err
	}
}
