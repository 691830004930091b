package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/probe/mpi"
)

// startLimit is how long a program may take to start: from a cold network file system, it can be slow.
const startLimit = time.Minute

// program returns a program of nccl-tests.
func (p TestPrograms) program(name string) process.Program {
	if p.Folder == "" {
		return process.Program{Name: name}
	}
	return process.Program{Name: name, Declared: filepath.Join(p.Folder, name)}
}

// name returns a program's path for mpirun. Without a folder it is a bare name, which each host looks up itself.
func (p TestPrograms) name(program string) string { return filepath.Join(p.Folder, program) }

// environment returns the environment of ranks, with MPI's libraries, and dir for temporary files.
func (p TestPrograms) environment(settings map[string]string, dir string) []string {
	env := append(environment(settings), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	if dir != "" {
		env = append(env, "TMPDIR="+dir)
	}
	if p.MPIRun == "" {
		return env
	}
	prefix := filepath.Dir(filepath.Dir(p.MPIRun))
	libraries := filepath.Join(prefix, "lib") + ":" + filepath.Join(prefix, "lib64")
	if login := os.Getenv("LD_LIBRARY_PATH"); login != "" {
		libraries += ":" + login
	}
	return append(env, "LD_LIBRARY_PATH="+libraries)
}

// LaunchLook starts each program once, without ranks.
func (c *collectives) LaunchLook(ctx context.Context, l LaunchLook) (LaunchHas, error) {
	out := LaunchHas{GPUs: visible(l.GPUs)}
	if out.GPUs == 0 {
		return out, nil // without GPUs, the programs are not needed
	}
	env := l.environment(nil, "")
	for _, name := range collective.TestPrograms {
		program := l.program(name)
		program.Args, program.Env = []string{"-h"}, env
		at := l.name(name)
		e, err := start(ctx, at, program)
		if err != nil {
			return LaunchHas{}, err
		}
		switch {
		case e.Missing && l.Folder == "":
			out.Problem = name + " is not installed"
		case e.Missing:
			out.Problem = at + " does not exist"
		case e.Exit != 0 || e.Signal != "" || !bytes.Contains(e.Stdout, []byte("USAGE")):
			out.Problem = explainNotStarted(at, e)
		}
		if out.Problem != "" {
			return out, nil
		}
	}
	e, err := start(ctx, "mpirun", process.Program{Name: "mpirun", Declared: l.MPIRun, Args: []string{"--version"}, Env: env})
	if err != nil {
		return LaunchHas{}, err
	}
	out.MPI, err = mpi.ParseRelease(e.Stdout)
	switch {
	case e.Missing && l.MPIRun == "":
		out.Problem = "mpirun is not installed"
	case e.Missing:
		out.Problem = l.MPIRun + " does not exist"
	case err != nil && (e.Exit != 0 || e.Signal != ""):
		out.Problem = explainNotStarted("mpirun", e)
	case err != nil:
		out.Problem = fmt.Sprintf("mpirun cannot be used: %s", err)
	}
	return out, nil
}

// start runs a program that only prints its usage or version. A timeout is an error, because it does not mean that the program is wrong.
func start(ctx context.Context, name string, p process.Program) (process.Ended, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	e := p.Start(ctx)()
	if e.Signal != "" && ctx.Err() != nil {
		return e, fmt.Errorf("%s did not start within %s; check its file system", name, startLimit)
	}
	return e, nil
}

// explainNotStarted describes why a program did not start.
func explainNotStarted(name string, e process.Ended) string {
	if e.Signal != "" {
		return fmt.Sprintf("%s does not start: it was ended by a signal (%s)%s", name, e.Signal, said(e))
	}
	return name + " does not start" + said(e)
}

// visible returns how many of the driver's GPUs CUDA can use. CUDA_VISIBLE_DEVICES selects them: an invalid device
// hides all after it, and a duplicate hides all devices (NVIDIA's CUDA C++ programming guide).
func visible(gpus int) int {
	list, set := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	if !set {
		return gpus
	}
	seen := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		index, err := strconv.Atoi(name)
		if isIndex := err == nil && index >= 0 && index < gpus; !isIndex && !strings.HasPrefix(name, "GPU-") && !strings.HasPrefix(name, "MIG-") {
			break
		}
		if seen[name] {
			return 0
		}
		seen[name] = true
	}
	return min(len(seen), gpus)
}

// room creates a private folder for the files of MPI and NCCL, and returns the environment that makes them use it.
func (p TestPrograms) room(r RankSettings) (dir string, env []string, err error) {
	settings, err := ncclSettings(r.Env)
	if err != nil {
		return "", nil, err
	}
	if r.Netdev == "" || strings.ContainsAny(r.Netdev, ",=/\x00\n") {
		return "", nil, fmt.Errorf("%.40q is not a valid interface name", r.Netdev)
	}
	if dir, err = process.Temporary(); err != nil {
		return "", nil, err
	}
	// mpirun merges the output of all ranks into one stream, so each host logs to its own files.
	settings["NCCL_DEBUG_FILE"] = filepath.Join(dir, "nccl.%h.%p")
	return dir, append(p.environment(settings, dir), mpi.RankEnv(r.Netdev)...), nil
}

// Launch runs mpirun to its end. mpirun starts this host's ranks, and requests the other hosts' daemons (Asked).
// Launch stops when the caller's stream ends, by Stop, or at its limit.
func (c *collectives) Launch(ctx context.Context, s LaunchSpec) (out LaunchEnded, err error) {
	args, err := s.Run.Args()
	if err := errors.Join(err, s.Launch.Check()); err != nil {
		return LaunchEnded{}, err
	}
	ctx, release, err := c.begin(ctx, s.ID, s.Limit)
	if err != nil {
		return LaunchEnded{}, err
	}
	defer release()
	shell := c.shell(s.ID)
	defer c.close(s.ID, shell)
	dir, env, err := s.room(s.RankSettings)
	if err != nil {
		return LaunchEnded{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	agent, socket, end, err := shell.serve(ctx, dir)
	if err != nil {
		return LaunchEnded{}, err
	}
	defer end()
	env = append(append(env, s.Launch.Env(agent)...), remoteShellSocket+"="+socket,
		"PATH="+dir+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") // Open MPI looks for its agent there, too
	mpirun := process.Program{Name: "mpirun", Declared: s.MPIRun, Args: s.Launch.Args(append([]string{s.name(s.Run.Program)}, args...)...), Env: env, Family: GoneWithin}
	e := mpirun.Start(ctx)()
	if e.Missing {
		return LaunchEnded{}, errors.New("mpirun was removed during the test")
	}
	return collectEnd(e, dir), nil
}

// Daemon runs the command that mpirun requested, if it is one of mpirun's daemons. It stops as Launch does.
func (c *collectives) Daemon(ctx context.Context, s DaemonSpec) (out LaunchEnded, err error) {
	dir, env, err := s.room(s.RankSettings)
	if err != nil {
		return LaunchEnded{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	asked, err := mpi.Shell(s.Words, env)
	if err != nil {
		return LaunchEnded{}, fmt.Errorf("refused the command from mpirun: %w", err)
	}
	path, err := s.daemon(asked.Program)
	if err != nil {
		return LaunchEnded{}, err
	}
	ctx, release, err := c.begin(ctx, s.ID, s.Limit)
	if err != nil {
		return LaunchEnded{}, err
	}
	defer release()
	e := process.Program{Name: filepath.Base(path), Declared: path, Args: asked.Args, Env: append(env, asked.Env...), Family: GoneWithin}.Start(ctx)()
	if e.Missing {
		return LaunchEnded{}, fmt.Errorf("%s does not exist", path)
	}
	return collectEnd(e, dir), nil
}

// daemon finds mpirun's daemon: beside mpirun, or among the system's programs. It refuses a daemon from any other place.
func (p TestPrograms) daemon(program string) (string, error) {
	base := filepath.Base(program)
	var places []string
	mpirun, err := p.MPIRun, error(nil)
	if mpirun == "" {
		mpirun, err = process.FindProgram("mpirun")
	}
	if err == nil {
		places = append(places, filepath.Join(filepath.Dir(mpirun), base))
		if real, err := filepath.EvalSymlinks(mpirun); err == nil {
			places = append(places, filepath.Join(filepath.Dir(real), base))
		}
	}
	if system, err := process.FindProgram(base); err == nil {
		places = append(places, system)
	}
	for _, at := range places {
		if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() && (program == base || program == at) {
			return at, nil
		}
	}
	if program != base && !slices.Contains(places, program) {
		return "", fmt.Errorf("refused to start %s: it is neither beside mpirun nor among the system's programs; install MPI in the same folder on all hosts", program)
	}
	return "", fmt.Errorf("%s is not beside mpirun: install the same MPI as on the first host", base)
}

// collectEnd returns a program's outcome, with the logs that NCCL wrote to dir.
func collectEnd(e process.Ended, dir string) LaunchEnded {
	out := LaunchEnded{Out: e.Stdout, Err: e.Stderr, Exit: e.Exit, Left: e.Left}
	out.Signal, out.TimedOut, out.Stopped = how(e)
	logs, _ := filepath.Glob(filepath.Join(dir, "nccl.*")) // the pattern is valid
	for _, path := range logs {
		log, err := ends(path, maxLogs/len(logs))
		if err == nil { // a missing log is reported by the check that reads it
			out.Log = append(out.Log, log...)
		}
	}
	return out
}

// ends reads a file, but only its beginning and end if it is longer than most.
func ends(path string, most int) ([]byte, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= int64(most) {
		return io.ReadAll(io.LimitReader(f, int64(most)))
	}
	head, tail := make([]byte, most/2), make([]byte, most/2)
	_, err1 := f.ReadAt(head, 0)
	_, err2 := f.ReadAt(tail, info.Size()-int64(len(tail)))
	return slices.Concat(head, []byte("\n[…]\n"), tail), errors.Join(err1, err2)
}
