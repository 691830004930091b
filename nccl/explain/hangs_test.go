package explain

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestHangs: a log without an error, and a text that tells of a hang, get the causes that its end leaves, and never a tick.
func TestHangs(t *testing.T) {
	meets := "a:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\na:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x5 - Init START\n"
	ready := "a:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x5 - Init COMPLETE\n"
	direct := "a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n"
	remote := "a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
	const (
		meeting = "NCCL's initialization is not shown to end"
		ofHost  = "Direct access between GPUs is not shown to work"
		ofHosts = "The path between hosts is not shown to work"
		told    = "The job hangs without an error"
	)
	for _, c := range []struct{ text, want string }{
		{meets, "note:  " + meeting},
		{meets + "It is stuck here.\n", "warning:  " + meeting},
		{meets + direct + ready, "note:  " + ofHost},
		{meets + direct + ready + "Then it hangs with the GPUs at 100 %.\n", "warning:  " + ofHost},
		{meets + remote + ready, "note:  " + ofHosts},
		{meets + remote + ready + "a:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Destroy COMPLETE\n", ""},
		{meets + remote + ready + "           8             2     float     sum      -1     8.49    0.00    0.00      0     8.37    0.00    0.00      0\n", ""},
		{meets + remote + ready + " 12%|#2        | 12/100 [00:10<01:10,  1.25it/s]\n", ""},
		{meets + remote + "a:1:2 [0] transport/net.cc:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with error 12\n", ""},
		{"With nproc_per_node=2 it just hangs, and nvidia-smi shows 100 % for both GPUs.\n", "warning:  " + told},
		{"The two nodes are stuck after that:\n```\nmpirun -H a,b -np 2 ./all_reduce_perf\n```\n", "mpirun runs a program of MPI alone"},
		{"It hangs, and with NCCL_P2P_DISABLE=1 it works.\n", "Direct access between GPUs does not work"},
		{"INFO 09-03 02:15:42 pynccl.py:63] vLLM is using nccl==2.21.5\n\n> both GPUs at 100 %\n", "line 1: warning:  The log ends where ranks begin to exchange data"}, // vllm-project/vllm/issues/8087
		{"INFO 09-03 02:15:42 pynccl.py:63] vLLM is using nccl==2.21.5\nINFO loading\nINFO a\nINFO b\n", ""},
		{"[19:01:01 TP0] Init torch distributed begin.\n", "all ranks have started"},
		{"The download hangs.\n", ""},
		{"#!/bin/bash\n# a rank that hangs is killed\ntorchrun --nproc_per_node=2 a.py\n", ""},
	} {
		got := Explain("x", c.text, nil, fabric.Invocation{})
		if !strings.Contains(asText(got), c.want) || got.Sound() && c.want != "" {
			t.Errorf("%s: want %q, got %s", c.text, c.want, asText(got))
		}
		for _, summary := range []string{meeting, ofHost, ofHosts, told, "The log ends where"} {
			if strings.Contains(asText(got), summary) && !strings.Contains(c.want, summary) && !strings.Contains(c.want, "mpirun") && !strings.Contains(c.want, "all ranks") {
				t.Errorf("%s: %s", c.text, asText(got))
			}
		}
	}
}

// TestCures: what a text says helps names the cause, and what did not help does not. Advice against the variable is not given beside it.
func TestCures(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"If I disable p2p and shm by NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, it works.\n", "Direct access between GPUs does not work"},
		{"I found that if I run `export NCCL_SOCKET_IFNAME=lo` before, it works.\n", "NCCL chose another interface"},
		{"Resolved after setting NCCL_SOCKET_IFNAME=eth0\n", "NCCL chose another interface"},
		{"Setting NCCL_NVLS_ENABLE=0 fixed it.\n", "NVLink SHARP (NVLS) cannot be set up"},
		{"With NCCL_CUMEM_ENABLE=0 it works fine.\n", "CUDA's cuMem calls fail"},
		{"It hangs with 2.23.4, NCCL_IB_GID_INDEX=7 works well.\n", "NCCL chose another GID"},
		{"With NCCL_SHM_DISABLE=1 it works.\n", "Shared memory cannot be used"},
		{"NCCL_SOCKET_IFNAME=eth0 does not help.\n", ""},
		{"I tried NCCL_P2P_DISABLE=1, it still hangs. It works on another server.\n", ""},
		{"Could NCCL_IB_DISABLE=1 help?\n", ""},
	} {
		got := asText(Explain("x", c.text, nil, fabric.Invocation{}))
		said := strings.Contains(got, " helps.")
		if said != (c.want != "") || !strings.Contains(got, c.want) || said && strings.Contains(got, "Remove it") {
			t.Errorf("%s: want %q, got %s", c.text, c.want, got)
		}
	}
}

// TestRateFalls: a bus bandwidth that collapses at large sizes is reported, in both forms of the table, and a rate that wavers is not.
func TestRateFalls(t *testing.T) {
	const head = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
	row := func(size, busbw string) string {
		return size + " 1 float sum -1 100.0 1.00 " + busbw + " 0 100.0 1.00 " + busbw + " 0\n"
	}
	old := func(size, busbw string) string {
		return size + " 1 float sum 100.0 1.00 " + busbw + " 0e+00 100.0 1.00 " + busbw + " 0e+00\n"
	}
	for text, want := range map[string]bool{
		head + row("33554432", "10.79") + row("67108864", "0.45"): true,
		head + old("33554432", "10.79") + old("67108864", "0.45"): true,
		head + row("33554432", "10.79") + row("67108864", "7.45"): false,
		head + row("8", "10.79") + row("67108864", "0.45"):        false,
	} {
		if got := asText(Explain("x", text, nil, fabric.Invocation{})); strings.Contains(got, "The rate falls at large sizes") != want {
			t.Errorf("%s: want %t, got %s", text, want, got)
		}
	}
}

// TestBareCodes: NCCL's code alone gets the causes in the order that the rest of the text makes likely.
func TestBareCodes(t *testing.T) {
	const code = "RuntimeError: NCCL error in: a.cpp:1, unhandled system error, NCCL version 2.20.5\n"
	for _, c := range []struct{ text, first, then string }{
		{code, "In a container df /dev/shm", "NCCL_SOCKET_IFNAME"},
		{"torchrun --nnodes=2 --node-rank=0 --master-addr=10.0.0.1 a.py\n" + code, "Between hosts set NCCL_SOCKET_IFNAME", "df /dev/shm"},
		{"torchrun --nproc_per_node=2 a.py\n" + code, "In a container df /dev/shm", "NCCL_DEBUG=WARN"},
		{strings.Replace(code, "system", "cuda", 1), "nvidia-smi", "NCCL_P2P_DISABLE=1"},
		{"Map (num_proc=8):  41%|####      | 12/29 [29:58<41:02]\n[E ProcessGroupNCCL.cpp:474] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=1800000) ran\n", "prepares data and has not ended in line 1", "ddp_timeout"},
		{"Map: 41%|## | 1/2\nMap: 100%|####| 2/2\n[E ProcessGroupNCCL.cpp:474] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=1800000) ran\n", "first: nothing shows", "NCCL_P2P_DISABLE=1"},
		{"ncclInternalError: Internal check failed\n", "NCCL_SOCKET_IFNAME", "version, plugin and variables"},
	} {
		got := asText(Explain("x", c.text, nil, fabric.Invocation{}))
		if i, j := strings.Index(got, c.first), strings.Index(got, c.then); i < 0 || j < i {
			t.Errorf("%s: want %q before %q, got %s", c.text, c.first, c.then, got)
		}
	}
}
