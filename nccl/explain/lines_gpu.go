package explain

import (
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// memoryMeanings are lines about memory: /dev/shm (src/include/shm.h up to 2.15.5, then src/misc/shmutils.cc), the GPU's, and the host's.
var memoryMeanings = []*meaning{
	{role: cause, summary: "Ranks do not share /dev/shm", more: explainSegment, costs: "A rank does not find the shared memory of another one of its host: they are in different containers, or not on one host at all, although their host names are equal.",
		instead: "Run the ranks of a host in one container or with --ipc=host, or give each container its own host name (or NCCL_HOSTID, 2.5.6 or later). NCCL_SHM_DISABLE=1 avoids shared memory, and is slower.",
		forms:   []string{"while attaching to shared memory segment"}},
	{role: symptom, vague: true, summary: "Ranks do not share /dev/shm", costs: "A rank does not find the shared memory of another one of its host: they are in different containers, or not on one host at all, although their host names are equal.",
		instead: "Run the ranks of a host in one container or with --ipc=host, or give each container its own host name. NCCL_SHM_DISABLE=1 avoids shared memory, and is slower.",
		forms:   []string{"misc/shmutils.cc:*Call to open failed*No such file or directory", "os/linux.cc:*Call to open failed*No such file or directory" /* 2.29.2– */, "include/shm.h:*Call to shm_open failed*No such file or directory"}},
	{role: cause, summary: "/dev/shm is too small", costs: "NCCL could not reserve shared memory; a container has 64 MiB by default.",
		instead: "docker: --shm-size=8g or --ipc=host. Kubernetes: an emptyDir with medium: Memory at /dev/shm. Remove segments that ended jobs have left (df /dev/shm, ls /dev/shm).",
		forms:   []string{"posix_fallocate failed" /* –2.15.5 */, "failed to extend /dev/shm/nccl" /* 2.12.7–2.21.5; with the reason from 2.22.3 */, "unable to open shared memory object", "It is possible that dataloader's workers are out of shared memory", "insufficient shared memory (shm)", "unable to write to file </torch_", "No space left on device: '/dev/shm"}},
	{role: cause, summary: "/dev/shm is too small", costs: "UCX, which carries the messages of MPI and NVSHMEM between processes of one host, gets no shared memory for its queues. The crash that mostly comes next follows from it. A container has 64 MiB by default.",
		instead: "docker: --shm-size=8g or --ipc=host. Kubernetes: an emptyDir with medium: Memory at /dev/shm. Remove segments that ended jobs have left (df /dev/shm, ls /dev/shm). Without more memory UCX_TLS=^sm or Open MPI's --mca pml ob1 go without it.",
		forms:   []string{"mm_iface*failed to allocate receive FIFO"}},
	{role: cause, summary: "Shared memory cannot be registered", costs: "CUDA refuses to register NCCL's segment of shared memory. The reason is not known here.", instead: "NCCL_SHM_DISABLE=1 avoids it, and is slower.", forms: []string{"misc/shmutils.cc:*Cuda failure", "os/linux.cc:*Cuda failure" /* 2.29.2– */, "include/shm.h:*Cuda failure", "failed to register host buffer" /* –2.3 */, "failed to get device pointer for local shmem" /* –2.3 */}},
	{role: cause, summary: "/dev/shm may not be written", costs: "The process's user may not make files there.", instead: "chmod 1777 /dev/shm, which is its usual mode. If a segment of another user has the same name, remove it (ls -l /dev/shm).",
		forms: []string{"Call to shm_open failed : Permission denied" /* –2.15.5 */, "misc/shmutils.cc:*Permission denied"}},
	{role: symptom, summary: "Shared memory cannot be used", costs: "NCCL could not make or map a segment there. The reason is in the line or in the one before it: mostly /dev/shm is full, sometimes read-only or not mounted.", instead: "Check df /dev/shm inside the container. docker: --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with medium: Memory at /dev/shm. NCCL_SHM_DISABLE=1 avoids it, and is slower.",
		forms: []string{"failed to create shared memory file" /* 2.22.3– */, "while creating shared memory segment" /* all */, "Could not map /dev/shm", "Could not map *nccl-", "include/shm.h:*Call to shm_open failed", "shm_open failed to open", "Unable to allocate shared memory", "failure in mmap of" /* –2.3 */}},
	{role: cause, summary: "Bus error", costs: "A mapping had no memory behind it: mostly /dev/shm is full.", instead: "Enlarge /dev/shm: docker --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with medium: Memory.",
		forms: []string{"Bus error", ": bus error", "(SIGBUS)", "exitcode: -7", "exitcode  : -7", "Signal 7 (", "signal 7 ("}},
	{role: effect, summary: "A size is not valid", costs: "The program asks for more memory than any GPU has: it takes the size from data of another rank, which a failed or different collective has not delivered.", instead: "Look for an earlier error or timeout of any rank, and see that all ranks make the same collectives.",
		forms: []string{"Tried to allocate more than 1EB memory"}},
	{role: cause, summary: "GPU memory is full", costs: "No memory was left on a GPU. NCCL itself needs some hundred MiB for each communicator. Under WSL, CUDA says the same if it cannot pin more of the host's memory.", instead: "Look with nvidia-smi for other processes on that GPU, and whether all ranks took GPU 0 (torch.cuda.set_device). Then lower the batch size or the share that the framework reserves. Under WSL, if the GPU has memory left, give WSL more (memory= in .wslconfig).",
		forms: []string{"CUDA out of memory", "CUDA error: out of memory", "OutOfMemoryError", "Cuda failure*out of memory", "HIP failure*out of memory"}},
	// include/alloc.h prints these after every error of the allocation.
	{role: symptom, summary: "CUDA gave NCCL no memory", costs: "An allocation failed. The reason is in a line before it: mostly, no memory is left on the GPU, or CUDA had failed before.", instead: "Look for the first line with Cuda failure on this rank.",
		forms: []string{"Failed to CUDA malloc", "Failed to CUDA calloc", "Failed to CUDA host alloc"}},
	{role: cause, summary: "Host memory is full", costs: "No memory was left on the host, or in the container's cgroup.", instead: "Raise the job's memory limit, or use less memory.",
		forms: []string{"Failed to malloc", "malloc of*bytes failed" /* –2.4 */, "alloc(*returned null" /* 2.13.4– */, "NCCL WARN Allocation failed at " /* 2.29.2–2.30.4 */, "std::bad_alloc", "Out of memory: Killed process", "oom-kill", "OOMKilled", "oom_kill event", "out-of-memory handler"}},
}

// nvlsFails is what lines of src/transport/nvls.cc mean, and those that speak of NVLS.
var nvlsFails = &meaning{role: cause, summary: "NVLink SHARP (NVLS) cannot be set up", costs: "CUDA refuses multicast memory of the GPUs' switches: mostly the Fabric Manager, or an NVSwitch, is in a wrong state.",
	instead: manager + " NCCL_NVLS_ENABLE=0 avoids NVLS, at the price of some speed.",
	forms:   []string{"Failed to bind NVLink SHARP" /* 2.27.3– */, "transport/nvls.cc:*Cuda failure" /* 2.17.1– */, "This is usually caused by a system or configuration error in the Fabric Manager", "Cuda failure 401 ", "the operation cannot be performed in the present state"}}

// gpuMeanings are errors of NVML, and of CUDA where the place of the call says what they mean.
var gpuMeanings = []*meaning{
	nvlsFails,
	{role: hint, summary: "NVLink SHARP (NVLS) is not used", costs: "The GPUs' switches refuse multicast memory, so NCCL goes on without NVLS, which is slower.", instead: manager, info: true, forms: []string{"Proceeding without NVLS support" /* 2.27.3– */}},
	{role: cause, summary: "Too many GPUs map each other", costs: "Without NVSwitch, a GPU can map the memory of at most eight others.", instead: "Use fewer GPUs of the host (CUDA_VISIBLE_DEVICES), or let only near GPUs map each other (NCCL_P2P_LEVEL=PXB, or NCCL_P2P_DISABLE=1).",
		forms: []string{"peer mapping resources exhausted"}},
	{role: cause, summary: "HIP cannot share a GPU's memory", costs: "RCCL shares memory between the processes of a host, and ROCm refuses: HSA_ENABLE_IPC_MODE_LEGACY does not fit this kernel and GPU (images may set it), the container's ROCm does not fit the driver amdgpu, or the container does not have all GPUs.",
		instead: "Run with the other value of HSA_ENABLE_IPC_MODE_LEGACY (0 or 1). Install the driver amdgpu of a ROCm near that of the container, and give the container /dev/kfd, all of /dev/dri and --ipc=host. NCCL_P2P_DISABLE=1 goes without.", forms: []string{"hipIpc*failed : ", "IPC memory creation failed"}},
	{role: cause, summary: "GPUs cannot reach each other", costs: "CUDA refuses access to the memory of another GPU.", instead: "Set NCCL_P2P_DISABLE=1, and find the reason: IOMMU or ACS, a virtual machine, ranks in different containers, two hosts with one host name, or GPUs that do not support it.",
		forms: []string{"peer access is not supported between these two devices", "failed to peer with device" /* –2.8.4 */, "failed to open CUDA IPC handle", "failed to get CUDA IPC handle", "IpcGetMemHandle failed"}},
	// misc/ipcsocket.cc: the name of an abstract socket belongs to a network namespace.
	{role: symptom, summary: "Ranks of one host cannot share GPU memory", costs: "The ranks pass it over a Unix socket, which does not work between containers with separate networks: the ranks are in different containers, or the other rank has ended.",
		instead: "See whether another rank ended first. Otherwise run the ranks of a host in one container or with --network=host, or set NCCL_CUMEM_ENABLE=0.", forms: []string{"NCCL WARN UDS: " /* 2.18.1– */}},
	{role: cause, summary: "NVLink does not work", costs: "GPUs that NVLink joins cannot reach each other, which is mostly a hardware or Fabric Manager problem.", instead: "Check nvidia-smi nvlink -s and dmesg for Xid lines. " + manager, forms: []string{"P2P is disabled between NVLINK connected GPUs"}},
	{role: hint, summary: "GPUs do not protect what they send", costs: "Confidential computing is on, but not for traffic between GPUs.", instead: "Set the GPUs to the mode for several GPUs, if that is wanted.", forms: []string{"CC On, Multi-GPU CC Off" /* 2.23.4– */}},
	{role: cause, summary: "GPUs cannot map each other's memory", costs: "The driver allows direct access between the GPUs, but cannot map the memory: the BAR1 of a GPU is too small, or the platform does not support it.", instead: "Set NCCL_P2P_DISABLE=1. nvidia-smi -q shows the size of BAR1; Resizable BAR is set in the firmware.",
		forms: []string{"'mapping of buffer object failed'" /* CUDA 205 */, "CUDA error: mapping of buffer object failed"}},
	// cuMemGetHandleForAddressRange
	{role: cause, summary: "The GPU's driver gives no dma-buf", costs: "NCCL asked for the GPU's memory as a dma-buf, which this driver or system does not support.", instead: "Set NCCL_DMABUF_ENABLE=0 and load nvidia_peermem, or install the open driver.",
		forms: inFiles([]string{"transport/net.cc", "transport/coll_net.cc"}, "Cuda failure 801 '")},
	{role: hint, summary: "GDRCopy does not work", costs: "NCCL_GDRCOPY_ENABLE or a plugin asks for it, and its library or driver gdrdrv fails.", instead: "Load gdrdrv on the host and give containers /dev/gdrdrv, or remove NCCL_GDRCOPY_ENABLE.", forms: []string{"gdr_*failed: ", "GDRCOPY failure", "GDRCOPY lib wrapper not initialized", "Failed to open libgdrapi" /* 2.9.6– */, "GDRCopy >= 2.5 required" /* 2.30.3– */}},
	{role: cause, summary: "The container has lost its GPUs", costs: "The container may no longer open the GPUs' device files: systemd took the rights away when it was reloaded (systemctl daemon-reload), or they were never given.",
		instead: "Restart the container. So that it does not come back: create /dev/char links (nvidia-ctk system create-dev-char-symlinks), name each /dev/nvidia* with --device, or use CDI.", forms: []string{"nvmlInit*failed: Unknown Error", "Failed to initialize NVML: Unknown Error"}},
	{role: cause, summary: "The container may not open its GPUs", costs: "The device files are there, and opening them is refused: rights of the files, SELinux, or cgroup rules that a runtime without root cannot set.",
		instead: "Use CDI (nvidia-ctk cdi generate; podman run --device nvidia.com/gpu=all), with --security-opt=label=disable under SELinux. For the older hook without root set no-cgroups = true in /etc/nvidia-container-runtime/config.toml, and see that the user may open /dev/nvidia*.", forms: []string{"Failed to initialize NVML: Insufficient Permissions"}},
	{role: cause, summary: "The GPU's driver is not loaded", costs: "The kernel module nvidia is not loaded on this host.", instead: "Run nvidia-smi on the host, and read dmesg; after a new kernel, build the module for it (dkms) or reboot.", forms: []string{"nvmlInit*failed: Driver Not Loaded", "couldn't communicate with the NVIDIA driver"}},
	{role: cause, summary: "Too many GPUs", costs: "NCCL can manage 32 devices of NVML in one process.", instead: "Give each container or process fewer GPUs (CUDA_VISIBLE_DEVICES does not change what NVML counts; --gpus and NVIDIA_VISIBLE_DEVICES do).", forms: []string{"nvmlDeviceGetCount() reported more devices" /* 2.12.7– */}},
	// NVIDIA/nccl#1066, #1529: NCCL goes on without direct access where it can.
	{role: hint, summary: "A rank does not see another rank's GPU", costs: "NCCL looks at the GPUs of all ranks of a host, and this container or task was given others: there is one for each GPU.",
		instead: "Give each container or task all of the job's GPUs of the host, and choose one by CUDA_VISIBLE_DEVICES or set_device (Slurm: --gpus-per-node instead of --gpus-per-task). Containers that are to act as hosts of their own need different values of NCCL_HOSTID.", forms: []string{"nvmlDeviceGetHandleByPciBusId*failed: Not Found"}},
	{role: hint, summary: "NVLink is not looked for", costs: "NVML gives NCCL no handle for a GPU: libnvidia-ml does not fit the driver, or the GPU is not this container's or task's. NCCL then knows of no NVLink there, and takes PCIe or the network.", instead: "See nvidia-smi and nvidia-smi nvlink -s where the rank runs, and give each container or task all GPUs of the job on its host. A static or very new NCCL needs the driver's own libnvidia-ml.so.1.", forms: []string{"No NVML device handle. Skipping nvlink" /* graph/xml.cc */}},
	{role: symptom, vague: true, summary: "NVML reports an error", costs: "The driver's management library answers with an error.", instead: "Check that nvidia-smi works inside the container, and look into dmesg for Xid lines.", forms: []string{"nvmlInit", "nvmlDevice*failed:", "nvmlSystem*failed:", "nvmlShutdown() failed", "NVML failure"}},
	{role: hint, summary: "The IOMMU is not in passthrough", costs: "Without iommu=pt, direct access between GPUs, or between GPU and NIC, can hang or fail.", instead: "Add iommu=pt to the kernel's command line and reboot; NCCL_P2P_DISABLE=1 shows whether it is the reason.", forms: []string{"Missing \"iommu=pt\" from kernel command line" /* RCCL */}},
	{role: symptom, vague: true, summary: "A call of CUDA failed", costs: "NCCL, the driver and the GPU do not work together. The network between hosts is not the cause.",
		instead: "Compare the driver with the CUDA version of the software (nvidia-smi), and read dmesg for Xid lines. " + oneByOne, forms: []string{"Cuda failure" /* all */, "Test CUDA failure" /* nccl-tests */, "Failed to set CUDA context", "Failed to create CUDA context"}},
	{role: hint, summary: "No IMEX channel", costs: "This host or container has no channel of IMEX: memory of GPUs cannot be shared with other hosts over NVLink (GB200, GB300). Elsewhere that is usual.", instead: "On such hosts create the channel (nvidia-modprobe -c 0, or the driver's option NVreg_CreateImexChannel0=1), give it to containers, and see that nvidia-imex runs.", forms: []string{"cannot access '/dev/nvidia-caps-imex-channels"}},
	{role: cause, summary: "Multi-node NVLink does not work", costs: "The GPUs belong to one NVLink domain across hosts, but IMEX is not set up.", instead: "Start nvidia-imex on all hosts of the domain, and give containers /dev/nvidia-caps-imex-channels. NCCL_MNNVL_ENABLE=0 avoids it, at the price of speed.", forms: []string{"MNNVL (cliqueSize", "MNNVL is not supported on this system"}},
	{role: symptom, summary: "GPU memory cannot be shared between hosts", costs: "The program uses handles of multi-node NVLink (fabric handles), for which the process needs an IMEX channel, and for other hosts a running IMEX domain.",
		instead: "Give the process /dev/nvidia-caps-imex-channels/channel0 (in containers, too), or tell the program to use POSIX file descriptors on one host. Between hosts check nvidia-imex-ctl -N: all nodes must be ready; restart nvidia-imex on all of them.",
		forms:   []string{"cuMemCreate*operation not permitted", "cuMemExportToShareableHandle*operation not permitted", "cuMemImportFromShareableHandle*invalid resource handle"}},
	{role: symptom, summary: "CUDA refuses a call", costs: "The driver does not permit or support what the program asks for here. Virtual machines, vGPUs, MIG and containers often lack memory that processes share, access between GPUs or multicast; a driver in a wrong state refuses more than that.",
		instead: "The line names the call. Update the driver, read dmesg for NVRM and Xid lines, and see whether the same call works on the host outside of the container.", forms: []string{"CUDA error: operation not permitted", "CUDA error: operation not supported", "CUDA error: OS call failed", "CUDA driver error: operation not"}},
	{role: symptom, vague: true, summary: "A CUDA call of the program failed", costs: "The program, the driver and the GPU do not work together. The network between hosts is not the cause.", instead: "Repeat with CUDA_LAUNCH_BLOCKING=1 to see which call it was, compare the driver with the software's CUDA (nvidia-smi), and read dmesg for Xid lines.", forms: []string{"CUDA error: ", "CUDA runtime error", "CUDA driver error: ", "CUDNN_STATUS_NOT_INITIALIZED", "DNN library initialization failed"}},
}

// cuMem says more by version: NCCL takes host memory from cuMem from 2.24, and tests it before use from 2.26.5
// (runtime_and_mpi_issues.rst).
func cuMem(l *logged, m string) (summary, costs, instead string) {
	if strings.Contains(m, "transport/p2p.cc:") && strings.Contains(m, "invalid device ordinal") {
		return "A rank does not see its peer's GPU", "NCCL takes two processes for one host, and one imports memory of a GPU that this process does not see: each container or task got GPUs of its own.",
			"Give all processes of one host all its GPUs, and choose by CUDA_VISIBLE_DEVICES or the local rank (in Slurm --gpus-per-node in place of --gpus-per-task, or --gpu-bind=none). Or let NCCL take the containers for separate hosts: another NCCL_HOSTID in each."
	}
	if s, ok := find(l.settings, "NCCL_CUMEM_ENABLE"); ok && !s.dynamic && env.ParseNumber(s.value).Value == 0 {
		return "", "NCCL_CUMEM_ENABLE=0 is set, so cuMem is not the cause: the driver refuses memory of another process.", "Update the driver, and set NCCL_P2P_DISABLE=1 to go without direct access between GPUs."
	}
	if l.version.Known() && !l.version.Before(env.Version{Major: 2, Minor: 24, Patch: 3}) && l.version.Before(env.Version{Major: 2, Minor: 26, Patch: 5}) {
		return "", "", "Set NCCL_CUMEM_HOST_ENABLE=0, or give the container --cap-add SYS_NICE: NCCL 2.24 to 2.26.3 needs working NUMA support for it. If that does not help, set NCCL_CUMEM_ENABLE=0."
	}
	return "", "", ""
}

// inFiles returns the forms of messages in some of NCCL's files.
func inFiles(files []string, messages ...string) (out []string) {
	for _, f := range files {
		for _, m := range messages {
			out = append(out, f+":*"+m)
		}
	}
	return out
}

// segment is the name of a segment in /dev/shm, of which mkstemp made the end: six letters and digits.
var segment = pattern{text: `/nccl-(?:shm-[\w-]+|[0-9A-Za-z]{6}) \(size`}

// explainSegment tells a name that no rank has made. The size is 0 where NCCL reads another rank's memory of CUDA as a file in /dev/shm
// (struct shmIpcDesc in src/include/shm.h, v2.26.3-1 to v2.29.2-1: each rank tests for itself which of the two it has).
func explainSegment(_ *logged, m string) (summary, costs, instead string) {
	switch {
	case !strings.Contains(m, "/dev/shm/nccl-") || segment.re().MatchString(m):
		return "", "", ""
	case strings.Contains(m, "(size 0)"):
		return "Ranks have different shared memory", "One rank shares memory that CUDA made, and another one reads its description as a file in /dev/shm. Each rank tests for itself whether CUDA can make memory near its GPU: that fails for a NUMA node without memory or processors, and in containers that hide NUMA.",
			"Set NCCL_CUMEM_HOST_ENABLE=0 for all ranks. To keep that memory, see that numactl -H shows memory and processors for each NUMA node that nvidia-smi topo -m names, and start containers with --cap-add SYS_NICE."
	}
	return "The name of shared memory is not valid", "No rank has made a segment of this name: the rank has read another one's description wrongly.", "See that all ranks have one version of NCCL and the same NCCL_ variables. NCCL_SHM_DISABLE=1 avoids shared memory, and is slower."
}
