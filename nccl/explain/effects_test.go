package explain

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

const (
	closedByPeer = "a:1:2 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer b<41323>\n"
	noMemory     = "b:1:2 [0] include/alloc.h:99 NCCL WARN Cuda failure 2 'out of memory'\n"
	lostPackets  = "a:1:2 [0] transport/net_ib.cc:9 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_0\n"
	flushed      = "a:1:2 [0] transport/net_ib.cc:9 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4> with status=5 opcode=0 len=0 vendor err 249 (Recv) hca mlx5_0\n"
	watchdogLine = "[rank%r]:[E ProcessGroupNCCL.cpp:616] [Rank %r] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%s, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
)

// severity returns how bad a finding is said to be; -1: it is not said.
const rayDied = "A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.0.0.1 Worker port: 34011 Worker PID: 7 Worker exit type: SYSTEM_ERROR\n"

func severity(r Explanation, summary string) env.Severity {
	for _, f := range r.Findings {
		if f.Summary == summary {
			return f.Severity
		}
	}
	return -1
}

// TestEffectsAreNotCauses: what follows from an error elsewhere is an error only where the log does not show that error, and says so.
func TestEffectsAreNotCauses(t *testing.T) {
	for _, c := range []struct {
		text string
		want map[string]env.Severity
		says string
	}{
		{closedByPeer, map[string]env.Severity{"A peer closed the connection": env.Error}, "The first error is not in these lines."},
		{closedByPeer + noMemory, map[string]env.Severity{"A peer closed the connection": env.Note, "GPU memory is full": env.Error}, "It probably follows from the error in line 2: read that first."},
		{lostPackets + flushed, map[string]env.Severity{"Packets are lost, or the peer is gone": env.Error, "Flushed after another error": env.Note}, "from the error in line 1: read"},
		{flushed, map[string]env.Severity{"Flushed after another error": env.Error}, "The first error is not in these lines."},
		{noMemory + lostPackets, map[string]env.Severity{"GPU memory is full": env.Error, "Packets are lost, or the peer is gone": env.Warning}, "It may follow from the error in line 1."},
		{lostPackets + "a:1:2 [0] init.cu:194 NCCL WARN Cuda failure 'an illegal memory access was encountered'\n", map[string]env.Severity{"Packets are lost, or the peer is gone": env.Error, "A CUDA kernel failed": env.Note}, "from the error in line 1: read"}, // NVIDIA/nccl-tests/issues/24
		{"a:1:2 [0] transport/net_ib.cc:9 NCCL WARN NET/IB : mlx5_0:1 Got async error event: GID table change\n" + lostPackets, map[string]env.Severity{"An address of a NIC changed": env.Warning, "Packets are lost, or the peer is gone": env.Error}, "Line 1 may be the reason"},
		{strings.NewReplacer("%r", "0", "%s", "5").Replace(watchdogLine), map[string]env.Severity{"PyTorch's watchdog stopped the job": env.Error, "Ranks wait in different collectives": -1}, "The timeout is an effect, not the cause."},
		{strings.NewReplacer("%r", "0", "%s", "96120").Replace(watchdogLine) + strings.NewReplacer("%r", "7", "%s", "64088").Replace(watchdogLine), map[string]env.Severity{"Ranks wait in different collectives": env.Error}, "ALLREDUCE number 64088: rank 7"},
		{strings.NewReplacer("%r", "0", "%s", "1").Replace(watchdogLine), nil, "nothing shows that its ranks ever exchanged data"},
		{strings.NewReplacer("%r", "0", "%s", "64088").Replace(watchdogLine), nil, "64087 collectives before it ended"},
		{strings.Replace(strings.NewReplacer("%r", "0", "%s", "2109").Replace(watchdogLine), "NumelIn=1", "NumelIn=5", 1) + strings.Replace(strings.NewReplacer("%r", "1", "%s", "2109").Replace(watchdogLine), "NumelIn=1", "NumelIn=7", 1), nil, "with different sizes: 5 and 7 elements"}, // pytorch/pytorch/issues/143536
		{"  exitcode  : -9 (pid: 4)\nRoot Cause (first observed failure):\n  exitcode  : 1 (pid: 5)\n", map[string]env.Severity{"A process was killed (SIGKILL)": env.Error}, "Another process failed first"},
		{"  exitcode  : 1 (pid: 4)\nRoot Cause (first observed failure):\n  exitcode  : -9 (pid: 5)\n", map[string]env.Severity{"A process was killed (SIGKILL)": env.Error}, "often the OOM killer"},
		{"Root Cause (first observed failure):\n[0]:\n  host      : node1\n  rank      : 12 (local_rank: 4)\n  exitcode  : 3 (pid: 5)\n  rank      : 13 (local_rank: 5)\n", map[string]env.Severity{"A rank ended with an error": env.Error}, "rank 12 on node1 ended first, with exit code 3."},
		{"Root Cause (first observed failure):\n[0]:\n  rank      : 12 (local_rank: 4)\n  exitcode  : -6 (pid: 5)\n", map[string]env.Severity{"A rank ended with an error": env.Error}, "rank 12 ended first, by signal 6."},
		{rayDied + "(RayWorker pid=7) " + strings.NewReplacer("%r", "0", "%s", "1").Replace(watchdogLine), map[string]env.Severity{"PyTorch's watchdog stopped the job": env.Error, "A worker of Ray died": -1}, "The timeout is an effect, not the cause."}, // vllm-project/vllm/issues/1846
		{rayDied + "(RayWorker pid=8) " + strings.NewReplacer("%r", "0", "%s", "1").Replace(watchdogLine), map[string]env.Severity{"PyTorch's watchdog stopped the job": env.Note, "A worker of Ray died": env.Error}, "dmesg on that host"},
		{"RuntimeError: NCCL Error 2: unhandled system error\n", map[string]env.Severity{"NCCL reports a system error": env.Error}, "No known line names the cause."},
		{"a:1:2 [0] include/alloc.h:297 NCCL WARN Cuda failure 999 'unknown error'\na:1:2 [0] include/alloc.h:346 NCCL WARN Failed to CUDA calloc async 608 bytes\n", map[string]env.Severity{"CUDA's cuMem calls fail": env.Error, "GPU memory is full": -1, "CUDA gave NCCL no memory": env.Warning}, "It may follow from the error in line 1."},
		{"RuntimeError: NCCL Error 2: unhandled system error\n" + noMemory, map[string]env.Severity{"NCCL reports a system error": -1, "GPU memory is full": env.Error}, ""},
	} {
		r := Explain("x", c.text, nil, fabric.Invocation{})
		for summary, want := range c.want {
			if got := severity(r, summary); got != want {
				t.Errorf("%q is %d, want %d:\n%s", summary, got, want, asText(r))
			}
		}
		if !strings.Contains(asText(r), c.says) || r.Sound() {
			t.Errorf("%q is not said:\n%s", c.says, asText(r))
		}
	}
}

// TestUnknownWarningsAreShown: a WARN that no form fits is quoted with its line, and there is no tick over it.
func TestUnknownWarningsAreShown(t *testing.T) {
	r := Explain("x", "a:1:2 [0] NCCL INFO Using network IB\na:1:2 [0] new.cc:7 NCCL WARN A flux capacitor is empty\nNewWarning - Error: nobody knows\n", nil, fabric.Invocation{})
	if text := asText(r); !strings.Contains(text, "line 2: A flux capacitor is empty") || !strings.Contains(text, "line 3: NewWarning - Error: nobody knows") || r.Sound() {
		t.Error(text)
	}
}

// TestCommandsAreNoLog: an error that a script prints or a comment quotes has not happened.
func TestCommandsAreNoLog(t *testing.T) {
	r := Explain("run.sh", "#!/bin/bash\n# else: ibv_modify_qp failed with error Invalid argument\nexport NCCL_DEBUG=INFO\necho \"NCCL error: Bus error\"\npython -c 'print(\"CUDA out of memory\")'\n", nil, fabric.Invocation{})
	if r.Kind == Log || len(r.Findings) > 0 {
		t.Error(asText(r))
	}
}

// TestOneHostNeedsNoNetwork: ranks of one host do not use the network, so that its transport is not blamed.
func TestOneHostNeedsNoNetwork(t *testing.T) {
	log := "a:1:2 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\na:1:2 [0] NCCL INFO NET/IB : No device found.\na:1:2 [0] NCCL INFO Using network Socket\na:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes %s localRanks 8 localRank 0 MNNVL 0\n"
	if r := Explain("x", strings.ReplaceAll(log, "%s", "1"), nil, fabric.Invocation{}); len(r.Findings) > 0 {
		t.Error(asText(r))
	}
	if r := Explain("x", strings.ReplaceAll(log, "%s", "2"), nil, fabric.Invocation{}); severity(r, "Silent fallback to sockets") != env.Warning || severity(r, "Bootstrap over a local interface") != env.Error {
		t.Error(asText(r))
	}
}

// TestAllRanksOnOneHostNeedNoNetwork: a log with all ranks of a communicator on one host shows one host, although NCCL_HOSTID divides
// it for NCCL. Hosts with equal names and different addresses are several.
func TestAllRanksOnOneHostNeedNoNetwork(t *testing.T) {
	rank := func(number, address string) string {
		return strings.NewReplacer("%r", number, "%a", address).Replace("a:1:2 [0] NCCL INFO Bootstrap: Using eth0:%a<0>\na:1:2 [0] NCCL INFO NET/IB : No device found.\na:1:2 [0] NCCL INFO Using network Socket\n" +
			"a:1:2 [0] NCCL INFO ncclCommInitRankConfig comm 0x%r rank %r nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x36ae39ada3f8ed76 - Init START\na:1:2 [0] NCCL INFO comm 0x%r rank %r nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n")
	}
	hca := "a:1:2 [0] NCCL INFO NCCL_IB_HCA set to mlx5_7\n" + rank("0", "10.0.0.1") + rank("1", "10.0.0.1")
	if r := Explain("x", hca, nil, fabric.Invocation{}); severity(r, "No RDMA device") != env.Warning || severity(r, "Silent fallback to sockets") != -1 {
		t.Error(asText(r)) // the named device is missing all the same
	}
	for text, want := range map[string]env.Severity{
		rank("0", "10.0.0.1") + rank("1", "10.0.0.1"):                                       -1,
		rank("0", "10.0.0.1"):                                                               env.Warning,
		rank("0", "10.0.0.1") + rank("1", "10.0.0.2"):                                       env.Warning,
		rank("0", "10.0.0.1") + strings.ReplaceAll(rank("1", "10.0.0.1"), "a:1:2", "b:1:2"): env.Warning,
	} {
		if r := Explain("x", text, nil, fabric.Invocation{}); severity(r, "No RDMA device") != want || severity(r, "Silent fallback to sockets") != want {
			t.Errorf("%s: %s", text, asText(r))
		}
	}
}

// TestNoFallbackThatNCCLForbids: with NCCL_NET=IB, a host without a device does not use sockets.
func TestNoFallbackThatNCCLForbids(t *testing.T) {
	text := asText(Explain("x", "a:1:2 [0] NCCL INFO NET/IB : No device found.\na:1:2 [0] plugin/net.cc:379 NCCL WARN Failed to initialize any NET plugin\n", nil, fabric.Invocation{}))
	if strings.Contains(text, "falls back") || !strings.Contains(text, "NCCL may use no other network, and stops (line 2).") {
		t.Error(text)
	}
}

// TestAMissingLibibverbsIsNamed: explain names the missing library, and does not say that a device is missing. Most often the container's image lacks it.
func TestAMissingLibibverbsIsNamed(t *testing.T) {
	for _, line := range []string{"a:1:2 [0] NCCL INFO Failed to open libibverbs.so[.1]\n", "a:1:2 [0] NCCL INFO Count not open libibverbs.so.1\n", "a:1:2 [0] NCCL WARN Failed to open libibverbs.so[.1]\n"} {
		r := Explain("x", line, nil, fabric.Invocation{})
		if severity(r, "libibverbs is missing") != env.Warning || severity(r, "No RDMA device") != -1 {
			t.Error(asText(r))
		}
	}
}

// TestTheWatchdogsStackIsItsOwn: the stack below an error of PyTorch's watchdog belongs to that error.
func TestTheWatchdogsStackIsItsOwn(t *testing.T) {
	text := asText(Explain("x", "a:1:2 [0] NCCL INFO Connected all rings\n"+strings.NewReplacer("%r", "0", "%s", "5").Replace(watchdogLine)+
		"Exception raised from checkForNCCLErrorsInternal at /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2770 (most recent call first):\n"+
		"[rank0]:[E1122 21:43:33.094826932 ProcessGroupNCCL.cpp:733] Stack trace of the failed collective: \n#0 all_reduce from distributed_c10d.py:3068\n", nil, fabric.Invocation{}))
	if strings.Contains(text, "Unknown errors") || strings.Contains(text, "not understood") {
		t.Error(text)
	}
}

// TestTheDaemonMayHaveNoLimit: docker's own memlock may be unlimited, so that a command without one is no error by itself.
func TestTheDaemonMayHaveNoLimit(t *testing.T) {
	r := Explain("x", "docker run --device=/dev/infiniband -e NCCL_IB_HCA==mlx5_1 image\n", nil, fabric.Invocation{})
	if severity(r, "memlock is limited") != env.Warning {
		t.Error(asText(r))
	}
}

// TestAdviceFitsTheVersion: the same line has another cure where another version prints it.
func TestAdviceFitsTheVersion(t *testing.T) {
	const (
		disabled = "a:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
		cuMem    = "a:1:2 [0] include/alloc.h:1 NCCL WARN Cuda failure 1 'invalid argument'\n"
		noDevice = "a:1:2 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_modify_qp failed with error No such device errno 19\n"
		mixed    = "a:1:2 [0] NCCL INFO Detected mixed local Net device counts across ranks (min 1, max 2)."
		apart    = "a:1:2 [0] misc/ibvwrap.cc:297 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.0.1.1, remote GID ::ffff:10.0.2.2\n"
		roce     = "a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n"
		even     = "a:1:2 [0] NCCL INFO NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 6 mtu 5 query_ece={supported=0} GID 2 (0/A64A8C0FFFF0000) fifoRkey=0x1 fifoLkey=0x1\n"
	)
	for _, c := range []struct{ version, text, has, hasNot string }{
		{"2.22.3", disabled, "does not look for the module nvidia_peermem", "Load nvidia_peermem or"},
		{"2.24.3", disabled, "Load nvidia_peermem or", "does not look for"},
		{"2.25.1", cuMem, "NCCL_CUMEM_HOST_ENABLE=0", ""},
		{"2.27.5", cuMem, "NCCL_CUMEM_ENABLE=0", "NCCL_CUMEM_HOST_ENABLE"},
		{"2.20.5", noDevice, "Set NCCL_IB_GID_INDEX to an index whose DEV column", "Set NCCL_IB_ADDR_RANGE"},
		{"2.20.5", noDevice, "upgrade to NCCL 2.21.5 or later and set NCCL_IB_ADDR_RANGE", "2.26.2"},
		{"2.30.7", mixed + " Ignoring due to NCCL_IGNORE_NET_MISMATCH.\n", "warning:  Hosts use different numbers of NICs", "error"},
		{"2.22.3", "a:1:2 [0] NCCL INFO transport/net_ib.cc:284 -> 2\n", "mount it: an upgrade does not help", ""},
		{"2.28.9", apart, "the order in NCCL_IB_HCA has no effect", "same position"},
		{"2.28.9", strings.Replace(apart, "110 Connection timed out", "19 No such device", 1), "GID of another network namespace", "different networks"},
		{"2.28.9", strings.Replace(apart, "110 Connection timed out", "22 Invalid argument", 1), "Incompatible GIDs", "different networks"},
		{"2.23.4", noDevice, "NCCL_IB_ADDR_RANGE", ""},
		{"2.20.5", roce, "uses GID index 0 unless NCCL_IB_GID_INDEX is set", ""},
		{"2.21.5", roce, "", "uses GID index 0"},
		{"2.20.5", lostPackets, "before 2.21, uses GID index 0", ""},
		{"2.27.5", lostPackets, "", "GID index 0"},
		{"2.27.5", even, "RoCE v2 where the table has changed", "line 2: warning"}, // an even index may be either
		{"2.28.7", "a:1:2 [0] NCCL INFO Successfully loaded external env plugin libnccl-env.so\n", "answers before the environment", ""},
	} {
		text := asText(Explain("x", "a:1:2 [0] NCCL INFO NCCL version "+c.version+"+cuda12.4\n"+c.text, nil, fabric.Invocation{}))
		if !strings.Contains(text, c.has) || c.hasNot != "" && strings.Contains(text, c.hasNot) {
			t.Errorf("%s: want %q and not %q in\n%s", c.version, c.has, c.hasNot, text)
		}
	}
}

// TestAdviceKnowsTheSettings: what the file itself sets, in a log or beside it, is not advised, and is named where it is the reason.
func TestAdviceKnowsTheSettings(t *testing.T) {
	const oldLoss = "a:1:2 [0] transport/net_ib.cc:840 NCCL WARN NET/IB : Got completion with error 12, opcode 32736, len 32736, vendor err 129\n"
	const cuMem = "a:1:2 [0] transport/p2p.cc:1129 NCCL WARN Cuda failure 1 'invalid argument'\n"
	for _, c := range []struct{ text, says, notSays string }{
		{oldLoss, "set NCCL_IB_GID_INDEX to the index", "NCCL_IB_SL"},
		{oldLoss + "mpirun -np 8 -x NCCL_IB_GID_INDEX=3 -x NCCL_TOPO_FILE=~/topo.xml ./a\n", "the path, the MTU or PFC is wrong", "set NCCL_IB_GID_INDEX to the index"},
		{oldLoss + "mpirun -np 8 -x NCCL_IB_GID_INDEX=3 -x NCCL_TOPO_FILE=~/topo.xml ./a\n", "the path, the MTU or PFC is wrong", "Path with ~"},
		{oldLoss + "export NCCL_IB_SL=1\n", "Try without NCCL_IB_SL.", ""},
		{cuMem, "Set NCCL_CUMEM_ENABLE=0", ""},
		{"export NCCL_P2P_DISABLE=1\nLast error:\nCuda failure 217 'peer access is not supported between these two devices'\n", "NCCL_P2P_DISABLE=1 stands in line 1: if it was set in this run, it did not reach this process, or is not the cure.", ""}, // hiyouga/EasyR1#579
		{"a:1:2 [0] NCCL INFO cudaDriverVersion 12040\nb:1:2 [0] NCCL INFO NCCL version 2.18.1+cuda12.1\nc:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n", "b has 2.18.1, and c has 2.21.5", ""},
		{"NCCL version 2.18.1+cuda12.1\nNCCL version 2.21.5+cuda12.4\n", "warning:  Different versions of NCCL", "Hosts have different"},
		{"I tried setting `NCCL_P2P_DISABLE` variable to 1, but I still see the same issue.\nCuda failure 217 'peer access is not supported between these two devices'\n", "NCCL_P2P_DISABLE=1 stands in line 1", "helps"}, // NVIDIA-NeMo/RL#1683
		{cuMem + "export NCCL_CUMEM_ENABLE=0\n", "set NCCL_P2P_DISABLE=1", "Set NCCL_CUMEM_ENABLE=0"},
		{"export NCCL_NET=Socket\nexport NCCL_IB_DISABLE=0\nexport NCCL_SOCKET_IFNAME==bond0\n", "NCCL uses TCP sockets, whatever NCCL_IB_DISABLE says.", "No list of devices"},
		{"export NCCL_SOCKET_IFNAME==enp1s0f0np0\n", "Half of a port", ""},
		{"a:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\na:1:2 [0] NCCL INFO NET/IB : No device found.\n", "", "No list of devices"},
		{"a:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\n", "No list of devices", ""},
		{"[rank1]: Exception raised from recvBytes at /pytorch/torch/csrc/distributed/c10d/Utils.hpp:682 (most recent call first):\n[rank1]: frame #0: c10::Error::Error(c10::SourceLocation) + 0x9d\nncclSystemError: System call failed.\n", "NCCL reports a system error", "Unknown errors"},
		{"export NCCL_SOCKET_IFNAME==enp1s0f0np0,enP2p1s0f0np0\n", "No list of devices", "Half of a port"},
		{"docker run -e NCCL_DEBUG=WARN a\ndocker run -e NCCL_DEBUG=INFO b\n", "", "Set twice"},
		{"./build/all_reduce_perf -b 16M -e 16M -i 0 -n 1\n", "", "Step instead of iterations"},
		{"let rank=$OMPI_COMM_WORLD_LOCAL_RANK%2\ncase $rank in\n0) export NCCL_IB_HCA==mlx5_0 ;;\n1) export NCCL_IB_HCA==mlx5_1 ;;\nesac\n", "Ranks of one host get different devices", ""},
		{"ncclSystemError: System call failed.\nLast error:\n\n### Reproduction of the error\n", "NCCL reports a system error", "Reproduction"},
		{"a:1:2 [0] NCCL INFO NCCL_GRAPH_FILE set by environment to /opt/g.xml\nncclSystemError: System call failed.\n", "Remove it, also from /etc/nccl.conf", "no problems"},
		{"a:1:2 [0] NCCL INFO init.cc:9 -> 5\na:1:2 [0] NCCL INFO group.cc:72 -> 5 [Async thread]\n", "NCCL refuses how it is used", "not_understood"},
		{"RuntimeError: NCCL version mismatch\n", "Hosts have different versions of NCCL", "no problems"},
		{"[Rank 1] Process group watchdog thread terminated with exception: NCCL error: unhandled system error\nTo avoid data inconsistency, we are taking the entire process down.\n", "NCCL reports a system error", "The first error is not in these lines"},
		{"RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for key: k (world_size=8, worker_count=4, timeout=0:30:00)\n", "4 of 8 processes", "More processes"},
		{strings.NewReplacer("%r", "0", "%s", "5").Replace(watchdogLine) + strings.NewReplacer("%r", "12", "%s", "5").Replace(watchdogLine), "All ranks in these lines (0, 12) waited in ALLREDUCE number 5", "different collectives"},
		{strings.NewReplacer("%r", "3", "%s", "5").Replace(watchdogLine), "Rank 3 waited in ALLREDUCE number 5: another rank", "All ranks"},
		{"ncclInvalidUsage: x\n\nLast error:\n\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 10\n", "Two ranks on one GPU", "NCCL ended"},
		{"NCCL error, Last error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 10\n", "Two ranks on one GPU", "NCCL ended"},
		{"a:1:2 [0] NCCL INFO Using network IB\nHere is the error:\n", "", "Unknown errors"},
		{"NCCL version 2.2.13+cuda8.0\nexport NCCL_SOCKET_IFNAME==eth0\n", "No list of devices", "does not read"},
		{"ib_device.c:1171 UCX  DIAG x\nexport NCCL_DEBUG=WARN\n", "", "No GID index"},
		{"Traceback (most recent call last):\n  File \"a.py\", line 3, in b\nRendezvousConnectionError: The connection to the C10d store has failed\n", "The rendezvous failed", "has no error of NCCL"},
		{"case $(hostname) in\na) export NCCL_IB_HCA==mlx5_0 ;;\nb) export NCCL_IB_HCA==mlx5_1 ;;\nesac\n", "", "Ranks of one host get different devices"},
		{"export NCCL_IB_HCA=mlx5_$LOCAL_RANK\n", "Ranks of one host get different devices", ""},
		// Two facts of one text.
		{"NCCL_COMM_ID=10.0.0.1:2\nNCCL_DEBUG=INFO\n#CB\nNCCL_COMM_ID=10.0.0.2:2\nNCCL_DEBUG=INFO\na:1:2 [0] NCCL INFO Bootstrap : Using [0]eth0:172.17.0.3<0>\na:1:2 [0] include/socket.h:333 NCCL WARN Call to bind failed : Cannot assign requested address\n", "Run the containers with --network=host. NCCL_COMM_ID", "Set twice"},
		{"a:1:2 [0] NCCL INFO Bootstrap : Using [0]eth0:10.0.0.3<0>\na:1:2 [0] include/socket.h:333 NCCL WARN Call to bind failed : Cannot assign requested address\n", "Correct the address or the interface's name.", "--network=host"},
		{"#  Rank  0 Group  0 Pid   4766 on   a device  0 [0x21] NVIDIA\n#  Rank  1 Group  0 Pid   4766 on   a device  1 [0x61] NVIDIA\na:1:2 [0] NCCL INFO Using network Socket\n", "", "Silent fallback"},
		{"#  Rank  0 Group  0 Pid   4766 on   a device  0 [0x21] NVIDIA\n#  Rank  1 Group  0 Pid   4766 on   b device  0 [0x61] NVIDIA\na:1:2 [0] NCCL INFO Using network Socket\n", "Silent fallback", ""},
		{"a:1:2 [0] NCCL INFO NET : Using interface eth0:10.1.118.3<0>\na:1:2 [0] NCCL INFO NET : Using interface eth1:fe80::1%eth1<0>\nb:1:2 [0] NCCL INFO NET : Using interface eth0:10.1.118.5<0>\n", "Link-local interfaces among NCCL's", ""},
		{"a:1:2 [0] NCCL INFO NET : Using interface eth0:10.1.118.3<0>\na:1:2 [0] NCCL INFO NET : Using interface eth1:fe80::1%eth1<0>\n", "", "Link-local interfaces among NCCL's"},
		{" GID: 00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00\nFailed to modify QP 268 to RTR\n", "error:  Empty GID", "Link-local"},
		{" GID: 254:128:00:00:00:00:00:00:150:63:121:00:03:205:209:213\nFailed to modify QP 268 to RTR\n", "error:  Link-local GID", "Empty GID"},
		{"a:1:2 [0] NCCL INFO cudaDriverVersion 11020\nNCCL version 2.8.4+cuda11.3\nTest NCCL failure common.cu:382 'unhandled cuda error'\n", "warning:  The driver is older than the software's CUDA", ""},
		{"CUDA used to build PyTorch: 12.6\nNvidia driver version: 535.154.05\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 1 'invalid argument'\n", "warning:  The driver is older than the software's CUDA", ""},
		{"CUDA Version: 12.4\nNCCL version 2.28.3+cuda13.0\nTest NCCL failure common.cu:382 'unhandled cuda error'\n", "error:  The driver is older than the software's CUDA", ""},
		{"a:1:2 [0] NCCL INFO cudaDriverVersion 12040\nNCCL version 2.20.5+cuda12.4\nTest NCCL failure common.cu:382 'unhandled cuda error'\n", "", "older than"},
		{"a:1:2 [0] NCCL INFO cudaDriverVersion 12020\nNCCL version 2.20.5+cuda12.4\na:1:2 [0] transport/nvls.cc:9 NCCL WARN Cuda failure 401 'x'\nTest NCCL failure common.cu:382 'unhandled cuda error'\n", "", "older than"},
		{"2x DGX Spark, kernel 7.0.0-1019-nvidia\nibv_reg_mr_iova2 ... Cannot allocate memory\n", "error:  Memory cannot be pinned", ""},
		{"2x DGX Spark, kernel 6.17.0-1032\nibv_reg_mr_iova2 ... Cannot allocate memory\n", "error:  memlock is limited", "kho=off"},
		{"a.cpp:418: non-zero status: 110 ibv_modify_qp failed\nibv_modify_qp failed\n", "note:  The NIC refuses to connect", "error:  The NIC refuses"},
		{"#  Rank  0 Group  0 Pid 1 on a device  0 [0x0f] NVIDIA\n#  Rank  0 Group  0 Pid 2 on a device  0 [0x0f] NVIDIA\n", "Each process runs a test of its own", ""},
		{"#  Rank  0 Group  0 Pid 1 on a device  0 [0x0f] NVIDIA\n$ mpirun again\n#  Rank  0 Group  0 Pid 2 on a device  0 [0x0f] NVIDIA\n", "", "of its own"},
		{"#   Rank  0 Pid 1 on a device  0 [0x00] Tesla\nlibibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0\na: Test NCCL failure common.cu:775 'internal error'\n", "error:  libibverbs has no provider for the NIC", ""},
		{"#   Rank  0 Pid 1 on a device  0 [0x00] Tesla\nlibibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0\na: Test NCCL failure common.cu:775 'internal error'\n", "Ranks of one host do not need it", "wrong"},
		{"#   Rank  0 Pid 1 on a device  0 [0x00] Tesla\nlibibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0\n", "warning:  libibverbs has no provider for the NIC", "error:  libibverbs"},
		{"#   Rank  0 Pid 1 on a device  0 [0x00] Tesla\n#   Rank  1 Pid 1 on b device  0 [0x00] Tesla\nlibibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0\n", "error:  libibverbs has no provider for the NIC", ""},
		{"singularity exec a.sif torchrun --nproc_per_node 2 a.py\n", "warning:  The container has no GPUs", ""},
		{"singularity exec --nv a.sif torchrun --nproc_per_node 2 a.py\n", "", "no GPUs"},
		{"export APPTAINER_NV=1\napptainer exec a.sif torchrun --nproc_per_node 2 a.py\n", "", "no GPUs"},
		// A collective's sizes: MTUs that differ matter from NCCL 2.20.3 on.
		{"a:1:2 [0] transport/net_ib.cc:1038 NCCL WARN NET/IB : req 0/1 tag 0 peer 192.0.2.6<58683> collective mismatch error, local size 496640 remote size 65536\n", "error:  Ranks do not agree on a size", "MTU"},
		{"NCCL version 2.18.5+cuda12.2\na:1:2 [0] NCCL WARN NET/IB : peer 192.0.2.6<58683> posted incorrect receive info\n", "error:  Ranks do not agree on a size", "MTU"},
		{"a:1:2 [0] NCCL WARN NET/IB : peer 192.0.2.6<58683> posted incorrect receive info\n", "ibv_devinfo: active_mtu", ""},
		// Forms of two times on two hosts (NVIDIA/nccl-tests#231).
		{"a:1:1 [0] NCCL INFO NCCL version 2.22.3+cuda12.4\nb:2:2 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: x No plugin found (libnccl-net.so), using internal implementation\na:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n", "error:  Hosts have different versions of NCCL", ""},
		{"a:2:2 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\nb:2:2 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\n", "", "different versions"},
		// The plugin of HPC-X has a variable of its own (NVIDIA/nccl#676).
		{"The flag `NCCL_IB_DISABLE` is ignored.\na:1:2 [0] NCCL INFO Using network IBext\n", "warning:  The plugin does not read NCCL_IB_DISABLE", ""},
		{"a:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\na:1:2 [0] NCCL INFO Using network IBext_v8\n", "warning:  The plugin does not read NCCL_IB_DISABLE", ""},
		{"a:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 0.\na:1:2 [0] NCCL INFO Using network IBext_v8\n", "", "does not read NCCL_IB_DISABLE"},
		{"a:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\na:1:2 [0] NCCL INFO Using network Socket\n", "", "does not read NCCL_IB_DISABLE"},
		// Mooncake prints its GID's bytes.
		{"I0331 12:02:38.363528 56056 rdma_context.cpp:125] RDMA device: mlx5_0, LID: 0, GID: (GID_Index 1) fe:80:00:00:00:00:00:00:9e:63:c0:ff:fe:65:ab:90\nFailed to modify QP to RTR, check mtu, gid: Connection timed out [110]\n", "The GID in line 1 is link-local", ""},
		{"I0331 12:02:38.363528 56056 rdma_context.cpp:125] RDMA device: mlx5_0, LID: 0, GID: (GID_Index 3) 00:00:00:00:00:00:00:00:00:00:ff:ff:c0:00:02:01\nFailed to modify QP to RTR, check mtu, gid: Connection timed out [110]\n", "error:  The peer's address does not answer", "link-local"},
		// A connection that ends in bootstrap may be a port scan's, before NCCL 2.27.3 (NVIDIA/nccl#1612).
		{"a:1:2 [0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer 192.0.2.3<36138>\na:1:2 [0] NCCL INFO bootstrap.cc:701 -> 6\n", "upgrade to NCCL 2.27.3", ""},
		{"NCCL version 2.28.3+cuda12.9\na:1:2 [0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer 192.0.2.3<36138>\na:1:2 [0] NCCL INFO bootstrap.cc:701 -> 6\n", "error:  A peer closed the connection", "2.27.3"},
		// Sockets over several interfaces (NVIDIA/nccl#697).
		{"ncclSystemError: System call failed.\na:1:2 [0] NCCL INFO Channel 03/0 : 0[90000] -> 1[1000] [send] via NET/Socket/3\n", "error:  Data go over several interfaces", ""},
		{"ncclSystemError: System call failed.\na:1:2 [0] NCCL INFO Channel 03/0 : 0[90000] -> 1[1000] [send] via NET/Socket/0\n", "", "Data go over several"},
		{"a:1:2 [0] NCCL INFO Channel 03/0 : 0[90000] -> 1[1000] [send] via NET/Socket/3\n", "", "Data go over several"},
		{"a:1:2 [0] NCCL INFO Bootstrap : Using eno1:avahi:169.254.3.4<0>\na:1:2 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 169.254.3.4<4000> failed : Software caused connection abort\n", "error:  Bootstrap over a self-made address", ""},
		{"mpirun -np 2 --hostfile h --mca btl_tcp_if_include 192.0.2.0/24 ./all_reduce_perf\n#   Rank  0 Pid 1 on a device  0 [0x00] Tesla\n#   Rank  1 Pid 1 on b device  0 [0x00] Tesla\na: Test NCCL failure common.cu:1125 'unhandled system error'\n", "Line 1 names 192.0.2.0/24 to MPI alone", ""},
		{"mpirun -np 2 --hostfile h --mca btl_tcp_if_include eth0 -x NCCL_SOCKET_IFNAME==eth0 ./all_reduce_perf\n#   Rank  0 Pid 1 on a device  0 [0x00] Tesla\n#   Rank  1 Pid 1 on b device  0 [0x00] Tesla\na: Test NCCL failure common.cu:1125 'unhandled system error'\n", "", "to MPI alone"},
		// UCX without shared memory (NVIDIA/aicr#643).
		{"mm_iface failed to allocate receive FIFO\n[ucp_address_unpack] Caught signal 11 (Segmentation fault)\n", "error:  /dev/shm is too small", ""},
		// HPC-X's plugin (NVIDIA/nccl#947).
		{"a:1:2 [4] socket.c:540 NCCL WARN Net : Connection closed by remote peer 192.0.2.3<33806>\n==== backtrace (tid:  9) ====\n 1 0x000000000000bac5 ncclGetSocketState()  /build/hpcx-v2.15/nccl_rdma_sharp_plugin/src/socket.c:615\n", "error:  HPC-X's network plugin crashed", "error:  A peer closed"},
		{"In the output I found 'NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0''\nrocm 5.3, RCCL\n", "No GPUDirect RDMA", ""},
		{"es/bootstrap/uid/ncclSocket/ncclsocket_socket.cpp:socketStartConnect:488: socketStartConnect: exceeded timeouts (3)\n", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "error:  The peer cannot"},
		{"(EngineCore pid=6) [autoscaler] Error: No available node types can fulfill resource request\n    {'GPU': 1.0, 'node:192.0.2.3': 0.001}.\n", "error:  Ray has no host of that address", "error:  Too few GPUs"},
		{"INFO trainer_main.py: 112: Using Distributed init method: tcp://localhost:46357, world_size: 8, rank: 0\na:1:1 [0] NCCL INFO Bootstrap : Using [0]eth0:192.0.2.3<0>\nNCCL version 2.7.8+cuda10.2\n", "By line 1 the ranks meet at localhost", ""},
		// MNNVL (NVIDIA/nccl#2186).
		{"a:1:2 [3] NCCL INFO comm 0x5 rank 43 nRanks 48 nNodes 12 localRanks 4 localRank 3 MNNVL 1\n[a:801  :0:1300] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)\n", "NCCL_MNNVL_ENABLE=0", ""},
		{"[a:801  :0:1300] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)\n", "error:  The program crashed", "MNNVL"},
		// A variable that the log's NCCL still reads (horovod/horovod#1097).
		{"mpirun -np 2 -H a,b -x NCCL_IB_CUDA_SUPPORT=1 python a.py\na:1:2 [0] NCCL INFO NET/IB: [0] mlx5_0:1/IB\na:1:2 [0] NCCL INFO Using internal Network IB\n", "Variable is deprecated", "no longer reads"},
		// A name for another interface (pytorch/pytorch#73656).
		{"#SBATCH --nodes=2\nMASTER_ADDR=\"$MASTER_ADDR\"i\nsrun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500 a.py\n", "No host may take itself for the first", ""},
		{"#SBATCH --nodes=2\nMASTER_ADDR=\"$MASTER_ADDR\"i\nsrun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_conf=is_host=1 --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500 a.py\n", "", "No host may take itself for the first"},
		{"mpirun -np 16 -H a:8,b:8 --mca btl_tcp_if_include enp25s0np0 -x NCCL_IB_GID_INDEX=3 ./all_reduce_perf -g 1\n", "note:  The interface is named to MPI alone", ""},
		{"mpirun -np 16 -H a:8,b:8 --mca btl_tcp_if_include enp25s0np0 -x NCCL_SOCKET_IFNAME==enp25s0np0 ./all_reduce_perf -g 1\n", "", "named to MPI alone"},
		{"mpirun -np 8 --mca btl_tcp_if_include enp25s0np0 ./all_reduce_perf -g 1\n", "", "named to MPI alone"},
		// Error 12 on InfiniBand (NVIDIA/nccl#733).
		{"a:1:2 [0] transport/net_ib.cc:881 NCCL WARN NET/IB : Got completion from peer 192.0.2.3<4> with error 12, opcode 1, len 0, vendor err 129\na:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB ; OOB eth0:192.0.2.3<0>\n", "in one InfiniBand network", "On RoCE"},
		{"a:1:2 [0] transport/net_ib.cc:881 NCCL WARN NET/IB : Got completion from peer 192.0.2.3<4> with error 12, opcode 1, len 0, vendor err 129\na:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:192.0.2.3<0>\n", "On RoCE", "InfiniBand network"},
		// One host without RDMA (NVIDIA/nccl#234).
		{"If a participant on another node does not have IB setup, the ncclCommInitRank call hangs forever.\n", "Each host decides by itself", "of no second host"},
		{"a:1:2 [2] NCCL INFO ncclCommInitRankConfig comm 0xa rank 1 nranks 8 cudaDev 1 - Init START\nb:1:2 [2] NCCL INFO ncclCommInitRankConfig comm 0xa rank 5 nranks 8 cudaDev 1 - Init START\n", "note:  NCCL's initialization is not shown to end", ""},
		// SGLang's hosts with two places to meet at (sgl-project/sglang#2658).
		{"python -m sglang.launch_server --model-path m --tp 16 --nccl-init first_ip:8001 --nnodes 2 --node-rank 0\npython -m sglang.launch_server --model-path m --tp 16 --nccl-init second_ip:8001 --nnodes 2 --node-rank 1\n", "warning:  Hosts may meet at different places", ""},
		{"python -m sglang.launch_server --model-path m --tp 16 --dist-init-addr 10.0.0.1:8001 --nnodes 2 --node-rank 0\npython -m sglang.launch_server --model-path m --tp 16 --dist-init-addr 10.0.0.2:8001 --nnodes 2 --node-rank 1\n", "error:  Hosts meet at different places", ""},
		{"python -m sglang.launch_server --model-path m --tp 16 --dist-init-addr first:8001 --nnodes 2 --node-rank 0\npython -m sglang.launch_server --model-path m --tp 16 --dist-init-addr first:8001 --nnodes 2 --node-rank 1\n", "", "at different places"},
		// A rank that one host does not have (sgl-project/sglang#4766).
		{"[2025-03-25 14:34:11 TP10] Scheduler hit an exception: Traceback (most recent call last):\nRuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n", "Between hosts that is mostly an address", "Most frequent are, among the GPUs of one host"},
		{"RCCL version 2.20.5+hip6.2\na:1:2 [2] graph/paths.cc:120 NCCL WARN Failed to find reverse path from remNode 0/200000 nlinks 3 to node 0/700000\n", "XGMI", "H100"},
		{"a:1:2 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 169.254.20.10<43369> failed : Software caused connection abort\n", "nodelocaldns", "from DHCP"},
		{"a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.252.129.107<0>\nWhen 8 containers are scheduled on the same node, NCCL is slower than over different nodes.\n", "Containers of one host", ""},
		{"a:1:2 [3] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ^docker,lo\na:1:2 [3] NCCL INFO NET/Plugin: Loaded net plugin AWS Libfabric (v7)\n", "", "No list of devices"},
		// The rank that saw a timeout first (PrimeIntellect-ai/prime-rl#3186), and two hosts in prose (pytorch/pytorch#23363).
		{"[rank0]:[E804 23:05:54.8 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective timeout from  rank 13 and we will try our best to dump the debug info. Last enqueued NCCL work: 1261, last completed NCCL work: 1259.\n", "Read the lines of rank 13", ""},
		{"NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:272, unhandled system error\n# node 0: 192.0.2.1\n# node 1: 192.0.2.2\n", "Between hosts that is mostly", "Most frequent are"},
		// All ranks on one host (NVIDIA/nccl#348).
		{"mpirun -np 16 -H a:8,b:8 ./all_reduce_perf -g 1\n[1,13]<stdout>:a: Test CUDA failure common.cu:732 'invalid device ordinal'\n", "Rank 13 runs on a", ""},
		{"mpirun -np 8 ./all_reduce_perf -g 1\n[1,3]<stdout>:a: Test CUDA failure common.cu:732 'invalid device ordinal'\n", "error:  No GPU in this process", "Rank 3 runs"},
		{"8机x8GPU hang住。\nINFO training on multiple gpus, this gpu 7\n", "a hang of ranks on several hosts", "of no second host"},
		{"a:1:2 [0] NCCL INFO Channel 01 : 4[40] -> 0[40] [receive] via NET/FastSocket/0\n", "by TCP", "packets of RDMA"},
		{"multi-node (32x H100), 4 nodes is as fast as 1 node.\n", "NCCL is slower than expected", ""},
		{"#SBATCH --nodes=2\nexport VLLM_HOST_IP=$(hostname -i)\nsrun ray start --address $head:6379 --block &\n", "One address for all hosts", ""},
		{"#SBATCH --nodes=2\nsrun bash -c 'export VLLM_HOST_IP=$(hostname -i); ray start --address $head:6379 --block' &\n", "", "One address for all hosts"},
		// A file of an earlier start (espnet/espnet#1940).
		{"self.dist_init_method: file:///home/u/vox.init\na:1:2 [0] include/socket.h:390 NCCL WARN Connect to 10.38.10.112<21724> failed : Connection refused\n", "By line 1 the ranks meet by a file", ""},
		{"compute_environment: LOCAL_MACHINE\nmachine_rank: 0\nnum_machines: 2\nmain_process_ip: \nmain_process_port: 8888\nnum_processes: 4\n", "warning:  The hosts do not meet", ""},
		// An interface that was not found (siderolabs/docs#566), an address that .bashrc printed (huggingface/accelerate#2249), and calls that wait.
		{"a:1:2 [5] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ibs17\na:1:2 [5] NCCL INFO cudaDriverVersion 13000\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n", "NCCL_SOCKET_IFNAME is ibs17 (line 1)", ""},
		{"a:1:2 [5] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ibs17\na:1:2 [5] NCCL INFO Bootstrap: Using ibs17:192.0.2.1<0>\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n", "error:  NCCL refuses how it is used", "no line says that NCCL found it"},
		{"9.91.4.251: [W socket.cpp:601] [c10d] The IPv6 network addresses of (/root/cuda11.8.bashrc, 45459) cannot be retrieved (gai error: -2 - Name or service not known).\n", "error:  The rendezvous address is not valid", ""},
		{"Multi-node training with Deepspeed hangs when full_determinism = True\n", "CUDA_LAUNCH_BLOCKING=1, which full_determinism sets", ""},
		// A trainer that joins vLLM's server from another host (modelscope/ms-swift#7879).
		{"INFO:     172.18.127.130:60812 - \"POST /init_communicator/ HTTP/1.1\" 200 OK\nRuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n", "Between hosts that is mostly", "Most frequent are"},
		{"INFO:     127.0.0.1:60812 - \"POST /init_communicator/ HTTP/1.1\" 200 OK\nRuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n", "Most frequent are", "Between hosts that is mostly"},
		// SkyPilot's prefix is that of several hosts (skypilot-org/skypilot#4448).
		{"(head, rank=0, pid=5634) [n-0:3]:n-0:11172:11241 [3] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.5<0> [1]enP7906s1:fe80::1%enP7906s1<0>\n(head, rank=0, pid=5634) [n-0:3]:n-0:11172:11241 [3] NCCL INFO Using network Socket\n", "n-0 also uses enP7906s1 for sockets", ""},
		// Open MPI fills a host's slots first (NVIDIA/nccl-tests#165, #263).
		{"mpirun -H 192.0.2.1:2,192.0.2.2:2 -np 2 ./build/all_reduce_perf -b 8 -g 1\n", "warning:  All ranks run on the first host", ""},
		{"mpirun -H 192.0.2.1:2,192.0.2.2:2 -np 2 --map-by node ./build/all_reduce_perf -b 8 -g 1\n", "", "first host"},
		{"mpirun -H 192.0.2.1:1,192.0.2.2:1 -np 2 ./build/all_reduce_perf -b 8 -g 8\n", "", "first host"},
		{"mpirun --host a:8,b:8 -x NCCL_DEBUG=INFO ./build/all_reduce_perf -b 8 -g 8\n", "error:  More GPUs than a host has", "first host"},
		{"mpirun --host a:2,b:2 -x NCCL_DEBUG=INFO ./build/all_reduce_perf -b 8 -g 4\n", "", "More GPUs"},
		{"mpirun --host a:8,b:8 -np 2 -N 1 ./build/all_reduce_perf -b 8 -g 8\n", "", "More GPUs"},
		// Two containers (k8snetworkplumbingwg/multus-cni#1100).
		{"DEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\nmlx5_4\t1\t5\t0000:0000:0000:0000:0000:ffff:c000:0201\t192.0.2.1\tv2\tnet1\nDEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\nmlx5_4\t1\t7\t0000:0000:0000:0000:0000:ffff:c000:0202\t192.0.2.2\tv2\tnet1\n", "warning:  The index of the GID differs", ""},
		{"NCCL version 2.13.4+cuda11.3\nDEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\nmlx5_4\t1\t5\t0000:0000:0000:0000:0000:ffff:c000:0201\t192.0.2.1\tv2\tnet1\n", "", "Sparse GID table"},
	} {
		got := asText(Explain("x", c.text, nil, fabric.Invocation{}))
		if !strings.Contains(got, c.says) || c.notSays != "" && strings.Contains(got, c.notSays) {
			t.Errorf("%s: want %q and not %q:\n%s", c.text, c.says, c.notSays, got)
		}
	}
}

// TestAttemptsThatGoOn: a connection that NCCL tries again is named if the log ends so, and is nothing once the ranks are connected.
func TestAttemptsThatGoOn(t *testing.T) {
	const (
		again  = "a:1:2 [0] NCCL INFO socketPollConnect: connect to 10.0.0.2<4000> returned No route to host, retrying (2/34) after sleep for 200 msec\n"
		ready  = "a:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init COMPLETE\n"
		gaveUp = "a:1:2 [0] misc/socket.cc:9 NCCL WARN socketPollConnect: connect to 10.0.0.2<4000> returned No route to host, exceeded error retry count after 35 attempts\n"
		named  = "The peer cannot be reached"
	)
	if got := Explain("log", ready+again, nil, fabric.Invocation{}); severity(got, named) != env.Warning || len(got.Findings) != 1 {
		t.Error(asText(got))
	}
	if got := Explain("log", again+ready, nil, fabric.Invocation{}); !got.Sound() {
		t.Error(asText(got))
	}
	if got := Explain("log", again+gaveUp, nil, fabric.Invocation{}); severity(got, named) != env.Error || len(got.Findings) != 1 {
		t.Error(asText(got))
	}
}

// TestWebClientIsNamed: the first bytes of a foreign connection are read: NVIDIA/nccl#1808 is an agent's request for metrics.
func TestWebClientIsNamed(t *testing.T) {
	for line, named := range map[string]bool{
		"a:1:2 [0] misc/socket.cc:484 NCCL WARN socketFinalizeAccept: wrong magic 74656d2f20544547 != 7970663b906d70b9\n":                                                            true,
		"a:1:2 [0] NCCL INFO socketFinalizeAccept from 10.0.0.2<4000>: socket magic mismatch (peer 0x74656d2f20544547 != expected 0x7970663b906d70b9), discarding peer connection\n": true,
		"a:1:2 [0] misc/socket.cc:484 NCCL WARN socketFinalizeAccept: wrong magic 7970663b906d70b8 != 7970663b906d70b9\n":                                                            false,
	} {
		if got := asText(Explain("log", line, nil, fabric.Invocation{})); !strings.Contains(got, "Another program spoke to NCCL's port") || strings.Contains(got, `it sent "GET /met"`) != named {
			t.Error(got)
		}
	}
}

// TestTheDecisiveErrorIsFirst: a setting without effect comes after the error that ended the job.
func TestTheDecisiveErrorIsFirst(t *testing.T) {
	r := Explain("x", "mpirun -H a:1,b:1 -x NCCL_IB_CUDA_SUPPORT=1 train\nssh: connect to host 192.0.2.1 port 50000: Connection refused\n", nil, fabric.Invocation{})
	if len(r.Findings) < 2 || r.Findings[0].Summary != "A host does not answer SSH" || severity(r, "Variable that NCCL no longer reads") != env.Error {
		t.Error(asText(r))
	}
}
