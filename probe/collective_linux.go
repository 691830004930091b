package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/probe/collective"
)

// afterFailure is how long the other ranks of a host continue after one has failed, so that they can report their own errors.
const afterFailure = 5 * time.Second

// collectives holds the running jobs. The zero value is ready to use. It is safe for concurrent use.
type collectives struct {
	mu   sync.Mutex
	open map[string]context.CancelCauseFunc

	tended sync.Map // from the IDs of TendRanks that are ready for ranks to the number of the ranks' user
}

// maxLogs limits the bytes of all ranks' logs in one answer. A protocol frame holds that and as much of their output.
const maxLogs = 3 << 20

var errStopped = errors.New("stopped because another rank had ended")

// environment returns the environment of ranks. It keeps the login's variables for NCCL, torch and CUDA, because jobs get
// them, too, and an administrator may use them to disable features. NCCL looks for .nccl.conf in HOME.
func environment(settings map[string]string) (kept []string) {
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		for _, prefix := range []string{"NCCL", "TORCH", "CUDA", "NVIDIA_"} {
			if strings.HasPrefix(e, prefix) {
				kept = append(kept, e)
				break
			}
		}
		if name == "HOME" || name == "LD_LIBRARY_PATH" {
			kept = append(kept, e)
		}
	}
	for name, value := range settings {
		kept = append(kept, name+"="+value)
	}
	return kept
}

// python returns the program of a rank.
func python(path, argument string, settings map[string]string) process.Program {
	return process.Program{Name: "python3", Declared: path, Args: []string{"-", argument}, Stdin: collective.Script,
		Env: environment(settings), ByLines: true}
}

// Look starts Python once, and asks it for torch, NCCL and GPUs.
func (c *collectives) Look(ctx context.Context, l CollectiveLook) (CollectiveHas, error) {
	ctx, cancel := context.WithTimeout(ctx, LookLimit)
	defer cancel()
	e := python(l.Python, collective.LookArgument(), nil).Start(ctx)()
	r := collective.Parse(e.Stdout)
	var out CollectiveHas
	switch {
	case e.Missing && l.Python != "":
		out.Problem = l.Python + " does not exist"
	case e.Missing:
		out.Problem = "python3 is not installed"
	case ctx.Err() != nil:
		out.Problem = fmt.Sprintf("Python did not load torch within %s", LookLimit)
	case r.Failure != nil && r.Failure.Kind == "ModuleNotFoundError":
		out.Problem = "this Python has no torch: " + r.Failure.Text
	case r.Failure != nil:
		out.Problem = fmt.Sprintf("torch cannot be loaded: %s: %s", r.Failure.Kind, r.Failure.Text)
	case r.Look == nil:
		out.Problem = fmt.Sprintf("Python exited with status %d%s before it reported its modules", e.Exit, said(e))
	case !r.Look.HasNCCL:
		out.Look, out.Problem = *r.Look, "torch "+r.Look.Torch+" was built without NCCL"
	default:
		out.Look = *r.Look
	}
	if out.Problem != "" {
		return out, nil
	}
	var err error
	out.Port, err = freePort(firstMeetingPort, meetingPorts)
	return out, err
}

// said returns the last line that a program wrote to stderr.
func said(e process.Ended) string {
	lines := strings.Split(strings.TrimSpace(string(e.Stderr)), "\n")
	last := lines[len(lines)-1]
	if last == "" {
		return ""
	}
	return fmt.Sprintf(" (%.300q)", last)
}

// ncclSettings checks the variables for ranks. It turns on NCCL's log, whatever the variables, the login and
// nccl.conf say. The log goes to stderr, because a file that they name would stay on the host.
func ncclSettings(env map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for name, value := range env {
		if !strings.HasPrefix(name, "NCCL_") || strings.ContainsAny(name, "=\x00") || strings.ContainsAny(value, "\x00\n") {
			return nil, fmt.Errorf("%.80q is not an NCCL setting", name+"="+value)
		}
		out[name] = value
	}
	out["NCCL_DEBUG"], out["NCCL_DEBUG_SUBSYS"], out["NCCL_DEBUG_FILE"] = "INFO", "INIT,BOOTSTRAP,ENV,NET", "/dev/stderr"
	return out, nil
}

// Run runs this host's ranks to their end. It stops when the caller's stream ends, by Stop, or at its limit. Each
// rank's result says which.
func (c *collectives) Run(ctx context.Context, s CollectiveSpec) ([]CollectiveRank, error) {
	if err := s.Job.Check(); err != nil {
		return nil, err
	}
	if s.Ranks < 1 || s.Ranks > 256 || s.First < 0 || s.First+s.Ranks > s.Job.World {
		return nil, fmt.Errorf("invalid request for ranks %d to %d of %d", s.First, s.First+s.Ranks-1, s.Job.World)
	}
	settings, err := ncclSettings(s.Env)
	if err != nil {
		return nil, err
	}
	ctx, release, err := c.begin(ctx, s.ID, s.Limit)
	if err != nil {
		return nil, err
	}
	defer release()
	out := make([]CollectiveRank, s.Ranks)
	var all sync.WaitGroup
	var late *time.Timer // stops the other ranks once one has failed
	defer func() {
		if late != nil {
			late.Stop()
		}
	}()
	var mu sync.Mutex // guards late
	for i := range s.Ranks {
		program := python(s.Python, s.Job.Argument(s.First+i, i), settings)
		program.MaxOutput = maxLogs / s.Ranks
		wait := program.Start(ctx)
		all.Go(func() {
			e := wait()
			r := CollectiveRank{Rank: s.First + i, Out: e.Stdout, Log: e.Stderr, Exit: e.Exit}
			if r.Signal, r.TimedOut, r.Stopped = how(e); r.TimedOut || r.Stopped {
				out[i] = r
				return
			}
			if e.Exit != 0 || e.Signal != "" || e.Missing {
				mu.Lock()
				defer mu.Unlock()
				if late == nil {
					late = time.AfterFunc(afterFailure, func() { _, _ = c.Stop(ctx, s.ID) }) // Stop returns no error
				}
			}
			out[i] = r
		})
	}
	all.Wait()
	return out, nil
}

// how returns how a program ended: by a signal, or because its job timed out or was stopped.
func how(e process.Ended) (signal string, timedOut, stopped bool) {
	if e.Cause != nil && e.Signal != "" {
		return "", errors.Is(e.Cause, context.DeadlineExceeded), errors.Is(e.Cause, errStopped)
	}
	return e.Signal, false, false
}

// begin returns a job's context, which Stop can cancel.
func (c *collectives) begin(ctx context.Context, id string, limit time.Duration) (context.Context, func(), error) {
	ctx, expire := context.WithTimeout(ctx, min(limit, MeasurementLimit))
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, runs := c.open[id]; runs || id == "" {
		expire()
		cancel(nil)
		return nil, nil, fmt.Errorf("job %.40q is already running", id)
	}
	if c.open == nil {
		c.open = map[string]context.CancelCauseFunc{}
	}
	c.open[id] = cancel
	return ctx, func() {
		c.mu.Lock()
		delete(c.open, id)
		c.mu.Unlock()
		cancel(nil)
		expire()
	}, nil
}

// Stop stops a job's ranks on this host, because another host's have ended. It returns no error if the job has ended.
func (c *collectives) Stop(_ context.Context, id string) (struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.open[id]; cancel != nil {
		cancel(errStopped)
	}
	return struct{}{}, nil
}
