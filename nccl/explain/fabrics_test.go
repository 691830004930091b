package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// TestFabricsAreExplained: what tests of RDMA, and NCCL's lines about fabrics, say together.
func TestFabricsAreExplained(t *testing.T) {
	const cuda = "ib_write_bw -d mlx5_3 -a --use_cuda=0\nallocated GPU buffer address at 0000002305040000 pointer=0x2305040000\n"
	const gpu = "GPU 3: Tesla V100-SXM2-32GB (UUID: GPU-0)\n"
	const lshca = "  PCI_addr   |  RDMA  | Net  | Numa | LnkStat | IpStat  | Link | Rate\n"
	watchedAt := func(rank, at, called, finished string) string {
		return "[rank" + rank + "]:[E1206 18:44:16.994932383 ProcessGroupNCCL.cpp:1709] [PG 1 Rank " + rank + "] Timeout at NCCL work: " + at + ", last enqueued NCCL work: " + called + ", last completed NCCL work: " + finished + ".\n"
	}
	oneNIC := "a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eno1:10.0.0.1<0>\na:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0\n"
	for _, rank := range []string{"0", "1", "2", "3"} {
		oneNIC += "#  Rank  " + rank + " Group  0 Pid 1 on a device  " + rank + " [0x07] NVIDIA H100\n"
	}
	oneNIC += "#  Rank  4 Group  0 Pid 1 on b device  0 [0x07] NVIDIA H100\n"
	device := func(i int) string {
		return "[" + string(rune('0'+i%10)) + "]mlx5_" + strings.Repeat("1", i) + ":1/RoCE "
	}
	gpus := func(between string) string { // nvidia-smi topo -m
		return "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t" + between + "\tPIX\t0-47\t0\nGPU1\t" + between + "\t X \tSYS\t48-95\t1\nNIC0\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
	}
	var many, few string
	for i := 1; i <= 34; i++ {
		many += device(i)
		if i <= 18 {
			few += device(i)
		}
	}
	for _, c := range []struct{ text, says, notSays string }{
		{"    device          \t   node GUID\n    ------          \t----------------\n\n$ ls\n", "error:  The program finds no RDMA device", ""},
		{"    device          \t   node GUID\n    ------          \t----------------\n    mlx5_bond_0     \te8ebd30300381588\n", "", "no RDMA device"},
		{"link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1\n3: ens1: <BROADCAST,UP,LOWER_UP> mtu 9000\n    inet6 fe80::1/64 scope link\n", "warning:  NIC without an address", ""},
		{"link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1\n3: ens1: <BROADCAST,UP,LOWER_UP> mtu 9000\n    inet 10.0.0.1/24 scope global ens1\n    inet6 fe80::1/64 scope link\n", "", "without an address"},
		{"hca_id: mlx5_7\n    port:   1\n            state:    PORT_INIT (2)\n            sm_lid:    4\n            link_layer:    InfiniBand\n", "error:  The subnet manager has not set up the port", "Start a subnet manager"},
		{"hca_id: mlx5_7\n    port:   1\n            state:    PORT_INIT (2)\n            sm_lid:    0\n            link_layer:    InfiniBand\n", "Start a subnet manager", ""},
		{"kubelet FailedCreatePodSandBox: error adding container to network \"a\": SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required\n", "resourceName, or names another", ""},
		{"export MC_RPC_PROTOCOL=‘rdma’\nexport NCCL_DEBUG=INFO\n", "MC_RPC_PROTOCOL Typographic quotes", ""},
		{"export NCCL_IB_HCA=“mlx5_0”\nexport NCCL_DEBUG=INFO\n", "NCCL_IB_HCA Typographic quotes", ""},
		{"Check failed: mr ibv_reg_mr failed: Cannot allocate memory\nulimit -l is unlimited inside container\n", "error:  Memory cannot be pinned", "memlock is limited"},
		{"a:1:2 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory\nbash -c 'ulimit -l unlimited && ./alltoall_perf'\n", "error:  Memory cannot be pinned", "memlock is limited"}, // NVIDIA/nccl/issues/1191
		{"[0] NCCL INFO NCCL_IB_DISABLE set by environment to 1. [0] NCCL INFO NCCL_IB_HCA set to mlx5_0\n", "NCCL_IB_DISABLE", "Not a number for NCCL"},
		{"UESta:  DLP- SDES- TLP- ECRC- UnsupReq- ACSViol-\na:1:2 [0] NCCL INFO Using network IB\n", "", "PCI access control"},
		{"NET/OFI No eligible providers were found\nNET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)\n", "", "found no EFA"}, // lumi-ai-factory/laifs-container-recipes/issues/28
		{"ibv_reg_mr_iova2 failed with error Cannot allocate memory\nCmaTotal:        0 kB\nCmaFree:    940604 kB\n", "kho=off", ""},
		{"$ ulimit -l\nunlimited\nUCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory\n", "line 2 shows no limit", "memlock is limited"},
		{"ulimit -l unlimited\nUCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory\n", "error:  memlock is limited", ""},
		{"a:1:2 [0] NCCL INFO P2P plugin IBext\na:1:2 [0] NCCL INFO NCCL_IB_PCI_RELAXED_ORDERING set by environment to 1.\nNCCL version 2.10.3+cuda10.2\n", "", "does not read"},
		{"GPU 0: NVIDIA H100 NVL (UUID: GPU-0)\n         Link 0: 26.562 GB/s\n         Link 4: <inactive>\n", "", "Some NVLinks"},
		{"F rdma.cc:475] Check failed: !ibv_modify_qp(qp_, &attr, IBV_QP_STATE) QP to Ready to Receive Invalid argument[22]\n", "Look with ibv_devinfo whether each port", "NCCL_"},
		{"libfabric:507357:1741146011::cxi:fabric:cxip_nic_get_rgroup_vni():253<warn> : Failed to find valid default rgroup and vni for cxi0\na:1:2 [0] nccl_net_ofi_create_domain:300 NCCL WARN NET/OFI Couldn't open a fabric access domain. RC: -38, ERROR: Function not implemented\n", "note:  AWS's plugin reports an error", "EFA devices"},
		{"Couldn't allocate MR\nSegmentation fault (core dumped)\n", "error:  Memory could not be registered", "error:  The program crashed"},
		{cuda + "Couldn't allocate MR\n", "error:  GPU memory cannot be registered", "memlock"},
		{"ib_write_bw -d mlx5_3 -a\nCouldn't allocate MR\n", "memlock", ""},
		{"/sys/class/infiniband/mlx5_0/ports/1/hw_counters/local_ack_timeout_err:91316\n/sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err:929974\n", "line 1: warning:  The NIC has counted lost packets", "links"},
		{"/sys/class/infiniband/mlx5_0/ports/1/hw_counters/local_ack_timeout_err:0\n", "nothing: no setting", "lost packets"},
		{"link mlx5_0/1 rx_write_requests 7 out_of_sequence 12 packet_seq_err 0 local_ack_timeout_err 3\n", "local_ack_timeout_err 3, since", "packet_seq_err"},
		{"     rx_discards_phy: 12\n", "rx_discards_phy 12", ""},
		{"LinkErrorRecoveryCounter:........3\n", "warning:  The port has counted errors of its link", ""},
		{gpu + "         Link 0: 25.781 GB/s\n         Link 1: <inactive>\n", "line 1: warning:  Some NVLinks are inactive", ""},
		{gpu + "         Link 0: <inactive>\n         Link 1: <inactive>\n" + gpu + "         Link 0: 25.781 GB/s\n", "", "Some NVLinks"},
		{"		LnkSta:	Speed 8GT/s (ok), Width x8 (downgraded)\n", "A PCIe link has fewer lanes", ""},
		{"		LnkSta:	Speed 2.5GT/s (downgraded), Width x16 (ok)\n", "", "fewer lanes"},
		{"RCCL version : 2.21.5\nexport NCCL_DMABUF_ENABLE=1\n", "", "Equal to NCCL's default"},
		{"mpirun -np 16 -x NCCL_DMABUF_ENABLE=1 /home/u/rccl_tests/build/all_reduce_perf -b 8\n", "", "Equal to NCCL's default"}, // RCCL's default is 0: src/misc/rocmwrap.cc
		{"RCCL version 2.21.5\n" + lostPackets + strings.Replace(lostPackets, "status=12", "status=4", 1), "AMD's GPUs need", "nvidia_peermem"},
		{"INFO NET/Socket : Using\n[0]bond0:192.168.1.161<0>\n[1]br-05ab815fa14e:172.19.0.1<0>\n", "NCCL also uses br-05ab815fa14e", ""},
		{"[a:1:0:1] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n", "with a LID", "RoCE"},
		{"[a:1:0:1] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)\n", "RoCE v2", "with a LID"},
		{"[rank1]: terminated with exception: [Rank 1] Watchdog caught collectiv\ne operation timeout: WorkNCCL(SeqNum=13, OpType=SCATTER, NumelIn=384, NumelOut=0, Timeout(ms)=1800000) ran for 1800085 milliseconds\n[rank1]:[E307 ProcessGroupNCCL.cpp:758] [Rank 1] To avoid data inconsistency, we are taking the entire process down.\n", "Rank 1 waited in SCATTER number 13", ""},
		{" Completion with error at client\n Failed status 10: wr_id 0 syndrom 0x88\n", "Give both sides the same options", "nvidia_peermem"},
		{cuda + " Failed status 10: wr_id 0 syndrom 0x88\n", "nvidia_peermem", "the same options"},
		{"mpirun -H a:1,b:1 -x NCCL_IB_CUDA_SUPPORT=1 train\nssh: connect to host 192.0.2.1 port 50000: Connection refused\n", "line 2: error:  A host does not answer SSH", ""},
		{"mpirun -np 2 -H a:1,b:1 python t.py\na:1:2 [0] NCCL INFO NET : Using interface br0:192.0.2.1<0>\na:1:2 [0] NCCL INFO NET : Using interface bond0:fe80::1%bond0<0>\n", "Link-local interfaces among NCCL's", ""},
		{"$ sudo sanity\nAssertion \"(gdr_pin_buffer(g, d_ptr, size, 0, 0, &mh)) == (0)\" failed at sanity.cpp:188\n", "error:  GDRCopy cannot pin GPU memory", "gdrdrv on the host"},
		{lshca + "0000:04:00.0 | mlx5_0 | ib0 | 0 | actv | up_ip4 | IB | 200\n0000:04:00.1 | mlx5_1 | ib1 | 0 | down | down | IB | 10*\nexport NCCL_IB_HCA==mlx5_1\n", "error: NCCL_IB_HCA Device that is down", ""},
		{lshca + "0000:04:00.0 | mlx5_0 | ib0 | 0 | actv | up_ip4 | IB | 200\n", "", "down"},
		{watchedAt("0", "8", "9", "7") + watchedAt("3", "8", "8", "7"), "", "did not come"},
		{watchedAt("0", "1", "1", "-1"), "It is one of the group's first", ""},
		{watchedAt("0", "8", "9", "7"), "", "one of the group's first"},
		{watchedAt("0", "8", "9", "7") + watchedAt("3", "6", "6", "6"), "error:  A rank did not come to a collective", ""},
		{watchedAt("0", "8", "9", "7") + watchedAt("3", "7", "7", "6"), "warning:  A rank is still in a collective", "did not come"},
		{watchedAt("0", "8", "9", "7") + watchedAt("1", "4", "4", "4") + watchedAt("1", "8", "9", "7"), "", "did not come"}, // two groups of one name
		{"a0b1c2d3e4f5:1:2 [0] NCCL INFO Bootstrap : Using eth0:172.18.0.2<0>\n", "Bootstrap over Docker's own network", ""},
		{"gpu1:1:2 [0] NCCL INFO Bootstrap : Using eth0:172.18.0.2<0>\n", "", "Docker"},
		{"gpu1:1:2 [0] misc/socket.cc:9 NCCL WARN socketStartConnect: Connect to 172.20.0.1<41323> failed : Connection refused\n", "may be an address of a network that Docker made", ""},
		{oneNIC + "# Avg bus bandwidth    : 12.3456\n", "All GPUs share one NIC", ""},
		{strings.Replace(oneNIC, " [RO]", " [1]mlx5_1:1/IB [RO]", 1) + "# Avg bus bandwidth    : 12.3456\n", "", "share one NIC"},
		{"NCCL version 2.21.5+cuda12.4\nexport NCCL_DMABUF_ENABLE=1\n", "Equal to NCCL's default", ""},
		{"RCCL version 2.21.5\nnode:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_ib0'\n", "AMD's GPUs need", "nvidia_peermem"},
		{"ib_write_bw -R 10.0.0.1\nrdma_resolve_route failed\nUnable to init the socket connection\n", "RDMA CM cannot reach the peer", "error:  The other side does not answer"},
		{"ib_send_bw -R 10.0.0.1\nFailed to modify QP to RTS\n Unable to Connect the HCA's through the link\n", "error:  The two sides of the test cannot connect", "memlock"},
		{"UCX_IB_GID_INDEX=2 ucx_perftest -d mlx5_0:1\nGID[  0]:\t\tfe80::1\nGID[  2]:\t\t::ffff:192.0.2.100\nhost 2:\nGID[  0]:\t\tfe80::2\nGID[  1]:\t\t::ffff:192.0.2.1\n", "error: UCX_IB_GID_INDEX Empty GID", ""},
		{"UCX_IB_GID_INDEX=1 ucx_perftest -d mlx5_0:1\nGID[  0]:\t\tfe80::1\nGID[  1]:\t\tfe80::1\nGID[  2]:\t\t::ffff:192.0.2.100\nhost 2:\nGID[  0]:\t\tfe80::2\nGID[  1]:\t\t::ffff:192.0.2.1\n", "error: UCX_IB_GID_INDEX One index, different GIDs", ""},
		{"UCX_IB_GID_INDEX=0 ucx_perftest -d mlx5_0:1\nGID[  0]:\t\tfe80::1\nGID[  2]:\t\t::ffff:192.0.2.100\nhost 2:\nGID[  0]:\t\tfe80::2\nGID[  1]:\t\t::ffff:192.0.2.1\n", "", "GID_INDEX"},
		{"export NCCL_IB_GID_INDEX=1\nGID[  0]:\t\tfe80:0000:0000:0000:ee0d:9a03:0001:0001\n", "", "Empty GID"}, // InfiniBand
		{"export NCCL_IB_GID_INDEX=3\nGID[  3]:\t\t2001:db8::1, RoCE v2\nGID[  0]:\t\tfe80::1, RoCE v1\nGID[  3]:\t\t::ffff:192.0.2.1, RoCE v2\n", "One index, different GIDs", ""},
		{"$ show_gids\nDEV\tPORT\tINDEX\tGID\tIPv4\tVER\tDEV\n---\t----\t-----\t---\t------------\t---\t---\nn_gids_found=0\n", "error:  No GID", "no problems found"},
		{" Failed status 4: wr_id 0 syndrom 0x51\n./ib_write_bw -a -F -d mlx5_0 --use_cuda=0\n", "nvidia_peermem", "the same options"},
		{"[node1:1:0] ib_mlx5dv_md.c:223  UCX  ERROR mlx5dv_devx_qp_modify(502) failed, syndrome 0: Invalid argument\ndc_mlx5.c:512  UCX  ERROR ibv_modify_qp(DCI, RTR) failed : Invalid argument\n", "Firmware or driver refuses UCX", "RoCE v2"},
		{"NCCL_DEBUG=INFO mpirun -np 2 -hosts a,b ./build/all_reduce_perf -g 8\n", "", "Not set on the other hosts"},
		{"NCCL_DEBUG=INFO mpirun -np 2 -H a,b ./build/all_reduce_perf -g 8\n", "Not set on the other hosts", ""},
		{"ibgda.cpp:nvshmemt_init:3626: neither nv_peer_mem, or nvidia_peermem detected. Skipping transport.\ntransport.cpp:275: init failed for transport: IBGDA\n", "It found no nvidia_peermem", "PeerMappingOverride"},
		{"allocated GPU buffer address at 000001030b000000\nCouldn't register MR\n", "GPU memory cannot be registered", "launcher"},
		{"FailedCreatePodSandBox: error adding container to network \"a\": infiniBand SRI-OV CNI failed to configure VF \"VF ib4 GUID is not valid\"\n", "has no GUID", ""},
		{"FailedCreatePodSandBox: error adding container to network \"a\": SRIOV-CNI failed to configure VF \"failed to set vf 2 vlan: operation not supported\"\n", "Use the plugin ib-sriov", ""},
		{"command:\n# mpirun -np 2 -H a,b -x NCCL_IB_HCA=mlx5 ./build/all_reduce_perf -g 8\n", "1 setting", ""},
		{"```\nmodprobe: ERROR: could not insert 'abc': Invalid argument\n```\nexport NCCL_DEBUG=INFO\n", "not_understood 1: 2", ""},
		{"UCX  ERROR ibv_reg_mr failed: Cannot allocate memory\ninfiniband mlx5_0: create_mkey_callback:131:(pid 0): async reg mr failed. status -12\n", "error:  The NIC has no room left", "error:  memlock"},
		{"UCX  ERROR ibv_reg_mr failed: Cannot allocate memory\n", "error:  memlock", ""},
		{"mpirun -np 2 -x UCX_ERROR_SIGNALS=SIGILL,SIGSEGV,SIGBUS,SIGFPE ./a\nUCX  ERROR a failed\n", "", "Bus error"},
		{"link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 3 sm_lid 1 lmc 0 state ACTIVE physical_state LINK_UP\nlink mlx5_1/1 subnet_prefix fe80:0000:0000:0000 lid 65535 sm_lid 0 lmc 0 state DOWN physical_state DISABLED\n", "A virtual function of InfiniBand stays down", ""},
		{"link rocep1s0f0/1 state ACTIVE physical_state LINK_UP netdev eth1\nlink mlx5_0/1 rx_write_requests 7\n", "", "down"},
		{"ibrc.cpp:417: non-zero status: 101 ibv_modify_qp failed\n", "NVSHMEM_HCA_LIST", "NCCL_CROSS_NIC"},
		{"     rx_prio0_bytes: 8\n     rx_prio3_bytes: 0\nexport NCCL_DEBUG=INFO\n", "", "Priority"},
		{"     rx_prio3_bytes: 0\nexport NCCL_DEBUG=INFO\n", "Priority that nothing asks for", ""},
		{"mlx5_bond_0/1: QP 51291 error: local length error (0x8e 0x0 0x0)\n", "", "Ranks do not agree"},
		{"a RDMA WRITE failing with remote invalid request error\n", "use one version of the program", ""},
		{"# OSU MPI-ROCM Bandwidth Test v7.3\nib_md.c:309  UCX  ERROR ibv_reg_mr(address=0x7fe35ea00000, length=16, access=0x10000f) failed: Invalid argument\n", "AMD's GPUs need", "nvidia_peermem"},
		{"mlx5_2 port 1 ==> ibp75s0 (Up)\nmlx5_20 port 1 ==> ibp141s0v0 (Down)\n", "An interface is down", ""},
		{"UCX  ERROR mlx5 connect on mlx5_1 failed: Connection timed out\n", "error:  The peer's address does not answer", ""},
		{"Event: RDMA_CM_EVENT_REJECTED; error: -111.\nFailed to handle RDMA CM event.\n", "With many queue pairs", "not_understood"},
		{"infiniband mlx5_0: mlx5_poll_one:530:(pid 0): syndrome 0x4, vendor syndrome 0x51\n", "Memory protection error", "nvidia_peermem, or use the open driver with dma-buf (NCCL 2.13.4 or later). On bare metal disable ACS, and set the IOMMU to passthrough (iommu=pt). NCCL_NET"},
		{"download: Failed status 500, remote access error\nexport NCCL_DEBUG=INFO\n", "", "Flushed"},
		{"WARN: Function: create_nccl_ofi_component Line: 459: NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument\n[ 1632.42] infiniband efa_0: Failed to process command ALLOC_PD (opcode 14) comp_status 1 err -12\n", "error:  The EFA device has no room left", "error:  AWS's plugin reports an error"},
		{"gpu6:1:2 [1] NCCL INFO NET/IB : Using " + many + "; OOB :\n", "warning:  Many devices", ""},
		{"gpu6:1:2 [1] NCCL INFO NET/IB : Using " + few + "; OOB eth0:10.0.0.1<0>\n", "", "Many devices"},
		{gpus("NV18"), "note:  GPU without a NIC on its NUMA node", "do not use this GPU"},
		{gpus("SYS"), "warning:  GPU without a NIC on its NUMA node", "PXN"},
	} {
		got := asText(Explain("a.log", c.text, nil, fabric.Invocation{}))
		if !strings.Contains(got, c.says) || c.notSays != "" && strings.Contains(got, c.notSays) {
			t.Errorf("%s: want %q and not %q, got %s", c.text, c.says, c.notSays, got)
		}
	}
}

// TestLibmlx5Dump: the last row of the completion that libmlx5 dumps has its status (huggingface/accelerate#2960).
func TestLibmlx5Dump(t *testing.T) {
	const dump = "mlx5: node95: got completion with error:\n00000000 00000000 00000000 00000000\n00000000 00000000 00000000 00000000\n00000001 00000000 00000000 00000000\n00000000 0000%s 100009e8 000045d2\n"
	for status, want := range map[string]string{"8914": "The peer's NIC refused a request", "8115": "Packets are lost, or the peer is gone", "0077": "RDMA operation failed"} {
		if got := Explain("log", fmt.Sprintf(dump, status), nil, fabric.Invocation{}); severity(got, want) != env.Error {
			t.Errorf("%s: got %s", status, asText(got))
		}
	}
}
