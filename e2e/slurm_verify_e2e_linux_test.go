//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// verifyFabric is slurmFabric's hosts on one network of training, whose collectives run as a case says.
const verifyFabric = `
slurm {}
host "a" {
  nic "rail0" {
    netdev      = "rail0"
    host_number = 1
  }
}
host "b" {
  nic "rail0" {
    netdev      = "rail0"
    host_number = 2
  }
}
host "c" {
  address = "gpu3"
  nic "rail0" {
    netdev      = "rail0"
    host_number = 3
  }
}
host "d" {
  nic "rail0" {
    netdev      = "rail0"
    host_number = 4
  }
}
network "rail" {
  members = [for h in values(host) : h.nic.rail0]
  subnet  = "10.50.0.0/24"
  role    = "training"
}
validate {
  nccl {
    %s
  }
}
nccl {
  write         = false
  socket_ifname = "rail0"
}
`

// torchByGPUs is a Python whose torch is a stand-in, with as many GPUs as Slurm has given to this process.
const torchByGPUs = `#!/bin/sh
gpus=$(echo "$CUDA_VISIBLE_DEVICES" | tr , '\n' | grep -c '^[0-9]')
exec env PYTHONPATH=%s PYTHONDONTWRITEBYTECODE=1 CUDA_STANDIN_GPUS="$gpus" /usr/bin/python3 "$@"
`

// TestSlurmVerifiesAsAJob: collectives run in an allocation of whole nodes. A node that a job holds is left out and named. GPUs, torch and the
// programs of nccl-tests are stand-ins, so that this says nothing of NCCL; Slurm, its GPUs, srun, PMIx, MPI and what the ranks exchange are real.
func TestSlurmVerifiesAsAJob(t *testing.T) {
	together(t)
	installed(t, "mpicc.openmpi", "srun")
	good := standInTests(t, "mpicc.openmpi")
	c := slurmCabled(t, slurmCluster{hosts: slurmNodes, gpus: 2},
		"network \"rail\" {\n  members = [for h in values(host) : h.nic.rail0]\n}\n", "")
	tests := func(folder string) {
		c.declareVerify(t, fmt.Sprintf("run        = \"nccl-tests\"\n    nccl_tests = %q", folder))
	}
	tests(good)
	c.coordinate(t, "apply", "-auto-approve", "-no-verify", "/root/f.hcl").want(t, 0)
	c.idle(t)

	job := c.hold(t, "gpu3", 1, "sleep 1000")
	c.coordinate(t, "verify", "-only", "nccl", "/root/f.hcl").want(t, 4, "unreachable c: busy (job "+job+")", "the collectives ran without it",
		"6 on 3 hosts", "Slurm 22.05", "all_reduce", "broadcast", "send_recv", "GB/s bus bandwidth at ")
	c.nothingLeft(t)
	if out := c.on(t, "a", "", `squeue -h -j "$1" -o %T`, job); out != "RUNNING\n" {
		t.Errorf("the job is %q", out)
	}
	inFull(t, "all checks", func(t *testing.T) {
		c.coordinate(t, "verify", "/root/f.hcl").want(t, 4, "unreachable c: busy (job "+job+")", "b → a", "d → a", "6 on 3 hosts", " passed, 0 failed,")
		c.nothingLeft(t)
	})
	c.on(t, "a", "", `scancel "$1"`, job)
	c.idle(t)

	failing := func(name, flag string, texts ...string) {
		inFull(t, name, func(t *testing.T) {
			tests(standInTests(t, "mpicc.openmpi", flag))
			c.coordinate(t, "verify", "-only", "nccl", "/root/f.hcl").want(t, 3, texts...)
			c.nothingLeft(t)
		})
	}
	failing("a rank dies", "-DDIES=3", "all_reduce_perf: ", "task 3: Killed")
	failing("a rank has wrong values", "-DWRONG=3", "8 on 4 hosts", "nccl-tests found wrong values")
	inFull(t, "no programs", func(t *testing.T) {
		tests(t.TempDir())
		c.coordinate(t, "verify", "-only", "nccl", "/root/f.hcl").want(t, 3, "all_reduce_perf does not exist; build nccl-tests with MPI=1")
	})
	inFull(t, "torch", func(t *testing.T) {
		modules, err := filepath.Abs("../probe/collective/testdata/standin")
		python := filepath.Join(good, "python3")
		if err = errors.Join(err, os.WriteFile(python, fmt.Appendf(nil, torchByGPUs, modules), 0o755)); err != nil {
			t.Fatal(err)
		}
		c.declareVerify(t, fmt.Sprintf("run    = \"torch\"\n    python = %q", python))
		c.coordinate(t, "verify", "-only", "nccl", "/root/f.hcl").want(t, 0, "8 on 4 hosts", "torch 0+standin", "all_reduce", "GB/s bus bandwidth at ")
		c.nothingLeft(t)
	})
	for what, by := range map[string]string{"the coordinator is killed": "kill -9 $p", "the job is cancelled": "scancel --name=fabricform"} {
		inFull(t, what, func(t *testing.T) {
			tests(standInTests(t, "mpicc.openmpi", "-DHANGS=3"))
			c.on(t, "a", "", `"$1" verify -only nccl /root/f.hcl >/run/log 2>&1 & p=$!
until [ "$(pgrep -cx all_reduce_perf)" = 2 ]; do sleep 0.1; done
`+by+`; wait $p || true`, bin)
			c.nothingLeft(t)
		})
	}
}

// declareVerify writes the fabric that the coordinator reads.
func (c slurmCluster) declareVerify(t *testing.T, run string) {
	t.Helper()
	c.on(t, "a", fmt.Sprintf(verifyFabric, run), `cat > /root/f.hcl`)
}

// nothingLeft waits until no rank, no step and no file of one is on any node, and no job of ours.
func (c slurmCluster) nothingLeft(t *testing.T) {
	t.Helper()
	for _, n := range c.hosts {
		c.on(t, n.name, "", `until ! ps -eo args= | grep -qE '_per[f] -|python3 [-] ' && ! ls -d /tmp/fabricform-temp-* 2>/dev/null | grep -q .; do sleep 0.1; done`)
	}
	c.on(t, "a", "", `while squeue -h -n fabricform | grep -q .; do sleep 0.1; done`)
}
