package explain

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	kernelFailed = "A CUDA kernel failed"

	driver  = "Install a driver for this CUDA, or software built for an older CUDA; nvidia-smi shows the newest CUDA that the driver supports."
	manager = "Check on the host: systemctl status nvidia-fabricmanager (it must run, with the driver's version), and nvidia-smi -q for Fabric State: Completed. After an error, reset the GPUs or reboot."
)

// sharing are the errors of calls that make memory for other processes, where the system does not support it.
var sharing = []string{"Cuda failure 1 '", "Cuda failure 101 '", "Cuda failure 304 '", "Cuda failure 800 '", "Cuda failure 801 '", "Cuda failure 999 '"}

// cudaMeanings are errors in CUDA's own words, which mean the same wherever they occur (cudaGetErrorString, cuGetErrorString). NCCL prints
// "Cuda failure 'TEXT'" for calls of the runtime (src/include/checks.h), and from 2.19.1 "Cuda failure N 'TEXT'" for calls of the driver
// (src/include/cudawrap.h); RCCL prints "HIP failure 'TEXT'". An error of a kernel is reported by the next call, whichever that is.
var cudaMeanings = []*meaning{
	// In these files the calls of the driver are those of cuMem.
	{role: cause, summary: "A rank does not see its peer's GPU", costs: "NCCL opens memory of a GPU that this process does not have: each process or container of the host was given GPUs of its own (CUDA_VISIBLE_DEVICES, one container for each GPU).",
		instead: "Give all processes of one host all its GPUs, and choose by torch.cuda.set_device or the local rank. To go without meanwhile: NCCL_P2P_DISABLE=1.", forms: []string{"open CUDA IPC handle*invalid device ordinal" /* –2.8.4 */}},
	{role: cause, summary: "CUDA's cuMem calls fail", costs: "The driver refuses memory that is made for sharing, as in some virtual machines and containers.", more: cuMem,
		instead: "Set NCCL_CUMEM_ENABLE=0 on all ranks to go without them, and update the driver.",
		forms:   inFiles([]string{"include/alloc.h", "transport/p2p.cc", "proxy.cc" /* 2.19.1– */, "allocator.cc" /* 2.24.3– */}, sharing...)},
	{role: cause, summary: "Shared memory of CUDA cannot be used", costs: "NCCL 2.24 and later share host memory through CUDA, which these GPUs refuse.", instead: "Set NCCL_CUMEM_HOST_ENABLE=0: NCCL then uses /dev/shm.",
		forms: inFiles([]string{"transport/shm.cc"}, append([]string{"Cuda failure 217 '" /* NVIDIA/nccl#1838 */}, sharing...)...)},
	{role: cause, summary: kernelFailed, costs: "CUDA reports errors late: a kernel of the program, or a faulty GPU, failed before, and NCCL's call was the first to notice.",
		instead: "Repeat with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer to see which kernel it was, and look into dmesg for Xid lines.",
		forms: []string{"an illegal memory access was encountered", "unspecified launch failure", "misaligned address", "device-side assert triggered", "], thread: [*] Assertion `", "an illegal instruction was encountered",
			"operation not supported on global/shared address space", "invalid program counter"}},
	{role: cause, summary: "A CUDA kernel ran too long", costs: "The driver ended a kernel: on a GPU with a display, and under Windows and WSL, a kernel may run a few seconds only. NCCL's kernels run as long as they wait for other ranks.",
		instead: "Use GPUs without a display, or turn the display driver's timeout off. Find out why the other ranks are late.", forms: []string{"the launch timed out and was terminated"}},
	{role: cause, summary: "The GPU failed", costs: "The driver reports an error of the hardware.", instead: "Read dmesg for Xid lines of that GPU, drain the host, and have the GPU reset or replaced.",
		forms: []string{"uncorrectable ECC error", "hardware stack error"}},
	{role: symptom, summary: "NVLink reports errors", costs: "A link between GPUs, or an NVSwitch, failed; or, with an invalid access, a peer's memory was gone because its process had ended.", instead: "See whether another rank ended first. Read dmesg for Xid and SXid lines and nvidia-smi nvlink -e; reset the GPUs (on NVSwitch hosts all together) or reboot, and if it comes back, have the hardware checked.",
		forms: []string{"uncorrectable NVLink error", "Invalid access of peer GPU memory over nvlink or a hardware error"}},
	// nvidia-smi -q.
	{role: cause, summary: "NVLink's fabric is not ready", costs: "A GPU behind NVSwitches waits for its fabric to be set up: until the state is Completed and the status Success, CUDA says \"system not yet initialized\", or jobs use no NVLink between hosts.", instead: manager + " From B200 on load ib_umad, and see that nvlsm runs; on GB200 and GB300 see the switches' own state (NMX-C), and nvidia-imex.", forms: []string{"  State                  *: In Progress", "Status  *: Insufficient Resources"}},
	{role: cause, summary: "The Fabric Manager does not run", costs: "GPUs behind NVSwitches cannot be used before the Fabric Manager has set up the switches.", instead: manager, forms: []string{"system not yet initialized", "Error 802"}},
	{role: cause, summary: "The driver is too old", costs: "The container's CUDA is newer than the host's driver, and it brings libraries for such a case (cuda-compat), which work on data center GPUs alone.", instead: "Install a newer driver on the host, or take an image for an older CUDA. If the driver is new enough, remove the compat directory from LD_LIBRARY_PATH.",
		forms: []string{"forward compatibility was attempted on non supported HW"}},
	{role: cause, summary: "The driver is too old", costs: "The GPU's driver does not support the CUDA that the software was built with.", instead: driver,
		forms: []string{"compatibility mode is UNAVAILABLE" /* the entry of NVIDIA's container images */, "CUDA driver version is insufficient for CUDA runtime version", "CUDA Driver version found is", "API call is not supported in the installed CUDA driver", "the provided PTX was compiled with an unsupported toolchain", "The NVIDIA driver on your system is too old",
			"The installed CUDA driver is older than", "does not support this CUDA version for CUDA graph", "requires CUDA driver", "or if the installed CUDA driver <", "unsatisfied condition: cuda" /* libnvidia-container */}},
	// ncclCudaLibraryInit may fail: its callers go on without what the driver lacks.
	{role: hint, summary: "The container has no GPU", costs: "NVIDIA's image found no driver when it started. That is right where no GPU is wanted, as on a login host.", instead: "Start the container with the NVIDIA container toolkit: --gpus all, in Kubernetes a limit of nvidia.com/gpu, with enroot its hook 98-nvidia.sh and NVIDIA_VISIBLE_DEVICES=all.", forms: []string{"NVIDIA Driver was not detected"}},
	{role: hint, summary: "The driver lacks functions", costs: "Mostly the driver, or a copy of its libraries in the container, is older than the CUDA that NCCL was built with. NCCL goes on without the calls that need them, such as cuMem, dma-buf and NVLS.", instead: driver,
		forms: []string{"Failed to load CUDA missing symbol", "CUDA some PFN functions not found", "Retrieve cu*failed with", "cuDriverGetVersion failed with"}},
	{role: hint, summary: "NCCL does not find libcuda.so", costs: "NCCL 2.13 to 2.20 looks for it by this name. Without it NCCL goes on, but not with cuMem, dma-buf and NVLS.", instead: "Add the directory of libcuda.so to LD_LIBRARY_PATH, or name it in NCCL_CUDA_PATH (WSL: /usr/lib/wsl/lib). If there is only libcuda.so.1, link libcuda.so to it, or upgrade NCCL.",
		forms: []string{"Failed to find CUDA library" /* 2.13.4–2.20.5 */}},
	{role: cause, summary: "NCCL was built with an old CUDA", costs: "This build of NCCL does not have the calls that it was asked for.", instead: "Install NCCL built with CUDA 12.2 or later, or remove NCCL_CUMEM_ENABLE and NCCL_CUMEM_HOST_ENABLE.",
		forms: []string{"CUMEM not supported prior to" /* 2.18.1– */, "CUMEM Host is not supported prior to" /* 2.23.4– */}},
	{role: cause, summary: "Driver and libraries do not match", costs: "The loaded kernel module has another version than the driver's libraries.", instead: "Reboot after an update of the driver, or unload and load the module; in a container remove CUDA compat libraries. In WSL and Docker Desktop, update them to a release that knows this driver.",
		forms: []string{"Driver/library version mismatch", "unsupported display driver", "Error 500: named symbol not found", "NVRM: API mismatch"}},
	{role: cause, summary: "Thrust does not know the GPU", costs: "This comes of how the program and its libraries were built: with PyTorch 1.8 and CUDA 11.1 it happens with one GPU, too. It is no sign that a GPU is missing.", instead: "Take another PyTorch (1.7, or 1.9 and later), and build its extensions again for it.", forms: []string{"on 1st step: cudaErrorInvalidDevice"}},
	{role: cause, summary: "No GPU in this process", more: crowded, costs: "The process sees no GPU, or fewer than it asks for: more processes than GPUs, or CUDA_VISIBLE_DEVICES and LOCAL_RANK do not fit together. With Slurm's --gpus-per-task=1, each task sees one GPU, whose number is 0. Or CUDA's libraries are not found there (LD_LIBRARY_PATH did not come to that host), or this PyTorch is a build for CPUs.",
		instead: "Check nvidia-smi inside the container, CUDA_VISIBLE_DEVICES and the number of processes per host (--nproc_per_node). In Slurm ask for --gpus-per-node instead.", forms: []string{"no CUDA-capable device is detected", "invalid device ordinal", "No CUDA GPUs are available", "Failed to infer device type", "no GPU resources available", "GPUs requested but none are available", "no GPUs found", "you might not have a CUDA gpu", "exceeds ndev", "Invalid device count requested", "Invalid number of GPUs:*requested but only", "device < num_gpus INTERNAL ASSERT FAILED", "No visible GPU devices", "no supported devices found for platform CUDA", "no ROCm-capable device is detected", "hipErrorInvalidDevice", "hipErrorNoDevice", "ailed to set cuda device"}},
	{role: cause, summary: "The driver's libraries are missing", costs: "libcuda, libnvidia-ml and libnvidia-ptxjitcompiler belong to the driver; a container gets them from the NVIDIA container runtime.", instead: "Install the NVIDIA container toolkit on the host, start the container with --gpus all (or the nvidia runtime), with compute and utility in NVIDIA_DRIVER_CAPABILITIES, and check nvidia-smi inside. Outside of containers, install the driver on that host.",
		forms: []string{"libcuda.so.1: cannot open shared object file", "libnvidia-ml.so.1: cannot open shared object file", "Failed to open libnvidia-ml.so", "ommand not found: nvidia-container-cli" /* enroot */, "could not select device driver" /* docker */, "PTX JIT compiler library not found"}},
	{role: cause, summary: "A stub of libcuda is loaded", costs: "The loader found the library that CUDA's toolkit has for linking, not that of the driver.", instead: "Remove …/lib64/stubs from LD_LIBRARY_PATH and from ld.so.conf.d, and give the container the driver's libraries (--gpus all).",
		forms: []string{"CUDA driver is a stub library"}},
	{role: cause, summary: "The GPU is taken", costs: "Another process has the GPU, which admits one only, or the GPU is in a state of error.", instead: "Look with nvidia-smi at its processes and its compute mode (Exclusive_Process admits one), and whether several ranks chose it.",
		forms: []string{"CUDA-capable device(s) is/are busy or unavailable", "CUDA error: all CUDA-capable devices are busy or unavailable", "exclusive-thread device already in use"}},
	{role: cause, summary: "The vGPU has no license", costs: "A virtual GPU of NVIDIA needs a license for CUDA.", instead: "Set up the license client in the virtual machine: nvidia-smi -q shows the License Status, systemctl status nvidia-gridd its service.", forms: []string{"device doesn't have valid Grid license"}},
	{role: cause, summary: "CUDA's MPS does not answer", costs: "The process is to share the GPU through MPS, whose daemon or server does not run, is not in reach of this container, or has no room for another client.",
		instead: "Start nvidia-cuda-mps-control on the host, with the same user, and mount its directory (CUDA_MPS_PIPE_DIRECTORY, /tmp/nvidia-mps) into the container. To go without MPS remove that variable and directory.",
		forms:   []string{"MPS client failed to connect to the MPS control daemon", "the remote procedural call between the MPS server", "MPS server is not ready to accept new", "required to create MPS client have been exhausted", "to support device connections have been exhausted"}},
	{role: effect, summary: "MPS ended this process", costs: "The server of MPS ends its clients after an error of one of them.", instead: "Look for an earlier error of all processes that share the GPU, and read the log of the MPS server.", forms: []string{"MPS client has been terminated"}},
	// NCCL's kernels are looked up for each GPU (src/enqueue.cc): NVIDIA/nccl#1372.
	{role: cause, summary: "No code for this GPU", costs: "The software was built without this GPU's architecture.", instead: "Install builds of PyTorch and NCCL that support this GPU.",
		forms: []string{"no kernel image is available for execution on the device", "HIP error: invalid device function", "'invalid device function'", "Cuda failure*'named symbol not found'", "PTX JIT compilation was disabled", "is not compatible with the current PyTorch installation"}},
	{role: symptom, summary: "CUDA was used before a fork", costs: "A process that has used CUDA cannot fork into ranks.", instead: "Start ranks with spawn (multiprocessing.set_start_method(\"spawn\")) or torchrun.",
		forms: []string{"Cannot re-initialize CUDA in forked subprocess", "can't create new processes if CUDA is already initialized"}},
	{role: symptom, summary: "CUDA does not start in a process", more: explainStart, costs: "The process was forked from one that had used CUDA, or the driver does not work for it: after an update without a reboot, with a GPU that failed, or where the host lacks memory.",
		instead: "See whether other programs with CUDA start on this host and GPU (nvidia-smi, dmesg). If they do, start ranks with spawn (multiprocessing.set_start_method(\"spawn\")) or torchrun. If they do not, reboot, or repair the driver.",
		forms:   []string{"Cuda failure*'initialization error'", "CUDA failure*'initialization error'", "CUDA error: initialization error"}},
	{role: symptom, summary: "The capture of a CUDA graph failed", costs: "While a stream is captured, CUDA refuses calls that cannot be part of a graph, often of any thread: the first use of a communicator, memory, synchronization, or a watchdog that asks for an event.",
		instead: "Run each collective once before the capture, capture with the mode thread_local (capture_error_mode in PyTorch), and use the same streams. The program without CUDA graphs (vLLM: --enforce-eager) shows whether it is the reason.",
		forms: []string{"operation not permitted when stream is capturing", "operation failed due to a previous error during capture", "merge of separate capture sequences", "capture was not ended in the same stream as it began", "capturing stream has unjoined work", "dependency created on uncaptured work in another stream",
			"make the legacy stream depend on a capturing blocking stream", "an event last recorded in a capturing stream", "terminate a thread-local capture sequence from another thread"}},
	{role: symptom, summary: "A rank cannot open another rank's GPU memory", costs: "CUDA does not know the handle that the other rank sent: the two are not on one system, but have the same host name or NVLink clique, or they are in containers that do not see each other's processes and GPUs.",
		instead: "Give each host its own name, and run the ranks of a host in one container or with --ipc=host and --pid=host. NCCL_P2P_DISABLE=1, and between hosts NCCL_MNNVL_ENABLE=0, show whether it is the reason.", forms: []string{"transport/p2p.cc:*'invalid resource handle'", "Ipc.cc:*'invalid resource handle'"}},
	// NVIDIA/nccl#957, commit 43654587: these two lines, in these releases alone.
	{role: cause, summary: "A bug of this NCCL", costs: "NCCL 2.18.1 to 2.18.5 and 2.19.1 use an address before it is copied. It is seen mostly under WSL.",
		instead: "Upgrade NCCL to 2.18.6, or to 2.19.3 or later, which PyTorch 2.2 brings along.", forms: []string{"transport.cc:154 NCCL WARN Cuda failure 'invalid argument'" /* 2.18.1–2.19.1 */, "transport.cc:174 NCCL WARN Cuda failure 'invalid argument'" /* 2.18.1–2.19.1 */}},
	// A failure without a number is one of the runtime: cudaIpcOpenMemHandle (2.9–2.30.7), which a rank calls that does not use cuMem.
	{role: symptom, summary: "A rank cannot open another rank's GPU memory", costs: "CUDA does not take the handle that the other rank sent: that rank uses cuMem and this one does not (NCCL_CUMEM_ENABLE differs: SGLang and older releases of vLLM set it to 0 in their own processes), the two are in containers that do not see each other's processes and GPUs, or the driver cannot share memory between processes (WSL, a vGPU).",
		instead: "Give all ranks of a communicator the same NCCL_CUMEM_ENABLE, also a trainer that sends weights to vLLM or SGLang. Otherwise run the ranks of a host in one container, or with --ipc=host and --pid=host; NCCL_P2P_DISABLE=1 goes without such handles.", forms: []string{"transport/p2p.cc:*Cuda failure 'invalid argument'"}},
	{role: cause, summary: "A stream or handle is not valid", costs: "CUDA does not know this stream, event or handle: it was destroyed, or it belongs to another GPU or process than the communicator.",
		instead: "Choose the GPU first (torch.cuda.set_device), use a communicator only with streams and tensors of its own GPU, and destroy them after it. This is a mistake in the program, not in the network.", forms: []string{"enqueue.cc:*'invalid resource handle'", "strongstream.cc:*'invalid resource handle'", "CUDA error: invalid resource handle"}},
	{role: symptom, summary: "CUDA refuses to start a kernel", costs: "Something that the kernel needs is in a state that CUDA does not allow, mostly after an earlier error on this GPU, or on one whose memory it uses.", instead: "Look for the first Cuda failure of all ranks, and in dmesg for Xid lines.",
		forms: []string{"enqueue.cc:*the operation cannot be performed in the present state"}},
	{role: effect, summary: "The process was ending", costs: "CUDA had already been shut down in this process.", instead: "Look for an earlier error of this process.", forms: []string{"'driver shutting down'", "'context is destroyed'", "CUDA error: driver shutting down"}},
	{role: cause, summary: "CUDA's memory pools are not supported", costs: "NCCL 2.23.4 and later need them for every communicator. This GPU or its driver does not have them: one reason is a vGPU without unified memory.",
		instead: "Turn on unified memory of the vGPU (its parameter enable_uvm=1), use a whole GPU, or take NCCL 2.22.3, which does not need them.", forms: []string{"init.cc:*Cuda failure 'operation not supported'" /* cudaMemPoolCreate */}},
}

// explainStart says that NVLS fails where its file reports the error that a fork gives elsewhere: the process has used CUDA before.
func explainStart(_ *logged, m string) (summary, costs, instead string) {
	if strings.Contains(m, "transport/nvls.cc:") {
		return nvlsFails.summary, nvlsFails.costs, nvlsFails.instead
	}
	return "", "", ""
}

// ofTester is a line of nccl-tests with mpirun's rank before it, and the host's name.
var ofTester = pattern{text: `^\[\d+,(\d+)\]<\w+>: ?([\w.-]+): Test CUDA failure`}

// crowded says more of a rank that is on the first host of several, where it finds no GPU for its number.
func crowded(l *logged, m string) (summary, costs, instead string) {
	at := ofTester.re().FindStringSubmatch(m)
	if at == nil || l.asked < 2 {
		return "", "", ""
	}
	if rank, _ := strconv.Atoi(at[1]); rank < 8 {
		return "", "", ""
	}
	return "", fmt.Sprintf("Rank %s runs on %s, and finds no GPU of its number there. mpirun names several hosts: it mostly started the ranks of all of them on one, because the names or addresses are of one host, or because it fills that host's slots first.", at[1], at[2]),
		"See where ranks run: mpirun with the same options and hostname as its program. Give names of different hosts, and --map-by ppr:8:node (8 GPUs per host)."
}
