package explain

import "strings"

// callMeanings are calls of libibverbs, librdmacm and libfabric that any program says have failed (inWords marks them), lines of Mooncake
// and of builds, and the words of the C library, of linkers and of ping. They come late: each more special form counts before them.
var callMeanings = []*meaning{
	// mooncake-transfer-engine/src of Mooncake: config.cpp, transfer_metadata*.cpp, transport/rdma_transport/*.cpp.
	{role: hint, summary: "A setting is not valid", costs: "Mooncake does not use this value.", instead: "Correct the variable or remove it.", forms: []string{"Ignore value from environment variable MC_"}},
	{role: symptom, summary: "The transfer engine cannot connect", costs: "Mooncake could not set up an RDMA connection with a NIC of the peer: the peer's process has ended, the handshake over TCP did not get through, or the two NICs do not reach each other (GIDs, MTU, two networks).",
		instead: "Read the peer's log first. Check with ping -I NIC between the two NICs that the line or those around it name; give both a RoCE v2 GID with an IPv4 address (MC_GID_INDEX, show_gids), and only NICs that reach each other to the program.",
		forms:   []string{"rdma_endpoint.cpp*ailed to", "worker_pool.cpp*Cannot make connection", "worker_pool.cpp*ailed to establish"}},
	{role: symptom, vague: true, summary: "A transfer of the transfer engine failed", costs: "Mooncake reports that data did not arrive: mostly the peer has ended, or the path between the two NICs is broken.", instead: "Read the peer's log, and look for the first error of both sides. ib_write_bw between the two NICs shows whether the path works.", forms: []string{"worker_pool.cpp*Process failed for slice", "worker_pool.cpp*ailed to", "Failed transfer detected"}},
	{role: symptom, summary: "The transfer engine's directory does not answer", costs: "Mooncake could not read or write the addresses of its peers: the metadata server (etcd, HTTP, Redis), or the peer itself in a handshake, is not reached at the address that the program was given, or the peer has ended.",
		instead: "Check the address and port of the metadata server, or the peer's host name, from this host (curl, ss -ltn there), and open the ports in firewalls.", forms: []string{"transfer_metadata*.cpp*ailed", "transfer_metadata*.cpp*Cannot", "transfer_metadata*.cpp*rror"}},
	anyCall,
	{role: symptom, summary: "GDRCopy cannot pin memory", costs: "Its module gdrdrv refused a call of the library: the address is not memory of a GPU in this process (an allocation before it failed), or library and module are of different versions.", instead: "Check what cuMemAlloc returned before. dmesg has gdrdrv's own words; gdrcopy_sanity tests library and module.", forms: []string{"ERR:  ioctl error (errno="}},
	{role: symptom, vague: true, summary: "A call of libfabric failed", costs: "The line names the call. Its reason is at the end of the line, or in a line before it.", more: explainFabric,
		instead: "See with fi_info that the provider and its device are there in the same container, and repeat with FI_LOG_LEVEL=warn: libfabric then says more.", forms: []string{strings.TrimSuffix(libfabricFails, ": ")}},
	{role: symptom, vague: true, summary: "A device is missing", costs: "The system has no device, or no interface, for what the line names: it is not there, has another name, or is not in this container.", instead: "Compare the name with ip link, rdma link and ls /dev on the host and in the container, and see that the device's module is loaded (lsmod, dmesg).",
		forms: []string{"o such device", "Cannot find device \""}},
	{role: symptom, vague: true, summary: "A device or file system reports an error", costs: "The kernel could not read or write: the device, its driver or the file system (as over the network) failed.", instead: "Read dmesg on that host for the device or the mount that the line is about.",
		forms: []string{"nput/output error", "tale file handle"}},
	{role: symptom, vague: true, summary: "Something else uses a device or file", costs: "The system refuses it as long as another process, module or mount uses it.", instead: "Find that process with fuser -v or lsof, or that module with lsmod, and end what an earlier start has left.", forms: []string{"evice or resource busy"}},
	{role: symptom, vague: true, summary: "An address is not this host's", costs: "No interface here has the address that the program wants to use, or the name resolves to another address.", instead: "Compare it with ip -br address in the same container, and the name with getent hosts NAME.", forms: []string{"annot assign requested address"}},
	// Linkers, compilers and shells.
	{role: hint, summary: "A limit cannot be raised", costs: "The shell may not raise this limit above its hard limit (ulimit -H). The script goes on.", instead: "If it is memlock (ulimit -l), raise the hard limit: limits.conf, LimitMEMLOCK of the service, or --ulimit of the container. A core file's size does not matter.", forms: []string{"annot modify limit"}},
	{role: cause, summary: "Libraries of the build do not fit together", costs: "The linker does not find what the program calls: a library is missing from the command, or is of another version than its headers.",
		instead: "Install its development package, and name its directory: NCCL_HOME, CUDA_HOME and MPI_HOME for nccl-tests, LIBRARY_PATH for others.", forms: []string{"ndefined reference to "}},
	{role: result, summary: "A build failed", costs: "A compiler or linker ended with an error, which the lines before it name.", instead: "Read the first line with error or fatal: a missing header or library, a CUDA that does not fit the compiler or the GPU, or too little memory are frequent reasons.", forms: []string{"ninja: build stopped", "Error compiling objects for extension", "make: *** ["}},
	// libfabric prints these for FI_LOG_LEVEL=warn, also of providers that it then does not use.
	{role: remark, summary: "libfabric warns", costs: "The line is in libfabric's own words; providers that are not used afterwards warn, too.", instead: "If the job fails, take the first of these lines of the provider that it uses (efa, cxi, verbs). Otherwise ignore it.", forms: []string{"libfabric:*<warn>"}},
	{role: cause, summary: "NCCL's headers are older than the program", costs: "The program calls what nccl.h of the build does not have: ncclSend and ncclRecv came with 2.7.", instead: "Name a newer NCCL for the build (NCCL_HOME; nccl.h shows NCCL_MAJOR and NCCL_MINOR), or take a version of the program for this NCCL.", forms: []string{"error: identifier \"nccl", "error: 'nccl*' was not declared", "error: ‘nccl*’ was not declared"}},
	{role: symptom, vague: true, summary: "A check in a program failed", costs: "The program or a library found a state that its own code excludes, and ended itself. The line names the file and the condition.", instead: "Look for an earlier error of this process or of its peers. If there is none, search that project's issues for the condition, and try another version.", forms: []string{": Assertion `*' failed"}},
	{role: cause, summary: "A header is missing", costs: "The compiler does not find a header that the line names.", more: explainHeader, instead: "Install the package for development that has it, or name its directory (-I, CPLUS_INCLUDE_PATH).", forms: []string{"fatal error: *.h: No such file or directory", "fatal error: *.hpp: No such file or directory"}},
	{role: cause, summary: "Packages lack what they depend on", costs: "dpkg does not set up a package before those that it needs, which are missing or failed themselves.", instead: "Read the lines before for the first package that failed, install what it needs (apt --fix-broken install), and for kernel modules the headers and linux-modules-extra of the running kernel.", forms: []string{"dependency problems prevent configuration of"}},
	// ping (iputils).
	{role: symptom, vague: true, summary: "A host does not answer ping", costs: "The address is not in use, is not reached from this interface, or a firewall drops ping.", instead: "Check cable and link (ip -br link), that both addresses are in one subnet or routed (ip route get ADDRESS), the VLAN of the switch, and ip neigh.", forms: []string{"Destination Host Unreachable", " 100% packet loss", "Destination Net Unreachable"}},
	{role: symptom, summary: "The MTU is too small for the packet", costs: "A packet of this size may not be divided, and an interface on the way has a smaller MTU: this host's own, as the line says by \"local error\", or one behind it.", instead: "Set one MTU on both hosts and at least that on the switches between them. A payload for ping -M do -s is the MTU less 28 bytes.",
		forms: []string{"essage too long, mtu", "Frag needed and DF set"}},
}

// anyCall is a call of libibverbs or librdmacm that a program says has failed, in whatever form.
var anyCall = &meaning{role: symptom, vague: true, summary: "A call of RDMA failed", costs: "The line names the call. Its reason is at the end of the line, or in a line before it.", more: explainCall,
	instead: "See with ibv_devinfo that the device is there and its port active, in the same container, and read dmesg for lines of its driver.", forms: []string{strings.TrimSuffix(rdmaCall, ": ")}}

// explainCall says more of a call of RDMA by the system's words or number for its error.
func explainCall(l *logged, m string) (summary, costs, instead string) {
	m = inWords(m)
	has := func(words ...string) bool { return anyOf(m, words) }
	memory := has("_reg_mr", "_reg_dmabuf_mr", "_reg_umr")
	switch {
	case has("_query_device"):
		return "RDMA's libraries do not fit the driver", "Asking a device what it offers needs no memory: the program or its libibverbs is of another kind or age than the host's driver. The experimental verbs (ibv_exp_) belong to MLNX_OFED before 5.0.", "Install one set on all hosts: either MLNX_OFED's driver and libraries, or the kernel's driver with rdma-core, and build UCX and MPI for it."
	case has("Cannot allocate memory", "No space left"):
		return "The device or its memory is used up", "The process may not lock the memory that the call needs, or the device has nothing left of that kind.", memlock
	case has("Operation not permitted", "Permission denied"):
		return "The device may not be used", "This user or container may not do it: a file of /dev/infiniband is not accessible, or a capability is missing (IPC_LOCK for memory, NET_RAW for raw packets).", "Give the container the device's files (a device plugin's resource, or --device=/dev/infiniband) and the capability, and compare with root on the host."
	case has("Bad address"), memory && has("Input/output error", "Invalid argument"):
		return "Memory could not be registered", "The NIC's driver cannot map that memory: it is not the process's, it is a GPU's and GPUDirect RDMA does not work, or the access flags do not suit it.", "If the memory is a GPU's: " + gpuReach
	case has("_create_ah", "_modify_qp") && has("No such device"):
		return "GID of another network namespace", "The GID that the program uses belongs to a network interface that this container does not have.", "Run the container in the host's network, or let the program use " + ownDev + " (UCX: UCX_IB_GID_INDEX). Give that interface an IPv4 address."
	case has("rdma_create_event_channel", "rdma_create_id"):
		return "RDMA CM cannot be used here", "The module rdma_ucm is not loaded, the container does not have /dev/infiniband/rdma_cm, or no driver for RDMA is loaded.", "modprobe rdma_ucm on the host, give the container /dev/infiniband, and see rdma link there."
	case has("No such device", "No such file", "Function not implemented", "No such process"): // ENOSYS: no RDMA in this kernel (ibv_get_device_list(3))
		return "An RDMA device is missing", "The device, or a file of it in /dev/infiniband or /sys, is not there for this process: it has another name, its module is not loaded, or the container lacks it or its network interface.", "Compare rdma link (the kernel's devices) with ibv_devices (those of programs) in the same container. " + providers
	case has("not supported"):
		return "The device does not support a call", "This device, its driver or its provider does not offer what the program asks for, as virtual functions, Soft-RoCE and old firmware often do not.", "Turn that function off in the program, or install an rdma-core that fits the host's driver and a newer firmware; ibv_devinfo -v lists what the device offers."
	case has("timed out", "unreachable", "No route to host"):
		return "The peer's address does not answer", "The peer's GID has no neighbour entry, or no route leads to it from this NIC.", "Check with ping -I NIC that the peer's address answers, and with show_gids that both GIDs are RoCE v2 with addresses of one network."
	case has("refused", "rejected"):
		return "The peer rejects the RDMA connection", "No program listens there over RDMA CM, or it refused.", "Start the other side first, with the same options, and read its output."
	case has("Cannot assign requested address", "Address already in use"):
		return "The address cannot be used for RDMA", "The address is not of an RDMA NIC in this network namespace, or its port is taken.", "Use the address of an RDMA NIC (rdma link names each NIC's netdev), and another port."
	case has("Invalid argument"):
		return "The device refuses an argument", "The port is not active, the GID index is empty or of another kind than the peer's, a size or number is larger than the device takes, or rdma-core does not fit the driver.", "Look with ibv_devinfo -v at the port's state and the device's limits, and with show_gids at the index. In a container install the rdma-core that fits the host's driver."
	}
	return "", "", ""
}

// explainFabric says more of a call of libfabric by the system's words or number for its error.
func explainFabric(_ *logged, m string) (summary, costs, instead string) {
	m = inWords(m)
	switch {
	case anyOf(m, []string{"Cannot allocate memory", "No space left"}):
		return "The device or its memory is used up", "The process may not lock the memory that the call needs, or the device has nothing left of that kind.", memlock
	case anyOf(m, []string{"Function not implemented", "not supported"}): // FI_ENOSYS (fi_errno(3))
		return "The device does not support a call", "The provider, or its device or driver, does not offer what the program asks for.", "Install libfabric and the program for this network, or choose another provider (FI_PROVIDER; fi_info -l lists them)."
	}
	return "", "", ""
}

// explainHeader says more of headers of RDMA.
func explainHeader(_ *logged, m string) (summary, costs, instead string) {
	switch {
	case strings.Contains(m, "verbs_exp.h"):
		return "", "It belongs to the experimental verbs of MLNX_OFED before 5.0, which later versions and rdma-core do not have.", "Take a version of the program for rdma-core, or the old MLNX_OFED that it was written for."
	case anyOf(m, []string{"infiniband/", "rdma/rdma_"}):
		return "", "", "Install rdma-core's headers: libibverbs-dev and librdmacm-dev (Debian, Ubuntu), rdma-core-devel (RHEL)."
	case strings.Contains(m, "rdma/fi_"), strings.Contains(m, "rdma/fabric.h"):
		return "", "", "Install libfabric's headers (libfabric-dev, or the EFA installer's in /opt/amazon/efa), and name their directory."
	case strings.Contains(m, "cuda"):
		return "", "", "Install the CUDA toolkit, and name it: CUDA_HOME, or -I/usr/local/cuda/include."
	}
	return "", "", ""
}
