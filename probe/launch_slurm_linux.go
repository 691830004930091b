package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/probe/mpi"
)

// nodeName matches names of Slurm's nodes, which other hosts say: without it, a name could be a list of nodes.
var nodeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$`) })

// maxRanksPerNode limits the ranks on a node of Slurm: one for each GPU.
const maxRanksPerNode = 256

// slurmConfiguration returns the variable by which Slurm's programs find their configuration; nil: at the usual place.
func slurmConfiguration() []string {
	if path := os.Getenv("SLURM_CONF"); path != "" {
		return []string{"SLURM_CONF=" + path}
	}
	return nil
}

// lookForSlurm says in which job this helper runs, and which release of Slurm is here.
func (p TestPrograms) lookForSlurm(ctx context.Context) (LaunchHas, error) {
	out := LaunchHas{Job: os.Getenv("SLURM_JOB_ID"), Node: os.Getenv("SLURMD_NODENAME")}
	if out.Job == "" || out.Node == "" {
		return LaunchHas{Problem: "this helper does not know its job of Slurm (SLURM_JOB_ID, SLURMD_NODENAME), which sudo drops"}, nil
	}
	srun, problem := find("", "srun")
	if problem != "" {
		return LaunchHas{Problem: problem}, nil
	}
	e, err := p.start(ctx, srun, "--version")
	if err != nil {
		return LaunchHas{}, err
	}
	if out.MPI, err = mpi.ParseSlurm(e.Stdout); err != nil {
		return LaunchHas{Problem: explainNotStarted("srun", e)}, nil
	}
	return out, nil
}

// writeHosts writes the file that says on which node each rank runs.
func (s LaunchSpec) writeHosts() error {
	if s.PerNode < 1 || s.PerNode > maxRanksPerNode || len(s.Nodes) == 0 {
		return fmt.Errorf("invalid request for %d ranks on each of %d nodes", s.PerNode, len(s.Nodes))
	}
	var text strings.Builder
	for _, n := range s.Nodes {
		if !nodeName().MatchString(n) {
			return fmt.Errorf("%.80q is not the name of a node", n)
		}
		text.WriteString(strings.Repeat(n+"\n", s.PerNode))
	}
	f, err := os.OpenFile(s.hostsFile(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text.String())
	return errors.Join(err, f.Close())
}

func (s LaunchSpec) hostsFile() string { return filepath.Join(ranksDir(s.Ranks), "hosts") }

// batch returns the variables by which sbatch says to a script what it runs in, and to srun how to start ranks (srun(1), "INPUT ENVIRONMENT
// VARIABLES"): here, beside the step of the helpers, on those nodes of the job that take part.
func (s LaunchSpec) batch() []string {
	out := []string{"SLURM_JOB_ID=" + os.Getenv("SLURM_JOB_ID"), "SLURM_JOB_NODELIST=" + strings.Join(s.Nodes, ","), "SLURM_OVERLAP=1",
		"SLURM_NTASKS=" + strconv.Itoa(len(s.Nodes)*s.PerNode), "SLURM_HOSTFILE=" + s.hostsFile(), "SLURM_DISTRIBUTION=arbitrary"}
	if os.Getenv("SLURM_GPUS_ON_NODE") != "" { // Slurm hands out the GPUs of this node: to each step those that it asks for
		out = append(out, "SLURM_GPUS_PER_NODE="+strconv.Itoa(s.PerNode))
	}
	return out
}
