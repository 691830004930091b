package probe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/probe/mpi"
	"github.com/fabricform/fabricform/retry"
)

const (
	// launcherGrace is how long a launcher may take to end its ranks on all hosts before it is killed.
	launcherGrace = 5 * time.Second
	// tendedWithin is how long TendRanks may take to get ready.
	tendedWithin = 20 * time.Second
	// removedWithin is how long the removal of the ranks' files may take, clearedWithin all that follows the end of a launch.
	removedWithin = 20 * time.Second
	clearedWithin = GoneWithin + removedWithin + 10*time.Second
	// maxNames bounds the files of ranks' folders that are looked at: each rank has one, launchers a few.
	maxNames = 1024
)

// command returns a program that runs as the user, with these variables added to its environment. runuser(1) opens a PAM session,
// so that the limits are those of the user's logins, as on the other hosts: with the helper's memlock limit, RDMA could fail here
// alone, or work here alone. runuser itself is root's, and its loader obeys the environment: env(1) sets the variables behind the
// change of user.
func (p TestPrograms) command(variables []string, path string, args ...string) process.Program {
	// The folders are those in which FindProgram looks.
	env := append([]string{"PATH=/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/sbin:/usr/local/bin"}, variables...)
	if p.User == "" {
		return process.Program{Declared: path, Args: args, Env: append(env, "HOME="+os.Getenv("HOME"))}
	}
	return process.Program{Name: "runuser",
		Args: slices.Concat([]string{"--user=" + p.User, "--", "/usr/bin/env"}, env, []string{path}, args)}
}

// libraries returns the variable for the libraries of a declared mpirun, as the scripts of package launch set it.
func (p TestPrograms) libraries() []string {
	if p.MPIRun == "" {
		return nil
	}
	prefix := filepath.Dir(filepath.Dir(p.MPIRun))
	return []string{"LD_LIBRARY_PATH=" + filepath.Join(prefix, "lib") + ":" + filepath.Join(prefix, "lib64")}
}

// find returns the path of a declared program, or of the system's.
func find(declared, name string) (path, problem string) {
	if declared == "" {
		path, err := process.FindProgram(name)
		if err != nil {
			return "", name + " is not installed"
		}
		return path, ""
	}
	if info, err := os.Stat(declared); err != nil || !info.Mode().IsRegular() {
		return "", declared + " does not exist"
	}
	return declared, ""
}

// testProgram returns the path of a program of nccl-tests; "" if it is the system's.
func (p TestPrograms) testProgram(program string) string {
	if p.Folder == "" {
		return ""
	}
	return filepath.Join(p.Folder, program)
}

// LaunchLook starts each program once, without ranks.
func (c *collectives) LaunchLook(ctx context.Context, p TestPrograms) (out LaunchHas, err error) {
	for _, name := range collective.TestPrograms {
		path, problem := find(p.testProgram(name), name)
		if problem != "" {
			return LaunchHas{Problem: problem}, nil
		}
		e, err := p.start(ctx, path, "-h")
		if err != nil {
			return LaunchHas{}, err
		}
		if e.Exit != 0 || e.Signal != "" || !bytes.Contains(e.Stdout, []byte("USAGE")) {
			return LaunchHas{Problem: explainNotStarted(path, e)}, nil
		}
	}
	if p.Slurm {
		return p.lookForSlurm(ctx)
	}
	mpirun, problem := find(p.MPIRun, "mpirun")
	if problem != "" {
		return LaunchHas{Problem: problem}, nil
	}
	e, err := p.start(ctx, mpirun, "--version")
	if err != nil {
		return LaunchHas{}, err
	}
	out.MPI, err = mpi.ParseRelease(e.Stdout)
	switch {
	case err != nil && (e.Exit != 0 || e.Signal != ""):
		out.Problem = explainNotStarted("mpirun", e)
	case err != nil:
		out.Problem = fmt.Sprintf("mpirun cannot be used: %s", err)
	}
	return out, nil
}

// start runs a program that only prints its usage or version. A timeout is an error, because it does not mean that the program is wrong.
func (p TestPrograms) start(ctx context.Context, path string, args ...string) (process.Ended, error) {
	ctx, cancel := context.WithTimeout(ctx, StartLimit)
	defer cancel()
	e := p.command(p.libraries(), path, args...).Start(ctx)()
	switch {
	case e.Missing && p.User != "":
		return e, errors.New("this host has no runuser, which starts programs as another user: install util-linux")
	case e.Signal != "" && ctx.Err() != nil:
		return e, fmt.Errorf("%s did not start within %s; check its file system", path, StartLimit)
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

// launchID matches the IDs of TendRanks: they are parts of paths, and of the ranks' environment.
var launchID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z2-7]{26}$`) })

// ranksDir is where ranks of a launch write their logs, and launchers their temporary files; the same on all hosts. It is their
// user's, and lies in a folder of the helper's user, so that the ranks' user cannot replace it: /tmp is sticky. It is not in /run,
// which its user could fill.
func ranksDir(id string) string { return process.TemporaryFolder("/tmp", id) + "/ranks" }

// launcher returns the shell that runs the script for a program of nccl-tests with these arguments. The variables say where
// files are written, and for Slurm what sbatch says to the script: what it needs besides, it sets itself, because users get the same script.
func (s LaunchSpec) launcher(args []string) process.Program {
	dir := ranksDir(s.Ranks)
	program := cmp.Or(s.testProgram(s.Run.Program), s.Run.Program)
	// The launcher merges the output of all ranks into one stream, so each host logs to its own files. NCCL's log is on,
	// whatever the login and nccl.conf say.
	ranks := []string{"env", process.FamilyMark + "=" + s.Ranks, "NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET",
		"NCCL_DEBUG_FILE=" + filepath.Join(dir, "nccl.%h.%p"), program}
	// Daemons of MPI on the other hosts have the mark, too: they do not always end with mpirun.
	daemon := "env " + process.FamilyMark + "=" + s.Ranks + " "
	variables := []string{"TMPDIR=" + dir, "OMPI_MCA_orte_tmpdir_base=" + dir, "PRTE_MCA_prte_tmpdir_base=" + dir,
		"OMPI_MCA_orte_launch_agent=" + daemon + "orted", "PRTE_MCA_prte_launch_agent=" + daemon + "prted"}
	if s.Slurm {
		variables = slices.Concat(variables, slurmConfiguration(), s.batch())
	}
	sh := s.command(variables, "/bin/sh", slices.Concat([]string{"-s"}, ranks, args)...)
	sh.Stdin, sh.Family, sh.Grace = s.Script, GoneWithin, launcherGrace
	return sh
}

// Launch runs the script to its end. It stops when the caller's stream ends, by Stop, or at its limit.
func (c *collectives) Launch(ctx context.Context, s LaunchSpec) (LaunchEnded, error) {
	args, err := s.Run.Args()
	if err != nil {
		return LaunchEnded{}, err
	}
	uid, tended := c.tended.Load(s.Ranks)
	if !tended {
		return LaunchEnded{}, fmt.Errorf("no ranks with the ID %.40q were prepared on this host", s.Ranks)
	}
	ctx, release, err := c.begin(ctx, s.ID, s.Limit)
	if err != nil {
		return LaunchEnded{}, err
	}
	defer release()
	if s.Slurm {
		if err := s.writeHosts(); err != nil {
			return LaunchEnded{}, err
		}
	}
	sh := s.launcher(args)
	sh.FamilyUID = uid.(int)
	e := sh.Start(ctx)()
	out := LaunchEnded{Out: e.Stdout, Err: e.Stderr, Exit: e.Exit, Signal: e.Signal, Alive: e.Alive}
	if e.Cause != nil && (e.Exit != 0 || e.Signal != "") { // a launcher may end in its own way when it is told to
		out.Signal, out.TimedOut, out.Stopped = "", errors.Is(e.Cause, context.DeadlineExceeded), errors.Is(e.Cause, errStopped)
	}
	return out, nil
}

// TendRanks makes the ranks' folder, waits, and clears up after them.
func (c *collectives) TendRanks(ctx context.Context, s RanksSpec) (out RanksEnded, err error) {
	if !launchID().MatchString(s.ID) {
		return RanksEnded{}, fmt.Errorf("%.40q is not the ID of ranks", s.ID)
	}
	ctx, release, err := c.begin(ctx, s.ID, s.Limit)
	if err != nil {
		return RanksEnded{}, err
	}
	defer release()
	folder, uid, unlock, err := s.makeFolder(ctx)
	if err != nil {
		return RanksEnded{}, err
	}
	defer unlock()
	defer func() { _ = folder.Close() }()
	c.tended.Store(s.ID, uid)
	defer c.tended.Delete(s.ID)
	<-ctx.Done()
	// A user can make any read of a file or of a process's memory wait, with a file system of their own (FUSE).
	late := time.AfterFunc(clearedWithin, func() {
		agent.Abandon(ctx, &agent.Error{Message: fmt.Sprintf("ranks were not cleared up within %s; %s may be left", clearedWithin,
			filepath.Dir(ranksDir(s.ID)))})
	})
	defer late.Stop()
	out.Alive = process.EndFamily(s.ID, uid, GoneWithin)
	out.Log, err = readLogs(folder, uid)
	return out, errors.Join(err, s.removeFolder(ctx, removedWithin))
}

// makeFolder makes and opens the folder of the ranks, and returns the number of their user. It stays open: what its user may do to its
// path later does not matter. It is in use until unlock.
func (s RanksSpec) makeFolder(ctx context.Context) (folder *os.Root, uid int, unlock func(), err error) {
	dir := ranksDir(s.ID)
	unlock, err = process.MakeLocked(filepath.Dir(dir))
	if err != nil {
		return nil, 0, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.removeFolder(ctx, removedWithin))
			unlock()
		}
	}()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Mkdir(dir, 0o700)); err != nil { // whatever the umask
		return nil, 0, nil, err
	}
	if folder, err = os.OpenRoot(dir); err != nil {
		return nil, 0, nil, err
	}
	if s.User != "" { // chown(1), because only the system's name service may know the user's number
		if e := (process.Program{Name: "chown", Args: []string{"--", s.User, dir}}).Start(ctx)(); e.Exit != 0 ||
			e.Signal != "" || e.Missing {
			return nil, 0, nil, errors.Join(fmt.Errorf("make %s for the logs of %s%s", dir, s.User, said(e)), folder.Close())
		}
	}
	info, err := folder.Stat(".")
	if err != nil {
		return nil, 0, nil, errors.Join(err, folder.Close())
	}
	return folder, uidOf(info), unlock, nil
}

// removeFolder removes the folder of the ranks, even if the caller is gone. It is done by rm(1), which can be killed: the ranks' user
// may add files all the time.
func (s RanksSpec) removeFolder(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	dir := filepath.Dir(ranksDir(s.ID))
	switch e := (process.Program{Name: "rm", Args: []string{"-rf", "--", dir}}).Start(ctx)(); {
	case ctx.Err() != nil:
		return fmt.Errorf("remove %s: not done within %s; its user's processes may be adding files", dir, within)
	case e.Exit != 0 || e.Signal != "" || e.Missing:
		return fmt.Errorf("remove %s%s", dir, said(e))
	}
	return nil
}

// uidOf returns the number of a file's user.
func uidOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

// AwaitTended waits until TendRanks is ready.
func (c *collectives) AwaitTended(ctx context.Context, id string) (struct{}, error) {
	return struct{}{}, retry.Until(ctx, 10*time.Millisecond, tendedWithin, func() (bool, error) {
		if _, ready := c.tended.Load(id); !ready {
			return false, errors.New("the host has not prepared the ranks yet")
		}
		return true, nil
	})
}

// readLogs returns the logs that NCCL wrote to a folder. The folder is a user's: what it holds may be anything, and as much as they like.
func readLogs(folder *os.Root, uid int) (out []byte, err error) {
	dir, err := folder.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	logs, err := dir.Readdirnames(maxNames)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	logs = slices.DeleteFunc(logs, func(name string) bool { return !strings.HasPrefix(name, "nccl.") })
	slices.Sort(logs)
	for _, name := range logs {
		// a missing log is reported by the check that reads it
		if log, err := headAndTail(folder, name, uid, maxLogs/len(logs)); err == nil {
			out = append(out, log...)
		}
	}
	return out, nil
}

// headAndTail reads a user's file, but only its beginning and end if it is longer than most. A file of another user may be a link that
// reveals what the user cannot read.
func headAndTail(root *os.Root, name string, uid, most int) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // it could be a pipe
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || uidOf(info) != uid {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	if info.Size() <= int64(most) {
		return io.ReadAll(io.LimitReader(f, int64(most)))
	}
	head, tail := make([]byte, most/2), make([]byte, most/2)
	_, err1 := f.ReadAt(head, 0)
	_, err2 := f.ReadAt(tail, info.Size()-int64(len(tail)))
	return slices.Concat(head, []byte("\n[…]\n"), tail), errors.Join(err1, err2)
}
