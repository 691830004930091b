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
		loaded   = "[2025-02-07 01:19:40 TP0] Load weight end. type=DeepseekV3ForCausalLM\n"
		timeout  = "[rank6]:[E207 01:29:36.730311765 ProcessGroupNCCL.cpp:616] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600050 milliseconds before timing out.\n"
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
		{"NCCL between two machines causes a hang.\n", "The job hangs without an error", ""},
		{"[W ProcessGroupNCCL.cpp:1569] This can potentially cause a hang if this rank to GPU mapping is incorrect.\n", "", "The job hangs"},                             // hiyouga/LlamaFactory/issues/8801
		{"nccl hangs:\n```\nif dist.get_rank() == 0:\n    dist.broadcast(t, 0)\n```\n", "Not all ranks call a collective", "The job hangs"},                              // pytorch/pytorch/issues/88000
		{"It fails at the end of the first epoch.\nException raised from checkTimeout at a.cpp:632 (most recent call first):\n", "Line 1 names the end of an epoch", ""}, // jpata/particleflow/issues/390
		{"Exception raised from checkTimeout at a.cpp:632 (most recent call first):\n", "PyTorch's watchdog stopped the job", "end of an epoch"},
		{"Both sides have rank 0 only:\nmpirun --hostfile hosts ./all_reduce_perf\n192.0.2.2 slot=1\n", "line 1: warning:  Each process runs a test of its own", ""}, // NVIDIA/nccl-tests/issues/329
		{"mpirun --hostfile hosts ./all_reduce_perf\n192.0.2.2 slot=1\n", "line 2: warning:  Not the form of a hostfile", "a test of its own"},
		{"mpirun --hostfile hosts ./all_reduce_perf\n192.0.2.2 slots=1\n192.0.2.3\n", "", "form of a hostfile"},
		{"It gets stuck.\na:1:2 [5] NCCL INFO ncclCommInitRank comm 0x1 rank 13 nranks 16 cudaDev 5 nvmlDev 5 busId 1 commId 0x5 - Init COMPLETE\n", "a hang of ranks on several hosts", ""}, // sgl-project/sglang/issues/6294
		{"It gets stuck.\na:1:2 [5] NCCL INFO ncclCommInitRank comm 0x1 rank 5 nranks 16 cudaDev 5 nvmlDev 5 busId 1 commId 0x5 - Init COMPLETE\n", "", "of ranks on several hosts"},
		{"Docker runs in bridge mode on two machines, and nccl does not connect.\n", "The container has a network of its own", ""}, // pytorch/pytorch/issues/12527
		{"The bridge between the two machines is down, says Docker.\n", "", "network of its own"},
		{"CollNet hangs on several nodes:\nmpirun -x NCCL_COLLNET_ENABLE=1 ./a\n", "see first whether it runs without it", ""}, // NVIDIA/nccl-tests/issues/311
		{"With NCCL_P2P_LEVEL=LOC it works well.\n", "Direct access between GPUs does not work", ""},
		{"With NCCL_NET_GDR_LEVEL=LOC it works well.\n", "GPUDirect RDMA does not work", ""},
		{"One can set export NCCL_P2P_DISABLE=1 before the code.\n\nThank you! Your method solves the problem on my machine\n", "The text says that NCCL_P2P_DISABLE helps.", ""}, // huggingface/accelerate/issues/314
		{"One can set export NCCL_P2P_DISABLE=1 before the code.\n\nYour method does not solve the problem.\n", "", "helps."},
		{"NCCL hangs with 2.23.4. NCCL_IB_GID_INDEX=7 could work well.\n", "The text says that NCCL_IB_GID_INDEX=7 helps.", ""}, // NVIDIA/nccl/issues/1538
		{"NCCL hangs with 2.23.4. NCCL_IB_GID_INDEX=7 could help.\n", "", "helps."},
		{"UCX_TLS=cuda_copy,cuda_ipc,tcp\nnixl._bindings.nixlBackendError: NIXL_ERR_BACKEND\n", "leaves out all transports for RDMA", ""}, // ai-dynamo/nixl/issues/1614
		{"UCX_TLS=rc_mlx5,cuda_copy,tcp\nnixl._bindings.nixlBackendError: NIXL_ERR_BACKEND\n", "NIXL's backend failed", "for RDMA"},
		{"UCX_TLS=^tcp\nnixl._bindings.nixlBackendError: NIXL_ERR_BACKEND\n", "NIXL's backend failed", "for RDMA"},
		{">>> a = torch.tensor([1., 2., 3.], device=\"cuda:0\")\n>>> a.to(\"cuda:1\")\ntensor([0., 0., 0.], device='cuda:1')\n", "line 1: error:  A copy between GPUs loses data", ""}, // pytorch/pytorch/issues/84803
		{">>> a = torch.tensor([1., 2., 3.], device=\"cuda:0\")\n>>> a.to(\"cuda:1\")\ntensor([1., 2., 3.], device='cuda:1')\n", "", "loses data"},
		{">>> a = torch.tensor([0., 0.], device=\"cuda:0\")\n>>> a.to(\"cuda:1\")\ntensor([0., 0.], device='cuda:1')\n", "", "loses data"},
		{"In both pods I changed /etc/environment to \"export NCCL_IB_GID_INDEX=5\", but it does not work.\n", "/etc/environment is for logins alone", ""}, // k8snetworkplumbingwg/multus-cni/issues/1100
		{"On my workstation /etc/environment has NCCL_DEBUG=INFO.\n", "", "for logins alone"},
		{"Setting amd_iommu=off solved the hang of nccl.\n", "The text says that amd_iommu=off helps.", ""}, // NVIDIA/nccl-tests/issues/115
		{"I disabled ACS, and nccl still hangs.\n", "The job hangs without an error", "helps."},
		{"[W socket.cpp:663] [c10d] The client socket has failed to connect to [::ffff:255.255.0.0]:29500 (errno: 110 - Connection timed out).\n", "Not the address of a host", ""}, // hiyouga/LlamaFactory/issues/3715
		{"Passing `--ipc=host` to docker run fixed the NCCL error.\n", "/dev/shm is too small", ""},                                                                                 // pytorch/pytorch/issues/49095
		{"Passing `--ipc=host` to docker run did not fix the NCCL error.\n", "", "/dev/shm is too small"},
		{"NCCL fails. It can be fixed by setting the `NCCL_NVLS_ENABLE` env var to be \"0\".\n", "NVLink SHARP (NVLS) cannot be set up", ""}, // THUDM/slime/issues/45
		{"If set NCCL_IB_DISABLE=1, the nccl job can run well.\n", "RDMA does not work", ""},                                                 // PaddlePaddle/Paddle/issues/10499
		{"NCCL training on multiple nodes hangs under Slurm.\n", "only srun in it starts a process for each task", ""},                       // Lightning-AI/pytorch-lightning/issues/19817
		{loaded + timeout, "probably others still load theirs", ""},                                                                          // sgl-project/sglang/issues/3368
		{timeout, "PyTorch's watchdog stopped the job", "still load"},
		{"SGLang's watchdog SIGKILLs it: \"Rank 0 scheduler died (exit code: -9)\"\n", "the kill is an effect", "OOM"},
		{"Rank 0 scheduler died (exit code: -9)\n", "OOM", "the kill is an effect"},
		{"raylet_client.cc:60: Could not connect to socket /tmp/ray/session_1/sockets/raylet.1\n", "Ray did not start on a host", ""}, // volcengine/verl/issues/158
		{"The test fails with `proxy.cc:1716 NCCL WARN ... operation=Connect, res=3`\n", "NCCL's proxy thread failed", ""},
		{"docker run --network=host img mpirun -x NCCL_SOCKET_IFNAME=ib0 -x NCCL_IB_HCA=mlx5_0 python a.py\n```\napiVersion: kubeflow.org/v1\nkind: MPIJob\nspec:\n  containers:\n  - image: a\n", "", "that the container does not have"}, // kubeflow/mpi-operator/issues/57
		{"The job cannot run in an istio enabled namespace: dial tcp 192.0.2.1:443: connect: connection refused\n", "The pod has Istio's proxy", ""},                                                                                       // kubeflow/mpi-operator/issues/407
		{"`NCCL_P2P_DISABLE=1` - Disables peer-to-peer communication that causes hangs of nccl\n", "Direct access between GPUs does not work", "shared memory"},                                                                            // TrelisResearch/one-click-llms/pull/18
		{"NCCL_P2P_DISABLE=1 causes hangs of nccl\n", "", "Direct access between GPUs does not work"},
		{"a:1:2 [0] NCCL INFO + PCI[0.2] - PCI/0-65000 (104c823200000000)\n", "The virtual machine hides the topology", ""}, // NVIDIA/nccl-tests/issues/256
		{"a:1:2 [0] NCCL INFO + PCI[0.2] - NIC/0-65000\n", "", "virtual machine"},
		{"The topology of my VM is very different from that of the host.\n", "The virtual machine hides the topology", ""}, // NVIDIA/nccl/issues/1674
		{"The topology of my host has two NUMA nodes.\n", "", "virtual machine"},
		{"It hangs when using more than 8 GPUs with nccl.\n", "a hang of ranks on several hosts", ""},                                               // NVIDIA/nccl/issues/634
		{"a:1:2 [0] proxy.cc:1570 NCCL WARN [Service thread] Unknown command 790 from localRank -1\n", "A stranger speaks to NCCL's port", ""},      // NVIDIA/nccl/issues/851
		{"When the shared memory allocated for a docker container is too small and when TP is used, vLLM can hang.\n", "/dev/shm is too small", ""}, // vllm-project/vllm/pull/1125
		{"I had to increase the Docker `/dev/shm` to avoid NCCL errors.\n", "/dev/shm is too small", ""},                                            // vllm-project/production-stack/issues/44
		{"I had to increase the batch size to use the shared memory of the SM.\n", "", "/dev/shm"},
		{"[BUG] Multi-Node Address in Use Error with torchrun\n", "The port is taken", ""}, // deepspeedai/DeepSpeed/issues/1923
		{"[rank2]:[E ProcessGroupNCCL.cpp:563] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelI\nn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800035 milliseconds before timing out.\n", "An all-reduce of one element", "preparing of data"},
		{"数据集加载报错\n" + timeout, "Line 1 names the loading or preparing of data", ""},                                                                                                                                                          // hiyouga/LlamaFactory/issues/4814
		{"DDP with unequal data lengths on different ranks\n" + timeout, "Line 1 names the end of an epoch, an evaluation, or data that differ", ""},                                                                                          // pytorch/pytorch/issues/141069
		{"[rank1]:[E ... ProcessGroupNCCL.cpp:689] [Rank 1] Watchdog caught collective operation timeout:\nWorkNCCL(SeqNum=34036, OpType=ALLGATHER, NumelIn=8, NumelOut=64, Timeout(ms)=5400000)\n", "34035 collectives before it ended", ""}, // bghira/SimpleTuner/issues/3099
		{"NCCL watchdog thread terminated with exception: traceMap[thisSeq][myRank].second == kEventStart INTERNAL ASSERT FAILED at \"/opt/a/TraceUtils.h\":237\n", "PyTorch failed a check of its own", ""},                                  // pytorch/pytorch/issues/105287
		{"nccl hangs, says the log:\n\nnum_nodes: 2\n", "on several hosts", ""},                                                                                                                                                               // skypilot-org/skypilot/issues/3788
		{"InvalidArgumentError: Cannot assign a device for operation Identity: {{node Identity}}\n", "TensorFlow does not have the device", ""},                                                                                               // tensorflow/tensorflow/issues/40244
		{"NCCL fails, I changed the version to 2.19.3 and I was able to test successfully!\n", "Another version of NCCL helps", ""},                                                                                                           // NVIDIA/nccl-tests/issues/275
		{"NCCL fails. Downgrading to 2.21.5 solved the issue.\n", "Another version of NCCL helps", ""},                                                                                                                                        // NVIDIA/nccl/issues/1589
		{"NCCL fails. Downgrading to 2.21.5 did not help.\n", "", "Another version of NCCL helps"},
		{"num_machines: 4\nmachine_rank: 0\nnum_processes: 8\nmain_process_ip: 192.0.2.1\n", "line 3: note:  The configuration of one host", ""}, // huggingface/accelerate/issues/2265
		{"num_machines: 1\nmachine_rank: 0\nnum_processes: 8\n", "", "The configuration of one host"},
		{"accelerate launch --machine_rank $SLURM_NODEID a.py\nnum_machines: 4\nmachine_rank: 0\nnum_processes: 8\n", "", "The configuration of one host"},
		{"nccl hangs on three servers in a Docker overlay network.\n", "docker_gwbridge", "of no second host"}, // sgl-project/sglang/issues/3516
		{"A large-scale training job hangs in nccl.\n", "ranks that lag behind", "of no second host"},          // NVIDIA/nccl/issues/968
		{"Importing Pytorch results in undefined symbol ncclCommResume\n", "The wrong libnccl is loaded", ""},  // pytorch/pytorch/issues/186591
		{"libtorch_cuda.so:%20undefined%20symbol:%20ncclCommRegister\n", "The wrong libnccl is loaded", ""},    // turboderp-org/exllamav2/issues/530
		{"报错：NameError: name 'ncclGetVersion' is not defined\n", "NCCL's library cannot be loaded", ""},        // vllm-project/vllm/issues/3911
		{"Why Avg bus bandwidth = 0 when running all_reduce_perf?\n", "The test has one rank", ""},             // NVIDIA/nccl-tests/issues/71
		{"The avg bus bandwidth = 0.5 GB/s\n", "", "The test has one rank"},
		{"[FSDP] Crashing at end of training epoch - collective timeouts, NCCL comm aborts\n", "Line 1 names the end of an epoch", ""}, // pytorch/pytorch/issues/77030
		{"We get NCCL timeouts.\n", "A collective timed out", "epoch"},
		{"export NCCL_TIMEOUT=1800 # timeouts of nccl\n", "", "A collective timed out"},
		{"0002:00:02.0 mlx4_0 (MT4100 - NA)  fw 2.43.7008 port 1 (ACTIVE) ==> ib0 (Down)\n", "An interface is down", ""},                                                 // NVIDIA/nccl-tests/issues/36
		{"mpirun all_reduce_perf hang with multi-device test\n", "The job hangs without an error", ""},                                                                   // NVIDIA/nccl-tests/issues/278
		{"nvidia-container-cli: initialization error: cuda error: forward compatibility was attempted on non supported hw\n", "The driver is too old", "does not start"}, // ufoym/deepo/issues/103
		{"thanks！NCCL 2.25.1 is ok！\n", "Another version of NCCL helps", ""},                                                                                             // NVIDIA/nccl/issues/1611
		{"Sharding on two GPUs froze at the start.\n", "direct access between GPUs does not work", ""},                                                                   // huggingface/text-generation-inference/issues/1838
		{"Found ulimit of 65530. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`.\n", "note:  The limit of open files is low", "error:"},   // vllm-project/vllm/issues/29670
		{"`ibv_reg_mr_iova2` ENOMEM kills NCCL init on DGX Spark with kernel 7.0.0-31\n", "Memory cannot be pinned", ""},                                                 // MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/issues/259
		{"DDP fails on ray clusters when exposed ports on nodes are limited\n", "Some open ports are not enough", ""},                                                    // meta-pytorch/torchx/issues/540
		{"WARNING: a small /dev/shm can cause failures such as `OSError: [Errno 28] No space left on device`\n", "", "error:"},
		{"nv_peer_mem is not loaded, so that nccl uses mlx5_0 without it.\n", "line 1: warning:  No GPUDirect RDMA", ""}, // NVIDIA/nccl-tests/issues/128
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
	if got := Explain("x", "NNODES=2 NODE_RANK=0 MASTER_ADDR=192.0.2.1 anything sft\n", nil, fabric.Invocation{}); got.Read.Commands != 1 || got.Failed() {
		t.Error(asText(got))
	}
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
