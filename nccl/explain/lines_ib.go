package explain

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

const (
	memlock  = "Set memlock to unlimited for the job: with --ulimit memlock=-1 in a container, LimitMEMLOCK=infinity in systemd (also of slurmd). Check with ulimit -l inside the job. A process with CAP_IPC_LOCK has no limit: there the NIC or the GPU is out of resources."
	gpuReach = "Check that the NIC may reach the GPU: load nvidia_peermem, or use the open driver with dma-buf (NCCL 2.13.4 or later). On bare metal disable ACS, and set the IOMMU to passthrough (iommu=pt)."
	gpuMem   = gpuReach + " NCCL_NET_GDR_LEVEL=LOC turns GPUDirect RDMA off, which shows whether it is the reason."
	ownDev   = "an index whose DEV column in show_gids is an interface of this container"
	bySubnet = "NCCL_IB_SUBNET_AWARE_ROUTING=1, NCCL_IB_SUBNET_PREFIX_LEN (default 24), NCCL_IB_MERGE_NICS=0 and NCCL_NET_PLUGIN=none (NCCL 2.30.7 or later)"
	pinTo    = "Until then pin NCCL_IB_GID_INDEX to the RoCE v2 index of the NIC's address: a pinned index skips the search."
	samePin  = "Remove NCCL_IB_GID_INDEX with NCCL 2.21 or later, or pin an index that is RoCE v2 with an IPv4 address on every host; show_gids lists them."
	onelink  = "Select the devices of one kind with NCCL_IB_HCA, with = in front: either the InfiniBand or the RoCE ports."
)

// ibMeanings are lines about RDMA. Up to 2.28 they are in src/transport/net_ib.cc, later in src/transport/net_ib/; calls of libibverbs
// are reported by src/misc/ibvwrap.cc: "failed with error TEXT" up to 2.18.6, with "errno N" from 2.19.1, and ibv_modify_qp as
// "failed with N TEXT, on dev …" from 2.24.3.
var ibMeanings = []*meaning{
	{role: symptom, summary: "The peer's address does not answer", costs: "Neighbour resolution failed for the peer's GID.",
		instead: "Check with ping -I NIC that the peer's address answers from this NIC: cable, VLAN, subnet and switch. Between rails that are separate networks set NCCL_CROSS_NIC=0; direct cables between three hosts need " + bySubnet + ". See with show_gids that the GID in use is RoCE v2 with an IPv4 address. `fabricform verify` checks each link.", more: apart,
		forms: []string{"ibv_modify_qp failed with error Connection timed out" /* –2.23.4 */, "ibv_modify_qp failed with 110" /* 2.24.3– */, "ibv_create_ah(*failed: Connection timed out" /* UCX */}},
	{role: cause, summary: "GID of another network namespace", costs: "The GID belongs to a NIC that this container does not have.", more: absent,
		instead: "Set NCCL_IB_ADDR_RANGE to the subnet of the container's own NIC (NCCL 2.21 or later), or run the container in the host's network. A pinned NCCL_IB_GID_INDEX must be " + ownDev + ".",
		forms:   []string{"ibv_modify_qp failed with error No such device", "ibv_modify_qp failed with 19 "}},
	{role: cause, summary: "Empty GID", costs: "The GID index is empty on this device: it is pinned, or the address has gone.", instead: "Remove NCCL_IB_GID_INDEX with NCCL 2.21 or later, and check that the NIC still has its IPv4 address.",
		forms: []string{"ibv_modify_qp failed with error No data available", "ibv_modify_qp failed with 61 "}},
	{role: cause, summary: "Incompatible GIDs", costs: "The NIC rejects the connection's addresses: often the two ends have GIDs of different kinds (IPv4 and link-local, RoCE v1 and v2), or a pinned index is another address on one host. NCCL before 2.21 takes index 0 unless NCCL_IB_GID_INDEX is set. A NIC whose driver is in iWARP mode (irdma) refuses, too.", more: incompatible,
		instead: samePin, forms: []string{"ibv_modify_qp failed with error Invalid argument", "ibv_modify_qp failed with 22 "}},
	{role: cause, summary: "No route to the peer's GID", costs: "The peer is in another subnet, and this host has no route to it from that NIC.", more: apart,
		instead: "Give both ends of a link one subnet, or add a route. Between rails that are separate networks set NCCL_CROSS_NIC=0, and cable the NICs in the order of their PCI addresses on all hosts. Direct cables between three hosts need " + bySubnet + ".",
		forms:   []string{"ibv_modify_qp failed with error Network is unreachable", "ibv_modify_qp failed with 101"}},
	{role: cause, summary: "No host answers for the peer's GID", costs: "The neighbour entry of the peer's address has failed, or a route forbids it.", more: linkLocal,
		instead: "Check cable, VLAN and subnet of both NICs with ping -I NIC, or with `fabricform verify`.",
		forms:   []string{"ibv_modify_qp failed with error No route to host", "ibv_modify_qp failed with 113"}},

	{role: symptom, vague: true, summary: "The NIC refuses to connect", costs: "The driver rejects a step of the connection. The system's own words for the reason are in the line, from NCCL 2.14 on.", instead: "Read dmesg for that device, compare the GIDs and active MTU of both ends (show_gids, ibv_devinfo), and let `fabricform verify` check the link.", more: linkLocal,
		forms: []string{"ibv_modify_qp failed", "ibv_query_ece failed with error", "ibv_set_ece failed with error"}},

	{role: cause, summary: "memlock is limited", costs: "The process may not lock the memory that RDMA needs.", instead: memlock,
		more: keptPages, forms: []string{"ibv_create_qp*Cannot allocate memory", "ibv_create_cq*Cannot allocate memory", "ibv_create_srq*Cannot allocate memory", "ibv_alloc_pd*Cannot allocate memory",
			"ibv_reg_mr*Cannot allocate memory", "ibv_reg_mr*ENOMEM", "Please set max locked memory (ulimit -l)" /* UCX */, "Couldn't allocate MR with error=12"}},
	{role: symptom, summary: "No room for a GPU's memory", costs: "The NIC's driver could not map memory of the GPU by dma-buf: buffers are larger than the GPU's BAR1 (nvidia-smi -q -d MEMORY) or the NIC allows, or the kernel has no memory left for it.", instead: "Remove NCCL_BUFFSIZE, and settings that raise the number of channels, if any is set. Otherwise read dmesg at that time.",
		forms: []string{"ibv_reg_dmabuf_mr*Cannot allocate memory"}},
	{role: cause, summary: "dma-buf is not supported", costs: "The RDMA driver cannot register the GPU's memory by dma-buf.", instead: "Install a newer RDMA driver, or load nvidia_peermem and set NCCL_DMABUF_ENABLE=0.",
		forms: []string{"ibv_reg_dmabuf_mr failed with error Operation not supported", "ibv_reg_dmabuf_mr failed with error Protocol not supported", "Couldn't allocate MR with error=93", "Couldn't allocate MR with error=95"}},
	{role: cause, summary: "GPU memory cannot be registered", costs: "The NIC's driver cannot map the memory, which is mostly the GPU's: GPUDirect RDMA does not work here, or the part is larger than the GPU's BAR1 (nvidia-smi -q -d MEMORY).", instead: gpuMem,
		forms: []string{"Couldn't register GPU MR", "ibv_reg_mr failed with error Bad address", "ibv_reg_mr failed, Bad address", "ibv_reg_mr(gpu) failed: Bad address", "ibv_reg_mr_iova2 failed with error Bad address", "ibv_reg_mr failed with error Invalid argument", "ibv_reg_mr_iova2 failed with error Invalid argument", "ibv_reg_dmabuf_mr failed with error", "Couldn't allocate MR with error=14", "ibv_reg_mr(*failed: Bad address", "ibv_reg_mr(*failed: Invalid argument", "Couldn't enable GPUDirect RDMA"}},
	{role: hint, summary: "GeForce has no GPUDirect RDMA", costs: "NVIDIA supports GPUDirect RDMA on its data center and professional GPUs, not on GeForce: a NIC cannot register this GPU's memory, whatever module is loaded.", instead: "Test without --use_cuda. NCCL goes through the host's memory by itself.", forms: []string{"device name = [NVIDIA GeForce", "device name = [GeForce"}},
	// Up to 2.10.3 these lines have no reason.
	{role: symptom, summary: "Memory could not be registered", costs: "memlock is limited, or the GPU's memory cannot be shared with the NIC.", instead: memlock + " For the GPU's memory: " + gpuMem, more: explainGPUBuffer, forms: []string{"ibv_reg_mr failed", "ibv_reg_mr_iova2 failed", "Couldn't allocate MR", "Couldn't register MR", "ibv_reg_mr err"}},
	{role: symptom, summary: "The NIC refuses a connection", costs: "memlock is limited, the NIC has no resources left, or the program asks for what the NIC does not have.", instead: memlock, more: explainUnsupported, forms: []string{"ibv_create_qp failed", "ibv_create_cq failed", "ibv_alloc_pd failed", "mlx5dv_create_qp failed" /* 2.30.3– */}},
	{role: cause, summary: "The RDMA device cannot be opened", costs: "The process sees the device in /sys, but may not open its /dev/infiniband/uverbs file.",
		instead: "Give a container /dev/infiniband (docker: --device=/dev/infiniband; Kubernetes: a device plugin's resource, or privileged), and check the file's permissions.",
		forms:   []string{"ibv_open_device failed", "NET/IB : Unable to open device"}},
	{role: symptom, summary: "The RDMA device does not answer", costs: "The device could be opened, but its driver does not say what it is or how its ports are. NCCL goes on without it.", instead: "Check ibv_devinfo on the host and in the container, and dmesg for that device. rdma-core of the container must fit the host's driver.",
		forms: []string{"ibv_query_device failed", "ibv_query_port failed", "NET/IB : Unable to query "}},
	{role: cause, summary: "The GID index does not exist", costs: "The device has no GID of that index.", instead: "Remove NCCL_IB_GID_INDEX with NCCL 2.21 or later, or pin an index that show_gids lists.",
		forms: []string{"ibv_query_gid failed"}},

	{role: cause, summary: "Sparse GID table", costs: "NCCL 2.21.5 to 2.25.1 stops at a GID whose type it cannot read in /sys, as in containers.",
		instead: "Upgrade to NCCL 2.26.2 or later. " + pinTo, more: ofUCCL,
		forms: []string{"read failed in ncclIbRoceGetVersionNum: Invalid argument" /* 2.23.4–2.25.1 */}},
	{role: cause, summary: "Sparse GID table", costs: "NCCL 2.21.5 and 2.22.3 stop, without a word, at a GID whose type they cannot read in /sys, as in containers.", info: true,
		instead: "Upgrade to NCCL 2.26.2 or later. " + pinTo + " If /sys/class/infiniband is missing, mount it: an upgrade does not help.",
		forms:   []string{"transport/net_ib.cc:282 -> 2", "transport/net_ib.cc:283 -> 2" /* 2.21.5 */, "transport/net_ib.cc:284 -> 2", "transport/net_ib.cc:285 -> 2" /* 2.22.3 */}},
	{role: cause, summary: "GID types cannot be read", costs: "/sys/class/infiniband/…/gid_attrs is not readable in this container.", instead: "Mount /sys of the host, or pin NCCL_IB_GID_INDEX to the RoCE v2 index of the NIC's address.",
		forms: []string{"open failed in ncclIbRoceGetVersionNum", "read failed in ncclIbRoceGetVersionNum"}},

	{role: cause, summary: "InfiniBand and RoCE are mixed", costs: "A device of one kind cannot be connected to, or merged with, one of the other.", instead: onelink,
		forms: []string{"Can't merge net devices with different link_layer" /* 2.20.3–2.23.4 */, "Can't connect net devices with different link_layer", "merge multiple devices together with different link_layer", /* 2.24.3–2.25.1 */
			"Attempted to connect incompatible devices", "Attempted to merge incompatible devices", "device is incompatible with the local" /* 2.26.2– */}},
	// NCCL's own line is INFO, which log.go reads: this is for a line that somebody has quoted without its beginning.
	{role: hint, summary: "No RDMA device", costs: "NCCL found no usable RDMA device on this host, and uses sockets unless NCCL_NET=IB forbids it.", instead: "Check ibv_devinfo, that NCCL_IB_HCA matches, that ports are active, and that a container has /dev/infiniband and libibverbs with its providers.",
		forms: []string{"NET/IB : No device found", "NET/IB: No device found"}},
	{role: hint, summary: "The hosts merge different numbers of ports", costs: "One host merges two ports of a NIC into one device, and the other does not.", instead: "Select the same ports on all hosts with NCCL_IB_HCA, or set NCCL_IB_MERGE_NICS=0 on all of them.",
		info: true, forms: []string{"has a different number of devices="}},
	{role: cause, summary: "NCCL_NET_FORCE_MERGE does not match", costs: "A device in the list does not exist, or its port is down. NCCL then ends with invalid usage.", instead: "Correct the list, or bring the port up.",
		forms: []string{"TOPO/NET : Only matched", "Could not force merge NICs"}},

	// ibv_event_type_str of libibverbs names the events. Up to 2.19.4 "Got async event", then with the device, from 2.23.4
	// "Got async error event", from 2.28.7 "Got non-fatal async event: TEXT(N)". 2.23.4 to 2.27.7 do not know event 18, IBV_EVENT_GID_CHANGE.
	{role: cause, summary: "A port went down or came up", costs: "The link of that port was lost while the job ran: connections over it fail.", instead: "Check cable, transceiver and switch port, and the port's link_downed and symbol errors.",
		forms: []string{"async event : port error", "async event : port active", "async error event: port error", "async error event: port active", "async event: port error(", "async event: port active("}},
	{role: hint, summary: "NCCL goes on without a failed NIC", costs: "A connection of that NIC failed, and NCCL_IB_RESILIENCY_PORT_FAILOVER lets the others carry its data: the job is slower.", instead: "Check the NIC's port and cable, and look for its first completion or event.", forms: []string{"NET/IB*marked as failed" /* 2.29.7– */}},
	{role: hint, summary: "An address of a NIC changed", costs: "The GID table changed while the job ran. Connections keep their GID: they fail if it is the one that has gone.", instead: "Find out what changes addresses (DHCP, NetworkManager, a link that flaps), and keep them fixed.",
		forms: []string{"Got async event : GID table change", "Got async error event: GID table change", "unknown event type (18)", "GID table changed"}},
	{role: hint, summary: "The subnet manager changed something", costs: "InfiniBand: LIDs, keys or the manager itself changed while the job ran.", instead: "Check the subnet manager's log.",
		forms: []string{"async event : LID change", "async event : SM change", "async event : P_Key change", "async event : client reregistration", "async error event: LID change", "async error event: SM change", "async error event: P_Key change", "async error event: client reregistration",
			"async event: LID change(", "async event: SM change(", "async event: P_Key change(", "async event: client reregistration("}},
	{role: cause, summary: "The NIC failed", costs: "The driver reports that the device itself has failed: firmware, PCIe or hardware.", instead: "Read dmesg for mlx5_core or PCIe errors of that device, and reset or replace it.",
		forms: []string{"async event : local catastrophic error", "async fatal event: "}},
	{role: symptom, summary: "The peer's request was invalid", costs: "The NIC got a request on this connection that it cannot carry out: an error of the peer, of a NIC or of its firmware. The reason is not in this line.",
		instead: "Read the log of the peer's rank, and compare firmware and drivers of both NICs.", forms: []string{"async fatal event on QP*invalid request local work queue error", "async event : invalid request local work queue error"}},
	{role: effect, vague: true, summary: "The driver ended the device's events", costs: "The driver no longer serves this device.", instead: "Read dmesg for that device.", forms: []string{"Call to ibv_get_async_event failed"}},
	{role: symptom, summary: "The NIC refused a request", costs: "The connection asked for memory that it may not use: GPUDirect RDMA is blocked by ACS or the IOMMU, or the memory was freed because its process has ended.", instead: gpuMem,
		forms: []string{"async fatal event on QP", "async fatal event on CQ", "async event : local access violation work queue error", "async event : local work queue catastrophic error", "async event : CQ error"}},
	{role: effect, vague: true, summary: "RDMA resources could not be released", costs: "NCCL took its connections down after a failure or at the end, and the driver refused to release one.", instead: "Look for an earlier error of this process. If the program had finished, ignore it.",
		forms: []string{"ibv_close_device failed", "ibv_dealloc_pd failed", "ibv_dereg_mr failed", "ibv_destroy_cq failed", "ibv_destroy_qp failed"}},
	{role: hint, summary: "NCCL drops a completion", info: true, costs: "A completion came for a request that NCCL no longer has, and NCCL 2.30.7 goes on. NVIDIA/nccl#2334 reports collectives that hang after many of these lines; its reason is not known.", instead: "If collectives hang afterwards, try another version of NCCL on all hosts, and report it there with the logs of all ranks.",
		forms: []string{"NET/IB: *but retrieved an 'unused' request" /* 2.30.7 */}},
	{role: harmless, summary: "Events without effect", forms: []string{"async event : send queue drained", "async event : last WQE reached", "async error event: last WQE reached", "async event: last WQE reached(", "async error event: send queue drained", "async event: send queue drained("}},
	{role: hint, summary: "The driver reports an event of a NIC", costs: "NCCL does not use what this event is about, and goes on.", instead: "If the job failed after it, read dmesg for that device.", forms: []string{"Got async event : ", "unknown event type ("}},

	// Of mlx5's queues for ordinary packets (drivers/net/ethernet/mellanox/mlx5/core/en/txrx.h).
	{role: symptom, summary: "A queue of the NIC's interface failed", costs: "mlx5_core could not send or receive a packet of TCP/IP: it is not RDMA. The IOMMU, PCIe, the host's memory, firmware or the NIC is at fault.", instead: "Read dmesg for PCIe and IOMMU errors and for memory errors of the host. Update the NIC's firmware and driver; if it comes back, replace the NIC.", forms: []string{"Error cqe on cqn*, ci 0x"}},

	// Completions: "with error 12, opcode" up to 2.19.4, "with status=12 opcode=" 2.20.3 to 2.28.3 (the GIN plugin also later), "with
	// status=IBV_WC_RETRY_EXC_ERR(12) opcode=" from 2.28.7. The numbers are ibv_wc_status of infiniband/verbs.h.
	{role: symptom, summary: packetsLost, costs: "The peer's NIC did not answer within NCCL_IB_TIMEOUT and its repetitions: the path, the MTU or PFC is wrong, a cable is unplugged, or the peer's rank had ended before.", more: lost,
		instead: "See first whether a rank on the peer ended earlier. Then measure between these two NICs with ib_write_bw, or run `fabricform verify`, which checks the MTU of the whole path with full-size packets.",
		forms:   append(completion(12, "RETRY_EXC_ERR"), "transport error: Endpoint timeout", "unhandled timeout error" /* UCX, ud_ep.c */)},
	{role: symptom, summary: "The receiver was not ready", costs: "The peer's rank did not take data for too long: it hangs or has ended.", instead: "Read the log of the peer's rank.", forms: completion(13, "RNR_RETRY_EXC_ERR")},
	// gloo/transport/ibverbs/pair.cc
	{role: symptom, summary: "Gloo's RDMA connection failed", costs: "Gloo over ibverbs takes port 1 and GID index 0 of a device, unless it is told otherwise: on RoCE that is a link-local address, which does not reach every peer. Status 5 follows from an earlier error of the connection.", instead: "Name the port and the index of the RoCE v2 GID with an IPv4 address (--ib-port, --ib-index of its benchmark; port and index of its attr; show_gids).", forms: []string{"wc->status == IBV_WC_SUCCESS"}},
	{role: effect, summary: "Flushed after another error", costs: "Status 5 says that this connection had already failed.", instead: "Look for an earlier completion error, on this host or at the peer, with another status.", forms: completion(5, "WR_FLUSH_ERR")},
	{role: cause, summary: "Memory protection error", costs: "The NIC may not read or write its own host's memory: with GPUDirect RDMA a frequent cause is PCI access control (ACS) or the IOMMU between GPU and NIC.", instead: gpuMem, more: explainHostBuffer, forms: completion(4, "LOC_PROT_ERR")},
	{role: symptom, summary: "The peer's NIC refused a request", costs: "The peer's NIC may not use the memory that was asked for: GPUDirect RDMA is blocked there by ACS or the IOMMU, or the peer's process freed it when it ended.",
		instead: "Read the log of the peer's rank first. " + gpuMem, more: explainHostBuffer, forms: append(completion(9, "REM_INV_REQ_ERR"), append(completion(10, "REM_ACCESS_ERR"), completion(11, "REM_OP_ERR")...)...)},
	{role: cause, summary: "Ranks do not agree on a size", costs: "The ranks call different collectives, or with different sizes or settings: one sends more than the other takes.", instead: disagree, more: explainSizes,
		forms: append(completion(1, "LOC_LEN_ERR"), "Mismatched collective detected" /* 2.4.2–2.7.6 */, "collective mismatch error" /* 2.10.3–2.19.4 */, "posted incorrect receive info" /* 2.12.10– */)},
	{role: symptom, summary: "RDMA operation failed", more: explainStatus, costs: "The meaning of this status is not known here.", instead: "Read dmesg on both hosts, and the log of the peer's rank.", forms: []string{"Got completion from peer*with status", "Got completion from peer*with error", "status=IBV_WC_", "local QP operation err" /* libibverbs' words, and libmlx4's */, "NET/IB : Got completion with error", "Got CQE with error", "ibv_post_send() failed", "ibv_post_recv() failed", "ibv_poll_cq() returned"}},
	{role: symptom, vague: true, summary: "RDMA operation failed", costs: "mlx5 dumps a completion with an error. The second number of its last row ends with its status.", instead: "Read the lines after it, dmesg on both hosts, and the log of the peer's rank.", forms: []string{"mlx5: *: got completion with error:" /* libmlx5 */}},

	{role: effect, summary: "NCCL could not recover from a failed NIC", costs: "A NIC or its connection failed, and NCCL's repair (NCCL_IB_RESILIENCY) did not succeed.", instead: "Look for the first completion or event of that device, and check its port and cable.",
		forms: []string{"The error is fatal (", "Fatal error. Detected*failed devices", "Unsupported completion status", "Could not find a replacement QP", "Cannot replace QP", "Maximum number of probing attempts", "Could not find a functional device", "NET/IB*Attempting to initiate a ", "Attempting to free a non-existent failed request", "Attempting to repost an unused request", "Unsupported type of request reposting", "Unable to retrieve a request on the receiver side", "Unrecognized request type", "Failed to initialize a resiliency send request", "Unexpected GoToPrevState"}},
	{role: effect, vague: true, summary: "The communicator had failed", costs: "NCCL stops because the device had reported a fatal error.", instead: "Look for a line with \"async fatal event\" on all hosts.", forms: []string{"communicator encountered a fatal error (detected in"}},
}

const disagree = "Find the rank that takes another branch, has another batch or another number of steps; TORCH_DISTRIBUTED_DEBUG=DETAIL names the first difference. Compare NCCL_… variables and NCCL's version on all ranks."

// takesOwnMTU is the first version of NCCL whose receiving side does not take the smaller MTU of two NICs (NVIDIA/nccl#1524, #2135).
var takesOwnMTU = env.Version{Major: 2, Minor: 20, Patch: 3}

// explainSizes says more of sizes that differ in versions of NCCL that may take the MTU of one side. Two of the lines are of older ones.
func explainSizes(l *logged, m string) (summary, costs, instead string) {
	if l.version.Known() && l.version.Before(takesOwnMTU) || anyOf(m, []string{"Mismatched collective", "collective mismatch"}) {
		return "", "", ""
	}
	return "", "The ranks call different collectives, or with different sizes or settings: one sends more than the other takes. Between hosts whose NICs have different MTUs, NCCL 2.20.3 and later fail so, too: the receiving side does not take the smaller one (NVIDIA/nccl#1524, #2135).",
		"See first that the MTU is the same on both hosts (ibv_devinfo: active_mtu; ip link). " + disagree
}

// syndromes are the numbers that mlx5 gives the statuses (MLX5_CQE_SYNDROME_… of the kernel's include/linux/mlx5/device.h).
var syndromes = map[int]int{1: 0x01, 4: 0x04, 5: 0x05, 9: 0x12, 10: 0x13, 11: 0x14, 12: 0x15, 13: 0x16}

// inWC are statuses as ibv_wc_status_str of libibverbs names them, which many programs print. Those that other errors are called, too, are
// left out.
var inWC = map[int]string{4: "local protection error", 5: "Work Request Flushed Error", 9: "remote invalid request error", 12: "transport retry counter exceeded", 13: "RNR retry counter exceeded"}

// ofNCCL reports whether NCCL, or a plugin in its words, has written a completion: what other programs print is not about NCCL's settings.
func ofNCCL(m string) bool { return anyOf(m, []string{"NET/", "NCCL ", "Got completion", "Got CQE"}) }

// completion returns the forms of a completion with a status: NCCL's, perftest's (NOTIFY_COMP_ERROR_SEND; with the status in words since
// 2025), those of libibverbs' examples, of UCX (ib_mlx5_log.c) and of the kernel's mlx5 driver (cq.c).
func completion(status int, name string) []string {
	forms := []string{fmt.Sprintf("Got completion*with error %d,", status), fmt.Sprintf("Got completion*with status=%d opcode=", status), fmt.Sprintf("status=IBV_WC_%s(%d)", name, status),
		fmt.Sprintf("Failed status %d: wr_id", status), fmt.Sprintf("Failed status*(%d): wr_id", status), fmt.Sprintf("Failed status*(%d) for wr_id", status),
		fmt.Sprintf("(synd 0x%x vend", syndromes[status]), fmt.Sprintf("syndrome 0x%x, vendor", syndromes[status])}
	if words := map[int]string{1: "local length error", 10: "remote access error", 11: "remote operation error"}[status]; words != "" {
		forms = append(forms, fmt.Sprintf("(%d): %s", status, words)) // SPDK: nvme_rdma.c, rdma.c
	}
	if words := inWC[status]; words != "" {
		forms = append(forms, words)
	}
	if status > 1 { // "Failed status 12" begins like it
		forms = append(forms, fmt.Sprintf("ib_*Failed status %d", status))
	}
	return forms
}

// explainStatus says more of statuses that NCCL's own requests do not get.
func explainStatus(_ *logged, m string) (summary, costs, instead string) {
	if anyOf(inWords(m), []string{"LOC_QP_OP_ERR", "local QP operation err", "LOC_ACCESS_ERR", "MW_BIND_ERR"}) {
		return "", "The NIC refused the request as it was built: more segments or inline data than its queue takes, an operation or access that it does not have, or a length of zero.", "Compare the request with the limits of ibv_devinfo -v and of the queue pair. This is a mistake in the program, or a limit of this NIC's driver, and not of the path."
	}
	return "", "", ""
}

// gidNames finds both ends in "local GID index 3, local GID A, remote GID B" (ibv_modify_qp, 2.24.3) and in "localGid A remoteGid B"
// (completions, 2.18.1; "remoteGidsB" without a space from 2.20.3).
var gidNames = pattern{text: `local ?G[iI][dD] ([0-9a-fA-F:.]+),? +remote ?G[iI][dD]s? ?([0-9a-fA-F:.]+)`}

// bothGIDs returns both ends of a connection, where the line shows them.
func bothGIDs(m string) (here, there netip.Addr, found bool) {
	ends := gidNames.re().FindStringSubmatch(m)
	if ends == nil {
		return here, there, false
	}
	here, err1 := netip.ParseAddr(ends[1])
	there, err2 := netip.ParseAddr(ends[2])
	return here.Unmap(), there.Unmap(), err1 == nil && err2 == nil
}

// explainGPUBuffer says more if perftest has put its buffer into a GPU.
func explainGPUBuffer(l *logged, _ string) (summary, costs, instead string) {
	if l.noGUID > 0 {
		return "Device without a GUID", fmt.Sprintf("The node GUID is all zeros (line %d), as a virtual function's before the host sets it: libraries do not take the device, or its calls fail.", l.noGUID), "On the host set the GUIDs (ip link set PF vf N node_guid …, and port_guid …; on Ethernet also /sys/class/net/PF/device/sriov/N/node), then unbind the function from mlx5_core and bind it again. With an operator for SR-IOV, see that its daemon did both before the pod started."
	}
	if l.gpuBuffer == 0 {
		return "", "", ""
	}
	return "GPU memory cannot be registered", fmt.Sprintf("The buffer is in a GPU (line %d), and the NIC's driver cannot map it: GPUDirect RDMA does not work here.", l.gpuBuffer), gpuMem
}

// explainQP says more of a queue pair that perftest could not make. Its tests of latency ask for 220 or 236 bytes of inline data
// (perftest_parameters.h), and some NICs have room for less (linux-rdma/perftest#139). EFA has UD and SRD alone (the kernel's
// drivers/infiniband/hw/efa/efa_verbs.c), and perftest needs a libibverbs with ibv_create_qp_ex for them (linux-rdma/perftest#105, #113).
func explainQP(l *logged, m string) (summary, costs, instead string) {
	switch {
	case !strings.Contains(m, "create QP"):
		return "", "", ""
	case l.plugged:
		return "", "EFA offers unreliable datagrams (UD) and SRD, and no connections (RC); and a perftest that was built without EFA's functions of libibverbs makes none of them.",
			"Run ib_send_bw or ib_send_lat with -c SRD -x 0, on both sides, with a perftest that was built against a recent rdma-core (./configure must find ibv_wr_… and efadv.h)."
	}
	return "", "The port is not active, the device has no room for as much inline data as the test asks for (tests of latency: 220 bytes and more; Intel's E810 takes 101), or its queues or the memory that may be locked are used up.",
		"Try -I 0 (no inline data) and a smaller -t. Look at the port (ibv_devinfo; -i names another one), at memlock (ulimit -l), and at dmesg for that NIC."
}

// explainHostBuffer says more of a test whose buffers are in the hosts' memory, and of other programs.
func explainHostBuffer(l *logged, m string) (summary, costs, instead string) {
	if (anyOf(m, []string{inWC[4], inWC[9], "syndrome 0x"}) || !ofNCCL(m)) && !anyOf(m, []string{"wr_id", "Failed status"}) && l.gpuBuffer == 0 {
		return "", "A NIC does not accept the address, key or length of a request: the memory was released because a process had ended, the two sides do not fit together (versions, settings), or the memory is a GPU's and GPUDirect RDMA does not work.",
			"Read the log of the other side from its first error, and use one version of the program on both. If the memory is a GPU's: " + gpuReach
	}
	if !anyOf(m, []string{"wr_id", "Failed status"}) || l.gpuBuffer > 0 {
		return "", "", ""
	}
	return "", "A side of the test does not accept the address or key of the other one's buffer: the two sides have other options, or perftest, rdma-core or drivers of other versions, or the other side had ended before.",
		"Give both sides the same options and one version of perftest, rdma-core and driver, and read the other side's output. Some virtual NICs do not support one of ib_write, ib_read and ib_send: try the others."
}

// explainUnsupported says more where the system's words exclude a limit.
func explainUnsupported(_ *logged, m string) (summary, costs, instead string) {
	if strings.Contains(m, "Invalid argument") || strings.Contains(m, "not supported") {
		return "", "The driver does not accept what NCCL asks for: the device cannot do it, or the RDMA libraries and the driver are of different versions.", "Install an rdma-core that fits the host's driver (the container has its own), and remove NCCL_IB_… variables one at a time."
	}
	return "", "", ""
}

// incompatible says more of a refused address: another program than NCCL does not read NCCL's variables.
func incompatible(l *logged, m string) (summary, costs, instead string) {
	if !strings.Contains(m, "Call to ibv_") {
		return refusedPeer, "The program asks for a port that is not active, a GID that is empty, link-local or of another kind than the peer's, or an MTU larger than the port's.",
			"Look with ibv_devinfo whether each port that the program may use is active, and name a working NIC in its own settings. On RoCE give both sides a GID of RoCE v2 with an IPv4 address (show_gids)."
	}
	return linkLocal(l, m)
}

const refusedPeer = "The NIC refuses the peer's address"

// linkLocal says more where the line shows a link-local GID.
func linkLocal(_ *logged, m string) (summary, costs, instead string) {
	here, there, found := bothGIDs(m)
	for _, a := range []netip.Addr{here, there} {
		if found && a.Is6() && a.IsLinkLocalUnicast() {
			return "Link-local GID", fmt.Sprintf("The connection uses %s, which no router forwards and which only a NIC on the same link answers: a NIC has no IPv4 address, or NCCL_IB_GID_INDEX pins its link-local GID.", a),
				"Give every NIC an IPv4 address, and remove NCCL_IB_GID_INDEX with NCCL 2.21 or later."
		}
	}
	return "", "", ""
}

// apart says more of an error that a missing path explains, where the line shows both GIDs. Different networks alone are no error:
// in a routed fabric each NIC of a rail has its own.
func apart(l *logged, m string) (summary, costs, instead string) {
	if strings.Contains(m, "non-zero status: ") { // of NVSHMEM
		return "", "NVSHMEM connects a NIC with one of the peer that it does not reach: the two are in different networks (such as a RoCE NIC for storage beside InfiniBand), or a GID is link-local or RoCE v1.",
			"Name NICs of one network in NVSHMEM_HCA_LIST, the same on all hosts. On RoCE pin NVSHMEM_IB_GID_INDEX to RoCE v2 with an IPv4 address (show_gids), and check with ping -I NIC that the peer's address answers."
	}
	here, there, found := bothGIDs(m)
	if near, err := here.Prefix(24); found && err == nil && here.Is4() && there.Is4() && !near.Contains(there) {
		return "The two ends are in different networks", fmt.Sprintf("%s and %s are in different /24 networks: either NCCL connects two separate rails, or the route between the networks does not work.", here, there),
			"Route between the networks. If they are separate rails, set NCCL_CROSS_NIC=0 and cable each rail to the NIC of the same rank in PCI order: the order in NCCL_IB_HCA has no effect. `fabricform verify` finds crossed rails."
	}
	return linkLocal(l, m)
}

// absent says more of a GID without a NIC: before 2.21 there is no range to choose by. Up to 2.18.6 the line has no number.
func absent(l *logged, m string) (summary, costs, instead string) {
	if !ofNCCL(m) && !strings.Contains(m, "Call to ibv_") {
		return explainCall(l, m)
	}
	if strings.Contains(m, "with error ") && !strings.Contains(m, "errno") || l.version.Known() && l.version.Before(choosesGID) {
		return "", "", "Set NCCL_IB_GID_INDEX to " + ownDev + ", leave that device out with NCCL_IB_HCA, or upgrade to NCCL 2.21.5 or later and set NCCL_IB_ADDR_RANGE to the container's subnet."
	}
	return "", "", ""
}

// lost says more of packets that are lost: between two networks, or on RoCE by a version that does not choose a GID.
func lost(l *logged, m string) (summary, costs, instead string) {
	if strings.Contains(m, "/IB (synd 0x") { // of UCX, on InfiniBand
		return "", "The peer's port did not answer: the path or a cable is bad, the subnet has changed (LIDs, service levels), or the other side had ended before.",
			"See whether the other process ended first. Check that both ports are active with a LID (ibv_devinfo), their errors (perfquery, ibdiagnet), the subnet manager's log, and the path with ib_write_bw between these ports."
	}
	if l.fe80Path > 0 && strings.Contains(m, "/RoCE (synd 0x") {
		return "Link-local GIDs between the hosts", fmt.Sprintf("UCX sends to a link-local GID, fe80:… (line %d): its port has index 0 in use, or no IPv4 address. The other side does not answer there.", l.fe80Path),
			"Give the NICs IPv4 addresses of one network, and set UCX_IB_GID_INDEX to the index of RoCE v2 with that address (show_gids; mostly 3). If the index is right, check that ping -I NIC reaches the peer, VLAN and MTU."
	}
	if anyOf(m, []string{"wr_id", "Failed status", "(synd 0x", "syndrome 0x", inWC[12]}) || !ofNCCL(m) { // of another program
		return "", "The peer's NIC did not answer: the two GIDs do not fit together, the path, the MTU or PFC is wrong, or the other side had ended before.",
			"See that both sides use a GID of RoCE v2 with an IPv4 address (perftest: -x with each side's own index; show_gids), that ping -I NIC reaches the peer, and that the MTU is the same on the whole path; on InfiniBand that both LIDs are set. `fabricform verify` checks them."
	}
	if summary, costs, instead = apart(l, m); summary != "" {
		return summary, costs + " Or the peer's rank had ended before, or packets are lost on the way.", "See first whether a rank on the peer ended earlier, and measure between these two NICs (ib_write_bw, `fabricform verify`). If it never works: " + instead
	}
	if sl, ok := find(l.settings, "NCCL_IB_SL"); ok && !sl.dynamic && env.ParseNumber(sl.value).Value > 0 {
		return "", fmt.Sprintf("The peer's NIC did not answer. NCCL_IB_SL = %s (line %d) is one reason: InfiniBand drops packets of a service level that the subnet manager does not map. Otherwise the path or the MTU is wrong, or the peer's rank had ended before.", shorten(sl.value), sl.line),
			"Try without NCCL_IB_SL. See whether a rank on the peer ended earlier, and measure between these two NICs with ib_write_bw --sl or `fabricform verify`."
	}
	if _, set := find(l.settings, "NCCL_IB_PKEY"); l.pkeyAt > 0 && !set {
		return "", fmt.Sprintf("The peer's NIC did not answer. The test of RDMA in line %d names a partition key (--pkey_index), and NCCL_IB_PKEY is not set: NCCL uses index 0.", l.pkeyAt), "Set NCCL_IB_PKEY to the same index on all hosts, if that key alone works between them. Otherwise see whether a rank on the peer ended earlier."
	}
	if l.infiniband() {
		return "", "The peer's port did not answer within NCCL_IB_TIMEOUT and its repetitions: the two NICs are of different networks, a cable or switch is bad, the subnet manager gives no path, or the peer's rank had ended before.",
			"See whether a rank on the peer ended earlier. If it never works, see that all of the job's NICs are in one InfiniBand network (ibv_devinfo: sm_lid; ibping or ib_write_bw from each NIC to each NIC of the peer), and name in NCCL_IB_HCA those that are. Otherwise read the ports' errors (ibqueryerrors, ibdiagnet) and the subnet manager's log."
	}
	old := l.version.Known() && l.version.Before(choosesGID) || !l.version.Known() && strings.Contains(m, "with error ") // this form ended with 2.19.4; plugins kept it
	if _, pinned := find(l.settings, "NCCL_IB_GID_INDEX"); !old || pinned {
		return "", "", ""
	}
	if here, there, found := bothGIDs(m); found && here.Is4() && there.Is4() { // not those of index 0
		return "", "", ""
	}
	return "", "The peer's NIC did not answer within NCCL_IB_TIMEOUT and its repetitions. On RoCE this NCCL, before 2.21, uses GID index 0 unless NCCL_IB_GID_INDEX is set: a link-local address, on many cards with RoCE v1. Otherwise the path, the MTU or PFC is wrong, a cable is unplugged, or the peer's rank had ended before.",
		"On RoCE upgrade to NCCL 2.21.5 or later, or set NCCL_IB_GID_INDEX to the index of RoCE v2 with the NIC's IPv4 address (show_gids). See whether a rank on the peer ended earlier, and measure between these two NICs with ib_write_bw or `fabricform verify`."
}

// infiniband reports whether the log names NICs, and all of them are of InfiniBand.
func (l *logged) infiniband() bool {
	named := false
	for _, h := range l.hosts {
		if h.roce {
			return false
		}
		named = named || len(h.devices) > 0
	}
	return named
}

// ofUCCL says more where UCCL has printed the line, which took over this part of NCCL's source with it (collective/rdma/util_rdma.h).
func ofUCCL(_ *logged, m string) (summary, costs, instead string) {
	if !strings.Contains(m, "util_rdma.h") && !strings.Contains(m, "uccl") {
		return "", "", ""
	}
	return "", "UCCL looks for a GID as NCCL 2.21.5 to 2.25.1 do, and stops at one whose type it cannot read in /sys, as in containers.", "Set UCCL_IB_GID_INDEX to the RoCE v2 index of the NIC's address (show_gids): a pinned index skips the search."
}

// peermem is the cure for GPUDirect RDMA that is off.
func (l *logged) peermem() string {
	const near = ", and check with `nvidia-smi topo -m` that GPU and NIC are near each other."
	if l.amd {
		return "AMD's GPUs need the peer-memory interface of MLNX_OFED or DOCA-OFED, or of the kernel, beside the driver amdgpu, or dma-buf (NCCL_DMABUF_ENABLE=1, and a kernel with CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY). Check that GPU and NIC are near each other (rocm-smi --showtopo), and on bare metal that ACS is off and the IOMMU in passthrough (iommu=pt)."
	}
	// Up to 2.22.3 ncclIbGdrSupport looks into /sys/kernel/mm/memory_peers alone, which nvidia_peermem does not always fill.
	if l.version.Known() && l.version.Before(env.Version{Major: 2, Minor: 23, Patch: 4}) {
		return "NCCL before 2.23 does not look for the module nvidia_peermem itself, so loading it may change nothing. Upgrade NCCL, or, from 2.13.4, use the open driver's dma-buf" + near
	}
	if l.peermemAt > 0 && !l.version.Known() {
		return fmt.Sprintf("nvidia_peermem is loaded (line %d), and NCCL before 2.23 does not look for it: upgrade NCCL, or use the open driver's dma-buf", l.peermemAt) + near
	}
	const load = "Load nvidia_peermem or use the open driver's dma-buf"
	if !l.version.Known() {
		return load + near + " NCCL before 2.23 does not look for the module nvidia_peermem itself."
	}
	return load + near
}

// keptPages says more on a DGX Spark with a kernel that keeps back memory of CMA, so that the driver gets none: its /proc/meminfo shows
// CmaTotal: 0 kB (MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259, eugr/spark-vllm-docker#389).
func keptPages(l *logged, m string) (summary, costs, instead string) {
	if !l.spark && !anyOf(m, []string{"kernel", "内核", "CmaTotal"}) || !l.kernel7 {
		return "", "", ""
	}
	return "Memory cannot be pinned", "Either memlock is limited, or it is the kernel: on a DGX Spark, 7.0.0-1019-nvidia and its like keep back memory (/proc/meminfo shows CmaTotal: 0 kB, and CmaFree above it), so that the driver gets none.",
		"Boot with kho=off, or the kernel 6.17 of before. " + memlock
}

// packetsLost is the finding of requests without an answer.
const packetsLost = "Packets are lost, or the peer is gone"
