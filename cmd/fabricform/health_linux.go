package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/syslog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/health"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/providers"
)

const (
	// healthLimit is how long a check may take: it takes milliseconds.
	healthLimit = 5 * time.Second
	// slurmLimit is how long Slurm's programs may take, which run only if the verdict changes.
	slurmLimit = 30 * time.Second
	// slurmSettle is longer than the resolution of the times by which Slurm orders drains.
	slurmSettle = 1500 * time.Millisecond
	// toldFile has the last verdict that Slurm was told. It is gone after a reboot, as the counters in it are.
	toldFile = "/run/fabricform/health.json"
)

// checkHealth is the program of a check, which `fabricform health` starts: however it ends, the caller goes on.
func checkHealth(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return errors.New(healthProgram + " is an internal command that fabricform health starts")
	}
	h, err := host.Open()
	if err != nil {
		return err
	}
	v := health.Check(ctx, h, providers.Kinds(), checkpoint.NewStore(checkpoint.Dir, checkpoint.Now))
	return json.NewEncoder(os.Stdout).Encode(v)
}

// judge runs a check in a process of its own. A check that crashes, hangs, or says what no check can say has no verdict.
func judge(ctx context.Context, program string, limit time.Duration, args ...string) *health.Verdict {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	end := process.Program{Declared: program, Args: args}.Start(ctx)()
	why := ""
	switch {
	case end.Missing:
		why = "the check could not be started: program not found: " + program
	case errors.Is(end.Cause, context.DeadlineExceeded):
		why = fmt.Sprintf("the check took longer than %s", limit)
	case end.Signal != "":
		why = "the check was killed: " + end.Signal
	case end.Exit != 0:
		text, _, _ := strings.Cut(strings.TrimSpace(string(end.Stderr)), "\n")
		why = fmt.Sprintf("the check failed: %s", cmp.Or(text, fmt.Sprintf("exit code %d", end.Exit)))
	default:
		var v health.Verdict
		err := json.Unmarshal(end.Stdout, &v)
		if err == nil {
			err = v.Check()
		}
		if err == nil {
			return &v
		}
		why = fmt.Sprintf("the check printed no verdict: %s", err)
	}
	return &health.Verdict{State: health.Unknown, Problems: []string{why}, Time: time.Now().UTC()}
}

// health checks this host, and tells Slurm with -slurm.
func (a *app) health(ctx context.Context, o healthOptions) error {
	self, err := os.Executable()
	if err != nil {
		return a.noVerdict(fmt.Sprintf("find this program: %s", err))
	}
	v := judge(ctx, self, healthLimit, healthProgram)
	last := lastTold(toldFile)
	v.Notes = append(v.Notes, v.Risen(last)...)
	if a.asJSON {
		if err := a.out.HealthJSON(v); err != nil {
			return err
		}
	} else if v.State != health.Unknown {
		a.out.Health(v)
	}
	switch {
	case v.State == health.Unknown:
		return a.noVerdict(strings.Join(v.Problems, "; "))
	case o.slurm:
		return a.tellSlurm(ctx, o, v, last)
	case v.State == health.Unhealthy:
		return &exit{code: exitCheckFailed}
	}
	return nil
}

// noVerdict reports why there is no verdict. It is no error: a check that fails must not drain a node.
func (a *app) noVerdict(why string) error {
	a.warnLog("no verdict: " + why)
	return nil
}

// warnLog writes a line to stderr and to the system's log, which may not be there.
func (a *app) warnLog(line string) {
	a.err.Linef("! health: %s", line)
	if log, err := syslog.New(syslog.LOG_WARNING|syslog.LOG_DAEMON, "fabricform"); err == nil {
		_ = log.Warning("health: " + strings.ToValidUTF8(strings.Map(func(r rune) rune {
			if r < ' ' {
				return ' '
			}
			return r
		}, line), "?"))
		_ = log.Close()
	}
}

// tellSlurm tells Slurm a verdict that has changed. What fails is told again after the next check.
func (a *app) tellSlurm(ctx context.Context, o healthOptions, v, last *health.Verdict) error {
	if o.node == "" {
		name, err := os.Hostname()
		if err != nil {
			return a.noVerdict(err.Error())
		}
		name, _, _ = strings.Cut(name, ".")
		o.node = cmp.Or(os.Getenv("SLURMD_NODENAME"), name)
	}
	ctx, cancel := context.WithTimeout(ctx, slurmLimit)
	defer cancel()
	s := health.Slurm{Node: o.node, MaxDrained: o.maxDrained, Run: runSlurm, Settle: slurmSettle}
	said, told, err := s.Tell(ctx, v, last)
	if said != "" {
		a.warnLog(said)
	}
	if err != nil {
		a.warnLog(err.Error())
	}
	if told && err == nil {
		if err := keepTold(v); err != nil {
			a.warnLog(err.Error())
		}
	}
	return nil
}

// runSlurm runs one of Slurm's programs, from PATH: clusters have them in folders such as /opt/slurm/bin.
func runSlurm(ctx context.Context, name string, args ...string) (string, error) {
	p := process.Program{Name: name, Declared: process.FindInPath(name), Args: args}
	if conf := os.Getenv("SLURM_CONF"); conf != "" {
		p.Env = []string{"SLURM_CONF=" + conf}
	}
	end := p.Start(ctx)()
	switch {
	case end.Missing:
		return "", fmt.Errorf("%s is not in PATH, so Slurm cannot be told", name)
	case end.Cause != nil || end.Signal != "" || end.Exit != 0:
		text, _, _ := strings.Cut(strings.TrimSpace(string(end.Stderr)), "\n")
		return "", fmt.Errorf("%s %s: %s", name, args[0], cmp.Or(text, end.Signal, fmt.Sprintf("exit code %d", end.Exit)))
	}
	return string(end.Stdout), nil
}

// lastTold returns the last verdict that Slurm was told; nil if there is none, or if somebody else could have written it.
func lastTold(path string) *health.Verdict {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || info.Size() > 1<<20 {
		return nil
	}
	if owner := info.Sys().(*syscall.Stat_t); int(owner.Uid) != os.Geteuid() {
		return nil
	}
	raw, err := file.Read(path)
	var v health.Verdict
	if err != nil || json.Unmarshal(raw, &v) != nil || v.Check() != nil {
		return nil
	}
	return &v
}

func keepTold(v *health.Verdict) error {
	if err := os.Mkdir(filepath.Dir(toldFile), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return file.Replace(toldFile, raw, 0o600)
}
