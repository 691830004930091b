package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Program is a program of the machine with its arguments, which no shell sees.
type Program struct {
	Name string // looked up in the system's folders and in those of vendors' tools, or a path below StateDir
	// Declared is a program's whole path that the fabric's files name, in place of Name; "": Name.
	Declared string
	Args     []string
	Env      []string // beside a small environment of our own
	// ByLines: what it has printed is there line by line, also when it is ended in the middle. A C
	// program otherwise keeps some KiB to itself where its output is no terminal.
	ByLines bool
	// Family has all descendants end with it, also such as left its process group, as MPI's ranks do, and
	// says how long is waited for them to go. It takes this process: if that is killed, they are left to the
	// program's end. 0: they are left alone.
	Family time.Duration
	Stdin  []byte
	Log    io.Writer // what it prints goes there, too, as it comes; nil: nowhere
	Keep   int       // bytes that are kept of each of its outputs; 0: a MiB
}

// Ended is how a program ended.
type Ended struct {
	Stdout, Stderr []byte // of a long one, its beginning and its end
	Exit           int
	Signal         string // what ended it; "": it ended by itself
	Missing        bool   // there is no such program
	Cause          error  // why its context had ended by then; nil: it had not
	// Left are processes of its family that were to be killed and have not gone in the time that Family gives
	// them, as where a driver holds them.
	Left []int
}

// Start starts a program; wait waits for its end, and ends it with its children when ctx does.
// Whatever happens to this process, the program ends with it; its children need not.
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
		p.Env = append([]string{familyMark + "=" + mark}, p.Env...)
	}
	keep := p.Keep
	if keep == 0 {
		keep = 1 << 20
	}
	out, errs := limitedBuffer{half: keep / 2}, limitedBuffer{half: keep / 2}
	ended := make(chan Ended, 1)
	started := make(chan struct{})
	go func() {
		// The kernel's parent-death signal comes when the thread that forked ends, so that this one
		// stays with the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}, p.Env...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = bytes.NewReader(p.Stdin), &out, &errs, "/"
		if p.Log != nil {
			cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, p.Log), io.MultiWriter(&errs, p.Log)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = 2 * time.Second
		err := cmd.Start()
		close(started)
		if err != nil {
			ended <- Ended{Stderr: []byte(err.Error()), Exit: 126}
			return
		}
		err = cmd.Wait()
		e := Ended{Stdout: out.Bytes(), Stderr: errs.Bytes(), Cause: context.Cause(ctx)}
		if mark != "" {
			e.Left = endFamily(mark, p.Family)
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
		e := <-ended
		ended <- e // whoever asks again hears the same
		return e
	}
}

// limitedBuffer keeps the beginning and the end of what a program prints, half of its bytes each: it is
// not to fill the memory, and why a program ended stands at the end.
type limitedBuffer struct {
	half       int
	head, tail []byte // tail has up to twice its half, so that it seldom moves
	cut        bool   // something between them is gone
}

// gap stands where something was left out.
const gap = "\n[…]\n"

func (b *limitedBuffer) Write(p []byte) (int, error) {
	room := min(b.half-len(b.head), len(p))
	b.head = append(b.head, p[:room]...)
	b.tail = append(b.tail, p[room:]...)
	if len(b.tail) > 2*b.half {
		b.shorten()
	}
	return len(p), nil
}

// shorten leaves the tail's last half.
func (b *limitedBuffer) shorten() {
	if extra := len(b.tail) - b.half; extra > 0 {
		b.tail, b.cut = append(b.tail[:0], b.tail[extra:]...), true
	}
}

// Bytes are what is kept.
func (b *limitedBuffer) Bytes() []byte {
	b.shorten()
	if b.cut {
		return slices.Concat(b.head, []byte(gap), b.tail)
	}
	return slices.Concat(b.head, b.tail)
}

// Temporary makes a folder for what a program writes; the caller removes it.
func Temporary() (string, error) { return os.MkdirTemp("", "fabricform-") }
