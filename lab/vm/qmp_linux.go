package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/fabricform/fabricform/retry"
)

// qmp is a client of QEMU's machine protocol (docs/interop/qmp-spec): one JSON object per line.
type qmp struct {
	mu   sync.Mutex
	conn net.Conn
	r    *bufio.Reader
}

// dialQMP waits until QEMU listens, and then enters command mode.
func dialQMP(dir, name string, alive func() bool) (*qmp, error) {
	var conn net.Conn
	err := retry.Until(context.Background(), 20*time.Millisecond, 20*time.Second, func() (done bool, err error) {
		if conn, err = dialUnix(dir, name); err != nil && !alive() {
			return true, errors.New("QEMU exited before it accepted a connection")
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("connect to QEMU: %w", err)
	}
	q := &qmp{conn: conn, r: bufio.NewReader(conn)}
	if _, err := q.r.ReadBytes('\n'); err != nil { // the greeting
		return nil, fmt.Errorf("connect to QEMU: %w", err)
	}
	_, err = q.do("qmp_capabilities", nil)
	return q, err
}

// do runs a command. It skips events.
func (q *qmp) do(command string, arguments any) (json.RawMessage, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		return nil, err
	}
	m := map[string]any{"execute": command}
	if arguments != nil {
		m["arguments"] = arguments
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if _, err := q.conn.Write(append(raw, '\n')); err != nil {
		return nil, fmt.Errorf("QEMU %s: %w", command, err)
	}
	for {
		line, err := q.r.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("QEMU %s: %w", command, err)
		}
		var a struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := json.Unmarshal(line, &a); err != nil {
			return nil, fmt.Errorf("QEMU %s: %w", command, err)
		}
		if a.Error != nil {
			return nil, fmt.Errorf("QEMU %s: %s", command, a.Error.Desc)
		}
		if a.Return != nil {
			return a.Return, nil
		}
	}
}

// status returns QEMU's run state: inmigrate, paused, running, …
func (q *qmp) status() (string, error) {
	raw, err := q.do("query-status", nil)
	if err != nil {
		return "", err
	}
	var s struct{ Status string }
	return s.Status, json.Unmarshal(raw, &s)
}

// run starts a restored machine.
func (q *qmp) run() error {
	return retry.Until(context.Background(), 20*time.Millisecond, 60*time.Second, func() (bool, error) {
		s, err := q.status()
		if err != nil || s == "running" {
			return true, err
		}
		if s == "paused" || s == "prelaunch" || s == "postmigrate" {
			if _, err := q.do("cont", nil); err != nil {
				return true, err
			}
		}
		return false, fmt.Errorf("QEMU is still in state %s", s)
	})
}

var forward = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)`) })

// sshPort returns the loopback port that is forwarded to the guest's port 22.
func (q *qmp) sshPort() (int, error) {
	raw, err := q.do("human-monitor-command", map[string]string{"command-line": "info usernet"})
	if err != nil {
		return 0, err
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return 0, err
	}
	m := forward().FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("QEMU did not report the forwarded port: %q", text)
	}
	return strconv.Atoi(m[1])
}

// awaitMigration waits until the machine's memory is saved.
func (q *qmp) awaitMigration(ctx context.Context) error {
	for ; ctx.Err() == nil; _ = retry.Pause(ctx, 50*time.Millisecond) {
		raw, err := q.do("query-migrate", nil)
		if err != nil {
			return err
		}
		var m struct {
			Status    string
			ErrorDesc string `json:"error-desc"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		switch m.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("save the guest's memory: %s %s", m.Status, m.ErrorDesc)
		}
	}
	return context.Cause(ctx)
}
