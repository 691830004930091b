package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// soundTexts are texts in which explain finds no problem, of each kind that may hold what a program printed.
var soundTexts = map[string]string{
	"begins.log":  "gpu1:100:120 [0] NCCL INFO cudaDriverVersion 12040\n",
	"done.log":    "gpu1:100:120 [0] NCCL INFO Using network IB\ngpu1:100:120 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\ngpu1:100:120 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Destroy COMPLETE\n",
	"tests.txt":   "# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 190.1\n#\n",
	"paste.txt":   "$ export NCCL_DEBUG=INFO\n$ export NCCL_DEBUG_SUBSYS=INIT\n$ export NCCL_DEBUG_FILE=/tmp/a\n$ torchrun --nproc_per_node=2 train.py\n",
	"command":     "NCCL_DEBUG=INFO torchrun --nproc_per_node=2 train.py\n",
	"notes.md":    "```\nexport NCCL_DEBUG=INFO\nexport NCCL_DEBUG_SUBSYS=INIT\nexport NCCL_DEBUG_FILE=/tmp/a\n```\n",
	"topology":    "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV18\tPIX\nGPU1\tNV18\t X \tPIX\nNIC0\tPIX\tPIX\t X \n",
	"gids":        "DEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\n---\t----\t-----\t---\t----\t---\t---\nmlx5_0\t1\t0\t0000:0000:0000:0000:0000:ffff:0a00:0001\t10.0.0.1\tv1\tens1f0np0\nmlx5_0\t1\t1\t0000:0000:0000:0000:0000:ffff:0a00:0001\t10.0.0.1\tv2\tens1f0np0\nn_gids_found=2\n",
	"pod.yaml":    "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - env:\n    - name: NCCL_DEBUG\n      value: \"INFO\"\n",
	"compose.yml": "services:\n  a:\n    environment:\n      - NCCL_DEBUG=INFO\n",
	"env.txt":     "SHELL=/bin/bash\nPWD=/root\nNCCL_DEBUG=INFO\n",
}

// strangeLines report an error of a program that explain does not know, in the forms that programs have for it.
var strangeErrors = []string{
	"zorbl: error: the frobnicator is gone", "ERROR zorbl: the frobnicator is gone", "ERROR: no frobnicator", "[ERROR] zorbl has no frobnicator", "zorbl failed", "zorbl failed: 7", "FAILED", "Failed to zorbl", "zorbl: Failure",
	"zorbl.FrobnicatorError: no frobnicator", "zorbl.FrobnicatorException: no frobnicator", "ZorblError", "Exception: zorbl", "Error", "error 7 in zorbl", "Fatal zorbl", "FATAL: zorbl", "fatal: zorbl is not here", "Aborted", "Aborted (core dumped)", "zorbl aborted",
	"Abort(7) on node 0", "./zorbl: line 3: 42 Aborted", "42 Killed    ./zorbl", "zorbl (core dumped)", "Traceback (most recent call last):", "zorbl timed out", "Timeout in zorbl", "zorbl timeout after 30 s", "zorbl exited with exit code 7",
	"exit code: 7", "exit status 7", "exitcode: 7", "zorbl returned non-zero exit status 7", "zorbl exited with code 7", "Exited with status 7", "Terminated", "zorbl: cannot frobnicate", "can't frobnicate", "Cannot frobnicate", "zorbl could not frobnicate", "unable to frobnicate",
	"Connection refused by zorbl", "zorbl is unreachable", "zorbl: command not found", "bash: zorbl: No such file or directory", "Assertion `zorbl' failed.", "AssertionError: zorbl", "zorbl mismatch", "invalid zorbl", "panic: zorbl", "Permission denied (zorbl)",
	"mpirun: Error: unknown option \"--zorbl\"", "torchrun: error: unrecognized arguments: --zorbl", "srun: fatal: zorbl", "docker: Error response from daemon: zorbl.", "python: can't open file 'zorbl.py'", "accelerate: error: zorbl", "ray: zorbl crashed", "zorbl: Out of memory", "The zorbl hangs", "zorbl is stuck",
	"* error: zorbl", "ZorblError: no frobnicator. HINT: Use `zorbl`", "> ERROR zorbl", "# zorbl: error 7", "- zorbl failed", "[rank0]: ZorblError: x", "(Worker pid=7) ERROR zorbl", "1: zorbl failed", "E1121 10:00:00.000000 7 zorbl.cc:7] bad frobnicator", "F1121 10:00:00.000000 7 zorbl.cc:7] bad frobnicator", "\x1b[31mERROR\x1b[0m zorbl",
}

// endings are how a job ends that failed, in words that no rule knows or that name no error.
var endings = []string{
	"slurmstepd: *** STEP 17.0 ON n1 CANCELLED AT 2024-01-01T00:00:00 ***", "Job 77 preempted by partition gpu", "Connection to node7 closed by remote host.", "client_loop: send disconnect: Broken pipe", "child process 77 received SIGKILL", "worker 3 died unexpectedly",
	"return value 7", "StopIteration", "[1]+  Stopped                 ./train", "make[1]: Leaving directory (rc=2)", "zorbl.Frobnicated", "zorbl: signal 9", "The node was low on resource: memory.", "Evicted", "pod zorbl-0 deleted", "zorbl has gone away", "137", "[truncated]", "loss: nan", "zorbl(7, -1)",
	"$ ./build/all_gather_perf -b 8 -e 8G -g 2", "# nThread 1 nGpus 2 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0",
	"gpu1:100:120 [0] NCCL INFO ncclCommInitRank comm 0x3 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x7 - Init START", "gpu1:100:120 [0] NCCL INFO comm 0x3 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE",
}

// ticks reports whether an explanation is shown with ✓.
func ticks(r Explanation) bool { return r.Sound() && r.Open == "" }

// TestNoTickOverAnOpenEnd: a run that succeeded gets a tick only if nothing follows that was not judged: no word of another program, no
// further run, and no rank that has not ended.
func TestNoTickOverAnOpenEnd(t *testing.T) {
	for _, name := range []string{"done.log", "tests.txt"} {
		if got := Explain(name, soundTexts[name], nil, fabric.Invocation{}); !ticks(got) {
			t.Errorf("%s is to have a tick: %s%s", name, asText(got), got.Open)
		}
		for _, ending := range endings {
			if got := Explain(name, soundTexts[name]+ending+"\n", nil, fabric.Invocation{}); ticks(got) {
				t.Errorf("%s and %q have a tick", name, ending)
			}
		}
	}
	other := strings.Replace(strings.SplitAfter(soundTexts["done.log"], "\n")[1], "comm 0x1 rank 0", "comm 0x2 rank 1", 1)
	if got := Explain("x.log", other+soundTexts["done.log"], nil, fabric.Invocation{}); ticks(got) || got.Reached != Initialized {
		t.Error("rank 1 has not ended:", got.Reached)
	}
	for _, name := range []string{"paste.txt", "command", "notes.md", "pod.yaml", "compose.yml", "topology"} {
		if got := Explain(name, soundTexts[name], nil, fabric.Invocation{}); ticks(got) || !got.Sound() {
			t.Errorf("%s shows no run: %s", name, got.Open)
		}
	}
}

// TestNoTickOverAnUnknownError: wherever a line stands that reports an error, the answer is not "no problems found": the line is
// a finding, or counted and named as not understood.
func TestNoTickOverAnUnknownError(t *testing.T) {
	for name, text := range soundTexts {
		if got := Explain(name, text, nil, fabric.Invocation{}); !got.Sound() && name != "gids" {
			t.Errorf("%s is to be sound: %s", name, asText(got))
		}
		rows := strings.Count(text, "\n")
		for _, line := range strangeErrors {
			if strings.HasPrefix(line, "#") && (name == "paste.txt" || strings.HasSuffix(name, "ml") || name == "env.txt" || name == "command") {
				continue // a comment
			}
			for _, at := range []int{0, rows / 2, rows} {
				lines := strings.SplitAfter(strings.TrimSuffix(text, "\n")+"\n", "\n")
				whole := strings.Join(slices.Insert(lines[:rows:rows], at, line+"\n"), "")
				got := Explain(name, whole, nil, fabric.Invocation{})
				found := slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Line == at+1 || strings.Contains(f.Wrong, fmt.Sprintf("line %d", at+1)) })
				if got.Sound() || got.Nothing == "" && !found && !slices.Contains(got.Read.Unknown.First, at+1) && !slices.Contains(got.Read.Unknown.First, at+2) {
					t.Errorf("%s, line %d: %q: %v %s", name, at+1, line, got.Read, asText(got))
				}
			}
		}
	}
}
