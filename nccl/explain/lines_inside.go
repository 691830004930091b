package explain

import "strings"

const (
	ginBy     = "Check that every rank says \"Using network IB\" (or names a plugin with GIN), that its GPU has an RDMA NIC, and that all NCCL_… variables are equal on all hosts."
	pluginFit = "Install a plugin of a version that fits this NCCL, or set NCCL_NET_PLUGIN=none to go without it."
)

// insideMeanings are NCCL's own checks, the parts of NCCL that few jobs use (GIN, one-sided operations, RAS, repair of ports), and system
// calls (SYSCHECK in src/include/checks.h). They come last: the forms for system calls, RAS and Windows fit lines that no version prints yet.
const rasTrouble = "RAS reports an error (diagnostics only)"

var insideMeanings = []*meaning{
	// GPU-initiated networking and one-sided operations (src/gin, src/rma, src/transport/net_ib/gin.cc): 2.28.7–.
	{role: cause, summary: "GPU-initiated networking is not available", costs: "The program asks for GPU-initiated networking or one-sided operations, and this rank or another one has no network device that can do them.", instead: ginBy,
		forms: []string{"NCCL WARN GIN not supported", "NCCL WARN RMA not supported", "No RMA-capable devices found", "GIN Proxy: RMA backend not found", "in connect : min local net count is zero", "Rma connect : min local net count is zero"}},
	{role: cause, summary: "GPU-initiated networking is switched off", costs: "The program asks for GPU-initiated networking, and NCCL_GIN_ENABLE=0 forbids it.", instead: "Remove NCCL_GIN_ENABLE on all hosts.", forms: []string{"NCCL WARN GIN is disabled"}},
	{role: cause, summary: "NCCL_GIN_TYPE does not fit", costs: "NCCL_GIN_TYPE asks for another kind of GPU-initiated networking than the device or the plugin offers.", instead: "Remove NCCL_GIN_TYPE on all hosts, and the plugin if one is loaded (NCCL_NET_PLUGIN=none).",
		forms: []string{"GIN-capable device type mismatch", "RMA proxy backend type mismatch"}},
	{role: cause, summary: "GPU-initiated networking lacks a function", costs: "The program asks for a function that this backend (the plugin, or NCCL's own for this NIC and driver) does not have.",
		instead: "Try another backend (NCCL_GIN_TYPE=2 goes through the processor, 3 lets the GPU drive the NIC; without a plugin: NCCL_NET_PLUGIN=none), a newer NCCL, or a program that does not need that function.",
		forms:   []string{"GIN plugin does not support", "signals are required, but the GIN plugin", "requires DMABUF support with GIN", "GIN_IB_PROXY does not support", ": Unsupported signalOp"}},
	{role: cause, summary: "Memory windows are not supported here", costs: "One-sided operations and GPU-initiated networking need symmetric memory: cuMem, direct access between all GPUs of a host, and, with several hosts, a network that supports them.",
		instead: "Remove NCCL_CUMEM_ENABLE=0, NCCL_WIN_ENABLE=0, NCCL_P2P_DISABLE and NCCL_P2P_LEVEL. Between hosts: " + ginBy,
		forms:   []string{"Communicator does not support symmetric memory", "One sided RMA: *not supported in this communicator"}},
	{role: symptom, summary: "Memory could not be registered", costs: "A window of the program's memory cannot be registered with the NIC: the GPU's memory cannot be shared with it, or memlock is limited. The reason is mostly in the line before it.", instead: gpuMem + " " + memlock,
		forms: []string{"GIN Symmetric register failed", "RMA Symmetric register failed", "failed to NET register userbuff" /* 2.24.3–2.25.1 */}},
	{role: effect, summary: "An operation of GPU-initiated networking failed", costs: "The NIC, the connection or the peer failed while the program ran.", instead: "Look for a completion or an event of a NIC before it, on this rank and on the others. dmesg may name the device.",
		forms: []string{"NCCL WARN GIN Error detected", "Error on GFD test"}},
	{role: symptom, summary: "An operation of GPU-initiated networking failed", costs: "While a communicator starts, NCCL 2.28.7 to 2.29.3 also says this without an error (NVIDIA/nccl#2019). Otherwise the NIC, the connection or the peer failed.", instead: "Upgrade to NCCL 2.29.7 or later. If the program does not need it, set NCCL_GIN_ENABLE=0 on all hosts.", forms: []string{"GIN Error on gin context"}},
	{role: symptom, summary: "The GPU cannot drive the NIC", costs: "DOCA GPUNetIO, by which a GPU drives the NIC itself, failed: driver, firmware or GPU do not support it here, or the container lacks a device.", instead: "Set NCCL_GIN_TYPE=2, which goes through the processor. Otherwise update the NIC's firmware and driver, and use the open GPU driver. " + gpuMem,
		forms: []string{"NCCL WARN DOCA failure", "NCCL WARN DOCA Error"}},

	{role: cause, summary: "Wrong use of NCCL", costs: "The program passes arguments that NCCL cannot use.", instead: "This is a mistake in the program, not in the network.",
		forms: []string{"ncclPutSignal: ", "ncclPutSignal currently does not support", "ncclSignal: count must be 0", "ncclWaitSignal: ", "NCCL WARN*is invalid (must be 0)", "Invalig config", "bcastGrowHandle: parent comm and handle must be provided", "NCCL WARN invalid device count (", "is larger than maxCTAs" /* 2.17.1; later with ", set both to" */}},
	{role: cause, summary: "No GPU in this process", costs: "ncclCommInitAll was given a GPU that this process does not see.", instead: "Check nvidia-smi inside the container, CUDA_VISIBLE_DEVICES and the program's list of GPUs.", forms: []string{"Invalid device*(totalnDev="}},
	{role: cause, summary: "A split communicator uses another network", costs: "With splitShare, a communicator shares its parent's resources, so both must use one network (netName of their configurations, NCCL_NET).", instead: "Give both the same netName, or switch splitShare off.", forms: []string{"Split shares resources, but parent comm netName"}},
	{role: cause, summary: "Threads race for one GPU", costs: "Two threads of the program launched NCCL's operations on one GPU at the same time, so that their order is undefined. NCCL_LAUNCH_ORDER_IMPLICIT needs it.", instead: "Launch from one thread for each GPU, or hold a lock. NCCL_LAUNCH_RACE_FATAL=0 only switches the check off.",
		forms: []string{"host threads racing to launch NCCL on same device" /* 2.26.2– */}},
	{role: cause, summary: "NCCL's kernels do not fit this GPU", costs: "They need more shared memory than this GPU has: this build of NCCL was not made for it.", instead: "Install a newer NCCL, built for this GPU.", forms: []string{"cudaArch*exceeds device/fn maxSharedMem" /* 2.26.2– */}},
	{role: hint, summary: "NCCL's kernels do not fit this GPU", costs: "They ask for more shared memory than this GPU has. NCCL 2.25.1 goes on with less, and its operations fail, as on GeForce GPUs of the RTX 50 series (NVIDIA/nccl-tests#287).", instead: "Install NCCL 2.26.2 or later.", info: true, forms: []string{"ncclMaxSharedMem*exceeds device/fn maxSharedMem" /* 2.25.1 */}},
	{role: cause, summary: "A setting stops NCCL", costs: "A variable or configuration asks for what NCCL or the NIC cannot do, and NCCL ends.",
		instead: "Remove the variable that the line is about: NCCL_IB_OOO_RQ (OOO RQ), NCCL_WORK_FIFO_DEPTH, NCCL_COMM_ID, NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE (alive message batch), or correct the planes in NCCL_IB_HCA.",
		forms:   []string{"NCCL_WORK_FIFO_DEPTH=*is too small" /* 2.13.4–2.21.5 */, "OOO RQ is force enabled but" /* 2.30.3– */, "alive message batch size*exceeds maximum", "NCCL cannot use more than*plane IDs", "NCCL cannot use a plane ID", "should not be called when NCCL_COMM_ID is set"}},
	{role: cause, summary: "PXN does not work without GPUDirect RDMA", costs: "NCCL sends through another GPU's NIC (PXN), for which the data must be in GPU memory, and GPUDirect RDMA is off for that NIC (NVIDIA/nccl-tests#340).", instead: "Set NCCL_PXN_DISABLE=1 on all hosts. Better: make GPUDirect RDMA work. " + gpuMem, forms: []string{"PXN should not use host buffers" /* 2.12.7– */}},
	{role: cause, summary: "Data Direct does not work", costs: "NCCL could not find the Data Direct interface of that NIC, and uses no RDMA device at all.", instead: "Set NCCL_IB_DATA_DIRECT=0 to go without it, or make the host's /sys visible in the container and update rdma-core.", forms: []string{"Error in mlx5dv_get_data_direct_sysfs_path" /* 2.28.3– */}},
	{role: cause, summary: "NICs cannot be merged", costs: "NCCL was asked to use devices as one that do not exist.", instead: "Correct NCCL_NET_FORCE_MERGE, or set NCCL_NET_MERGE_LEVEL=LOC, which turns merging off.", forms: []string{"Can't make virtual NIC with 0 devices", "NET/IB : Cannot use physical device"}},
	{role: cause, summary: "A network plugin does not fit", costs: "A plugin returned a value that NCCL cannot use.", instead: pluginFit,
		forms: []string{"net plugin returned invalid value for maxP2pBytes", "GIN plugin*returned invalid context", "returned success with NULL request"}},
	{role: hint, summary: "The hosts are in different InfiniBand subnets", costs: "The peer's GID has no FLID, so NCCL sends to its LID, which is valid in one subnet alone: packets may not arrive.", instead: "Let the subnet manager set FLIDs (NCCL_IB_ROUTABLE_FLID_GID_INDEX selects their GID), or use hosts of one subnet.", forms: []string{"remote FLID configured as zero" /* 2.22.3– */}},
	{role: symptom, summary: "The CPU affinity cannot be set", costs: "The system does not let the process run on the processors near its GPU.", instead: "Remove NCCL_IGNORE_CPU_AFFINITY, and compare the processors that the job or container may use (taskset -p, cpuset) with nvidia-smi topo -m.", forms: []string{"sched_setaffinity failed with error", "sched_getaffinity failed with error" /* 2.29.2– */}},
	{role: cause, summary: "Host memory is full", costs: "No memory was left on the host, or in the container's cgroup.", instead: "Raise the job's memory limit, or use less memory.", forms: []string{"Bootstrap thread : failed to allocate memory", "NCCL WARN Allocation failed" /* 2.30.3– */, "Failed to allocate failure queue node", "Failed to allocate memory for adapter addresses"}},

	// Repair of failed ports (src/transport/net_ib/p2p_resiliency.cc): 2.29.7–.

	{role: symptom, vague: true, summary: "An internal check of NCCL failed", costs: "NCCL met a state that its own code excludes: after an earlier error, with a plugin that does not fit, or because of a bug.",
		instead: "Look for an earlier error on any rank. If there is none, try a newer NCCL, and without plugins (NCCL_NET_PLUGIN=none, NCCL_TUNER_PLUGIN=none); if it remains, report it at github.com/NVIDIA/nccl/issues with the logs of all ranks (NCCL_DEBUG=INFO).",
		forms: []string{"Bootstrap Root : invalid op type", "NCCL WARN Unknown device error", "CUDA device*>= MAX", "test called with NULL request", "unable to allocate subtasks", "Error freeing shared buffer", "Invalid intra-node rank", "CUDA Graph helper resource is null", "Sendrecv schedule not aligned",
			"P2p operation is neither send or recv", "Invalid regBufType", "Unknown collnet pattern", "Net registration invalid algorithm", "Socket*: invalid socket", "ncclSocketMultiOp: invalid arguments", "ncclSocket*: socket is invalid", "bootstrapInit: handles and parent are NULL", "ncclProxyConnect: *out of bounds",
			"should be a diviser of the number of ranks", "NCCL WARN Group creation failed: ", "rror waiting for pthread_join", "failed to join thread for job", "memory register : no MR available", "trying to connect already connected", "Cannot store sizes of*requests", "NET/IB : Requested properties for", "Trying to use non-exist*virtual device",
			"ncclNetSocketListen dev=", "NET/IB*Invalid request index", "No format specified for opcode", "found for a successful completion", "NET/IB*request but got '", "Unknown completion (req=", "Cannot get gin type", "Invalid GIN*backend version", "Cannot get backend version for invalid GIN type", "NCCL WARN Dev comm not found",
			"RMA CE is not initialized", "RMA CE: peerBuff is NULL", "RMA proxy is not connected", "ncclRmaProxy*: unknown desc type", "ncclRmaProxy*: descriptor is not a ", "RMA proxy completed request", "NCCL WARN Not enough space to get elements", "RMA: trying to send to non-connected peer", "invalid rank stride"}},

	{role: hint, summary: "A failed NIC did not come back", costs: "NCCL_IB_RESILIENCY_PORT_RECOVERY tried to use the NIC again, and gave up: the job goes on without it.", instead: "Check the NIC's port and cable, and look for its first completion or event.", info: true,
		forms: []string{"NET/IB*Recovery for device*failed", "NET/IB*Port recovery failed for", "NET/IB*as permanently failed"}},
	{role: hint, summary: "A process does not answer RAS", costs: "RAS got no answer from the process that the line names: it has ended, it hangs, or the network to its host is down.", instead: "Look at that process and its host.", info: true, forms: []string{"RAS keep-alive timeout error", "RAS connect retry timeout", "RAS collective*timeout error"}},
	{role: harmless, summary: "NCCL tells what it does", info: true, forms: []string{"NET/IB: ncclIbPortRecovery", "NET/IB: ncclIbResiliency", " - Abort START", "failed to NET register userbuff" /* INFO from 2.26.2, and NCCL goes on */, "Unable to use GIN: Peermem is not supported, nor DMA-BUF", "Detected mixed local CollNet device counts*Ignoring due to", "Could not get speed for interface", "[Service thread] Accept failed",
		"NCCL_COMM_ID cannot be used with more than one", "thread context due to old driver", "Failed to create CUDA context*disabling", "Failed to set CUDA context on device*with error", "[Proxy Service UDS] exit: ", "mkstemp: Failed to create*retrying", "unlink shared memory", "Topology detection: could not read", "Call to ibv_set_ece failed", "Trying a different method", "Could not find real path of", "terminating the socket connection with", "PARAM: key ", "PARAM: type mismatch"}},
	{role: harmless, summary: "NCCL goes on without it", forms: []string{"Unable to register user buffers" /* 2.12.7–2.12.12 */, "Call to ibv_fork_init failed", "Call to ibv_query_qp failed", "Call to ibv_query_port_speed failed", "async fatal event on SRQ, unused for now", "Got async error event: ", "NET/IB*refcount now", "NET/IB*has non-zero (*) refcnt", "is larger than #channels upper limit", "CollNet currently only supports up to", "fails to share parent comms",
		"Both NCCL_CTA_POLICY_ZERO and NCCL_CTA_POLICY_EFFICIENCY", "graphStreamOrdering=0 with graphUsageMode=2", "NCCL WARN PARAM: Duplicate", "Resiliency requires pre-posted receive work requests", "communicator*with a single device. This does not make sense", "Unrecognized request. It might be a CTS message",
		"Encountered a stale CQE with error", "Resiliency context is NULL", "outstanding recovery operations on the resiliency context"}},

	// RAS only reports: NCCL goes on without it (src/init.cc).
	{role: hint, summary: rasTrouble, costs: "RAS reports about the job, and collectives do not need it. A program that connects to its port (28028, or that of NCCL_RAS_ADDR), as a scanner does, or a peer that has ended, is a frequent reason.", instead: "Ignore it unless ncclras does not answer. NCCL_RAS_ENABLE=0 switches it off.",
		forms: []string{"ras/ras.cc:*NCCL WARN ", "ras/client_support.cc:*NCCL WARN "}},
	{role: symptom, summary: "A call of Windows failed", costs: "The line names the call; Windows' error number says why.", instead: "net helpmsg NUMBER shows the error in words.", forms: []string{"os/windows*.cc:*NCCL WARN "}},
	{role: symptom, summary: "A system call failed", costs: "The line names the call, and the system's own words for the reason are at its end.", instead: "Look for lines before it. In a container check /sys, /dev and /proc, its limits (ulimit -a) and its security profile.", more: explainSystemCall,
		forms: []string{"NCCL WARN Call to*failed : ", "NCCL WARN Call to*failed: ", "NCCL WARN close failed: "}},
}

// explainSystemCall says more of a system call by the system's words for its error (strerror of the C library).
func explainSystemCall(_ *logged, m string) (summary, costs, instead string) {
	words := m[strings.LastIndex(m, ": ")+1:]
	switch {
	case anyOf(words, []string{"Operation not permitted", "Permission denied"}):
		return "The system forbids a call", "A file's permissions or a security profile (seccomp, SELinux, AppArmor) forbids the call that the line names.", "For a test, compare with a container without a profile (docker: --security-opt seccomp=unconfined). The kernel's audit log names the rule."
	case anyOf(words, []string{"Cannot allocate memory", "No space left on device"}):
		return "The system has no memory for a call", "The call that the line names got no memory, or no room in a file system.", "Check the job's memory limit, free memory, and df /dev/shm in the container."
	case anyOf(words, []string{"No such file or directory", "No such device"}):
		return "A file or device is missing", "The call that the line names did not find its file or device.", "Look at the lines before it, and whether the container has the host's /sys and its own /dev/shm."
	case anyOf(words, []string{"not connected", "Connection reset by peer", "Broken pipe"}):
		return "A peer closed the connection", "The call that the line names met a connection that the peer had closed.", onePeer
	}
	return "", "", ""
}
