package explain

import "fmt"

const (
	noRoom   = "The NIC has no room left"
	resetGPU = "Reset the GPU (nvidia-smi --gpu-reset, on NVSwitch hosts all GPUs together) or reboot. If it comes back, take the host out of the job and have the hardware checked."
	oldPeer  = "On bare metal disable ACS, and set the IOMMU to passthrough (iommu=pt). In a virtual machine the hypervisor must permit access between GPU and NIC. NCCL_NET_GDR_LEVEL=LOC and NCCL_P2P_DISABLE=1 show whether it is the reason."
)

// xid returns the forms of the driver's reports with one of these codes: "NVRM: Xid (PCI:0000:41:00): 79, …", and "… caused by previous
// Xid 79", which comes with code 45.
func xid(codes ...int) (out []string) {
	for _, code := range codes {
		out = append(out, fmt.Sprintf("NVRM: Xid (*): %d,", code), fmt.Sprintf("caused by previous Xid %d", code))
	}
	return out
}

// kernelMeanings are lines of the kernel's log and of the services of NVIDIA's driver. The codes are those of NVIDIA's Xid catalog
// (docs.nvidia.com/deploy/xid-errors); mlx5's lines are in drivers/net/ethernet/mellanox/mlx5/core (health.c, events.c, cmd.c) and
// drivers/infiniband/hw/mlx5/cq.c; others in drivers/pci/pcie (aer.c, dpc.c), drivers/iommu and mm/oom_kill.c.
var kernelMeanings = []*meaning{
	{role: cause, summary: "NVLink reports errors", costs: "A link between GPUs, or between a GPU and a switch, failed. Jobs on these GPUs end or hang, also on those that show no error.",
		instead: "Look for the first of these lines on the host, and see nvidia-smi nvlink -e. " + resetGPU, forms: xid(74, 136, 144, 145, 146, 147, 148, 149, 150, 155)},
	{role: symptom, summary: "A GPU was refused access over NVLink", costs: "Xid 137: a GPU asked another one for memory that is not mapped there: mostly the program that owned it ended or failed, sometimes the NVLink fabric is not set up.",
		instead: "Look for an earlier error of any rank and for other Xid lines. " + manager, forms: xid(137)},
	{role: cause, summary: "The GPU has fallen off the bus", costs: "The GPU no longer answers over PCIe: power, temperature, the slot or the GPU itself.", instead: "Reboot the host. If it comes back, check power, cooling, seating and the system's firmware, or have the GPU replaced.",
		forms: append(xid(79, 167), "allen off the bus", "GPU is lost", "Unable to determine the device handle for GPU")},
	{role: cause, summary: "The GPU's memory has errors", costs: "The GPU found memory errors that it could not correct, and ended what used them.", instead: "Reset the GPU or reboot, so that it replaces the bad rows. If it comes back, have the GPU replaced.", forms: xid(48, 64, 95, 140, 157, 171, 172)},
	{role: cause, summary: "The GPU's memory has errors", costs: "An error that could not be corrected ended the program on it; other programs are not affected.", instead: "Start the job again, and reset the GPU when it is free.", forms: xid(94)},
	{role: hint, summary: "The GPU's memory is worn", costs: "The GPU corrected memory errors, or replaced a bad row. That stops no job.", instead: "Reset the GPU when it is free, and watch whether more follow.", forms: xid(63, 92, 156)},
	{role: cause, summary: "The GPU's firmware does not answer", costs: "A controller in the GPU stopped or did not answer the driver in time.", instead: resetGPU + " Update the driver.", forms: xid(46, 61, 62, 109, 119, 120, 158, 169)},
	{role: cause, summary: "The GPU cannot be initialized", costs: "The driver could not start the GPU: power, its firmware, the system's firmware (size of BARs), or the driver does not support it.", instead: "Read the lines before it. Power the host off and on; update the driver and the system's firmware.",
		forms: append(xid(54, 78, 143), "RmInitAdapter failed", "The NVIDIA probe routine failed")},
	// Before the next: "previous Xid 8" also begins "previous Xid 80".
	{role: symptom, summary: "Commands reached the GPU damaged", costs: "PCIe, host memory, the driver or the GPU damaged them; programs rarely do.", instead: "Read dmesg for PCIe errors (AER), seat the card again, and update the driver. If it comes back, have the GPU replaced.", forms: xid(32, 80)},
	{role: cause, summary: "A program's kernel failed on the GPU", costs: "Mostly a mistake in the program or a library, such as an address out of bounds. If only this GPU shows it with programs that work elsewhere, it is the GPU.", instead: "Repeat with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer. If one GPU stands out, run dcgmi diag on it.",
		forms: xid(8, 11, 13, 25, 31, 43, 69)},
	{role: hint, summary: "The driver asks for a reset", costs: "Xid 154 says what the GPU needs after another error.", instead: "Do what the line says (reset or reboot), and read the Xid before it: that is the error.", forms: xid(154)},
	{role: effect, summary: "The driver ended a program's work on the GPU", costs: "Xid 45 follows from another error, or from a program that was killed.", instead: "Look for an earlier Xid on this and the other GPUs, and for an earlier error of the program.", forms: []string{"NVRM: Xid (*): 45,"}},
	{role: symptom, summary: "The driver reports an Xid that is not known here", costs: "The driver reports an error of the GPU, of a program on it, or of PCIe.", instead: "Look the number up in NVIDIA's Xid catalog before you reset anything.", forms: []string{"NVRM: Xid"}},
	{role: cause, summary: "An NVSwitch reports an error", costs: "A switch between the GPUs of this host, or one of its links, failed.", instead: "Look the SXid up in NVIDIA's Fabric Manager guide. " + resetGPU, forms: []string{"SXid (PCI:*, Fatal,"}},
	{role: hint, summary: "An NVSwitch reports an error that is not fatal", costs: "Jobs go on; repeated lines come before a failure.", instead: "Compare the time with the job's. Look the SXid up in NVIDIA's Fabric Manager guide.", forms: []string{"SXid (PCI:"}},
	{role: cause, summary: "Driver and libraries do not match", costs: "The loaded kernel module has another version than the driver's libraries.", instead: "Reboot after an update of the driver, or unload and load the module.", forms: []string{"NVRM: API mismatch"}},

	// NVLink 5 switches are found through ib_umad and nvlsm: siderolabs/extensions#717.
	{role: symptom, summary: "The Fabric Manager found no NVSwitch", costs: "Hosts without NVSwitches do not need it. On HGX and DGX B100, B200 and B300 it finds the switches only with ib_umad loaded and nvlsm installed.",
		instead: "On those hosts load mlx5_core and ib_umad, install nvlsm, and start the service again. Disable the service only on a host that has no NVSwitch by its model, such as one with A40, L40 or PCIe cards.",
		forms:   []string{"NV_WARN_NOTHING_TO_DO"}},
	{role: cause, summary: "The Fabric Manager does not fit the driver", costs: "It must have exactly the version of the driver.", instead: "Install nvidia-fabricmanager of the driver's version (cat /proc/driver/nvidia/version), and keep both from separate updates.",
		forms: []string{"fabric manager NVIDIA GPU driver interface version*match with driver version"}},
	{role: symptom, summary: "The Fabric Manager did not start", costs: "GPUs behind NVSwitches cannot be used without it. Other GPUs do not need it.", instead: "Read journalctl -u nvidia-fabricmanager and /var/log/fabricmanager.log. It must have the driver's version.",
		forms: []string{"nvidia-fabricmanager.service: Failed", "Job for nvidia-fabricmanager.service failed", "nvidia-fabricmanager.service: Control process exited", "Failed to start*abric manager", "Failed to start*abricmanager", "nv-fabricmanager -c*failed"}},
	{role: hint, summary: "nvidia_peermem cannot be loaded", costs: "The RDMA driver has no interface for it: it is the kernel's own, or one of the two drivers was installed or updated after the module was built. GPUDirect RDMA needs it only without dma-buf.", instead: "Use the open driver with dma-buf (NCCL 2.13.4 or later), or install DOCA-OFED first and then NVIDIA's driver again.",
		forms: []string{"could not insert 'nvidia_peermem'", "could not insert module nvidia-peermem", "could not insert 'nv_peer_mem'", "nvidia_peermem: disagrees about version of symbol", "nvidia_peermem: Unknown symbol", "nv_peer_mem: disagrees about version of symbol", "nv_peer_mem: Unknown symbol", "failed to load nvidia-peermem module"}},
	// nv_peer_mem's create_nv.symvers.sh and its init script.
	{role: cause, summary: "The module for GPUDirect RDMA was not built", costs: "nv_peer_mem has no module for this kernel: its build found no NVIDIA driver, OFED or kernel headers that fit.", instead: "Load nvidia_peermem, which belongs to NVIDIA's drivers from 465 on and replaces nv_peer_mem, or use the open driver with dma-buf. For an older driver install driver, kernel headers and OFED first; make.log of the build has the compiler's error.",
		forms: []string{"Cannot locate nvidia modules", "make.log for nv_peer_mem", "nv_peer_mem*Bad return status for module build", "/dkms/nv_peer_mem/*make.log", "Module nv_peer_mem not found", "Module nv_peer_mem does not exist", "register_peer_memory_client\" [*undefined!", "rdma/peer_mem.h: No such file", "/dkms/nvidia-peer-memory/"}},
	{role: cause, summary: "The kernel has no such module", costs: "The running kernel (uname -r) comes without it, it was updated without a reboot, or this is a container, which loads no modules.", instead: "Load it on the host. Install its package for the running kernel: linux-modules-extra-$(uname -r) (Ubuntu), kernel-modules-extra (RHEL), DOCA-OFED for mlx5 modules, NVIDIA's driver for nvidia-peermem; or boot the newest installed kernel.",
		forms: []string{"FATAL: Module ib_*not found", "FATAL: Module rdma_*not found", "FATAL: Module mlx*not found", "FATAL: Module nvidia*peermem not found", "FATAL: Module irdma not found", "FATAL: Module siw not found"}},
	{role: cause, summary: "A module does not fit the RDMA modules", costs: "It was built for other RDMA modules than those that are loaded: for the kernel's own, and OFED's are installed, or for another OFED. The kernel refuses it.", instead: "Build or install it again for the loaded ones (ofed_info -s, modinfo ib_core): modules of the distribution (ksmbd, nvme-rdma, rpcrdma) do not fit OFED's, which brings its own (mlnxofedinstall --with-nvmf, --with-nfsrdma). Or remove OFED.",
		forms: []string{"disagrees about version of symbol ib_", "disagrees about version of symbol rdma_", "disagrees about version of symbol __ib_", "Unknown symbol ib_", "Unknown symbol rdma_", "Unknown symbol __ib_"}},
	// mlnxofedinstall and mlnx_add_kernel_support.sh of MLNX_OFED, and openibd.
	{role: cause, summary: "OFED has no modules for this kernel", costs: "Its drivers were not built for the running kernel: that is newer than what this OFED supports, or its headers are missing.", instead: "Take an OFED that supports this kernel (its release notes list them; ConnectX-3 ends with 4.9), install the kernel's headers, and run mlnxofedinstall --add-kernel-support. The log that it names has the compiler's error. Without OFED, the kernel's own mlx5 drivers do for most.",
		forms: []string{"Failed to build MLNX_OFED_LINUX for", "Failed to build mlnx", "does not have drivers available for this kernel", "Module mlx5_core does not exist", "Module mlx5_ib does not exist", "Module ib_uverbs does not exist"}},
	{role: symptom, summary: "OFED's modules do not load", costs: "openibd could not load or unload a module: another one uses it (nvidia_peermem, a storage client such as Lustre, NFS or NVMe over RDMA), or it does not fit the kernel or modules that are already loaded.", instead: "Read dmesg (Unknown symbol, disagrees about version), and lsmod for what uses ib_core. End and unload that first, or reboot. In the network operator's container set UNLOAD_STORAGE_MODULES=true; keep the host's own mlx5_core from loading.",
		forms: []string{"Failed loading kernel module", "Loading HCA driver and Access Layer:*FAILED", "Unloading*FAILED", "Module mlx5_core is in use by", "Module ib_core is in use by", "Module ib_uverbs is in use by", "could not insert 'mlx5_"}},
	{role: remark, summary: "nvidia_peermem cleaned up", costs: "Drivers before 560 print this when GPU memory is released that a NIC has registered. It is harmless by itself.", instead: "If a job failed, look for another cause. Drivers from 560.35.03 on do not print it.", forms: []string{"nv_get_p2p_free_callback:*invalid context"}},

	{role: cause, summary: "The NIC's firmware failed", costs: "The driver lost the NIC: its firmware, its temperature or PCIe.", instead: "Read the lines after it (synd names the reason). Reset the NIC or power the host off and on, update its firmware, and check cooling and slot.",
		forms: []string{"device's health compromised", "mlx5_core*atal error*detected", "mlx5_core*synd 0x", "mlx5_core*health_care", "mlx5_core*irisc not responding", "mlx5_core*handling bad device here", "bnxt_en*Firmware reset", "bnxt_en*Error (timeout: ", "mlx5_core*timeout. Will cause a leak of a command resource", "mlx5_core*No done completion"}},
	// mlx5_core's main.c ("mlx5_load_one" up to Linux 5.14, "mlx5_init_one" later) and en_main.c, and net/sched/sch_generic.c.
	{role: cause, summary: "The driver cannot start the NIC", costs: "mlx5_core gave the NIC up when it was loaded, so that neither interface nor RDMA device is there: the firmware does not answer (-110), or firmware and driver do not fit together (-22).", instead: "Power the host off and on, and update the NIC's firmware and the driver together. In a virtual machine, see that the device is passed through whole.",
		forms: []string{"mlx5_init_one failed", "mlx5_load_one failed", "mlx5_core: probe of", "mlx5_core*probe with driver mlx5_core failed", "mlx5_core*handle_hca_cap failed", "mlx5_core*Waiting for FW initialization, timeout abort", "mlx5_core*in pre-initializing state, aborting", "mlx5_core*Missing registers BAR", "mlx5_core*enable hca failed"}},
	{role: symptom, summary: "The NIC does not send", costs: "Packets of a queue did not leave the NIC in time: its firmware hangs, PAUSE or PFC frames stop the port, or the processor that serves it hangs.", instead: "Read dmesg around the line, and the port's pause counters (ethtool -S). Take the link down and up, or reset the NIC; update firmware and driver.",
		forms: []string{"TX timeout detected", "NETDEV WATCHDOG: "}},
	{role: cause, summary: "The cable or module is faulty", costs: "The NIC cannot use its cable or transceiver: the text after the last comma is the reason.", instead: "Plug it again, clean or replace it, and use one that the NIC supports. A power budget is set in the NIC's firmware.", forms: []string{"Port module event[error]"}},
	{role: hint, summary: "A cable was unplugged", costs: "The NIC lost its cable or module.", instead: "Check the cable of that port.", forms: []string{"Port module event:*unplugged"}},
	// nvidia-fs, the module of GPUDirect Storage (nvfs-mmap.c), and gdsio.
	{role: cause, summary: "GPUDirect Storage cannot pin GPU memory", costs: "NVIDIA's driver refuses to share the GPU's memory with other devices: a GeForce has no GPUDirect, or nvidia-fs does not fit the driver.", instead: "Use a data center or professional GPU, and build nvidia-fs for this driver. CUFILE_ALLOW_COMPAT_MODE=true goes through the host's memory.",
		forms: []string{"nvfs_pin_gpu_pages*nvidia_p2p_get_pages"}},
	{role: symptom, summary: "GPUDirect Storage is not supported here", costs: "cuFile cannot use the direct path for this file: the file system or the storage's driver (NVMe, NVMe-oF, NFS over RDMA) is not one with support for it, nvidia-fs is not loaded, or PCI access control or the IOMMU is in the way.", instead: "See gdscheck -p: the driver of this storage must be Supported. NVMe and NFS need OFED's modules with GPUDirect Storage (mlnxofedinstall --with-nvmf --with-nfsrdma --enable-gds), or Linux 6.2 with P2PDMA. CUFILE_ALLOW_COMPAT_MODE=true goes without.",
		forms: []string{"GPUDirect Storage not supported on current file", "file register error: "}},
	// Programs of MFT and mstflint.
	{role: cause, summary: "The tools find no NIC of NVIDIA", costs: "mst, mlxconfig, flint or mlxfwmanager sees no device: there is none in this machine (lspci -d 15b3:), mst is not started, or the process may not open it (root, Secure Boot's lockdown).", instead: "Run as root mst start and mst status, or name the PCI address (mlxconfig -d 04:00.0 q). With Secure Boot use mstflint's tools.",
		forms: []string{"-E- There are no Mellanox devices", "-E- Failed to open device", "-E- Cannot open device", "-E- Failed to query /dev/mst", "-E- Unknown device", "No devices found or specified, mst might be stopped"}},
	{role: cause, summary: "The firmware is for another card", costs: "The image's PSID names another model, or a vendor's own version of the card (Dell, HPE, Lenovo, Oracle).", instead: "Take the image for the PSID that flint -d DEVICE q shows, from the vendor of the card.", forms: []string{"-E- PSID mismatch"}},
	{role: hint, summary: "A link went down", costs: "Connections over that port fail while it is down. At boot it is usual.", instead: "Compare the time with the job's. If it repeats, check cable, transceiver and switch port.",
		forms: []string{"mlx5_core*Link down", "Link DOWN", "NIC Link is Down", "NIC Link is down", "Lost carrier"}},
	{role: hint, summary: "PCIe limits the NIC", costs: "The slot has fewer lanes or a lower generation than the card: the NIC cannot reach its speed.", instead: "The line names the link that limits it. Move the card to a faster slot; in a virtual machine the line may be wrong.", forms: []string{"available PCIe bandwidth, limited by"}},
	{role: hint, summary: "The NIC gets too little power or is hot", costs: "It may be slow, or stop.", instead: "Check the slot and cooling.", forms: []string{"Detected insufficient power on the PCIe slot", "High temperature on sensors", "Health issue observed, High temperature"}},
	{role: cause, summary: noRoom, costs: "The NIC's firmware has no more objects of the kind that the command makes, such as keys of registered memory (CREATE_MKEY), open contexts (ALLOC_UAR) and connections (CREATE_QP): too many processes or connections use this NIC. No limit of the process is the reason.",
		instead: "Run fewer processes on this NIC, spread them over several, and end other jobs. For ALLOC_UAR make the NIC's BAR larger (mlxconfig, PF_LOG_BAR_SIZE or VF_LOG_BAR_SIZE, then reboot).", forms: []string{"async reg mr failed. status -12", "failed, status limits exceeded", "failed, status no resources"}},
	{role: symptom, summary: "The NIC's firmware refused a command", costs: "The status in the line says why: bad parameter and not supported are the program's or the driver's, bad resource state follows from another error.",
		instead: "Compare firmware, driver and rdma-core with a host that works, and update them. Read dmesg for an earlier line of that NIC.", forms: []string{"mlx5_cmd_check:*failed, status", "mlx5_cmd_out_err*failed, status", "mlx5_core*failed, status bad"}},
	{role: symptom, summary: "A completion queue overflowed", costs: "The NIC had more results than the program's queue could take: a mistake of the program, or of what it uses.", instead: "Look for an earlier error of that program.", forms: []string{"CQ error on CQN"}},
	{role: symptom, summary: "RDMA operation failed", costs: "The meaning of this syndrome is not known here.", instead: "Read the log of the program, and that of the peer.", forms: []string{"mlx5_poll_one*syndrome 0x"}},
	{role: result, summary: "An RDMA request of the kernel failed", costs: "The line below it has the syndrome.", instead: "Read the log of the program in the kernel (NVMe, NFS, a storage client), and that of the peer.", forms: []string{"mlx5_poll_one*rror cqe on cqn"}},

	// drivers/pci/setup-res.c and iov.c, and mlx5's sriov.c. BAR 7 and up are those of virtual functions.
	{role: hint, summary: "PCI has no room for a device", costs: "The system's firmware left too little address space, or too few bus numbers, for a device or for its virtual functions (BAR 7 and up): those cannot be made, or the device does not work.",
		instead: "Turn on Above 4G Decoding and SR-IOV in the system's firmware, or boot with pci=realloc (for bus numbers: pci=assign-busses). Fewer virtual functions (mlxconfig NUM_OF_VFS) need less.",
		forms:   []string{"not enough MMIO resources for SR-IOV", ": no space for [mem size", ": failed to assign [mem size", ": can't assign; no space", "out of range of [bus", "SR-IOV: bus number out of range"}},
	{role: symptom, summary: "A processor of the host hangs in the kernel", costs: "The kernel did not get a processor back for a long time: a driver waits for a device. Beside a job on GPUs it is mostly the GPU's driver, PCIe or the IOMMU, and no setting of NCCL.", instead: "Read the stack below the line for the driver's name, and earlier lines of PCIe, the IOMMU and Xid. Reboot; update the driver and the system's firmware.",
		forms: []string{"BUG: soft lockup", "rcu_sched self-detected stall", "watchdog: Watchdog detected hard LOCKUP"}},
	{role: symptom, vague: true, summary: "A task hangs in the kernel", costs: "It waits for a disk, a network file system, or a driver, and cannot be killed.", instead: "The call trace below the line names what it waits for: nfs, lustre, nvme, ib_ or nvidia functions. Look for errors of that device before it.", forms: []string{"blocked for more than * seconds"}},
	{role: cause, summary: "PCI access control refused a request", costs: "A bridge forbids access between two devices, such as GPU and NIC.", instead: oldPeer, forms: []string{"ACSViol"}},
	{role: cause, summary: "PCIe failed", costs: "A device or its slot had an error that could not be corrected; the device may be gone.", instead: "The PCI address in the line is the device, or the port above it (lspci -t). Reboot, update firmware, seat the card again, or have it replaced.",
		forms: []string{"PCIe Bus Error: severity=Uncorrect", "AER: Uncorrect", "AER: Multiple Uncorrect", "DPC: containment event", "Uncorrectable*PCIe"}},
	{role: hint, summary: "PCIe corrects errors", costs: "The link to a device is poor: a few corrected errors are harmless. Many slow the link down, and announce a failure.", instead: "The PCI address in the line is the device, or the port above it (lspci -t). If they are many, seat the card or riser again, and update firmware.",
		forms: []string{"PCIe Bus Error: severity=Correct", "AER: Correct", "AER: Multiple Correct"}},
	{role: cause, summary: "The IOMMU refused a device's access", costs: "A device used an address that is not mapped for it: with GPUDirect RDMA, or access between GPUs, the IOMMU is in the way.", instead: oldPeer,
		forms: []string{"DMAR: DRHD: handling fault", "DMAR: [DMA", "IO_PAGE_FAULT", "arm-smmu*nhandled context fault", "arm-smmu*event 0x10 received"}},
	{role: cause, summary: "Host memory is full", costs: "The kernel ended a process because no memory was left on the host, or in a cgroup.", instead: "Raise the job's memory limit, or use less memory.", forms: []string{"Memory cgroup out of memory"}},
}
