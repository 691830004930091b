//go:build linux

package slurm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// hold is an allocation of one processor on some nodes. It lasts until this process closes its input or ends: the holders on the nodes
// read that input.
type hold struct {
	job     string
	process *process
}

func (h *hold) alive() bool {
	select {
	case <-h.process.exited:
		return false
	default:
		return true
	}
}

func (h *hold) end() { h.process.stop() }

// report is what a holder said of its node.
type report struct {
	job    string
	ready  bool   // the helper of this build is installed
	goarch string // as Go names it
}

// installDir is where helpers are installed on nodes. Only root has access.
const installDir = "/var/lib/fabricform/helpers"

// installed returns the path of an installed helper. The version is hexadecimal.
func installed(version string) string { return installDir + "/fabricform-" + version }

// versionID matches valid versions of a helper, which become part of the script below.
var versionID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{8,64}$`) })

// holder returns the script of a hold: fixed text, a checked version and a random word, by which its report is told from what prologs
// and plug-ins print. After the report it waits for the end of the input.
func holder(version, word string) string {
	return `h=no; [ -x ` + installed(version) + ` ] && h=yes; echo "` + word + ` $SLURMD_NODENAME $SLURM_JOB_ID $h $(uname -m)"; exec cat >/dev/null`
}

// How long Slurm may take to allocate processors, in seconds: no plan waits for a job. Where none is free, only a partition that shares
// them can give one, and does so at once.
const (
	allocationPatience = 10
	sharePatience      = 3
)

// startHold allocates one processor on each call's node. All nodes report, or it fails.
func startHold(rs []*request, version string) (*hold, map[string]report, error) {
	if !versionID().MatchString(version) {
		return nil, nil, fmt.Errorf("helper version %q is not hexadecimal", version)
	}
	names, shared := make([]string, len(rs)), rs[0].to.Slurm
	enough, patience := true, allocationPatience
	for i, r := range rs {
		if names[i] = r.node.name; r.node.busy() {
			patience = sharePatience
		}
		enough = enough && r.node.memory >= 1024
	}
	word := "fabricform-" + rand.Text()
	argv := append(srun(names), "--immediate="+strconv.Itoa(patience), "--job-name="+holdName, "--no-kill")
	if enough { // nodes whose memory slurm.conf does not tell have 1 MiB for Slurm
		argv = append(argv, "--mem=256M") // without, a job asks for all of a node's memory where Slurm accounts for it
	}
	if shared.Exclusive {
		argv = append(argv, "--exclusive")
	}
	if shared.Partition != "" {
		argv = append(argv, "--partition="+shared.Partition)
	}
	if shared.Reservation != "" {
		argv = append(argv, "--reservation="+shared.Reservation)
	}
	said := make(chan struct {
		node string
		report
	}, len(rs))
	p, err := start(append(argv, "/bin/sh", "-c", holder(version, word)), func(line string) {
		f := strings.Fields(line)
		if len(f) != 5 || f[0] != word || strings.Trim(f[2], "0123456789") != "" {
			return
		}
		r := struct {
			node string
			report
		}{f[1], report{job: f[2], ready: f[3] == "yes", goarch: goarch(f[4])}}
		select {
		case said <- r:
		default:
		}
	})
	if err != nil {
		return nil, nil, err
	}
	reports, late := map[string]report{}, time.After(startPatience)
	for len(reports) < len(rs) {
		select {
		case r := <-said:
			reports[r.node] = r.report
			continue
		case <-p.exited:
			err = errors.New(p.said())
		case <-rs[0].ctx.Done():
			err = rs[0].ctx.Err()
		case <-late:
			err = fmt.Errorf("no report of its nodes within %s: %s", startPatience, p.errs.String())
		}
		p.stop()
		return nil, nil, err
	}
	h := &hold{job: reports[names[0]].job, process: p}
	for _, name := range names {
		if reports[name].job != h.job {
			h.end()
			return nil, nil, fmt.Errorf("the report of node %s is missing", name)
		}
	}
	return h, reports, nil
}

// goarch returns Go's name for the architecture that uname -m says; the same name if Go has none.
func goarch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return machine
}

// srun returns the command that runs one task on each of the nodes, with none of our environment.
func srun(names []string) []string {
	n := strconv.Itoa(len(names))
	return []string{"srun", "--nodes=" + n, "--ntasks=" + n, "--ntasks-per-node=1", "--nodelist=" + strings.Join(names, ","), "--chdir=/",
		"--export=PATH=/usr/sbin:/usr/bin:/sbin:/bin", "--kill-on-bad-exit=0", "--mpi=none", "--input=all"}
}

// run starts a step of helpers in an allocation. The credential is the input of all of them. With goarch, slurmd's tree carries the
// program to the nodes, each of which then installs it.
func (c *Cluster) run(h *hold, goarch string, names []string, credential string) (*process, error) {
	argv := append(srun(names), "--jobid="+h.job, "--overlap")
	program := installed(c.Helper.Version())
	if goarch != "" {
		dir, err := os.MkdirTemp("", "fabricform-")
		if err != nil {
			return nil, err
		}
		program = filepath.Join(dir, "fabricform")
		if err := c.unpack(goarch, program); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		// Nobody can guess the name, and so nobody can be there first. srun removes nothing: the helper does.
		argv = append(argv, "--bcast=/var/tmp/fabricform-"+rand.Text())
		defer func() { c.steps.Go(func() { c.cleanUp(dir, h) }) }()
	}
	p, err := start(append(argv, program, "agent", "--dial-back"), nil)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(p.in, credential); err != nil {
		p.stop()
		return nil, fmt.Errorf("send the credential: %s", p.said())
	}
	return p, p.in.Close()
}

// cleanUp removes a program that was sent, once its step has ended with the allocation.
func (c *Cluster) cleanUp(dir string, h *hold) {
	<-h.process.exited
	_ = os.RemoveAll(dir) // a folder for temporary files, which is cleared by others as well
}

// unpack writes the helper for an architecture into a file.
func (c *Cluster) unpack(goarch, path string) error {
	build, err := c.Helper.Build(goarch)
	if err != nil {
		return err
	}
	from, err := build.Open()
	if err != nil {
		return fmt.Errorf("open helper: %w", err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
