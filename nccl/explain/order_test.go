package explain

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// testTable is what nccl-tests print before the first row of ranks on these hosts.
func testTable(hosts ...string) string {
	out := "# nThread 1 nGpus 1 minBytes 8388608 maxBytes 8388608 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
	for i, host := range hosts {
		out += fmt.Sprintf("#  Rank %2d Group  0 Pid %6d on %10s device  %d [0x1b] NVIDIA H100 80GB HBM3\n", i, 4000+i, host, i)
	}
	return out + "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
}

// TestTheReasonComesFirst: the first finding is the most probable reason. Remarks and effects come after it.
func TestTheReasonComesFirst(t *testing.T) {
	const (
		closed = "a:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer b<53735>\n"
		proxy  = "a:1:2 [0] proxy.cc:1485 NCCL WARN [Service thread] Error encountered progressing operation=Connect, res=2, closing connection\n"
		remote = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, NCCL version 2.20.5\n"
	)
	for name, c := range map[string]struct {
		text string
		want []string // the first findings, by summary
	}{
		"an effect that names the peer":        {proxy + closed, []string{"A peer closed the connection", "NCCL's proxy thread failed"}},
		"of NCCL's code":                       {remote + closed, []string{"A peer closed the connection", "A remote rank failed"}},
		"only one of them":                     {proxy, []string{"NCCL's proxy thread failed"}},
		"a watchdog that saw an error":         {"[rank5]:[E207 19:37:09.9 ProcessGroupNCCL.cpp:681] [Rank 5] Some NCCL operations have failed or timed out.\n" + closed, []string{"A peer closed the connection", "PyTorch's watchdog stopped the job"}},
		"what helped before a class of causes": {"RuntimeError: NCCL Error 2: unhandled system error\n\nWith --ipc=host it works.\n", []string{"/dev/shm is too small", "NCCL reports a system error"}},
		"what helped before an error":          {"a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\na:1:3 [0] transport/net_ib.cc:87 NCCL WARN NET/IB : mlx5_0:1 Got async event : local access violation work queue error\nNCCL version 2.20.3+cuda12.2\nMy servers were misconfigured with different MTU. After correct this, it works.\n", []string{"MTUs differ", "The NIC refused a request"}},
		"an error before a cure of much":       {"NET/IB: Got completion from peer node20<57713> with status=4 opcode=0 len=0 vendor err 81\nWith NCCL_IB_DISABLE=1 it works.\n", []string{"Memory protection error", "RDMA does not work"}},
		"libibverbs on one host":               {"It hangs.\na:1:2 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\na:1:2 [0] NCCL INFO Bootstrap : Using [0]enp1s0:10.0.0.1<0>\na:1:2 [0] NCCL INFO Channel 00 : 0[1000] -> 1[2000] via P2P/IPC\n", []string{"Direct access between GPUs is not shown to work"}},
		"an error before a setting":            {"$ NCCL_SHM_DISABLED=1 mpirun -np 2 -H a,b ./all_reduce_perf\nssh: connect to host b port 22: Connection refused\n", []string{"A host does not answer SSH"}},
		"a hang before a setting":              {"NCCL hangs with 2 GPUs of one server.\nexport NCCL_NET_GDR_LEVEL=5\n", []string{"The job hangs without an error", "Number instead of a level"}},
		"what is known of a hang":              {"The training hangs on two GPUs.\nUnidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n     0 800.00  13.20\n     1  13.20 800.00\nUnidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1\n     0 800.00   1.60\n     1   1.60 800.00\n", []string{"Direct access between GPUs is slower than through the host", "The job hangs without an error"}},
		"devices that EFA does not have":       {"EFA on two p6-b300:\nNET/IB: Got completion from peer with status=IBV_WC_REM_ACCESS_ERR(10)\n", []string{"NCCL uses RDMA devices beside EFA"}},
		"a setting keeps no rate back":         {"NCCL over RoCE is slow between two nodes: 3 GB/s\nexport NCCL_IB_DISABLE=0\n", []string{"NCCL is slower than expected", "Equal to NCCL's default"}},
		"one NIC for all":                      {"The bus bandwidth of NCCL is low.\nmpirun -np 16 -H a:8,b:8 -x NCCL_IB_GID_INDEX=3 -x NCCL_IB_HCA=mlx5_0 ./all_reduce_perf -b 1G -e 8G -f 2\n", []string{oneForAll, "GID index is pinned"}},
		"one NIC, and no word of a rate":       {"mpirun -np 16 -H a:8,b:8 -x NCCL_IB_HCA==mlx5_0 ./all_reduce_perf -b 1G -e 8G -f 2\n", []string{oneForAll}},
		"two NICs":                             {"mpirun -np 16 -H a:8,b:8 -x NCCL_IB_HCA==mlx5_0,mlx5_1 ./all_reduce_perf -b 1G -e 8G -f 2\n", []string{"Same value for all hosts"}},
		"a test of two hosts without a row":    {testTable("a", "b"), []string{"The path between hosts is not shown to work"}},
		"a test of one host without a row":     {testTable("a", "a"), []string{"Direct access between GPUs is not shown to work"}},
		"a test of one rank without a row":     {testTable("a"), nil},
		"a test with a row":                    {testTable("a", "b") + "     8388608       2097152     float     sum      -1   2019.5    4.15    7.79      0   2019.9    4.15    7.79      0\n", nil},
		"a test with a row of old nccl-tests":  {testTable("a", "a") + "     8388608       2097152     float   sum   2019.5    4.15    7.79  0e+00   2019.9    4.15    7.79  0e+00\n", nil},
		"code, and its error":                  {"import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\nncclCommInitRank failed: internal error\n", []string{"NCCL reports an internal error"}},
		"a GID index that differs":             {"RoCE: the GID of the node's IP has index 4 on the head and 3 on the worker.\nRuntimeError: NCCL error: unhandled system error\n", []string{"The GID index differs between hosts", "NCCL reports a system error"}},
		"one GPU for all":                      {"DistributedDataParallel: several processes are using one gpu, the first one.\n", []string{"All processes may use GPU 0"}},
		"a GPU for each":                       {"DistributedDataParallel: every process uses one of the GPUs.\n", nil},
		"the number of GPUs as rank":           {"import os\nos.environ['A']='1'\ntorch.distributed.init_process_group(backend='gloo', rank = torch.cuda.device_count(), world_size = 8)\n", []string{"The rank is the number of GPUs"}},
		"a queue pair of EFA":                  {"ib_send_lat -x 0 -c UD on EFA\nUnable to create QP.\n", []string{"The NIC refuses a connection"}},
		"a library that is not found":          {"nccl/ffi.lua:195: 'libnccl.so not found in library path.\n", []string{"NCCL's library cannot be loaded"}},
		"GDRDMA on one side":                   {"NCCL over IB: GPU 2 of the first machine can't use gdrdma\n", []string{"No GPUDirect RDMA"}},
		"torchrun's last word":                 {"[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to (a, 1234).\ntorch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed.\n", []string{"The rendezvous address does not answer", "The rendezvous failed"}},
		"a device that does not answer":        {"Couldn't get device attributes.\nUnable to create QP.\n", []string{"The RDMA device does not answer", "The NIC refuses a connection"}},
		"a watchdog of another collective": {"[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600001 milliseconds\n[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=BROADCAST, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600001 milliseconds\nRuntimeError: NCCL communicator was aborted on rank 1.\n",
			[]string{"Ranks wait in different collectives", "PyTorch's watchdog stopped the job"}},
		"an assertion of pynccl":              {"Traceback (most recent call last):\n  File \"/usr/lib/vllm/model_executor/parallel_utils/pynccl.py\", line 250, in __init__\n    assert result == 0\nAssertionError\n", []string{"NCCL ended with an error"}},
		"an assertion of a program":           {"Traceback (most recent call last):\n  File \"/a/b.py\", line 250, in __init__\n    assert result == 0\nAssertionError\n", nil},
		"a watchdog in words":                 {"How can I change the WATCHDOG TIMEOUT time?\nNCCL_IB_DISABLE=0 python3 -m sglang.launch_server --watchdog-timeout 0\n", []string{"A collective timed out"}},
		"a comparison without GPUDirect RDMA": {"NCCL over RoCE: GDR is on, but the rate is not really different from cases without gdr\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			cure := "" // the first one's cure
			for _, f := range Explain("notes.txt", c.text, nil, fabric.Invocation{}).Findings {
				got, cure = append(got, f.Summary), cmp.Or(cure, f.Instead)
			}
			if name == "torchrun's last word" && !strings.Contains(cure, "is_host=1") {
				t.Errorf("no word of is_host: %s", cure)
			}
			if c.want == nil && len(got) > 0 || len(got) < len(c.want) || strings.Join(got[:len(c.want)], "; ") != strings.Join(c.want, "; ") {
				t.Errorf("findings are %q, want first %q", got, c.want)
			}
		})
	}
}
