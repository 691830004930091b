package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/vishvananda/netns"
)

// NetDial connects from the lab's management namespace, like an operator in that network. A socket stays in
// the namespace in which it was created, so the thread can return at once.
func (l *Lab) NetDial(ctx context.Context, network, addr string) (net.Conn, error) {
	type answer struct {
		conn net.Conn
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		// The thread is never unlocked, so it ends with this goroutine, and no other code can run in the
		// lab's namespace.
		runtime.LockOSThread()
		ns, err := netns.GetFromPid(l.state.Net.PID)
		if err == nil {
			err = errors.Join(netns.Set(ns), ns.Close())
		}
		if err != nil {
			got <- answer{err: fmt.Errorf("enter the lab's management network: %w; check `fabricform lab status`", err)}
			return
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		got <- answer{conn, err}
	}()
	a := <-got
	return a.conn, a.err
}

// Exec runs a command inside a host's namespaces and returns its exit status.
func (l *Lab) Exec(ctx context.Context, host string, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	h, ok := l.state.Hosts[host]
	if !ok {
		return 0, fmt.Errorf("the lab has no host %q", host)
	}
	if !h.Process.Alive() {
		return 0, fmt.Errorf("lab host %s is not running: run lab down, then lab up", host)
	}
	args := append([]string{"--target", strconv.Itoa(h.Process.PID), "--net", "--mount", "--uts", "--ipc", "--pid", "--wd=/",
		"--"}, argv...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	err := cmd.Run()
	var exited *exec.ExitError
	if errors.As(err, &exited) {
		return exited.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("run in lab host %s: %w", host, err)
	}
	return 0, nil
}
