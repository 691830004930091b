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

// remoteShell carries a launch's requests to other hosts, and their answers.
type remoteShell struct {
	asks chan LaunchAsk
	over chan struct{} // closed when mpirun has ended

	users int // the launch and the calls of Asked that use it; guarded by collectives.mu

	mu      sync.Mutex
	next    int
	answers map[int]chan remoteAnswer
}

// shell returns a launch's remoteShell, and creates it if needed: Asked may be called before Launch. The caller must call leave.
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

// leave removes a launch's remoteShell when its last user leaves.
func (c *collectives) leave(id string, s *remoteShell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.users--; s.users == 0 && c.shells[id] == s {
		delete(c.shells, id)
	}
}

// close ends a launch's remoteShell. Pending calls of Asked return that the launch is over.
func (c *collectives) close(id string, s *remoteShell) {
	c.mu.Lock()
	delete(c.shells, id) // a later launch with this ID must get its own
	c.mu.Unlock()
	close(s.over)
	c.leave(id, s)
}

// Asked waits for the next request of mpirun to another host. If the launch has already ended, it waits until ctx is done.
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

// Told answers mpirun. It returns no error if mpirun has ended.
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
		return struct{}{}, fmt.Errorf("mpirun has no pending request %d", t.Number)
	}
	delete(s.answers, t.Number)
	answer <- remoteAnswer{t.Exit, t.Text}
	return struct{}{}, nil
}

// serve accepts requests on a socket in dir, to which nobody else has access, until end is called. agent is the
// program that mpirun must run as its remote shell.
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
			all.Go(func() { _ = errors.Join(s.answer(ctx, conn), conn.Close()) }) // an error here means only that mpirun has ended
		}
	})
	return agent, socket, func() {
		cancel()
		_ = l.Close()
		all.Wait()
	}, nil
}

// answer passes one request on and waits for its answer.
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
