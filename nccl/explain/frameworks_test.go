package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestEqualRanksOfLightning: two processes of one rank are an error if ranks are missing, and none if a program starts twice.
func TestEqualRanksOfLightning(t *testing.T) {
	begin := func(rank string) string { return "initializing ddp: GLOBAL_RANK: " + rank + ", MEMBER: 1/4\n" }
	for _, c := range []struct {
		text string
		want bool
	}{
		{begin("0") + begin("1") + begin("0") + begin("1"), true}, // Lightning-AI/pytorch-lightning/issues/4389
		{begin("0") + begin("1") + begin("2") + begin("3") + begin("0") + begin("1") + begin("2") + begin("3"), false},
		{begin("0") + begin("1"), false},
	} {
		got := Explain("out", c.text, nil, fabric.Invocation{})
		if is := slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Summary == "Two processes with one rank" }); is != c.want || got.Sound() {
			t.Errorf("%s: got %s", c.text, asText(got))
		}
	}
}

// TestRanksThatNeverCome: a job that waits for ranks is reported, unless its last lines show that all have met.
func TestRanksThatNeverCome(t *testing.T) {
	const waits = "[INFO] - Waiting in store based barrier to initialize process group for rank: 3, key: store_based_barrier_key:1 (world_size=16, worker_count=7, timeout=0:30:00)\n"
	const begins = "initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8\ninitializing distributed: GLOBAL_RANK: 1, MEMBER: 2/8\n"
	for text, want := range map[string]string{
		waits:  "7 of 16 processes came to the first barrier",
		begins: "2 of 8 processes begin in these lines: rank 0, 1.",
		waits + "Rank 3: Completed store-based barrier for key:store_based_barrier_key:1 with 16 nodes.\n":     "",
		begins + "distributed_backend=nccl\nAll distributed processes registered. Starting with 8 processes\n": "",
	} {
		got := asText(Explain("out", text, nil, fabric.Invocation{}))
		if strings.Contains(got, "Ranks did not all come") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: want %q, got %s", text, want, got)
		}
	}
}

// TestOutputOfFrameworksIsKnown: one line of a program above NCCL is enough to read a text as its output. Settings that
// the output quotes do not count as settings.
func TestOutputOfFrameworksIsKnown(t *testing.T) {
	for text, want := range map[string]string{
		"[2023-09-10 11:46:00,258] [ERROR] [launch.py:434:sigkill_handler] ['python3', 'train.py'] exits with return code = -9\n":                              "A process was killed (SIGKILL)",
		"NotImplementedError: Using RTX 4000 series doesn't support faster communication broadband via P2P or IB. Please set `NCCL_P2P_DISABLE=\"1\"` first\n": "accelerate refuses these GPUs",
		"(Worker pid=2) [W socket.cpp:601] [c10d] The IPv6 network addresses of (head, 16516) cannot be retrieved [repeated 10x, see ray-logging.html]\n":      "A host name has no IPv6 address",
	} {
		got := Explain("paste", text, nil, fabric.Invocation{})
		if len(got.Findings) != 1 || got.Findings[0].Summary != want || got.Kind != Log {
			t.Errorf("%s: want %q alone, got %s", text, want, asText(got))
		}
	}
}

// TestLastErrorBehindAPrefix: what launchers write before each line of a rank does not hide NCCL's last error (ray-project/ray/issues/44533).
func TestLastErrorBehindAPrefix(t *testing.T) {
	for _, prefix := range []string{"", "[rank4]: ", "(RayWorkerVllm pid=7602) ERROR 04-07 00:57:46 ray_utils.py:45] ", "[1,3]<stderr>:", "3: ", "(Worker pid=12, ip=10.0.0.2) ERROR 04-14 13:46:59 [multiproc_executor.py:857] "} {
		text := prefix + "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, internal error, NCCL version 2.18.6\n" + prefix + "Last error:\n" + prefix + "Attribute busid of node nic not found\n"
		got := Explain("out", text, nil, fabric.Invocation{})
		if len(got.Findings) != 1 || got.Findings[0].Summary != "The topology cannot be read" || got.Read.Unknown.Count > 0 {
			t.Errorf("%q: got %s", prefix, asText(got))
		}
	}
}

// TestLastWarningOfXLA: the warning that XLA quotes in its error is read as NCCL's own (LargeWorldModel/LWM/issues/42).
func TestLastWarningOfXLA(t *testing.T) {
	for quoted, want := range map[string]string{
		"Attribute busid of node nic not found": "The topology cannot be read",
		"Cuda failure 2 'out of memory'":        "GPU memory is full",
		"":                                      "NCCL reports an internal error",
	} {
		text := "XlaRuntimeError: INTERNAL: nccl_utils.cc:305: NCCL operation ncclCommInitRank(&comm, nranks, id, rank) failed: internal error. Last NCCL warning(error) log entry (may be unrelated) '" + quoted + "'.; current tracing scope: all-reduce-start.1\n"
		got := Explain("out", text, nil, fabric.Invocation{})
		if len(got.Findings) != 1 || got.Findings[0].Summary != want {
			t.Errorf("%q: want %q alone, got %s", quoted, want, asText(got))
		}
	}
}

// TestJoinedLines: a paste that has joined lines hides no error before, between or in them (vllm-project/vllm/issues/21661).
func TestJoinedLines(t *testing.T) {
	info := "gpu1:213:213 [1] NCCL INFO cudaDriverVersion 12080 "
	for text, want := range map[string]string{
		"RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details) " + info:                              "NCCL reports an error of CUDA",
		info + "gpu1:213:214 [1] init.cc:737 NCCL WARN Duplicate GPU detected : rank 0 and rank 8 both on CUDA device 19000 " + info: "Two ranks on one GPU",
		info + info + info: "",
		"ERROR 11-04 18:02:56 [v1/a.py:597] self.f(x, ERROR 11-04 18:02:56 [v1/a.py:597] RuntimeError: NCCL error: unhandled cuda error " + info: "NCCL reports an error of CUDA",
		"ERROR 11-04 18:02:56 [a.py:597] " + info:                 "",
		"Something of another program went wrong: failed " + info: "unknown",
	} {
		got := Explain("paste", text+"\n", nil, fabric.Invocation{})
		named := slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Summary == want })
		if want == "unknown" {
			named = got.Read.Unknown.Count == 1
		}
		if want != "" && !named || want == "" && !got.Sound() {
			t.Errorf("%s: want %q, got %s", text, want, asText(got))
		}
	}
}

// TestDirectAccessThatIsSaidNotToWork: a text that says that NCCL_P2P_DISABLE=1 helps, and one that says, asks or sets something else.
func TestDirectAccessThatIsSaidNotToWork(t *testing.T) {
	for text, want := range map[string]bool{
		"When I set NCCL_P2P_DISABLE=1, it works fine.\n":                                                                                true,
		"It works with NCCL_P2P_DISABLE=1, but I would like to know why normal P2P is not working.\n":                                    true, // NVIDIA/nccl-tests/issues/117
		"Setting NCCL_P2P_DISABLE=1 did workaround but got really low speed.\n":                                                          true, // NVIDIA/nccl/issues/667
		"I have the same issue, but I've solved it.\n\nYou can set this environment value.\n\n```bash\nexport NCCL_P2P_DISABLE=1\n```\n": true, // pytorch/pytorch#76101
		"设置 NCCL_P2P_DISABLE=1 后可以正常运行。\n":                                                                                               true,
		"I tried NCCL_P2P_DISABLE=1 but it still hangs.\n":                                                                               false,
		"Does NCCL_P2P_DISABLE=1 help?\n":                                                                                                false,
		"export NCCL_P2P_DISABLE=1 # for work stations\n":                                                                                false,
		"NCCL_P2P_DISABLE=1 did not help.\n":                                                                                             false,
		"If I set NCCL_P2P_DISABLE=1, everything works fine.\n":                                                                          true,
		"If I set NCCL_P2P_DISABLE=1, could it help?\n":                                                                                  false,
	} {
		got := Explain("notes.md", text, nil, fabric.Invocation{})
		if is := slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Summary == "Direct access between GPUs does not work" }); is != want {
			t.Errorf("%s: got %s", text, asText(got))
		}
	}
}

// TestRDMAThatIsSaidNotToWork: the same of NCCL_IB_DISABLE=1.
func TestRDMAThatIsSaidNotToWork(t *testing.T) {
	for text, want := range map[string]bool{
		"If I ran with export NCCL_IB_DISABLE=1 to use simple TCP socket, everything work fine.\n": true, // alibaba/Pai-Megatron-Patch/issues/612
		"I solved it by setting NCCL_IB_DISABLE=1.\n":                                              true,
		"NCCL_IB_DISABLE=1 does not help.\n":                                                       false,
		"NCCL_IB_DISABLE=1 to work without InfiniBand\n":                                           false,
		"See if NCCL_IB_DISABLE=1 helps.\n":                                                        false,
		"export NCCL_IB_DISABLE=1\n":                                                               false,
	} {
		got := Explain("notes.md", text, nil, fabric.Invocation{})
		if is := slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Summary == "RDMA does not work" }); is != want {
			t.Errorf("%s: got %s", text, asText(got))
		}
	}
}

// TestBackslashBeforeBlanks: blanks behind a backslash end the command (hiyouga/LLaMA-Factory/issues/3301).
func TestBackslashBeforeBlanks(t *testing.T) {
	for text, want := range map[string]bool{
		"deepspeed --num_nodes 2 \\\n    --hostfile hosts \\ \n    train.py\n": true,
		"deepspeed --num_nodes 2 \\\n    --hostfile hosts \\\n    train.py\n":  false,
		"deepspeed --num_nodes 2 \\\r\n    train.py\r\n":                       false,
		"deepspeed train.py a\\ \n\necho done\n":                               false,
	} {
		got := Explain("run.sh", text, nil, fabric.Invocation{})
		if is := slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Summary == "The command ends too early" }); is != want {
			t.Errorf("%q: got %s", text, asText(got))
		}
	}
}

// TestLastErrorAmongOtherProcesses: the line of another process, or of a stack, is not NCCL's last error (microsoft/WSL/issues/12467).
func TestLastErrorAmongOtherProcesses(t *testing.T) {
	const one, other = "(VllmWorkerProcess pid=7) ERROR 01-15 02:47:32 utils.py:226] ", "(VllmWorkerProcess pid=8) ERROR 01-15 02:47:32 utils.py:226] "
	text := one + "ncclUnhandledCudaError: Call to CUDA function failed.\n" + one + "Last error:\n" + other + "  File \"a.py\", line 83, in wrapper\n" + other + "    return func(*args, **kwargs)\n" +
		one + "Error while creating shared memory segment /dev/shm/nccl-g0wGsu (size 9637888)\n"
	got := Explain("out", text, nil, fabric.Invocation{})
	if len(got.Findings) != 1 || got.Findings[0].Summary != "Shared memory cannot be used" {
		t.Error(asText(got))
	}
}

// TestEndsAfterATimeout: what a program says as it gives up after a timeout is not the cause of the timeout.
func TestEndsAfterATimeout(t *testing.T) {
	const waits = "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer\n"
	for last, want := range map[string]string{
		"Aborted (core dumped)\n":          "Rank 0 did not make the communicator",
		"zorbl.ZorblError: gave up\n":      "Rank 0 did not make the communicator",
		"Segmentation fault (core dump)\n": "The program crashed",
	} {
		got := Explain("out", waits+last, nil, fabric.Invocation{})
		if len(got.Findings) == 0 || got.Findings[0].Summary != want {
			t.Errorf("%s: want %q first, got %s", last, want, asText(got))
		}
	}
}

// TestRanksInAProgram: a rank that is a number in the program.
func TestRanksInAProgram(t *testing.T) {
	for text, want := range map[string]string{
		"torch.distributed.init_process_group('nccl',\n  init_method='tcp://localhost:9129',\n  rank=0,\n  world_size=2)\n":                      "The rank is written into the program", // pytorch/pytorch/issues/49846
		"    dist.init_process_group(backend='nccl', init_method=str(opt.dist_url), world_size=1, rank=1)\nRuntimeError: connect() timed out.\n": "The rank is too large",                // xh-liu/CC-FPSE/issues/6
		"dist.init_process_group('nccl', rank=0, world_size=2)\ndist.init_process_group('nccl', rank=1, world_size=2)\n":                         "",
		"dist.init_process_group('nccl', rank=rank, world_size=2)\n":                                                                             "",
		"dist.init_process_group('gloo', rank=0, world_size=1)\n":                                                                                "",
	} {
		got := Explain("a.py", text, nil, fabric.Invocation{})
		if is := slices.ContainsFunc(got.Findings, func(f Finding) bool { return strings.HasPrefix(f.Summary, "The rank is") && f.Summary == want }); is != (want != "") {
			t.Errorf("%s: want %q, got %s", text, want, asText(got))
		}
	}
}
