package explain

import "slices"

const (
	ibgdaDriver = "Load the driver with NVreg_EnableStreamMemOPs=1 and NVreg_RegistryDwords=\"PeerMappingOverride=1;\" (options nvidia … in /etc/modprobe.d, rebuild the initramfs, reboot), start the container with --privileged, and use ConnectX NICs. NVSHMEM_IBGDA_NIC_HANDLER=cpu (with GDRCopy) does without the driver's options. A job that does not need IBGDA runs with NVSHMEM_IB_ENABLE_IBGDA=0."
	loadPeermem = "Load nvidia_peermem on the host (modprobe nvidia-peermem); NVSHMEM 3 can also use dma-buf with the open driver."
	noPeermem   = "nvidia_peermem is not loaded"
	ownLines    = "Its own lines before this one name the reason: NVSHMEM_DEBUG=INFO shows more."
)

// nvshmemMeanings are lines of NVSHMEM 3.4.5 (src/host, src/modules/transport), which DeepEP uses, and of UCC. NVSHMEM reports an error as
// "file:line: non-zero status: N TEXT" or "file:line: NULL value TEXT"; N may be an errno (words.go).
var nvshmemMeanings = []*meaning{
	{role: harmless, summary: "NVSHMEM tells what it does", forms: []string{"transport_ib_common.h*Ip address*is invalid for family" /* its default ::/0 */}},
	{role: cause, summary: "NVSHMEM's IBGDA cannot start", costs: "The GPU is to write to the NIC itself, for which it must map the NIC's registers: the driver's options or the container's rights do not allow it, or the NIC is not a ConnectX.", instead: ibgdaDriver,
		forms: []string{"cannot allocate mlx5dv_devx_uar", "cudaHostRegister with IoMemory failed"}},
	{role: symptom, summary: "NVSHMEM's IBGDA cannot start", costs: "The GPU is to write to the NIC itself, for which it must map the NIC's registers: the driver's options or the container's rights do not allow it, nvidia_peermem is missing, or the NIC is not a ConnectX.", instead: ibgdaDriver, more: withoutPeermem,
		forms: []string{"init failed for transport: IBGDA"}},
	{role: cause, summary: "NVSHMEM_IBGDA_NIC_HANDLER does not fit", costs: "cpu needs GDRCopy, which does not work here.", instead: "Load gdrdrv and give the container /dev/gdrdrv, or choose auto, gpu or cpu_host_memory.", forms: []string{"NVSHMEM_IBGDA_NIC_HANDLER=cpu requires GDRCopy", "NVSHMEM_IBGDA_NIC_HANDLER is not valid"}},
	{role: hint, summary: "NVSHMEM leaves a NIC out", costs: "Its transports IBGDA and IBDEVX work on ConnectX NICs alone.", instead: "Name the right ones in NVSHMEM_HCA_LIST, or use NVSHMEM_REMOTE_TRANSPORT=ibrc (or libfabric).", forms: []string{"is not enumerated as an mlx5 device"}},
	{role: hint, summary: "NVSHMEM lacks libmlx5", costs: "Its transports that program ConnectX NICs directly (IBGDA, IBDEVX) need rdma-core's library libmlx5, and the process does not find it.", instead: "With ConnectX NICs, install rdma-core's providers in the image (ibverbs-providers, or RHEL: libibverbs). Other NICs do without.", forms: []string{"Unable to dlopen libmlx5"}},
	{role: hint, summary: "NVSHMEM leaves a NIC out", costs: "IBGDA keeps its queues in GPU memory, and this NIC cannot reach it: nvidia_peermem is not loaded and dma-buf does not work, or the driver's options for IBGDA are missing.", instead: "Load nvidia_peermem on the host, or use the open driver with dma-buf, and set the driver's options for IBGDA. NVSHMEM_IBGDA_NIC_HANDLER=cpu does without them.", forms: []string{"cannot allocate buffer on the specified memory type"}},
	{role: symptom, summary: "The peer's address does not answer", costs: "Neighbour resolution failed for the peer's GID, or, on RoCE, NVSHMEM 3.4.5 and earlier pass an attribute that they did not set (NVIDIA/nvshmem#21).", instead: "Check with ping -I NIC that the peer's address answers from this NIC. If it does, take a later NVSHMEM than 3.4.5. Pin the RoCE v2 index with an IPv4 address on every host: NVSHMEM_IB_GID_INDEX (show_gids). NVSHMEM_HCA_LIST selects NICs of one network.",
		forms: []string{"Unable to create ah."}},
	{role: symptom, summary: "NVSHMEM's memory cannot be registered", costs: "The NIC cannot map the symmetric heap: GPUDirect RDMA does not work, or memlock is limited.", instead: gpuMem + " " + memlock,
		forms: []string{"mem registration failed", "register_mem_handle failed for remote", "cannot register cq buf", "cannot register wq buf", "cannot register dbr buf"}},
	{role: hint, summary: noPeermem, costs: "NVSHMEM leaves out a transport that needs it for GPUDirect RDMA.", instead: loadPeermem, forms: []string{"neither nv_peer_mem, or nvidia_peermem detected"}},
	{role: cause, summary: "NVSHMEM has no way to a GPU", costs: "GPUs of one host have no peer access, and no RDMA transport works.", instead: "See nvidia-smi topo -p2p r (peer access) and the lines before this one. For RDMA load nvidia_peermem, and compare ibv_devinfo with NVSHMEM_HCA_LIST.", forms: []string{"Peer GPU*is not accessible, exiting", "Unable to initialize any transports"}},
	{role: hint, summary: "A transport of NVSHMEM cannot start", costs: "NVSHMEM goes on with the other transports, if there is one.", instead: ownLines, forms: []string{"init failed for remote transport", "init failed for transport: P2P"}},
	{role: cause, summary: "NVSHMEM's plugin is not found", costs: "NVSHMEM loads its bootstrap and its transports as libraries of its own version.", instead: "Add NVSHMEM's lib directory to LD_LIBRARY_PATH on every host, and remove other versions (pip: nvidia-nvshmem).", forms: []string{"Bootstrap unable to load"}},
	{role: symptom, summary: "NVSHMEM's processes do not meet", costs: "Its bootstrap failed: the launcher does not offer what NVSHMEM_BOOTSTRAP asks for (PMI, PMIx, MPI), or the hosts do not reach each other over TCP.", instead: "Start it by the launcher that fits (NVSHMEM_BOOTSTRAP=MPI with mpirun, PMIX with srun --mpi=pmix), and set NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME to an interface that reaches all hosts.",
		forms: []string{"nvshmem_bootstrap failed", "bootstrap_preinit failed", "bootstrap_init failed", "Bootstrap plugin init failed", "nvshmemx_api.h:*Connection timed out", "ncclsocket_socket.cpp:*exceeded timeouts", "ncclsocket_socket.cpp:*exceeded retries", "ncclsocket_socket.cpp:*onnect to*failed"}},
	{role: symptom, vague: true, summary: "NVSHMEM's processes do not meet", costs: "Two processes are at different steps of the bootstrap: one of them failed, or has another version of NVSHMEM.", instead: "Read each process's first error, and install one NVSHMEM on all hosts.", forms: []string{"bootstrap_net_recv*Message truncated"}},
	{role: hint, summary: "NVSHMEM cannot read the kind of a GID", costs: "The GID's file under /sys/class/infiniband/…/gid_attrs/types gives an error, as for an index without an entry, or in a container with another network namespace. NVSHMEM passes over this GID when it chooses one.", instead: "Look at show_gids in the same container. Run it in the host's network, and give each NIC an IPv4 address, or pin an index that is RoCE v2 on every host: NVSHMEM_IB_GID_INDEX.", forms: []string{"read failed in ib_roce_get_version_num"}},
	{role: effect, summary: "NVSHMEM is not initialized", costs: "Its start failed before this call.", instead: "Look for NVSHMEM's first line with an error.", forms: []string{"NVSHMEM API called before NVSHMEM initialization has completed", "nvshmem API called before nvshmem_init"}},
	{role: symptom, vague: true, summary: "NVSHMEM ended with an error", costs: "NVSHMEM reports that a step failed.", more: explainNVSHMEM, instead: "Look for its first line: the later ones follow from it. NVSHMEM_DEBUG=INFO shows more.", forms: []string{"nvshmem*: non-zero status: ", "nvshmem*: NULL value ", "nvshmem initialization failed, exiting"}},

	{role: symptom, summary: "MPI's processes do not share memory", costs: "UCC, the collectives of MPI (HPC-X), takes processes of one machine for those of one host, and they are in different containers.",
		instead: "Run them in one container or with --ipc=host, or turn UCC off: mpirun --mca coll_ucc_enable 0. NCCL's data do not go through it.", forms: []string{"TL_SHM ERROR"}},
	{role: symptom, vague: true, summary: "UCC reports an error", costs: "UCC is the library for the collectives of MPI (HPC-X); NCCL does not use it.", instead: "Turn it off: mpirun --mca coll_ucc_enable 0 --mca coll_hcoll_enable 0.", forms: []string{" TL_*ERROR", " CL_*ERROR", "UCC  ERROR", "UCC ERROR"}},
	{role: cause, summary: "The hosts are not in one NVLink domain", costs: "This test maps GPU memory of other hosts, which only multi-node NVLink can do: the hosts must be of one NVLink domain (as in GB200 NVL72), with IMEX. Hosts with eight GPUs and NICs between them are not.",
		instead: "Within a domain start nvidia-imex on all hosts, with the same nodes_config.cfg, and give containers /dev/nvidia-caps-imex-channels. Otherwise measure between hosts with nccl-tests.", forms: []string{"MultinodeMemoryAllocation" /* nvbandwidth */}},
}

// nvshmemSteps are words of NVSHMEM's errors (src/host, src/modules/transport), and what they mean.
var nvshmemSteps = []struct {
	words                   []string
	summary, costs, instead string
}{
	{[]string{"cq creation failed", "qp creation failed", "srq creation failed", "pd creation failed", "ep_create failed", "creating qp", "create qp"}, "NVSHMEM's queues cannot be made", "A NIC refuses a queue or connection: memlock is limited, its port is not active, or it has no room for so many (IBGDA makes them for each peer).",
		"Look at ulimit -l and ibv_devinfo inside of the job, and at dmesg for that NIC. Name only the fabric's NICs in NVSHMEM_HCA_LIST. " + memlock},
	{[]string{"multicast", " MC ", "NVLS"}, "NVSHMEM cannot use NVLink SHARP (NVLS)", "CUDA refuses multicast memory of the GPUs' switches: mostly the Fabric Manager is in a wrong state, or a virtual machine or container has a part of the GPUs.", "Set NVSHMEM_DISABLE_NVLS=1 to go without. " + manager},
	{[]string{"too many teams", "more teams available"}, "NVSHMEM has no more teams", "The program makes more teams than NVSHMEM was told to keep room for.", "Raise NVSHMEM_MAX_TEAMS, or let the program destroy teams that it no longer needs."},
	{[]string{"same number of PEs on all nodes"}, "Hosts have different numbers of processes", "NVSHMEM needs equally many processes on each host.", "Start as many on every host. Hosts with one name, or containers on one host, are counted together or apart by their host name."},
	{[]string{"No NICs were assigned", "No devices selected"}, "NVSHMEM finds no NIC", "No NIC that NVSHMEM may use is there: none is active, or NVSHMEM_HCA_LIST and NVSHMEM_HCA_PE_MAPPING name others.", "Compare ibv_devinfo in the same container with these variables."},
	{[]string{"incompatible version", "major version (", "different than the version"}, "NVSHMEM's parts do not fit together", "Library, plugins and program are of different versions of NVSHMEM.", "Keep one NVSHMEM in LD_LIBRARY_PATH and in the image (pip: nvidia-nvshmem), and build the program with it."},
}

// explainNVSHMEM says more of a step that failed by the words for it.
func explainNVSHMEM(_ *logged, m string) (summary, costs, instead string) {
	for _, s := range nvshmemSteps {
		if anyOf(m, s.words) {
			return s.summary, s.costs, s.instead
		}
	}
	return "", "", ""
}

// withoutPeermem says more of a transport that found no nvidia_peermem.
func withoutPeermem(l *logged, _ string) (summary, costs, instead string) {
	at := slices.IndexFunc(l.inOrder, func(r *report) bool { return r.summary == noPeermem })
	if at < 0 {
		return "", "", ""
	}
	return "", "It found no nvidia_peermem, which it needs for GPUDirect RDMA.", loadPeermem
}
