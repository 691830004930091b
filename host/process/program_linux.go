package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Program is a program of the machine with its arguments. It is run without a shell.
type Program struct {
	Name string // looked up in the system's folders and in those of vendors' tools, or a path below StateDir
	// Declared is the absolute path of a program that the fabric's files name; it replaces Name unless it is "".
	Declared string
	Args     []string
	Env      []string // added to a minimal environment
	// ByLines makes a C program write its output line by line, so that nothing is lost if it is killed. By default it
	// buffers some KiB when the output is not a terminal.
	ByLines bool
	// Family kills all descendants when the program ends, including those that left its process group, such as MPI's
	// ranks, and is the time to wait until they are gone. If this process is killed, only the program itself is killed
	// with it. 0 leaves descendants alone. As the family may be another user's, it gets a session keyring of its own
	// (session-keyring(7)), without the keys of this process's login.
	Family time.Duration
	// FamilyUID is the user whose processes may be such descendants, besides those of this process's own user.
	FamilyUID int
	// Grace is the time between SIGTERM, which the program alone gets when ctx ends, and SIGKILL. 0 means SIGKILL at once.
	Grace     time.Duration
	Stdin     []byte
	Log       io.Writer // gets a copy of the output at once; may be nil
	MaxOutput int       // bytes to retain of each output; 0 means 1 MiB
}

// Ended is the result of a program.
type Ended struct {
	Stdout, Stderr []byte // the beginning and the end of a long output
	Exit           int
	Signal         string // the signal that killed it; "" if it exited
	Missing        bool   // there is no such program
	Cause          error  // why its context has ended; nil if it has not
	// Alive are the PIDs of descendants that are still alive after the time in Family, for example because a driver
	// holds them, or the PID of the program itself if it does not end although it was killed.
	Alive []int
}

// Start starts a program. wait waits until it ends; when ctx ends, the program and its process group are killed, after Grace. A program
// that does not end even so, because it waits in the kernel, is abandoned. The program is also killed when this process
// ends, but its children may survive that.
func (p Program) Start(ctx context.Context) (wait func() Ended) {
	find := FindProgram
	if strings.HasPrefix(p.Name, "/") {
		find = ownProgram
	}
	path, err := p.Declared, error(nil)
	if path == "" {
		path, err = find(p.Name)
	} else if info, e := os.Stat(path); e != nil || !strings.HasPrefix(path, "/") || !info.Mode().IsRegular() {
		err = errors.Join(e, fs.ErrNotExist)
	}
	if err != nil {
		return func() Ended { return Ended{Missing: true} }
	}

	args := p.Args
	if p.ByLines {
		if stdbuf, err := FindProgram("stdbuf"); err == nil { // of coreutils
			path, args = stdbuf, append([]string{"-oL", path}, args...)
		}
	}
	mark := ""
	if p.Family > 0 {
		mark = rand.Text()
		p.Env = append([]string{FamilyMark + "=" + mark}, p.Env...)
	}
	limit := p.MaxOutput
	if limit == 0 {
		limit = 1 << 20
	}
	out, errs := limitedBuffer{half: limit / 2}, limitedBuffer{half: limit / 2}

	ended := make(chan Ended, 1)
	started, pid := make(chan struct{}), 0
	go func() {
		// The kernel sends the parent-death signal when the thread that forked ends, so this thread must wait for the
		// program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()

		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}, p.Env...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = bytes.NewReader(p.Stdin), &out, &errs, "/"
		if p.Log != nil {
			cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, p.Log), io.MultiWriter(&errs, p.Log)
		}
		// A session of its own has no terminal of this process.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		if p.Grace > 0 {
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		}
		cmd.WaitDelay = outputPatience + p.Grace

		err := error(nil)
		if p.Family > 0 {
			err = leaveKeyring()
		}
		if err == nil {
			err = cmd.Start()
		}
		if cmd.Process != nil {
			pid = cmd.Process.Pid
		}
		close(started)
		if err != nil {
			ended <- Ended{Stderr: []byte(err.Error()), Exit: 126}
			return
		}
		err = cmd.Wait()

		e := Ended{Stdout: out.Bytes(), Stderr: errs.Bytes(), Cause: context.Cause(ctx)}
		if mark != "" {
			e.Alive = EndFamily(mark, p.FamilyUID, p.Family)
		}
		var exited *exec.ExitError
		if errors.As(err, &exited) {
			e.Exit = exited.ExitCode()
			if s, ok := exited.Sys().(syscall.WaitStatus); ok && s.Signaled() {
				e.Signal = s.Signal().String()
			}
		}
		ended <- e
	}()
	<-started
	return func() Ended {
		late := make(chan struct{})
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(outputPatience+p.Grace+p.Family+abandonAfter, func() { close(late) }) })
		defer stop()
		select {
		case e := <-ended:
			ended <- e // a second call returns the same result
			return e
		case <-late:
			return Ended{Cause: context.Cause(ctx), Alive: []int{pid}}
		}
	}
}

// leaveKeyring gives this thread, and the programs that it starts, a new session keyring. The thread is not used for anything else:
// it ends with its goroutine, which locks it once more than it unlocks it. Where the kernel has no keys, or a container's filter
// refuses the call to all its processes, there is nothing to leave.
func leaveKeyring() error {
	runtime.LockOSThread()
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err == nil || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return fmt.Errorf("make a session keyring: %w", err)
}

// How long a killed program may take to close its outputs, and to end after that.
const (
	outputPatience = 2 * time.Second
	abandonAfter   = 2 * time.Second
)

// limitedBuffer keeps the beginning and the end of a program's output, half of its size each. This bounds the memory,
// and the reason of a failure is usually at the end.
type limitedBuffer struct {
	half       int
	head, tail []byte // tail grows to twice half before it is shortened, so that it is seldom moved
	cut        bool   // output between head and tail was dropped
}

// gap marks the place where output was dropped.
const gap = "\n[…]\n"

func (b *limitedBuffer) Write(p []byte) (int, error) {
	limit := min(b.half-len(b.head), len(p))
	b.head = append(b.head, p[:limit]...)
	b.tail = append(b.tail, p[limit:]...)
	if len(b.tail) > 2*b.half {
		b.shorten()
	}
	return len(p), nil
}

// shorten cuts the tail to its last half bytes.
func (b *limitedBuffer) shorten() {
	if extra := len(b.tail) - b.half; extra > 0 {
		b.tail, b.cut = append(b.tail[:0], b.tail[extra:]...), true
	}
}

// Bytes returns the retained output, with a gap if some was dropped.
func (b *limitedBuffer) Bytes() []byte {
	b.shorten()
	if b.cut {
		return slices.Concat(b.head, []byte(gap), b.tail)
	}
	return slices.Concat(b.head, b.tail)
}
