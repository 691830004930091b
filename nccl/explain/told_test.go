package explain

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestFromTheRestOfTheText: what the rest of a text shows makes the advice more special, and the same lines without it do not get that advice.
func TestFromTheRestOfTheText(t *testing.T) {
	const (
		usesIB   = "a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:192.0.2.1<0>\n"
		overTCP  = "a:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/1\n"
		remote   = "DistBackendError: NCCL error in: a.cpp:1, remote process exited or there was a network error, NCCL version 2.18.6\n"
		lsmod    = "# lsmod | grep nvidia_peermem\n"
		unreadID = "util_rdma.h:547] NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument\n"
	)
	for _, c := range []struct{ text, says, notSays string }{
		{overTCP, "Ranks connect to other hosts by TCP", "NCCL_IB_DISABLE=1"}, // NVIDIA/nccl-tests/issues/284
		{strings.Replace(overTCP, "Socket/1", "IB/1", 1), "NCCL_IB_DISABLE=1", "by TCP"},
		{"64 16 float sum -1 297.3 0.00 0.00 30 298.8 0.00 0.00 24\n", "Results are wrong", ""}, // a table whose heading was left out
		{"64 16 float sum -1 297.3 0.00 0.00 0 298.8 0.00 0.00 0\n", "", "Results are wrong"},
		{"64 16 float sum -1 297.3 0.00 0.00 0e+00 298.8 0.00 0.00 2e-07\n", "", "Results are wrong"},
		{"It does not hang with nccl and two GPUs.\n", "", "The job hangs"},
		{"It does not fail, but hangs with nccl and two GPUs.\n", "The job hangs", ""},
		{"ncclInitRank hangs on two nodes because of veth0.\n", "NCCL_SOCKET_IFNAME=^docker,veth,lo", ""}, // NVIDIA/nccl/issues/913
		{unreadID, "UCCL_IB_GID_INDEX", "Upgrade to NCCL"},                                                // uccl-project/uccl/issues/301
		{strings.Replace(unreadID, "util_rdma.h:547]", "a:1:2 [0] NCCL WARN", 1), "Upgrade to NCCL", "UCCL"},
		{"In our network only ports 30000-30100 are open between the nodes.\nncclSystemError: System call failed\n", "Some open ports are not enough", ""},
		{"Only port 1 of the card is available.\nncclSystemError: System call failed\n", "", "Some open ports"},
		{"The ports of NCCL are open, and only rank 1 fails.\nncclSystemError: System call failed\n", "", "Some open ports"},
		{"The test fails: 169.254.3.1 Connection refused\n", "Link-local address for bootstrap", ""},
		{"The test fails: 192.0.2.1 Connection refused\n", "A connection was refused", "Link-local"},
		{remote + "```bash\nexport NCCL_SOCKET_IFNAME=eno1\n```\n", "compare the interface in line 3 (eno1)", ""}, // NVIDIA/nccl/issues/1141
		{remote, "", "compare the interface"},
		{"a:1:2 [0] NCCL INFO Bootstrap : Using [0]ip6tnl0:fe80::1%ip6tnl0<0> [1]veth0:2001:db8::1<0>\n", "veth0 has an address for that", "AF_INET"},
		{"a:1:2 [0] NCCL INFO Bootstrap : Using [0]ip6tnl0:fe80::1%ip6tnl0<0>\n", "AF_INET", "has an address for that"},
		{lsmod + "#\n" + usesIB, "line 1: note:  No module for GPUDirect RDMA", ""}, // NVIDIA/nccl/issues/988
		{lsmod + "nvidia_peermem 16384 0\n" + usesIB, "", "No module"},
		{"Check it with lsmod | grep nvidia_peermem\n\n" + usesIB, "", "No module"},
		{"1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536\n    inet 127.0.0.1/8 scope host lo\n    inet X.X.X.X/32 scope global lo\n", "The host's address is on lo", ""},
		{"1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536\n    inet 127.0.0.1/8 scope host lo\n2: eth0: <BROADCAST,UP,LOWER_UP> mtu 1500\n    inet x.x.x.x/24 scope global eth0\n", "", "is on lo"},
		{"The test hangs at \"NCCL INFO Launch mode Parallel\" with 4 GPUs.\n", "The job hangs without an error", ""}, // huggingface/accelerate/issues/885
		{"NCCL hangs on the first all_reduce unless NCCL_P2P_DISABLE=1 is set.\n", "Direct access between GPUs does not work", "shared memory"},
		{"It succeeds when P2P is disabled with:\n\n```bash\nNCCL_P2P_DISABLE=1\n```\nOtherwise nccl hangs.\n", "Direct access between GPUs does not work", ""}, // local-inference-lab/rtx6kpro/issues/15
		{"NCCL gets stuck with two GPU instances behind NAT.\n", "a translated address", "of no second host"},                                                   // NVIDIA/nccl/issues/643
		{"NCCL gets stuck on two GPUs, and kill -9 does not end it.\n", "they stand in the driver", ""},                                                         // NVIDIA/nccl/issues/1160
		{"NCCL gets stuck on two GPUs.\n", "", "they stand in the driver"},
		{"How can I give a different NCCL_SOCKET_IFNAME to each node?\n", "NCCL_SOCKET_IFNAME=eth0,eno1", ""}, // hpcaitech/ColossalAI/issues/6261
		{"Training with nccl is slow on two nodes.\n", "NCCL is slower than expected", ""},                    // kubeflow/trainer/issues/1532
		{"Training with nccl is slow.\n", "", "NCCL is slower"},
		{"a:1:2 [0] INFO NET/IB: [0] mlx4_0:2/RoCE \n", "NCCL before 2.4 uses GID index 0", ""}, // v2.3.7-1, pytorch/pytorch/issues/14870
		{"a:1:2 [0] INFO NET/IB: [0] mlx4_0:2/IB \n", "", "does not choose a GID"},
		{"a:1:2 [0] INFO Using internal Network Socket\nb:1:2 [0] INFO Using internal Network Socket\n", "Silent fallback to sockets", ""}, // v2.3.7-1
	} {
		got := asText(Explain("x", c.text, nil, fabric.Invocation{}))
		if !strings.Contains(got, c.says) || c.notSays != "" && strings.Contains(got, c.notSays) {
			t.Errorf("%s: want %q and not %q:\n%s", c.text, c.says, c.notSays, got)
		}
	}
}

// TestSlow: a text that tells of a low rate with RDMA gets what decides the rate, and what it says is missing; others do not.
func TestSlow(t *testing.T) {
	const slow, direct = "NCCL is slower than expected", "says that GPUDirect RDMA is not there"
	for text, want := range map[string]string{
		"With nccl-tests the bus bandwidth over InfiniBand is half of what we expect.\n":          slow,
		"With nccl-tests the bus bandwidth over RoCE is low, and nv_peer_mem is not installed.\n": direct, // NVIDIA/nccl/issues/465
		"The training is slow.\n":                                                                           "",
		"NCCL over InfiniBand has the right bus bandwidth.\n":                                               "",
		"NCCL over InfiniBand is slow.\nRuntimeError: NCCL Error 2: unhandled system error\n":               "",
		"export NCCL_IB_HCA=mlx5_0\n# a low bandwidth means that mlx5_0 is in the wrong slot\nmpirun ./a\n": "",
	} {
		name := "x"
		if strings.HasPrefix(text, "export") {
			name = "run.sh"
		}
		got := asText(Explain(name, text, nil, fabric.Invocation{}))
		if want == "" && strings.Contains(got, slow) || !strings.Contains(got, want) {
			t.Errorf("%s: want %q, got %s", text, want, got)
		}
	}
}
