package explain

import (
	"fmt"
	"slices"
	"strings"
)

const providers = "Install the providers in the image or on the host: ibverbs-providers (Debian, Ubuntu), libibverbs and rdma-core (RHEL), or the user space of the same MLNX_OFED or DOCA-OFED as the host."

// EFA's causes for ENOMEM.
const (
	efaMemory = "The process may not lock the memory that EFA needs, or it has reached the number of pages that an EFA device can register."
	hugePages = " With a lot of memory use huge pages."
)

// noProvider is an error only for a job on several hosts.
var noProvider = &meaning{role: symptom, summary: "libibverbs has no provider for the NIC", costs: "The kernel has an RDMA device, but this system or container has no library for it: programs see no device.", instead: providers, more: needless,
	forms: []string{"no userspace device-specific driver found for", "couldn't load driver*mlx5"}}

// needless says more on one host, where ranks need no NIC.
func needless(l *logged, _ string) (summary, costs, instead string) {
	if l.nodes != 1 {
		return "", "", ""
	}
	return "", "The kernel has an RDMA device, but this system or container has no library for it: programs see no device. Ranks of one host do not need it, so that an error of NCCL may have another reason.",
		providers + " If NCCL still fails, run again with NCCL_DEBUG=WARN: the first NCCL WARN line names the cause."
}

// verbsMeanings are lines of libibverbs and librdmacm (rdma-core), of perftest, of UCX and of libfabric.
var verbsMeanings = []*meaning{
	{role: harmless, summary: "A provider looks at a software device", forms: []string{"Driver mlx*does not support the kernel ABI of*infiniband/rxe", "Driver mlx*does not support the kernel ABI of*infiniband/siw"}},
	{role: cause, summary: "The NIC's provider does not fit its driver", costs: "libibverbs has another provider for the NIC than its driver in the kernel needs: the vendor's driver is on the host, and the distribution's provider in this system or container, or the other way round. Programs see no device.", instead: "Install the provider of the vendor's release that the host's driver is from (libbnxt_re for Broadcom, the user space of the same MLNX_OFED or DOCA-OFED for NVIDIA), in the image, too.",
		forms: []string{"does not support the kernel ABI of"}},
	{role: cause, summary: "libibverbs and its providers do not fit together", costs: "A program loads a libibverbs of another version than the providers (libmlx5 and others), so that it sees no device.", instead: "Remove the other libibverbs from LD_LIBRARY_PATH and from the image, so that library and providers are of one rdma-core.",
		forms: []string{"couldn't load driver*IBVERBS_PRIVATE_", "libibverbs*version `IBVERBS_"}},
	noProvider,
	{role: remark, summary: "A provider of libibverbs is missing", costs: "A file in /etc/libibverbs.d names it. That is harmless if this host has no such NIC; if it has one, programs do not see it.", instead: "Remove the file, or, for a NIC of this host, install its provider.", forms: []string{"couldn't load driver"}},
	{role: hint, summary: "libibverbs is not complete", costs: "Its configuration is missing, and so, mostly, are the providers of NICs.", instead: providers, forms: []string{"couldn't open config directory"}},
	{role: hint, summary: "memlock is limited", costs: "libibverbs itself warns of it.", instead: memlock, forms: []string{"Warning: RLIMIT_MEMLOCK is"}},
	{role: symptom, summary: "The program finds no RDMA device", costs: "The kernel has none, the container does not have /dev/infiniband, a provider is missing, or the name is wrong.", instead: "Compare rdma link (the kernel's devices) with ibv_devices (those of programs). Give the container its devices, or load the NIC's driver. " + providers,
		forms: []string{"No IB devices found", "0 HCAs found", "Did not detect devices", "Failed to get IB devices list", "IB device*not found", "IB device*wasn't found", "Unable to find the Infiniband/RoCE device", "ibv_get_device_list() failed", "Fatal error:  No devices" /* ibstatus */, "sys files not found (/sys/class/infiniband" /* ibstatus */}},
	{role: cause, summary: "The port is down", costs: "The program looked at the port before it began, and it has no link.", instead: "Bring the link up: cable, transceiver, switch port, and the interface (ip link). ibv_devinfo must show PORT_ACTIVE; -d and -i name another device and port. On InfiniBand a virtual function is up only with GUIDs of its own (ip link set PF vf N node_guid, port_guid; state auto) and a subnet manager that knows virtual ports (opensm: virt_enabled 2).", forms: []string{"Port number*state is ", "There is no active port in the system" /* TensorFlow */}},
	{role: symptom, summary: "The RDMA device does not answer", costs: "The program could open the device, but its driver does not say what it can do: rdma-core of the container does not fit the host's driver, or the container lacks a part of the device.", instead: "Compare ibv_devinfo on the host and in the container, and install the same rdma-core or OFED in both. A pod needs IPC_LOCK, and the devices that its device plugin gives.", forms: []string{"Couldn't get device attribute"}},
	// smpquery, ibportstate (infiniband-diags), and PSM2 of Omni-Path.
	{role: hint, summary: "A port has no link", costs: "A port of an InfiniBand switch or NIC is down or disabled.", instead: "Check cable and transceiver. ibportstate LID PORT enable brings up a port that somebody disabled.", forms: []string{"LinkState:..*Down", "PhysLinkState:..*Disabled", "PhysLinkState:..*Polling"}},
	{role: hint, summary: "Omni-Path has no active port", costs: "PSM2 finds no port of an Omni-Path card that is active: the link is down, no fabric manager runs, or the host has other NICs.", instead: "See opainfo or ibstat on that host, and that the fabric manager (opafm) runs. On hosts without Omni-Path choose another transport (Open MPI: --mca mtl ^psm2; libfabric: FI_PROVIDER).", forms: []string{"no hfi units are active", "no hfi units are available"}},
	{role: symptom, summary: "Omni-Path's card gives no context", costs: "PSM2 (or PSM) cannot open a context of the card: all of them are in use by other processes, the link is down, or the driver hfi1 and the library do not fit together.", instead: "Run no more processes on a host than the card has contexts (num_user_contexts of hfi1), end left-over ones, and look at opainfo and dmesg. PSM2_SHAREDCONTEXTS=1 lets processes share.", forms: []string{"hfi_userinit: ", "hfp_gen1_context_open", "PSM2 can't open hfi unit", "PSM2 was unable to open an endpoint", "PSM was unable to open an endpoint"}},
	{role: hint, summary: "ibstat stops at a device", costs: "A device is listed, and its files in /sys are not there: the NIC is being reset, has failed, or was removed.", instead: "Read dmesg for that device (mlx5_core), and compare ibv_devices with lspci.", forms: []string{"stat of IB device*failed"}},
	// openRdmaDevice of Mooncake, whose reason is in the line before.
	{role: symptom, vague: true, summary: "The transfer engine cannot use a device", costs: "Mooncake leaves the device out, or fails if no other is left. Its reason is in the line before: no GID that fits, a port that is down, a GPU without dma-buf, or a device file that the container lacks.", instead: "Read the line of rdma_context.cpp above it; leave the device out of the list if it is not to be used.", forms: []string{"rdma_context.cpp*Failed to open device"}},
	{role: hint, summary: "A device cannot be opened", costs: "The program sees the device in /sys, but may not open its /dev/infiniband/uverbs file. In a container that was given some devices this is usual for the others.", instead: "For its own device, give the container that file (a device plugin's resource, --device, or privileged), and check the file's permissions. Name the own device in NCCL_IB_HCA.",
		forms: []string{"Failed to open device", "Couldn't get context for", "/dev/infiniband/uverbs*ermission denied", "/dev/infiniband/rdma_cm*ermission denied"}},

	// GDRCopy (NVIDIA/gdrcopy), which UCX, NVSHMEM and libfabric use, and Mooncake's transfer engine (rdma_context.cpp).
	{role: hint, summary: "GDRCopy has no driver here", costs: "The module gdrdrv is not loaded, or the container does not have /dev/gdrdrv. NCCL itself goes on without; small messages of UCX, NVSHMEM and EFA are slower.",
		instead: "Load gdrdrv on the host (its package for this kernel and driver), and give containers --device=/dev/gdrdrv.",
		forms:   []string{"unable to open GDR driver", "s gdrdrv driver installed and loaded"}},
	// gdrapi.c, gdrdrv.c and the tests of GDRCopy v2.0 to v2.6; UCX's gdr_copy_md.c.
	{role: cause, summary: "GDRCopy's driver does not build", costs: "The source of gdrdrv does not fit this kernel or this NVIDIA driver, or the headers of one of them are not installed.",
		instead: "Take the latest release of GDRCopy (2.5.1 or later for Linux 6.x), install the kernel's headers, and name the driver's source in NVIDIA_SRC_DIR. NCCL runs without GDRCopy.",
		forms:   []string{"gdrdrv.c:*error:", "make.log for gdrdrv", "gdrdrv*Bad return status for module build", "nv-p2p.h: No such file"}},
	{role: cause, summary: "GDRCopy's driver cannot be loaded", costs: "The module gdrdrv is missing for this kernel, was built for another NVIDIA driver (or the other flavour, open or proprietary), is not signed, or the user may not load it.",
		instead: "Load nvidia first, and build gdrdrv anew for this kernel and driver (dkms status, dmesg). Load it as root on the host, not in a container.",
		forms:   []string{"could not load module*gdrdrv", "could not insert module*gdrdrv", "could not insert 'gdrdrv'", "Module gdrdrv not found", "gdrdrv: Unknown symbol", "gdrdrv: disagrees about version", "mknod: *gdrdrv*Operation not permitted"}},
	{role: cause, summary: "GDRCopy cannot pin GPU memory", costs: "gdrdrv is loaded, and the NVIDIA driver refuses to pin the memory: the GPU has no GPUDirect RDMA (GeForce), gdrdrv does not fit the driver, address or length is not a multiple of 64 KiB, or BAR1 is full (-12).",
		instead: "dmesg shows the driver's own reason, beside gdrdrv's line. Update the NVIDIA driver and GDRCopy together; nvidia-smi -q -d MEMORY shows BAR1. To go on without it: UCX_TLS=^gdr_copy, NVSHMEM_DISABLE_GDRCOPY=1.",
		forms:   []string{"(gdr_pin_buffer(*failed at", "gdr_pin_buffer failed. length" /* UCX */, "gdrdrv:*nvidia_p2p_get_pages(*failed"}},
	{role: cause, summary: "GDRCopy cannot map GPU memory", costs: "The mapping is not of whole pages of the GPU (64 KiB), as of two small buffers in one page, or gdrdrv does not fit its library.", instead: "Allocate at least 64 KiB for each buffer, and align it (gdr_pin_buffer takes whole GPU pages). Install library and gdrdrv of one GDRCopy.", forms: []string{"while mapping handle"}},
	{role: cause, summary: "GPU memory cannot be registered", costs: "Mooncake registers memory of the GPU, and the NIC's driver cannot map it: GPUDirect RDMA does not work here.", instead: gpuReach, forms: []string{"rdma_context.cpp*Failed to register memory*Bad address"}},
	{role: cause, summary: "Memory cannot be pinned", costs: "Mooncake registers much memory, and the process may not lock it, or the device has no room for its pages.", instead: memlock, forms: []string{"rdma_context.cpp*Failed to register memory*Cannot allocate memory"}},
	{role: symptom, summary: "Memory could not be registered", costs: "Mooncake could not register memory with the NIC: it is the GPU's and GPUDirect RDMA does not work, it is larger than the device takes at once (max_mr_size of ibv_devinfo -v), or memlock is limited. The words after the address are the system's.",
		instead: gpuReach + " " + memlock, forms: []string{"rdma_context.cpp*Failed to register memory", "CTRAN-IB: buffer registration failed" /* comms/ctran/backends/ib of torchcomms */, "Failed to register memory region", "RdmaTransport: Failed to register memory", "Mooncake memory registration failed", "Mooncake Transfer Engine initialization failed"}},
	{role: symptom, vague: true, summary: "NIXL's backend failed", costs: "NIXL moves data by UCX (or another backend), which reported an error: it could not register memory of the GPU, connect to the peer, or load its modules for CUDA.",
		instead: "Read the lines with UCX ERROR before it; UCX_LOG_LEVEL=info shows more. ucx_info -d must list cuda_copy and the NIC in the same container; install NIXL for the CUDA of the program.", more: explainAllDevices, forms: []string{"NIXL_ERR_BACKEND", "Unexpected UCX error: ", "UCX endpoint create failed"}},
	{role: effect, summary: "NIXL's peer is gone", costs: "The other agent has ended, or the connection to it broke.", instead: "Read the peer's log, and look for an earlier UCX ERROR on both sides.", forms: []string{"NIXL_ERR_REMOTE_DISCONNECT"}},
	{role: cause, summary: "A device of the list is not there", costs: "Mooncake was given a device that libibverbs does not show here, or that has no active port: the name is wrong or has quotes or spaces around it, or the container lacks it.",
		instead: "Compare the list (device_name, --disaggregation-ib-device, MC_… variables) with ibv_devices in the same container; write names with commas and no spaces.", forms: []string{"rdma_context.cpp*No matched device found"}},
	{role: hint, summary: "The transfer engine has a device that is down", costs: "Mooncake leaves it out, or fails if no other is left.", instead: "Take it out of the list of devices, or bring its link up (ibv_devinfo).", forms: []string{"rdma_context.cpp*port not active", "RdmaTransport: No available RNIC", "No RDMA devices found, check your device installation"}},
	{role: symptom, summary: "The GID has no interface here", costs: "The pinned index (MC_GID_INDEX) is a GID whose network interface this container or pod does not have.", instead: "Remove MC_GID_INDEX, or set it to the index of a RoCE v2 GID whose interface is listed in the container (show_gids, ip -br address). On InfiniBand index 0 has no interface and is right: there upgrade Mooncake to a version that goes on.",
		forms: []string{"rdma_context.cpp*has no associated network device"}},
	{role: cause, summary: "GPU memory cannot be registered", costs: "Mooncake registers GPU memory by dma-buf, which this driver does not offer for the GPU.", instead: "Load nvidia_peermem on the host and set WITH_NVIDIA_PEERMEM=1 for Mooncake, or install the driver's open kernel modules, which have dma-buf.",
		forms: []string{"DMA BUF supported required for GPU RDMA"}},
	{role: symptom, summary: "The transfer engine finds no GID", costs: "Mooncake found no RoCE v2 GID with an address that it may use on this device.", instead: "Give the NIC an IPv4 address, and set MC_GID_INDEX to the index of its RoCE v2 GID (show_gids), or leave the device out of the list.",
		forms: []string{"specifying MC_GID_INDEX", "No suitable GID found on"}},
	{role: cause, summary: "perftest has no support for GPUs", costs: "This build does not know the option: packages of distributions are built without CUDA and ROCm.", instead: "Build perftest from its source with CUDA_H_PATH=…/cuda.h (AMD: --enable-rocm), and call that build.",
		forms: []string{"unrecognized option '--use_cuda", "unrecognized option `--use_cuda", "unrecognized option '--use_rocm"}},
	{role: cause, summary: "perftest reads its options in order", costs: "--use_cuda_dmabuf comes before --use_cuda=N, or stands alone.", instead: "Write --use_cuda=N first, then --use_cuda_dmabuf.", forms: []string{"DMA-BUF cannot be used without"}},
	{role: result, summary: "perftest refuses its options", costs: "An option is unknown to this build, has a value out of range, or does not go with another.", instead: "The lines before name it.", forms: []string{"Parser function exited with Error"}},
	{role: cause, summary: "The other side does not answer over TCP", costs: "perftest exchanges addresses over TCP (port 18515, or -p). No server runs there, the address is wrong, or a firewall is between.", instead: "Start the same command without an address on the other host first, then open the port.",
		forms: []string{"Couldn't connect to*:", "Unable to open file descriptor for socket connection"}},
	{role: symptom, vague: true, summary: "The other side does not answer over TCP", costs: "perftest could not exchange addresses with the other side.", instead: "Start the same command without an address on the other host first, and open the port (18515, or -p). With -R both addresses must be of RDMA NICs.", forms: []string{"Unable to init the socket connection"}},
	{role: cause, summary: "The port is taken", costs: "Another process listens there, such as an earlier test.", instead: "End it (ss -ltnp shows it), or take another port on both sides (-p).", forms: []string{"Couldn't listen to port"}},
	{role: cause, summary: "The GIDs are of different kinds", costs: "One side has an IPv4 GID and the other an IPv6 one, or one is RoCE v1.", instead: "Give each side the index of its RoCE v2 GID with an IPv4 address (-x; show_gids lists them).", forms: []string{"Found Incompatibility issue with GID types"}},
	{role: symptom, summary: "The peer's address does not answer", costs: "Neighbour resolution failed for the peer's GID.", instead: "Check with ping -I NIC that the peer's address answers from this NIC: cable, VLAN, subnet and switch. See with show_gids that both GIDs are RoCE v2 with IPv4 addresses.", more: explainUnanswered,
		forms: []string{"odify QP to RTR*Connection timed out", "odify QP*RTR*110", "RTR) failed*Connection timed out", "connect on mlx*failed: Connection timed out" /* UCX */}},
	// uct_ib_mlx5_devx_obj_create of UCX (uct/ib/mlx5/dv/ib_mlx5_dv.c): %m is the system's error.
	{role: cause, summary: "The NIC has no room for more queue pairs", costs: "UCX asks for one more queue pair, and the NIC or its driver has nothing left for it. The transport rc needs one for each pair of processes, so that their number grows with the ranks of a host times the ranks of the job.", instead: "Take a transport that needs fewer: UCX_TLS=dc_x,sm,self or ud_x,sm,self, or leave UCX_TLS out, so that UCX chooses by the size of the job. Fewer ranks on a host help, too. If it fails with a few ranks: " + memlock,
		forms: []string{"devx_obj_create(QP) failed*Cannot allocate memory"}},
	{role: cause, summary: "Empty GID", costs: "UCX found no address at its index on this device, as on a NIC whose interface is not in this container.", instead: "Name the devices that have an address here in UCX_NET_DEVICES, for each host its own and passed to all ranks, and the index of RoCE v2 in UCX_IB_GID_INDEX (show_gids in the same container).", forms: []string{"UCX*Invalid gid[" /* uct/ib/base/ib_device.c –1.8 */}},
	{role: cause, summary: "Firmware or driver refuses UCX", costs: "UCX asks the NIC's firmware directly (DevX), and gets an error: firmware, the host's driver and the container's libraries do not fit together, or the firmware has a fault.", instead: "Set UCX_IB_MLX5_DEVX=n for the job, and update firmware and DOCA-OFED; the container's rdma-core or OFED must fit the host's.", forms: []string{"UCX*mlx5dv_devx_*failed", "mlx5dv_devx_obj_create(*failed", "ibv_modify_qp(DCI*failed" /* it has no peer yet */}},
	{role: symptom, summary: "The NIC refuses a connection", costs: "The driver could not carry out this step: its firmware was busy or did not answer, or a resource is used up. These words are not about addresses.", instead: "Read dmesg for lines of that NIC (mlx5_core), and look for other errors of the job.", forms: []string{"RTR*Resource temporarily unavailable"}},
	{role: symptom, summary: refusedPeer, costs: "The connection's data do not fit: the GID index is empty, link-local or of another kind than the peer's, the MTU is larger than the port's, or an InfiniBand LID is 0.",
		instead: "Give each side the index of its RoCE v2 GID with an IPv4 address (show_gids), and see that both ports are active (ibv_devinfo).", more: explainTestGID, forms: []string{"Changing queue pair to RT" /* MLX */, "odify QP*to RTR", "ibv_modify_qp(*RTR) failed", "error modifying QP to RTR"}},
	{role: symptom, vague: true, summary: "The two sides of the test cannot connect", costs: "One side could not finish the connection: the other one had ended, has other options, or its address does not answer.", instead: "Read both sides from their first line. Give both the same options and one version of perftest, RoCE v2 GIDs with IPv4 addresses (-x), or, with -R, addresses of RDMA NICs that answer ping -I NIC.", more: explainTestGID,
		forms: []string{"Unable to Connect the HCA's through the link", "odify QP*to RTS"}},
	{role: symptom, vague: true, summary: "The NIC refuses a connection", costs: "The port is not active, the index of the partition key does not exist, the NIC does not offer what the program asks for (such as atomic operations), or it has no resources left.", more: explainQP, instead: "Look at the port (ibv_devinfo; -i names another one), at memlock (ulimit -l), and at dmesg for that NIC.", forms: []string{"odify QP*to INIT", "Couldn't create rdma*QP", "Failed to create QP.", "Unable to create QP.", "Couldn't create QP", "Couldn't create CQ"}},
	{role: effect, summary: "The other side of the test ended", costs: "The two sides of perftest lost each other: the other one failed, or has other options or another version. -a, -b, -c, -D, -m, -n, -q, -R and -s must be the same.", instead: "Read what the other side says, and use one version of perftest on both.",
		forms: []string{"Couldn't read remote address", "Unable to read to socket/rdma_cm", "Unable to write to socket/rdma_cm", "Unable to read from socket/rdma_cm", "Failed to exchange data between server and client", "Failed to exchange*between server and clients", "Failed to negotiate parameters"}},
	{role: result, summary: "The test ended with an error", costs: "perftest stopped.", instead: "The lines before it name the reason; perftest prints a status and a syndrome.", forms: []string{"Completion with error at", "Failed to complete run_iter", "Failed to handle RDMA CM event", "Failed to connect RDMA CM events", "Problems with warm up", "Failed to deallocate PD", "Couldn't create IB resources", "ailed to create mr", "ailed to create MR"}},

	{role: cause, summary: "RDMA CM cannot be used here", costs: "The module rdma_ucm is not loaded, the container does not have /dev/infiniband/rdma_cm, or no driver for RDMA is loaded.", instead: "modprobe rdma_ucm on the host, give the container /dev/infiniband, and see rdma link there.",
		forms: []string{"No RDMA devices were detected", "ailed to create RDMA CM event channel", "rdma_create_event_channel failed", "librdmacm: Fatal: "}},
	{role: cause, summary: "RDMA CM finds no device for the address", costs: "The address is not of a NIC with RDMA in this network namespace, or no route leads to it from one.", instead: "Use the address of an RDMA NIC on both sides (rdma link names each NIC's netdev); in a container the NIC and its device must both be there.",
		forms: []string{"RDMA_CM_EVENT_ADDR_ERROR", "times ADDR_ERROR", "rdma_resolve_addr failed", "rdma_bind_addr failed", "rdma_bind_addr: No such", "rdma_bind_addr: Cannot assign", "rdma_resolve_addr: ", "rdma_create_ep: No such" /* rdma-core's librdmacm/examples */}},
	{role: hint, summary: "libibverbs cannot read devices", costs: "/sys/class/infiniband lists devices that this container or pod does not have, such as virtual functions of other pods: libibverbs leaves them out, and its warnings are harmless for the others.", instead: "See with ibv_devices which devices there are, and name those in NCCL_IB_HCA (= in front) and UCX_NET_DEVICES. A namespace of its own for RDMA (rdma system set netns exclusive) hides the others.", forms: []string{"libibverbs: Warning: couldn't stat '/sys/class/infiniband"}},
	{role: cause, summary: "librdmacm cannot open all devices", costs: "/sys/class/infiniband lists devices whose /dev/infiniband/uverbs files this container does not have. An older librdmacm then fails for all of them (linux-rdma/rdma-core#1060, of 2021).", instead: "Give the container all uverbs devices and /dev/infiniband/rdma_cm, or install a newer rdma-core in its image.", forms: []string{"fail in rdma_get_devices()", "rdma_get_devices() failed", "rdma_get_devices failed"}},
	{role: cause, summary: "RDMA CM cannot reach the peer", costs: "The peer's NIC has no route, no neighbour entry, or no RDMA listener.", more: explainRoute, instead: "Check ping -I NIC, and that the server runs with -R and listens on the address of its RDMA NIC.",
		forms: []string{"RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_UNREACHABLE", "RDMA_CM_EVENT_CONNECT_ERROR", "nexpected CM event bl blka 7", "rdma_resolve_route failed", "Unable to perform rdma_client function"}},
	{role: cause, summary: "The peer rejects the RDMA connection", costs: "No program listens there over RDMA CM, or it refused: other options or versions, or it cannot make as many connections.", instead: "Start the server first, with the same options (perftest: -R on both sides), and read its own output. With many queue pairs try one (-q 1).", forms: []string{"RDMA_CM_EVENT_REJECTED", "(invalid service ID)" /* of the kernel: rdma_reject_msg */, "nexpected CM event bl blka 8"}},

	{role: cause, summary: "UCX_NET_DEVICES or UCX_TLS names what is not there", costs: "A device or transport in the list does not exist on this host, or its port is down.", instead: "Take names from ucx_info -d on that host (mlx5_0:1 for RDMA, eth0 for TCP), or remove the variable.", forms: []string{"not available, please use one or more of"}},
	// libfabric's provider efa. -12 is ENOMEM.
	{role: cause, summary: "GPU memory cannot be registered", costs: "libfabric's provider cannot register memory of the GPU: the NIC's driver cannot map it, neither by dma-buf nor by a peer memory module, or the address is not of memory that this process allocated on the GPU.", instead: "On AWS install the current EFA installer on the host and in the image; cat /sys/class/infiniband/*/device/p2p shows whether the driver supports the GPU. By dma-buf it needs Linux 5.12 or later and NVIDIA's open kernel modules; GDRCopy needs gdrdrv on the host and /dev/gdrdrv in the container.", forms: []string{"Unable to register MR*Bad address", "Unable to register handle for GPU memory"}},
	{role: symptom, summary: "libfabric refuses Open MPI", costs: "A call of libfabric failed, which the line names; the Error below it says how.", instead: "See with FI_LOG_LEVEL=info why the provider refuses. On Slingshot (cxi), the error ENOSYS at fi_domain mostly means that the processes have no VNI: start them by srun, or with mpirun ask Slurm for --network=single_node_vni,job_vni. --mca mtl ^ofi --mca btl ^ofi leaves libfabric out.", forms: []string{"Open MPI failed an OFI Libfabric library call"}},
	{role: symptom, summary: "libfabric has no provider for this", costs: "fi_getinfo found no provider that does what the program asks for: the host or container has no such device (EFA: its device files), the address is not of that network, or the provider has not that kind of endpoint (EFA: FI_EP_RDM).",
		instead: "See what fi_info -p PROVIDER lists there, and FI_LOG_LEVEL=info says why a provider declines. EFA's addresses are not IP addresses: its tests need an address out of band (-E). With MPICH or Intel MPI, FI_PROVIDER=tcp shows whether it is the device.", forms: []string{"fi_getinfo(): *ret=-61", "fi_getinfo(): *(No data available)", "fi_getinfo: -61"}},
	{role: cause, summary: "GID of another network namespace", costs: "UCX chose a GID of a NIC that this container does not have.", instead: "Give the container the NIC's interface with an address, or the host's network. Name its own device and GID: UCX_NET_DEVICES, UCX_IB_GID_INDEX (show_gids inside). If only MPI's start matters: UCX_TLS=tcp,self.",
		forms: []string{"QP connect on*failed: No such device"}},
	{role: cause, summary: "MPI connects to a container bridge's address", costs: "172.17.0.x is Docker's default network on each host: UCX chose that interface for TCP, and no other host answers there.", instead: "Name the network that joins the hosts: mpirun -x UCX_NET_DEVICES=NIC, --mca btl_tcp_if_include NIC and --mca oob_tcp_if_include NIC (or the subnet).",
		forms: []string{"UCX*dest_addr=172.17.0."}},
	{role: cause, summary: "Empty GID", costs: "UCX_IB_GID_INDEX, or UCX's own choice, is an index without an address on this device.", instead: "Remove UCX_IB_GID_INDEX, or set it to the index of the NIC's RoCE v2 GID (show_gids in the same container). The NIC needs an address. If the device is not for data, such as a management function in a privileged container, name the others in UCX_NET_DEVICES.", forms: []string{"UCX*ibv_query_gid(*failed"}},
	{role: symptom, summary: "UCX cannot reach a process over TCP", costs: "UCX connected to another process's address, and nobody answered: that address is of a network the hosts do not share (a bridge, another NIC), a firewall is between, or that process ended.",
		instead: "Name the network that joins the hosts in UCX_NET_DEVICES (a NIC's name for TCP), open its TCP ports, and see whether the other process ended first.", forms: []string{"UCX*connect(*dest_addr=*failed"}},
	{role: symptom, summary: "UCX lost a process over TCP", costs: "A connection of UCX over TCP broke: the other process ended or hangs, or the network between lost it.", instead: "Read the other process's log first. If it still runs, check the path between the two addresses and firewalls; UCX_NET_DEVICES names the network that UCX takes.", forms: []string{"UCX*tcp_ep*send(*failed", "UCX*tcp_ep*recv(*failed"}},
	{role: symptom, summary: "UCX cannot use another process's memory", costs: "Processes of one host share memory with each other, and the system refuses: they are in different containers or user namespaces, ptrace is forbidden (seccomp, yama), or /dev/shm or System V limits are too small.",
		instead: "Run them in one container, or with --ipc=host --pid=host (--cap-add SYS_PTRACE). To go without: UCX_TLS=^cma for process_vm_… and ptrace, UCX_POSIX_USE_PROC_LINK=n for /proc/…/fd, UCX_TLS=^sysv for shmget.", forms: []string{"process_vm_*delivered", "process_vm_*failed: Operation not permitted", "mm_posix.c*failed", "check shared memory limits by", "shmat(*failed"}},
	{role: symptom, summary: "UCX cannot share GPU memory", costs: "CUDA IPC between processes failed: each sees other GPUs (CUDA_VISIBLE_DEVICES, containers), the memory is of a kind that IPC does not take (virtual memory management, managed), or CUDA had failed before. Between hosts it needs multi-node NVLink and a running IMEX domain.",
		instead: "UCX_TLS=^cuda_ipc goes without. Give all ranks of a host the same GPUs, and look for an earlier CUDA error.", forms: []string{"cuIpcOpenMemHandle*failed", "cuIpcGetMemHandle*failed", "cuda_ipc_*.c:*UCX  ERROR"}},
	{role: cause, summary: "Two versions of UCX", costs: "A program or plugin was built for a newer UCX than the one that the loader found.", instead: "Let LD_LIBRARY_PATH name one UCX alone (ldd and ucx_info -v show which); HPC-X brings its own: source hpcx-init.sh.", forms: []string{"UCP API version is incompatible", "UCP version is incompatible"}},
	{role: hint, summary: "UCX is older than the NIC", costs: "It does not know the port's speed, and may take a wrong one or leave the port out.", instead: "Update UCX (HPC-X), or name the device in UCX_NET_DEVICES.", forms: []string{"nvalid active_speed on", "nvalid active_width on", "Unknown active_speed on"}},
	{role: symptom, summary: "UCX has no path to a process", costs: "The devices and transports that UCX may use do not reach the other process.", instead: "Remove UCX_TLS and UCX_NET_DEVICES, or name what reaches all hosts. In containers, /dev/infiniband and shared memory must be there.",
		forms: []string{"UCX*transport to*unreachable", "UCX*transport to <", "UCX*Destination is unreachable", "UCX*no active messages transport", "No transports selected to"}},
	{role: effect, summary: "UCX has no path to a process", costs: "The devices and transports that UCX may use do not reach the other process.", instead: "Its own lines (UCX ERROR) name the reason. If there are none, remove UCX_TLS and UCX_NET_DEVICES, or name what reaches all hosts.", forms: []string{"pml_ucx.c*rror: ucp_ep_create*unreachable"}},
	{role: effect, vague: true, summary: "MPI got no connection from UCX", costs: "UCX could not connect this process with another one.", instead: "Its own lines (UCX ERROR) name the reason.", forms: []string{"pml_ucx.c*rror: ucp_ep_create", "pml_ucx.c*ailed to create UCP worker", "ailed to resolve UCX endpoint"}},
	{role: cause, summary: "MPI's processes chose different transports", costs: "One process uses UCX and another does not: it did not find the NIC, memlock is limited there, or its libraries differ.", instead: "Name one for all: mpirun --mca pml ucx shows why it fails where it fails, --mca pml ob1 --mca btl tcp,self,vader goes without. NCCL's data do not go through MPI.", forms: []string{"selected pml*but peer"}},
	{role: symptom, summary: "UCX gets no memory for its messages", costs: "UCX could not allocate memory, or the NIC or the GPU could not register it. The words at the end, or UCX's line before, have the reason.", instead: memlock + " With Input/output error, read dmesg for lines of the NIC and of the GPU: the driver refused.", forms: []string{"UCX  ERROR Failed to allocate memory pool"}},
	{role: symptom, vague: true, summary: "UCX reports an error", more: explainUCXCall, costs: "A call of UCX failed, the library of MPI, NIXL and others; NCCL uses it only by its UCX plugin.", instead: "The line names the call; UCX_LOG_LEVEL=info shows more. If only MPI's start matters, use TCP for it: mpirun --mca pml ob1 --mca btl tcp,self, or UCX_TLS=tcp,self.", forms: []string{"UCX  ERROR", "UCX  FATAL", "UCX ERROR"}},
	{role: harmless, summary: "UCX does not know a variable", forms: []string{"unused environment variable", "unused env variable", "UCX_WARN_UNUSED_ENV_VARS=n to suppress", "ibv_fork_init() was disabled or failed"}},
	{role: hint, summary: "UCX found something unusual", costs: "That stops nothing by itself.", instead: "Compare the host with others.", forms: []string{"UCX  WARN", "UCX WARN"}},

	// libsharp; lines of NCCL's plugin for it are in pluginMeanings.
	{role: hint, summary: "SHARP cannot be used", costs: "The switches' in-network reductions could not be set up: the fabric or its manager (sharp_am) does not offer them, their resources are taken, or a port is the subnet manager's own. NCCL goes on without them.",
		instead: "If SHARP is wanted, run sharp_am on the host of the master subnet manager, see that its port carries no job, and run sharp_hello. Otherwise remove NCCL_COLLNET_ENABLE and NCCL_ALGO=CollNet.", forms: []string{"FabricProvider must bind to port with master SM" /* sharp_am */, "Job error in sharp_", "Begin job id*failed with status: No resource", "Cannot create SHARP job", "sharp_get_local_data", "collect_ports_data", "Failed to lock SAT tree", "Failed to connect to Aggregation Manager", "sharp_coll_init failed"}},
}

// explainUCXCall says more of a call of libibverbs or librdmacm that UCX reports.
func explainUCXCall(l *logged, m string) (summary, costs, instead string) {
	if !strings.Contains(inWords(m), rdmaCall) {
		return "", "", ""
	}
	return explainCall(l, m)
}

// explainUnanswered says more of a GID that does not answer if a program has printed that its own is link-local.
func explainUnanswered(l *logged, _ string) (summary, costs, instead string) {
	if l.testGID.line == 0 || l.testGID.zero {
		return "", "", ""
	}
	return "", fmt.Sprintf("Neighbour resolution failed for the peer's GID. The GID in line %d is link-local (fe80): it is valid on one link alone, and its peers on another link do not answer.", l.testGID.line), "Take the index of the RoCE v2 GID with the NIC's IPv4 address on both sides (show_gids lists them; -x of perftest, MC_GID_INDEX of Mooncake), and check with ping -I NIC that the peer's address answers from this NIC."
}

// overRDMA are the beginnings of UCX's transports for RDMA, and the names of groups that have one (ucx_info -d; UCX_TLS of its documentation).
var overRDMA = []string{"rc", "dc", "ud", "ib", "srd", "gga", "all", "^"}

// explainAllDevices says more of a failure of UCX that may use all devices of the host, or none for RDMA.
func explainAllDevices(l *logged, _ string) (summary, costs, instead string) {
	if s, ok := find(l.settings, "UCX_TLS"); ok && !s.dynamic && !slices.ContainsFunc(strings.Split(s.value, ","), func(t string) bool {
		return slices.ContainsFunc(overRDMA, func(begin string) bool { return strings.HasPrefix(t, begin) })
	}) {
		return "", fmt.Sprintf("UCX_TLS in line %d (%s) leaves out all transports for RDMA: between hosts GPU memory goes by none of the others, except over NVLink between hosts of one domain.", s.line, shorten(s.value)), "Remove UCX_TLS, or add rc (rc,cuda_copy,cuda_ipc,tcp). ucx_info -d must list the NIC in the same container; UCX_LOG_LEVEL=info shows which transport each connection takes."
	}
	set, ok := find(l.settings, "UCX_NET_DEVICES")
	if !ok || set.value != "all" {
		return "", "", ""
	}
	return "", fmt.Sprintf("Line %d gives UCX all devices of the host: it also takes NICs for management and storage, and a BlueField's, and its start fails if one of them cannot be used.", set.line), "Name the NICs of the data network alone in UCX_NET_DEVICES (mlx5_0:1,mlx5_1:1), those near the GPUs (nvidia-smi topo -m). UCX_LOG_LEVEL=info shows more."
}

// explainTestGID says more if perftest has printed GIDs that cannot work.
func explainTestGID(l *logged, _ string) (summary, costs, instead string) {
	switch g := l.testGID; {
	case g.line == 0:
		return "", "", ""
	case g.zero:
		return "Empty GID", fmt.Sprintf("The GID in line %d is all zeros: that index has no address. In a container, the NIC's network interface is mostly not in its network namespace.", g.line), "Run the container or pod in the host's network (hostNetwork: true), or give it the NIC's interface with an address (a virtual function, or macvlan). Then pass the index of a RoCE v2 GID with an IPv4 address (-x); show_gids inside the container lists them."
	}
	return "Link-local GID", fmt.Sprintf("The GID in line %d is link-local.", l.testGID.line), "Give the NIC an IPv4 address, and pass the index of its RoCE v2 GID on each side (-x of perftest, -g of ibv_rc_pingpong, MC_GID_INDEX of Mooncake; show_gids lists them; with Soft-RoCE it is mostly 1)."
}
