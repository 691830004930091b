//go:build linux

package slurm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// askPatience is how long slurmctld, or munged, may take to answer a program.
const askPatience = 30 * time.Second

// mostAnswer limits what a program's answer may have: 10,000 nodes take about 8 MiB.
const mostAnswer = 64 << 20

// environment is that of Slurm's programs: the operator's, without what an allocation or a script has set for others.
func environment() []string {
	var out []string
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name == "SLURM_CONF" || !hasAnyPrefix(name, "SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "SBCAST_", "SALLOC_", "SCANCEL_", "SQUEUE_", "SINFO_", "SCONTROL_") {
			out = append(out, v)
		}
	}
	return append(out, "LC_ALL=C", "SLURM_TIME_FORMAT=standard")
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// ask runs a program to its end, and returns its output.
func ask(ctx context.Context, argv ...string) (string, error) {
	return pipe(ctx, "", argv...)
}

// pipe is ask with an input.
func pipe(ctx context.Context, in string, argv ...string) (string, error) {
	return within(ctx, askPatience, in, argv...)
}

// within is pipe with another limit.
func within(ctx context.Context, patience time.Duration, in string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.WaitDelay = environment(), strings.NewReader(in), time.Second
	out, errs := &limited{most: mostAnswer}, &tail{}
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("%s: %w", argv[0], ctx.Err())
	case err != nil && errs.String() != "":
		err = fmt.Errorf("%s: %w: %s", argv[0], err, errs)
	case err != nil:
		err = fmt.Errorf("%s: %w", argv[0], err)
	case out.over:
		err = fmt.Errorf("%s: it printed more than %d MiB", argv[0], mostAnswer>>20)
	}
	return out.String(), err
}

// limited keeps what is written to it up to a limit.
type limited struct {
	bytes.Buffer
	most int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), l.most-l.Len())
	l.over = l.over || keep < len(p)
	l.Buffer.Write(p[:keep])
	return len(p), nil
}

// tail keeps the last 4 KiB of what is written to it. Safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - 4<<10; n > 0 {
		t.buf = t.buf[n:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return neutral(string(t.buf))
}

// mostFailures is for how many nodes failures keeps a line.
const mostFailures = 1 << 16

// failures keeps why helpers ended, by node, as their lines say that begin with the word failure. Safe for concurrent use.
type failures struct {
	mu   sync.Mutex
	by   map[string]string
	part lines
}

func (f *failures) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.part.line = f.note
	return f.part.Write(p)
}

func (f *failures) note(line string) {
	_, said, is := strings.Cut(line, failure+" ")
	node, why, _ := strings.Cut(said, " ")
	if !is || f.by[node] != "" || len(f.by) == mostFailures {
		return
	}
	if f.by == nil {
		f.by = map[string]string{}
	}
	f.by[node] = neutral(why)
}

// of returns why the helper of that node ended; "" if it did not say so.
func (f *failures) of(node string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[node]
}

// neutral returns text of another program on one line, and without characters that act on a terminal.
func neutral(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case r < ' ', r >= 0x7f && r < 0xa0:
			return '�'
		}
		return r
	}, strings.TrimSpace(s))
}

// process is a program of Slurm that runs as long as what it started on the nodes.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *lines
	errs tail
	// failures are what helpers said on its stderr of their ends. The tail may have lost it: many nodes fail at once, and srun
	// reports each connection of strangers to its port.
	failures failures
	exited   chan struct{}
	exit     error // set before exited is closed
}

// start starts a program. An interrupt from the terminal does not reach it: what an interrupt means is decided by its starter.
func start(argv []string, line func(string)) (*process, error) {
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), out: &lines{line: line}, exited: make(chan struct{})}
	p.cmd.Env, p.cmd.SysProcAttr = environment(), &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = p.out, io.MultiWriter(&p.errs, &p.failures), time.Second
	var err error
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	go func() { // ends with the program, for which stop waits
		p.exit = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// said returns what the program said last on its stderr.
func (p *process) said() string {
	if said := p.errs.String(); said != "" {
		return said
	}
	if p.exit != nil {
		return p.exit.Error()
	}
	return "it said nothing"
}

func (p *process) wait() { <-p.exited }

// stopPatience is how long srun may take to end what it started, before it is told again.
const stopPatience = 5 * time.Second

// stop closes the program's input, and ends it if that does not.
func (p *process) stop() {
	_ = p.in.Close() // it may have ended
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Kill} {
		select {
		case <-p.exited:
			return
		case <-time.After(stopPatience):
			_ = p.cmd.Process.Signal(signal) // it may have ended
		}
	}
	<-p.exited
}

// lines calls a function for each whole line. A line of more than 4 KiB is dropped.
type lines struct {
	line func(string)
	part []byte
}

func (l *lines) Write(p []byte) (int, error) {
	for _, b := range p {
		switch {
		case b == '\n':
			if len(l.part) < 4<<10 && l.line != nil {
				l.line(string(l.part))
			}
			l.part = l.part[:0]
		case len(l.part) < 4<<10:
			l.part = append(l.part, b)
		}
	}
	return len(p), nil
}
