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

// startLimit is how long a program may take to say who it is: from a cold network file system, a while.
const startLimit = time.Minute

// program is one of nccl-tests'.
func (p TestPrograms) program(name string) process.Program {
	if p.Folder == "" {
		return process.Program{Name: name}
	}
	return process.Program{Name: name, Declared: filepath.Join(p.Folder, name)}
}

// name is how a program is told to mpirun: of the system's, each host finds its own.
func (p TestPrograms) name(program string) string { return filepath.Join(p.Folder, program) }

// environment is that of ranks with MPI's libraries and temporary files below dir.
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
		return out, nil // it need not have the programs
	}
	env := l.environment(nil, "")
	for _, name := range collective.TestPrograms {
		program := l.program(name)
		program.Args, program.Env = []string{"-h"}, env
		at := l.name(name)
		e, err := started(ctx, at, program)
		if err != nil {
			return LaunchHas{}, err
		}
		switch {
		case e.Missing && l.Folder == "":
			out.Problem = name + " is not installed"
		case e.Missing:
			out.Problem = "there is no " + at
		case e.Exit != 0 || e.Signal != "" || !bytes.Contains(e.Stdout, []byte("USAGE")):
			out.Problem = notStarted(at, e)
		}
		if out.Problem != "" {
			return out, nil
		}
	}
	e, err := started(ctx, "mpirun", process.Program{Name: "mpirun", Declared: l.MPIRun, Args: []string{"--version"}, Env: env})
	if err != nil {
		return LaunchHas{}, err
	}
	out.MPI, err = mpi.ParseRelease(e.Stdout)
	switch {
	case e.Missing && l.MPIRun == "":
		out.Problem = "mpirun is not installed"
	case e.Missing:
		out.Problem = "there is no " + l.MPIRun
	case err != nil && (e.Exit != 0 || e.Signal != ""):
		out.Problem = notStarted("mpirun", e)
	case err != nil:
		out.Problem = fmt.Sprintf("mpirun cannot be used: %s", err)
	}
	return out, nil
}

// started is how a program ended that only says who it is. One that does not come so far need not be a wrong one.
func started(ctx context.Context, name string, p process.Program) (process.Ended, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	e := p.Start(ctx)()
	if e.Signal != "" && ctx.Err() != nil {
		return e, fmt.Errorf("%s did not start within %s: does its file system answer?", name, startLimit)
	}
	return e, nil
}

// notStarted says why a program did not start.
func notStarted(name string, e process.Ended) string {
	if e.Signal != "" {
		return fmt.Sprintf("%s does not start: it was ended by %s%s", name, e.Signal, said(e))
	}
	return name + " does not start" + said(e)
}

// visible is how many of the driver's GPUs CUDA shows (CUDA_VISIBLE_DEVICES in NVIDIA's CUDA C++ programming guide:
// what follows a device that is none is not seen, and where one is named twice, none is).
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

// room is a private folder for what MPI and NCCL write, and the environment that has them do so.
func (p TestPrograms) room(r RankSettings) (dir string, env []string, err error) {
	settings, err := ncclSettings(r.Env)
	if err != nil {
		return "", nil, err
	}
	if r.Netdev == "" || strings.ContainsAny(r.Netdev, ",=/\x00\n") {
		return "", nil, fmt.Errorf("%.40q is no interface to meet over", r.Netdev)
	}
	if dir, err = process.Temporary(); err != nil {
		return "", nil, err
	}
	// All ranks' words come out of mpirun in one stream; their logs stay with their hosts.
	settings["NCCL_DEBUG_FILE"] = filepath.Join(dir, "nccl.%h.%p")
	return dir, append(p.environment(settings, dir), mpi.RankEnv(r.Netdev)...), nil
}

// Launch runs mpirun to its end, which starts this host's ranks, and asks for the others' (Asked). It ends
// with the caller's stream, by Stop, and by its limit.
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
		return LaunchEnded{}, errors.New("there is no mpirun any more")
	}
	return launched(e, dir), nil
}

// Daemon runs what mpirun asked for, if it is a daemon of its, to its end. It ends as Launch does.
func (c *collectives) Daemon(ctx context.Context, s DaemonSpec) (out LaunchEnded, err error) {
	dir, env, err := s.room(s.RankSettings)
	if err != nil {
		return LaunchEnded{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	asked, err := mpi.Shell(s.Words, env)
	if err != nil {
		return LaunchEnded{}, fmt.Errorf("refused what mpirun asks for: %w", err)
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
		return LaunchEnded{}, fmt.Errorf("there is no %s", path)
	}
	return launched(e, dir), nil
}

// daemon finds a launcher's daemon: beside mpirun, or among the system's programs. One that lies elsewhere is refused.
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
		return "", fmt.Errorf("refused to start %s, which lies neither beside mpirun nor among the system's programs: is MPI in the same folder on all hosts?", program)
	}
	return "", fmt.Errorf("there is no %s beside mpirun: install the same MPI as on the first host", base)
}

// launched is a program's end with the logs that NCCL left in dir.
func launched(e process.Ended, dir string) LaunchEnded {
	out := LaunchEnded{Out: e.Stdout, Err: e.Stderr, Exit: e.Exit, Left: e.Left}
	out.Signal, out.TimedOut, out.Stopped = how(e)
	logs, _ := filepath.Glob(filepath.Join(dir, "nccl.*")) // the pattern is sound
	for _, path := range logs {
		log, err := ends(path, maxLogs/len(logs))
		if err == nil { // what cannot be read is missed by whoever reads the logs
			out.Log = append(out.Log, log...)
		}
	}
	return out
}

// ends reads the beginning and the end of a long file.
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
