package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// remoteShell is a launch's questions for other hosts, and their answers.
type remoteShell struct {
	asks chan LaunchAsk
	over chan struct{} // closed when mpirun has ended

	users int // mpirun, and who asks what it wants; under collectives.mu

	mu      sync.Mutex
	next    int
	answers map[int]chan remoteAnswer
}

// shell finds or makes a launch's; leave is due. Whoever asks what mpirun wants may come before mpirun.
func (c *collectives) shell(id string) *remoteShell {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shells == nil {
		c.shells = map[string]*remoteShell{}
	}
	if c.shells[id] == nil {
		c.shells[id] = &remoteShell{asks: make(chan LaunchAsk), over: make(chan struct{}), answers: map[int]chan remoteAnswer{}}
	}
	c.shells[id].users++
	return c.shells[id]
}

// leave forgets a launch's, unless somebody else uses it.
func (c *collectives) leave(id string, s *remoteShell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.users--; s.users == 0 && c.shells[id] == s {
		delete(c.shells, id)
	}
}

// close is leave of the launch itself: who asks hears that it is over.
func (c *collectives) close(id string, s *remoteShell) {
	c.mu.Lock()
	delete(c.shells, id) // it is no later launch's
	c.mu.Unlock()
	close(s.over)
	c.leave(id, s)
}

// Asked waits for what mpirun wants of another host; of one that has ended, as long as ctx lets it.
func (c *collectives) Asked(ctx context.Context, id string) (LaunchAsk, error) {
	s := c.shell(id)
	defer c.leave(id, s)
	select {
	case a := <-s.asks:
		return a, nil
	case <-s.over:
		return LaunchAsk{Over: true}, nil
	case <-ctx.Done():
		return LaunchAsk{}, ctx.Err()
	}
}

// Told answers mpirun. One that has ended is no error.
func (c *collectives) Told(_ context.Context, t LaunchTold) (struct{}, error) {
	c.mu.Lock()
	s := c.shells[t.ID]
	c.mu.Unlock()
	if s == nil {
		return struct{}{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.answers[t.Number]
	if answer == nil {
		return struct{}{}, fmt.Errorf("mpirun did not ask question %d", t.Number)
	}
	delete(s.answers, t.Number)
	answer <- remoteAnswer{t.Exit, t.Text}
	return struct{}{}, nil
}

// serve takes questions on a socket in dir, which nobody else may enter, until close. agent is the program that mpirun
// is to ask.
func (s *remoteShell) serve(ctx context.Context, dir string) (agent, socket string, end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", "", nil, fmt.Errorf("find the helper: %w", err)
	}
	agent, socket = filepath.Join(dir, RemoteShell), filepath.Join(dir, "ask")
	if err := os.Symlink(self, agent); err != nil {
		return "", "", nil, fmt.Errorf("make mpirun's remote shell: %w", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return "", "", nil, fmt.Errorf("listen for mpirun's remote shell: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed below
			}
			all.Go(func() { _ = errors.Join(s.answer(ctx, conn), conn.Close()) }) // an mpirun that has gone needs no answer
		}
	})
	return agent, socket, func() {
		cancel()
		_ = l.Close()
		all.Wait()
	}, nil
}

// answer passes one question on and waits for what comes of it.
func (s *remoteShell) answer(ctx context.Context, conn net.Conn) error {
	var a LaunchAsk
	if err := errors.Join(conn.SetReadDeadline(time.Now().Add(10*time.Second)), json.NewDecoder(io.LimitReader(conn, 1<<20)).Decode(&a)); err != nil {
		return err
	}
	answer := make(chan remoteAnswer, 1)
	s.mu.Lock()
	s.next++
	a.Number, a.Over = s.next, false
	s.answers[a.Number] = answer
	s.mu.Unlock()
	select {
	case s.asks <- a:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case r := <-answer:
		return json.NewEncoder(conn).Encode(r)
	case <-ctx.Done():
		return ctx.Err()
	}
}
