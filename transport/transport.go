// Package transport obtains a stream to a helper on a host: it connects over SSH, uploads the helper once per
// build, and starts it. It does not know the protocol on the stream.
package transport

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Target is one host as declared. Zero fields default to ~/.ssh/config and then to ssh's own defaults.
type Target struct {
	Name           string // the fabric's name of the host, for messages
	Address        string
	User           string
	Port           int
	IdentityFile   string
	KnownHosts     string
	ProxyJump      string
	Via            string // another address of the host to connect to, with the host key of Address; may be empty
	Sudo           *bool  // nil means sudo unless the user is root
	ConnectTimeout time.Duration
	Slurm          *Slurm // the host is a node of a Slurm cluster, and reached by it; nil: by SSH
	MayReuse       bool   `json:"-"` // a kept connection will do (Keeping). Without it, each connection proves that a new login works
}

// Slurm says how a node of a Slurm cluster is reached (transport/slurm).
type Slurm struct {
	Partition   string // "": the cluster's default
	Reservation string // "": none
	Account     string // that is charged; "": the user's default
	QOS         string // "": the default
	Sudo        *bool  // nil means sudo unless the operator is root
	// TimeLimit is how long a job of ours may outlive this program, if slurmctld does not learn of its end.
	TimeLimit time.Duration
	// Exclusive takes the whole node, which no job may hold.
	Exclusive bool
	// MaxDrained is how many nodes of a partition may be drained at once, whoever drained them; 0: any number.
	MaxDrained int
	// DrainTimeout is how long to wait for the jobs of a drained node.
	DrainTimeout time.Duration
}

// BusyError says that jobs hold a host.
type BusyError struct {
	Jobs   []string      // their IDs
	Waited time.Duration // for their end; 0 if nobody waited

	Said string        // by the host's own check, `fabricform health`, when its verdict last changed; "" if that is not known
	Age  time.Duration // of what it said
}

func (e *BusyError) Error() string {
	if e.Waited > 0 {
		return fmt.Sprintf("%s did not end within %s (drain_timeout)", Jobs(e.Jobs), e.Waited)
	}
	text := fmt.Sprintf("busy (%s): not read", Jobs(e.Jobs))
	if e.Said != "" {
		text += fmt.Sprintf("; fabricform health, %s ago: %s", e.Age.Round(time.Second), e.Said)
	}
	return text
}

// Jobs names jobs by their IDs.
func Jobs(ids []string) string {
	if len(ids) == 1 {
		return "job " + ids[0]
	}
	return "jobs " + strings.Join(ids, ", ")
}

// Helper is the program to run on hosts.
type Helper interface {
	// Build returns the helper for an architecture, as Go names it. The error says what to do.
	Build(goarch string) (Build, error)
	// Version is a short hexadecimal ID of the build, the same for all architectures.
	Version() string
}

// Build is one helper for one architecture.
type Build struct {
	SHA256 string // lower case hexadecimal
	Size   int64  // bytes
	Open   func() (io.ReadCloser, error)
}

// Dialer connects to hosts. Safe for concurrent use.
type Dialer struct {
	Helper    Helper
	NetDial   func(ctx context.Context, network, addr string) (net.Conn, error) // nil for net.Dialer
	Progress  func(host, message string)                                        // may be nil
	Warn      func(host, message string)                                        // receives warnings about a host; may be nil
	SSHConfig bool                                                              // ask `ssh -G` for the zero fields of a Target
	Keeping   *Keeping                                                          // nil: no connection is kept or reused

	read   readOnce
	config sshConfig
}

// Error reports why a host cannot be used, and what to do about it.
type Error struct {
	Host string
	Op   string // the operation that failed: "connect", "authenticate", …
	Err  error
	Hint string // what to do; may be empty
}

func (e *Error) Error() string {
	s := e.Op + ": " + e.Err.Error()
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// check rejects values that ssh could read as an option or a second argument, and values that no address,
// user or jump host has. No field of a target reaches a shell; this is a second line of defence.
func (t Target) check() error {
	for what, v := range map[string]string{"address": t.Address, "address to connect to": t.Via, "user": t.User,
		"proxy_jump": t.ProxyJump} {
		if strings.HasPrefix(v, "-") || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("\"'`$;&|<>(){}\\", r) }) {
			return &Error{Host: t.Name, Op: "read " + what, Err: fmt.Errorf("invalid value %q", v)}
		}
	}
	if t.Address == "" {
		return &Error{Host: t.Name, Op: "read address", Err: fmt.Errorf("the address is empty")}
	}
	return nil
}

func (d *Dialer) progress(host, format string, args ...any) {
	if d.Progress != nil {
		d.Progress(host, fmt.Sprintf(format, args...))
	}
}

func (d *Dialer) warn(host, format string, args ...any) {
	if d.Warn != nil {
		d.Warn(host, fmt.Sprintf(format, args...))
	}
}

// Start connects, uploads the helper if it is missing, and starts it.
func (d *Dialer) Start(ctx context.Context, t Target) (io.ReadWriteCloser, error) {
	c, err := d.connect(ctx, t)
	if err != nil {
		return nil, err
	}
	s, err := d.start(ctx, c, t)
	if err != nil {
		c.close()
		if c.kept != nil && ctx.Err() == nil {
			d.progress(t.Name, "the kept connection failed, and a new login follows: %v", err)
			d.Keeping.forget(*c.kept)
			t.MayReuse = false
			return d.Start(ctx, t)
		}
		return nil, c.fault(t.Name, err)
	}
	c.started.Store(true)
	return s, nil
}
