package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// starting is how processes start and meet.
type starting struct {
	starts   map[int]int // rank -> how many processes of Lightning have it
	startsOf int         // number of all of them
	startsAt int         // line of the last
	entered  foreignLine // the latest line of a barrier to which not all have come
	together bool        // all of them have met
}

const (
	inProgram = "Correct the program: the network is not the cause."
	firstDead = "Find the first process that died, and its log: dmesg on that host shows the OOM killer, and the process's own output another error."
	ownPeers  = "Turn off the program's own all-reduce: TensorRT-LLM before 0.11 trtllm-build --use_custom_all_reduce disable, vLLM and SGLang --disable-custom-all-reduce. NCCL_P2P_DISABLE=1 acts on NCCL alone."
)

const lessMemory = "Raise the job's memory limit, or use less memory (fewer workers, no offload to the host, smaller shards while loading)."

// sigkill is a process that was killed. If another one failed first, torchrun itself did it.
var sigkill = &meaning{role: symptom, summary: "A process was killed (SIGKILL)", more: explainKill, costs: "Another process or the kernel killed it, and it says nothing itself: often the OOM killer, because no memory was left on the host or in the container's cgroup, or a watchdog, a launcher, a scheduler or Kubernetes, which end what hangs or comes too late.", instead: "Look for the OOM killer in dmesg on that host, and in the logs of launcher and scheduler. If it was the OOM killer: " + lessMemory,
	forms: []string{"return code = -9", "exit code: -9", "died with <Signals.SIGKILL", "with signal SIGKILL", "xit code 137", "shutdown with signal 9 ", "EXIT CODE: 137", "EXIT CODE: 9", "exit status 137", "exitcode: -9", "exitcode  : -9", "on signal 9 (Killed)", "Signal 9 (SIGKILL) received by PID"}}

func explainKill(l *logged, m string) (summary, costs, instead string) {
	if strings.Contains(m, "watchdog") {
		return "", "The line says that a watchdog ended it: the process hung before, and the kill is an effect.", "Find where it hung: py-spy dump before the watchdog's time is over, NCCL_DEBUG=INFO on all ranks, and the program's last line. A longer time for the watchdog helps only if it is late."
	}
	if l.endedByTorchrun() {
		return "", "Another process failed first, and torchrun ended this one for it.", "Read the output of the process below \"Root Cause (first observed failure)\"."
	}
	return "", "", ""
}

// explainEnd names the rank that torchrun saw fail first.
func explainEnd(l *logged, _ string) (summary, costs, instead string) {
	first := l.firstEnded
	if first["rank"] == "" || first["exitcode"] == "" {
		return "", "", ""
	}
	who, how := "rank "+first["rank"], "with exit code "+first["exitcode"]
	if first["host"] != "" {
		who += " on " + first["host"]
	}
	if signal, killed := strings.CutPrefix(first["exitcode"], "-"); killed {
		how = "by signal " + signal
	}
	return "", fmt.Sprintf("The launcher ends the other ranks when one fails: %s ended first, %s.", who, how),
		fmt.Sprintf("Read the output of %s: what it printed last, such as its traceback, has the error.", who)
}

// explainDeepEP says more of a condition on buffers.
func explainDeepEP(_ *logged, m string) (summary, costs, instead string) {
	if anyOf(m, []string{"chunked", "num_rdma_bytes", "num_nvl_bytes"}) {
		return "", "The buffers or chunk sizes that the program gave to DeepEP do not fit its number of ranks: the line quotes the condition. The network is not the cause.", "Take the configuration that DeepEP recommends for this number of ranks (Buffer.get_dispatch_config, get_combine_config), or larger buffers."
	}
	return "", "", ""
}

// rayDeath is the death of a process of Ray. It follows from PyTorch's watchdog if that ended the process.
var rayDeath = &meaning{role: symptom, summary: "A worker of Ray died", costs: "A process ended without an error message: the OOM killer, a crash, or ray stop. The ranks that wait for it then report timeouts.", instead: firstDead + " Ray's own are in /tmp/ray/session_latest/logs.",
	forms: []string{"Worker exit type: SYSTEM_ERROR", "A worker died or was killed while executing", "worker process has died", "WorkerCrashedError", "The actor died unexpectedly before finishing this task"}}

// frameworkMeanings are lines of programs above NCCL: DDP, DeepSpeed, accelerate, Lightning, Ray, vLLM, SGLang, TensorRT-LLM, JAX,
// TensorFlow, Horovod, PaddlePaddle. No other text has such a line, so that it is enough to know the output of a program.
var frameworkMeanings = []*meaning{
	// How processes end: by torch.distributed.elastic, subprocess of Python, DeepSpeed's launch.py, SGLang and launchers that add 128.
	{role: cause, summary: "Bus error", costs: "A mapping had no memory behind it: mostly /dev/shm is full.", instead: "Enlarge /dev/shm: docker --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with medium: Memory.",
		forms: []string{"return code = -7", "exit code: -7", "died with <Signals.SIGBUS", "xit code 135", "shutdown with signal 7 ", "EXIT CODE: 135", "exit status 135"}},
	sigkill,
	{role: cause, summary: "Host memory is full", costs: "No memory was left on the host or in the container's cgroup, and a process was killed for it.", instead: lessMemory,
		forms: []string{"Task was killed due to the node running low on memory", "may have exceeded K8s pod memory limits", "Killed by the memory monitor", "Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed"}},
	{role: symptom, summary: "A host of Ray ended", costs: "Its raylet, which runs the workers there, ended without an error message: the OOM killer, a crash, or ray stop. All of its workers end with it.", instead: "Look with dmesg on that host for the OOM killer, and into /tmp/ray/session_latest/logs there (raylet.err, raylet.out).",
		forms: []string{"Raylet is terminated: ip=", "from raylet because it is dead" /* core_worker of Ray */}},
	{role: cause, summary: "The program crashed", costs: "A process accessed memory that it does not have.", instead: "Read its backtrace: libraries of different builds (MPI, CUDA, a plugin of NCCL) are a frequent reason. NCCL_NET_PLUGIN=none excludes the network plugin.",
		forms: []string{"return code = -11", "exit code: -11", "died with <Signals.SIGSEGV", "xit code 139", "shutdown with signal 11 ", "EXIT CODE: 139", "EXIT CODE: 11", "exit status 139", "got signal: 11"}},
	{role: result, summary: "The launcher was told to stop", costs: "Something, mostly a scheduler, sent a signal to the launcher.", instead: "Look into the scheduler's log, and for the first error above.", forms: []string{"Received 15 death signal", "got signal: 15", "got signal: 10", "got signal: 12", "got signal: 13", "got signal: 14", "got signal: 24", "got signal: 25"}},
	{role: cause, summary: "The launcher's terminal was closed", costs: "SIGHUP ended torchrun: the shell or the SSH session that started it has ended.", instead: "Start it in tmux or screen, with setsid, or as a job of the scheduler.", forms: []string{"got signal: 1", "closing signal SIGHUP", "Received 1 death signal"}},
	{role: cause, summary: "The job was interrupted", costs: "Somebody, or a scheduler, sent SIGINT to the launcher.", instead: "If that was not wanted, look into the scheduler's log for preemption.", forms: []string{"got signal: 2"}},
	{role: result, summary: "A rank ended with an error", costs: "The launcher ends the other ranks when one fails.", instead: "Read the log of the first rank that failed, above these lines.",
		forms: []string{"exits with return code = ", "Received sigquit from a child process", "Killing subprocess ", "sigkill_handler", "died with <Signals.SIGABRT", "died with <Signals.SIGTERM", "xit code 134", "shutdown with signal ", "forcefully exiting via SIGKILL", "scheduler is dead. Please check", "Horovod detected that one or more processes exited", "LAUNCH INFO*Exit code", "LAUNCH ERROR*Container failed", "ABORT!!! Out of all", "Worker failed with error", "ActorDiedError", "ActorUnavailableError", "WorkerProc initialization failed", "WorkerProc failed to start", "Exception in worker VllmWorkerProcess", "Scheduler hit an exception", "Shard complete standard error output", "text_generation_launcher: Shard*crashed", "'--local_rank=*returned non-zero exit status"}},

	{role: hint, summary: "Hosts of Ray's cluster are missing", costs: "Fewer hosts have joined than are waited for: a worker pod or host has not started, or does not reach the head's address and ports.", instead: "See the worker pods' state and events (kubectl describe pod), ray status, and the log of ray start there.", forms: []string{"Ray cluster status: *nodes alive"}},
	{role: result, summary: "Somebody interrupted the program", costs: "It was ended by Ctrl-C, mostly because it hung: the traceback shows in which call the process stood.", instead: "If that is a call of torch.distributed, a rank did not come, or the ranks do not reach each other: compare where all ranks stand (py-spy dump).", forms: []string{"KeyboardInterrupt"}},
	{role: symptom, summary: "GPUs have no multicast over NVLink", costs: "An all-reduce of the program's own (symmetric memory, FlashInfer) asks for multicast. It needs GPUs on NVSwitch with a running Fabric Manager, and IMEX between hosts: virtual machines and GPUs without NVSwitch do not have it.", instead: "On GPUs with NVSwitch see systemctl status nvidia-fabricmanager. On others turn that all-reduce off in the program: NCCL does not need it.", forms: []string{"Device does not support multicasting"}},
	{role: cause, summary: "Ray cannot make the workers' environment", costs: "The packages or files of runtime_env could not be installed on a host.", instead: "Read runtime_env_setup-*.log in /tmp/ray/session_latest/logs on that host: a name, a version or the way to the Internet is mostly wrong.", forms: []string{"RuntimeEnvSetupError"}},
	{role: effect, summary: "A worker of Ray did not answer in time", costs: "It is still at work, hangs or failed.", instead: firstDead + " py-spy dump on the workers shows where they stand.", forms: []string{"GetTimeoutError: "}},

	// DDP and process groups.
	{role: symptom, summary: "Ranks have different models", costs: "DDP compared the parameters of the ranks, and they differ: the model, its options or the versions of the software are not the same on all ranks. The network is not the cause.", more: explainNoParams,
		instead: "Build the model with the same code, arguments and versions on all ranks, before DDP wraps it, and without a branch for one rank.",
		forms:   []string{"DDP expects same model across all ranks", "in this process with sizes*appears not to match"}},
	{role: cause, summary: "DDP counts gradients wrongly", costs: "A parameter took part twice in one backward pass, as with activation checkpointing or shared layers.", instead: "Set static_graph=True or use_reentrant=False for checkpointing. " + inProgram,
		forms: []string{"Expected to mark a variable ready only once", "has been marked as ready twice"}},
	{role: cause, summary: "A tensor is on the wrong device", costs: "The program gave a tensor in the host's memory to a collective of NCCL, which takes GPU memory alone.", instead: "Move the tensor to the rank's GPU first, or make the group with backend \"cpu:gloo,cuda:nccl\". The network is not the cause.",
		forms: []string{"No backend type associated with device type cpu", "Tensors must be CUDA and dense"}},
	{role: cause, summary: "Tensors do not suit a collective", costs: "PyTorch refuses the tensors that the program passes.", instead: inProgram,
		forms: []string{"Tensors must be contiguous", "Tensors must have identical type", "output tensor must have the same type as input tensor", "output tensor size must be equal to world_size times input tensor size", "input tensor must be the same size as output size times world size", "Tensors must be on distinct GPU devices", "Tensor list mustn't be larger than the number of available GPUs", "is not supported for NCCL process group", "RuntimeError: Invalid scalar type" /* Gloo */, "Cannot use ReduceOp.B", "is not on the expected device", "Detected multiple device types in the same process group", "ProcessGroupNCCL only supports one GPU per rank", "Expected list of tensors on the same device"}},
	{role: cause, summary: "The process group was not made", costs: "The program calls a collective before init_process_group, or after destroy_process_group.", instead: "Call init_process_group first in every process. Programs for one process need a start with torchrun, too, if they use collectives.",
		forms: []string{"Default process group has not been initialized"}},
	{role: cause, summary: "The process group was made twice", costs: "The program, or two libraries in it, call init_process_group twice.", instead: "Check torch.distributed.is_initialized() first, or leave it to the framework.", forms: []string{"trying to initialize the default process group twice"}},
	{role: symptom, summary: "Ranks did not come to a barrier", costs: "The ranks that the line names did not reach the monitored barrier in time: they failed, hang, or were never started.", instead: "Read the logs of those ranks, and compare them with the hosts: if they are all of one host, that host or its network is the place to look.", more: explainMissedBarrier,
		forms: []string{"failed to pass monitoredBarrier in", "timed out in monitoredBarrier after", "successfully reached monitoredBarrier, but received errors"}},
	{role: cause, summary: "The ranks do not fit the model's parallelism", costs: "The number of processes, or a size of the model, is not a multiple of the tensor, pipeline or context parallel size, or is not their product.", instead: "Start as many processes as the product of the parallel sizes asks for (--nproc_per_node times hosts), or change the sizes.",
		forms: []string{"mpiSize == tp", "GPUs per node*must be at least as large as TP", "orld size*is not divisible by", "orld_size*is not divisible by", "MPI size (*) != TP", "ngine world size (*) != Runtime world size", "must be divisible by tensor parallel size", "AssertionError: * is not divisible by ", "MPI worldSize is expected to be equal to tp*pp", "Assertion failed: Failed: MPI error*'6'" /* MPI_ERR_RANK of Open MPI: a rank that was not started */, "should equal the world size (", "does not match num_processes ("}},
	{role: cause, summary: "The program cannot use parts of a GPU (MIG)", costs: "It takes GPUs by number. CUDA 12 shows a process one MIG device alone, named by its UUID, and NCCL joins MIG devices from recent versions on, if at all.", instead: "Use whole GPUs for several ranks, or one MIG device and one rank.",
		forms: []string{"invalid literal for int() with base 10: 'MIG-"}},
	{role: cause, summary: "The batch sizes do not fit the ranks", costs: "DeepSpeed's train_batch_size must be the product of the batch of a GPU, the steps of accumulation and the number of ranks: the job has another number of ranks than the configuration was written for.", instead: "See that all ranks are in one job (its world size is the last factor of the line), and correct the configuration, or set two of the three to \"auto\".",
		forms: []string{"train_batch_size is not equal to micro_batch_per_gpu"}},
	{role: cause, summary: "This PyTorch has no CUDA", costs: "A PyTorch for CPUs is installed, or one for another system.", instead: "Install PyTorch's build for CUDA, and check torch.cuda.is_available() in the same environment.", forms: []string{"Torch not compiled with CUDA enabled"}},
	{role: cause, summary: "The process cannot use the GPUs", costs: "CUDA could not start: /dev/nvidia-uvm is missing in the container, the module nvidia_uvm is in a bad state (as after suspend), or CUDA_VISIBLE_DEVICES was changed after the program began.",
		instead: "Check nvidia-smi and a small CUDA program in the same container. Reload nvidia_uvm or reboot, and start the container with --gpus all.", forms: []string{"CUDA unknown error - this may be due to an incorrectly set up environment", "Error 304: OS call failed", "Error 999: unknown error"}},
	{role: cause, summary: "A stub of libnvidia-ml is loaded", costs: "The loader found a library that is meant for linking, not that of the driver.", instead: "Remove the stub's directory (of CUDA's toolkit or of the GDK) from LD_LIBRARY_PATH and from ld.so.conf.d, and install the driver, or give the container its libraries (--gpus all).",
		forms: []string{"should always run with libnvidia-ml.so that is installed with your", "libnvidia-ml.so in GDK package is a stub library"}},
	{role: hint, summary: "The kernel is old", costs: "accelerate reports hangs with Linux before 5.5.", instead: "Upgrade the kernel if the job hangs.", forms: []string{"is below the recommended minimum of"}},
	{role: cause, summary: "accelerate refuses these GPUs", costs: "It stops on GPUs of the RTX 4000 series with an older driver until NCCL_P2P_DISABLE and NCCL_IB_DISABLE are set.", instead: "Install driver 550 or later. Until then, accelerate launch sets NCCL_P2P_DISABLE=1 and NCCL_IB_DISABLE=1 itself; NCCL then uses no RDMA.",
		forms: []string{"doesn't support faster communication broadband via P2P or IB"}},
	{role: harmless, summary: "Ray reports no metrics", forms: []string{"Export metrics to agent failed*RPC Error*Method not found*RPC Error*This won't affect Ray"}},
	{role: harmless, summary: "accelerate turns P2P and IB off", forms: []string{"Ensuring P2P and IB communications are disabled"}},

	{role: cause, summary: "This TensorFlow has no NCCL", costs: "The operation with which MirroredStrategy calls NCCL is not there: TensorFlow for Windows and builds for CPUs do not have it, or TensorFlow sees no GPU (no GPU among the registered devices).",
		instead: "Check tf.config.list_physical_devices(\"GPU\"): if it is empty, install a build for GPUs and the libraries of CUDA that it needs. On Windows use MirroredStrategy(cross_device_ops=tf.distribute.HierarchicalCopyAllReduce()).", forms: []string{"No OpKernel was registered to support Op 'Nccl", "Cannot assign a device for operation*Nccl", "Op type not registered 'Nccl"}},
	{role: cause, summary: "The program does not take --local_rank", costs: "torch.distributed.launch gives each process this option (from PyTorch 2.0 on as --local-rank), and the program does not know it.", instead: "Start the program with torchrun, and read the variable LOCAL_RANK, or let the program take both spellings of the option.",
		forms: []string{"unrecognized arguments: --local_rank", "unrecognized arguments: --local-rank"}},
	{role: cause, summary: "The program starts itself again", costs: "Its processes are started by spawn, which imports the program anew in each of them: what is not below if __name__ == \"__main__\" runs again there. The network is not the cause.", instead: "Put the start of the processes below if __name__ == \"__main__\":.", forms: []string{"An attempt has been made to start a new process before"}},
	{role: hint, summary: "Shards of TGI wait", costs: "A shard is still loading, or hangs when the shards meet.", instead: "If it goes on for minutes, start again with NCCL_DEBUG=INFO, and see whether NCCL_P2P_DISABLE=1 helps.", forms: []string{"text_generation_launcher: Waiting for shard to be ready"}},
	{role: cause, summary: "The list of hosts has no slots", costs: "horovodrun needs the number of processes of each host.", instead: "Write it behind each name: horovodrun -H host1:8,host2:8.", forms: []string{"Invalid host input, please make sure it has format"}},

	// Programs that let GPUs reach each other without NCCL.
	{role: cause, summary: "GPUs cannot reach each other", costs: "The program's own all-reduce, and not NCCL, maps the memory of other GPUs, which these GPUs or this virtual machine do not allow.", instead: ownPeers,
		forms: []string{"[TensorRT-LLM]*peer access is not supported between", "ipcUtils*peer access", "Can't enable access between nodes", "custom_all_reduce*peer access is not supported", "custom_all_reduce*invalid argument", "custom_all_reduce*mapping of buffer object failed", "custom_all_reduce*invalid device context"}},
	{role: hint, summary: "GPUs have no direct access", costs: "Data between them goes through the host's memory. It is an error only for a program that needs direct access, such as one with an all-reduce of its own.", instead: "nvidia-smi topo -p2p r shows which GPUs have it; virtual machines and GPUs for games mostly do not. " + ownPeers, forms: []string{"[TensorRT-LLM]*peer access Device*is not available"}},
	{role: hint, summary: "The program's own all-reduce is off", costs: "The GPUs have no direct access to each other, so that NCCL is used instead. It is no error.", instead: "Nothing is to be done. nvidia-smi topo -p2p r shows which GPUs have direct access.", forms: []string{"lacks GPU P2P capability or P2P test failed"}},
	{role: hint, summary: "Ranks of vLLM hang", costs: "The engine waits for a worker: it compiles or loads for a long time, or hangs in a collective.", instead: "If it goes on for minutes, py-spy dump on the workers shows where they stand. NCCL_P2P_DISABLE=1 and --disable-custom-all-reduce show whether direct access between GPUs (ACS, IOMMU) is the reason.",
		forms: []string{"No available shared memory broadcast block found", "No available block found in 60 second", "RPC call to*timed out"}},
	{role: hint, summary: "Ray announces a container bridge's address", costs: "172.17.0.x is Docker's default network: this host's other containers reach it, and other hosts do not. On one host it is right.", instead: "With several hosts run the containers with --network=host, and give ray start --node-ip-address (and VLLM_HOST_IP) the host's own address.",
		forms: []string{"Local node IP: 172.17.0.", "ray start --address='172.17.0.", "GCS at address 172.17.0.", "Connecting to existing Ray cluster at address: 172.17.0."}},
	{role: cause, summary: "Hosts announce one address", costs: "vLLM needs a different address of each host, and some are equal, or one host has two.", instead: "Set VLLM_HOST_IP on each host to its own address (not for the whole cluster), before Ray starts there.", forms: []string{"Every node should have a unique IP address"}},
	{role: cause, summary: "Ray has no host of that address", costs: "The program asks Ray for a GPU on the host with the address that the line names, and Ray knows its hosts by other addresses, or that host has no GPU left.", instead: "Compare the addresses in ray status with it. Start Ray on each host with --node-ip-address, and set VLLM_HOST_IP there to the same address.",
		forms: []string{"No available node types can fulfill resource request*'node:", "{'GPU': 1.0, 'node:*}.", "specs=[{'GPU': 1.0, 'node:"}},
	{role: cause, summary: "Too few GPUs", costs: "The job asks for more GPUs than Ray, or the host, has.", instead: "Check nvidia-smi and CUDA_VISIBLE_DEVICES on the host. With Ray, see ray status: all hosts must have joined with their GPUs, under the addresses that the program asks for, and no earlier job may hold them.",
		forms: []string{"The number of required GPUs exceeds the total number", "Cannot provide a placement group of", "Placement group creation timed out", "is less than total desired GPUs", "Current node has no GPU available", "Ray does not allocate any GPUs on the driver node", "No slot '*' specified on host", "But your machine only has:"}},
	{role: symptom, vague: true, summary: "Too few GPUs", costs: "The job asks for more GPUs than Ray has.", instead: "See ray status: all hosts must have joined with their GPUs, under the addresses that the program asks for, and no earlier job may hold them.", forms: []string{"No available node types can fulfill resource request"}},
	{role: cause, summary: "Too few GPUs on this host", costs: "vLLM starts its processes on this host alone, and the process sees fewer GPUs than the parallel sizes ask for.", instead: "Lower the parallel sizes, or give the container all GPUs (--gpus all). With several hosts set --distributed-executor-backend ray, or --nnodes.",
		forms: []string{"orld size (*is larger than the number of available GPUs"}},
	{role: hint, summary: "Too few GPUs on this host", costs: "This process sees fewer GPUs than the parallel size. With several hosts and Ray that is right.", instead: "On one host lower --tensor-parallel-size, or check CUDA_VISIBLE_DEVICES. With several, ray status must show all GPUs.", forms: []string{"Tensor parallel size (*exceeds available GPUs ("}},
	{role: cause, summary: "GPU memory is full", costs: "Another process has memory of the GPU, or the model and its cache do not fit.", instead: "Look with nvidia-smi for processes that earlier starts have left. Then lower --gpu-memory-utilization or --mem-fraction-static, the length of the context, or use more GPUs.",
		forms: []string{"The memory capacity is unbalanced", "on startup is less than desired GPU memory utilization", "CUBLAS_STATUS_ALLOC_FAILED", "RESOURCE_EXHAUSTED: Out of memory", "RESOURCE_EXHAUSTED: Failed to allocate", "CUDA runtime error in*out of memory", "HIP out of memory", "NVML_SUCCESS == r INTERNAL ASSERT FAILED" /* PyTorch asks NVML when memory has run out: c10/cuda/CUDACachingAllocator.cpp */, "failed to allocate*CUDA_ERROR_OUT_OF_MEMORY", "CUDNN_STATUS_ALLOC_FAILED"}},
	{role: cause, summary: "No room for the KV cache", costs: "The share of the GPU's memory that the program may use holds the model, and too little beside it.", instead: "Raise that share (vLLM: --gpu-memory-utilization, SGLang: --mem-fraction-static), shorten the context (--max-model-len, --context-length), or use more GPUs. nvidia-smi shows whether other processes hold memory.",
		forms: []string{"No available memory for the cache blocks", "Not enough memory. Please try to increase --mem-fraction-static", "maximum number of tokens that can be stored in KV cache", "larger than the available KV cache memory"}},
	rayDeath,
	{role: effect, summary: "A worker of Ray was replaced", costs: "A message was sent to a worker that has ended. Another worker has its port now.", instead: "Look for the first worker that died, or was killed, and its log in /tmp/ray/session_latest/logs on that host.", forms: []string{"Mismatched WorkerID: ignoring RPC for previous worker"}},
	{role: symptom, summary: "Ray's head does not answer", costs: "The process does not reach the head of the cluster (GCS, port 6379): it does not run, has ended, or the address is wrong.", instead: "Check ray status on the head, start it there with ray start --head, and join the other hosts with that address. All hosts need all of Ray's TCP ports of each other.",
		forms: []string{"Could not find any running Ray instance", "ray.init() failed to connect", "nable to connect to GCS", "Failed to start GCS", "Failed to connect to GCS", "waiting for GCS to become available"}},
	{role: symptom, summary: "Ray did not start on a host", costs: "Ray's head may answer, but Ray's own process on this host (the raylet) is not there: it has not begun yet, failed at its start, or announces another address.", instead: "Read raylet.err, raylet.out and dashboard_agent.log in /tmp/ray/session_latest/logs on that host, see its memory and /dev/shm, and give ray start --node-ip-address the host's own address.",
		forms: []string{"have not registered with GCS", "no raylets have registered", "Ray processes died unexpectedly", "Unable to register worker with raylet", "raylet_client.cc*Could not connect to socket"}},
	{role: cause, summary: "TensorFlow does not have the device", costs: "An operation names a device that this process does not have: it was made before the strategy had set up the cluster (localhost in place of worker), or names a GPU that TensorFlow does not see.", instead: "Make the tf.distribute strategy first in the program, and models and data in its scope. Compare TF_CONFIG on all workers (index), and tf.config.list_physical_devices(). The network is not the cause.", forms: []string{"Cannot assign a device for operation"}},
	{role: cause, summary: "Hosts have different software", costs: "Ray or Python has another version on this host than on the head.", instead: "Install the same versions of Python and Ray on all hosts, best from one container image.", forms: []string{"Version mismatch: The cluster was started with"}},
	{role: cause, summary: "NCCL's library cannot be loaded", costs: "The program loads libnccl.so.2 when it needs it, and the loader does not find it, or refuses it.", instead: "Install NCCL for the CUDA of the program (pip: nvidia-nccl-cu12), and give its directory in LD_LIBRARY_PATH. vLLM takes a path from VLLM_NCCL_SO_PATH.",
		forms: []string{"name 'ncclGetVersion' is not defined", "Unable to load NCCL library", "Cannot find libnccl.so", "(error code is libnccl.so", "Failed to load NCCL library from", "Failed to load nccl from path", "libnccl.so not found in library path" /* Torch 7, nccl.torch's ffi.lua */}},
	{role: cause, summary: "This PyTorch has no libuv", costs: "torchrun asks for a store with libuv, which this build of PyTorch does not have, as on Windows.", instead: "Set USE_LIBUV=0, or install a build with libuv.", forms: []string{"use_libuv was requested but PyTorch was"}},
	{role: symptom, summary: "A data loader's worker died", costs: "Something told a process that loads data to end: mostly the launcher or the program itself was ending, because of an earlier error or because the work was done.", instead: "Look for an earlier error of any rank, and into the scheduler's log. If the work was done, let the data loader end first (persistent_workers=False, or delete its iterator).", forms: []string{"DataLoader worker (pid*is killed by signal: Terminated"}},
	{role: symptom, summary: "A data loader's worker died", costs: "A process that loads data crashed, in a library that it uses for decoding or reading. The network is not the cause.", instead: "num_workers=0 shows the error in the process itself. Compare the library's version with a host that works.", forms: []string{"DataLoader worker (pid*is killed by signal: Segmentation fault", "DataLoader worker (pid*is killed by signal: Aborted"}},
	{role: symptom, summary: "A data loader's worker died", costs: "A process that loads data was killed, or crashed: mostly host memory or /dev/shm is full. The network is not the cause.", instead: "Check dmesg for the OOM killer, and df /dev/shm. num_workers=0 shows the error of the worker itself.", forms: []string{"DataLoader worker (pid*xited unexpectedly", "DataLoader worker (pid*is killed by signal: Killed"}},
	{role: cause, summary: "DeepEP refuses its arguments", costs: "DeepEP demands a condition of its tensors, buffers or configuration, which the line quotes, and it does not hold. The network is not the cause.", more: explainDeepEP, instead: "Compare the arguments with the condition in the line and with the tests of the same version of DeepEP.", forms: []string{"Failed: Assertion error *csrc/"}},
	{role: symptom, summary: "DeepEP's ranks wait for each other", costs: "A rank did not take part in a dispatch or combine in time: it failed, is late, or the NIC that the GPU drives (NVSHMEM, IBGDA) does not deliver.", instead: "Look for the first error of all ranks. With several hosts run the tests of DeepEP and NVSHMEM first, and check nvidia_peermem or dma-buf and the driver's options for IBGDA (PeerMappingOverride=1).",
		forms: []string{"DeepEP timeout", "DeepEP error: timeout", "DeepEP error: CPU recv timeout", "DeepEP dispatch*timeout", "DeepEP combine*timeout"}},
	{role: cause, summary: "A host of Ray is gone", costs: "Ray got no heartbeat from the host, or its raylet ended.", instead: "Look at that host: memory, network, and the log of its raylet. All hosts need all of Ray's TCP ports of each other.",
		forms: []string{"has been marked dead because the detector", "is lost due to node failure", "NodeDiedError"}},

	{role: hint, summary: "/dev/shm is too small", costs: "Ray found less than it wants: a container has 64 MiB by default, which is too little for NCCL between GPUs of one host, too.", instead: "docker: --shm-size=10g or --ipc=host. Kubernetes: an emptyDir with medium: Memory at /dev/shm.",
		forms: []string{"instead of /dev/shm because /dev/shm has only"}},

	// JAX and XLA (coordination service, rendezvous.cc), TensorFlow.
	{role: symptom, summary: "Ranks did not all come", costs: "Processes of the job did not connect to JAX's coordinator in time: they were not started, failed, or cannot reach its address.", instead: "Start num_processes processes, each with its own process_id, with a coordinator_address that all hosts reach (not localhost with several hosts), and open its port.",
		forms: []string{"DEADLINE_EXCEEDED: Barrier timed out", "Barrier timed out. Barrier_id", "DEADLINE_EXCEEDED*PjRT_Client_Connect", "GetKeyValue() timed out with key"}},
	{role: effect, summary: "Another task of JAX died", costs: "The coordination service lost a task, and ends the others.", instead: "Read the logs of the tasks that the line names: the first error there is the cause.", forms: []string{"Terminating process because the JAX distributed service detected", "tasks are unhealthy (stopped sending heartbeats)", "Polled an error from coordination service", "coordination service*stopped sending heartbeats", "tried to connect with a different incarnation", "ALREADY_EXISTS: aborted connect"}},
	{role: cause, summary: "BytePS is built without RDMA", costs: "DMLC_ENABLE_RDMA asks for a network (van) that this build of ps-lite does not have.", instead: "Build it with BYTEPS_USE_RDMA=1 where libibverbs and librdmacm are installed with their headers, or take an image that has it, for the scheduler and the servers, too. Without DMLC_ENABLE_RDMA it uses TCP.", forms: []string{"unsupported van type"}},
	{role: hint, summary: "TensorFlow's other process does not answer", costs: "grpc+verbs connects the processes' RDMA when each starts, and the other one is not there yet, or has ended. After five attempts it goes on without.", instead: "Start all processes, the workers first, and see that each reaches the others' ports. RDMA_DEVICE and RDMA_GID_INDEX name the device and its GID.", forms: []string{"contrib/verbs/rdma_mgr.cc*Retrying ("}},
	{role: cause, summary: "TensorFlow does not have this protocol", costs: "The program asks for a server (grpc+verbs, grpc+gdr) that this build does not have: TensorFlow 2 left them out.", instead: "Use grpc, with NCCL for the GPUs' data (CommunicationImplementation.NCCL), which has RDMA of its own.", forms: []string{"The available server factories are: ["}},
	{role: hint, summary: "Proxies beside JAX", costs: "gRPC, by which JAX's processes meet, sends its connections to the proxy that a variable names, unless no_proxy names the coordinator's address: then jax.distributed.initialize waits until its timeout.", instead: "Unset http_proxy, https_proxy and all_proxy for the job, in capitals, too, or add the addresses of all hosts to no_proxy.", forms: []string{"JAX detected proxy variable(s)"}},
	{role: hint, summary: "Devices wait for each other", costs: "XLA waited long for the other devices of a collective: one is slow (compilation, loading), or hangs.", instead: "If the job does not go on, NCCL_P2P_DISABLE=1 shows whether direct access between GPUs is the reason. With several processes, all must run the same computation.", more: explainRendezvous,
		forms: []string{"threads to join the rendezvous, but", "and may be stuck. Expected"}},
	{role: cause, summary: "Collectives of different groups are mixed", costs: "TensorFlow's devices join one group with different sizes: two strategies, or two calls with different GPUs, share a group key.", instead: "Use one tf.distribute strategy in a process, with the same GPUs on all hosts. The network is not the cause.", forms: []string{"is joining a group with size", "joining a group with incompatible device type"}},
	{role: symptom, summary: "The rendezvous address does not answer", costs: "The process cannot connect to the coordinator, over gRPC.", instead: rendezvous, forms: []string{"ailed to connect to all addresses", "rabit: Failed to connect to tracker"}},
	{role: hint, summary: "Paddle waits for an endpoint", costs: "A process does not listen yet. At the start that is usual; if it goes on, that process failed, or a firewall is between.", instead: "Read the log of that process (log/workerlog.N), and check the address.", forms: []string{"Retry to connect to*while the server is not yet listening", "not ready endpoints:"}},

	// Horovod, Open MPI, launchers.
	{role: symptom, summary: "Ranks call different collectives", costs: "Some ranks wait for a tensor that others did not submit: a rank is behind, failed, or takes another branch.", instead: "Read the logs of the missing ranks that the next lines name.", forms: []string{"are waiting for remainder of ranks for more than", "Stalled ops:", "Missing ranks:", "Horovod*[missing ranks: "}},
	{role: cause, summary: "Ranks call different collectives", costs: "Horovod compared what the ranks submit under one name, and it differs.", instead: "Correct the branch, the shapes or the types on the ranks that the line names.", forms: []string{"Mismatched data types: One rank had", "Mismatched*tensor shapes", "Mismatched operations: One rank", "Mismatched*root ranks", "Mismatched reduction operation", "Mismatched prescale"}},
	{role: effect, vague: true, summary: "A rank of Horovod failed", costs: "Another rank ended with an error.", instead: onePeer, forms: []string{"Horovod has been shut down"}},
	{role: cause, summary: "No common interface", costs: "Horovod found no interface of one name by which all hosts reach each other.", instead: "Name it: --network-interfaces eth0 (horovodrun).", forms: []string{"Unable to find a set of common task-to-task communication interfaces", "NoValidAddressesFound", "Horovod was unable to connect to"}},
	{role: cause, summary: "An SSH server closes connections", costs: "It refuses before the login: too many logins begin at once (MaxStartups), it does not let this host in, or it restarts.", instead: "Read the server's log (journalctl -u ssh or sshd). For many ranks raise MaxStartups in sshd_config, or let mpirun start its helpers in a tree.", forms: []string{"ssh_exchange_identification: ", "kex_exchange_identification: "}},
	{role: cause, summary: "A host does not answer SSH", costs: "The launcher starts ranks over SSH. Refused: no SSH server runs on that host or in that container, or it has another port. Otherwise the host is down, or a firewall or a route is in the way.", instead: "Start sshd there (in a container, too, with a port of its own on host networks), give its port in ~/.ssh/config, and check with ssh HOST hostname.",
		forms: []string{"ssh: connect to host*onnection refused", "ssh: connect to host*timed out", "ssh: connect to host*No route to host", "ssh: connect to host*etwork is unreachable"}},
	{role: cause, summary: "A Python module is missing", costs: "python -m names a module that is not there: the name is wrong, or another Python than the one with the packages is running.", instead: "Correct the name, and compare which python and its pip list.", forms: []string{"Error while finding module specification for"}},
	{role: hint, summary: "The pod has Istio's proxy", costs: "Istio's sidecar takes over the pod's TCP connections. NCCL chooses ports at random and connects pods by address: with the proxy, ranks wait or are refused.", instead: "Leave the job's pods out of the mesh: the label or annotation sidecar.istio.io/inject: \"false\".", forms: []string{"istio-proxy", "istio enabled", "Istio enabled", "istio sidecar", "Istio sidecar", "stio proxy", "\tenvoy ", "upstream connect error or disconnect/reset"}},
	{role: cause, summary: "Login to a host failed", costs: "The launcher starts ranks over SSH, without a password, on the first host, too.", instead: "Give the user a key on every host (the launcher's own included), accept the hosts' keys once, and check with ssh -o PasswordAuthentication=no HOST hostname.",
		forms: []string{"'ssh -o PasswordAuthentication=no*non-zero exit status 255", "was not reachable via ssh", "could not connect to some hosts via ssh", "No authentication methods available" /* paramiko */, "ssh exited with exit code 255", "'ssh', *returned non-zero exit status 255", "Permission denied, please try again"}},
	{role: cause, summary: "The master's address is empty", costs: "The launcher found no address of rank 0's host: DeepSpeed takes the first one that hostname -I prints there, which prints none in some containers.", instead: "Give the address: --master_addr, or MASTER_ADDR.", forms: []string{"Using IP address of  for node", "Unable to detect suitable master address", "--master_addr= --"}},
	{role: cause, summary: "DeepSpeed needs a variable that is not set", costs: "With --ssh_port, this DeepSpeed appends to PDSH_SSH_ARGS_APPEND, and fails if it is not set. Later ones do not.", instead: "export PDSH_SSH_ARGS_APPEND=' ', or upgrade DeepSpeed.", forms: []string{"KeyError: 'PDSH_SSH_ARGS_APPEND'"}},
	{role: cause, summary: "The launcher is missing", costs: "The program starts ranks by another one, which is not installed here, or not in PATH: DeepSpeed takes pdsh for other hosts, Horovod and others mpirun.", instead: "Install it on the host that starts the job, or take another launcher (DeepSpeed: --launcher; Horovod: horovodrun --gloo; torchrun on each host).", forms: []string{"launcher '*' not installed", "No such file or directory: 'pdsh'", "mpirun or mpiexec were not found", "does not find an installed OpenMPI"}},
	{role: cause, summary: "The list of hosts is wrong", costs: "DeepSpeed cannot use the hostfile: it is missing, empty, or names a host twice.", instead: "Write one line for each host: NAME slots=GPUS, and give its path with --hostfile.", forms: []string{"Num nodes is >1 but no extra nodes available via hostfile", "Hostfile is empty or not formatted correctly", "Hostfile contains", "not found in hostfile"}},
	{role: remark, summary: "DeepSpeed found no list of hosts", costs: "It starts ranks on this host alone. With one host that is right.", instead: "With several hosts give the path: --hostfile FILE (without it, /job/hostfile is looked for), with one line for each host: NAME slots=GPUS. If every host runs the command itself, tell DeepSpeed so: --deepspeed_multinode_launcher standard for accelerate, or torchrun.", forms: []string{"Unable to find hostfile, will proceed"}},
	{role: cause, summary: "Ranks rename one checkpoint", costs: "Transformers 4.36.0 and 4.36.1 let a process of each host rename the directory of a checkpoint. On a shared file system the first has done it, and the others fail. The network is not the cause.", instead: "Take another version of Transformers. With directories of each host's own set save_on_each_node=True.", forms: []string{"No such file or directory: *tmp-checkpoint-*' -> '", "Directory not empty: *tmp-checkpoint-*' -> '"}},
	{role: cause, summary: "Variables of a launcher under Slurm", costs: "PyTorch-Ignite takes rank and number of ranks of Slurm, and refuses RANK, LOCAL_RANK or WORLD_SIZE beside it.", instead: "Unset the variables that the line names, and let srun start one task for each rank. Or start torchrun once per host, in an environment without SLURM_JOB_ID.", forms: []string{"should not be specified with SLURM"}},
	{role: cause, summary: "Slurm's tasks do not fit the program", costs: "Lightning starts no processes of its own under srun: Slurm must start one for each GPU.", instead: "Set --ntasks-per-node to the number of GPUs (devices), --nodes to num_nodes, and start the program with srun.",
		forms: []string{"`--ntasks-per-node=*` does not match", "the number of nodes configured in SLURM", "`--nodes=*` does not match", "SLURM bash script, but this variable is not supported", "You requested*GPUs but launched*slurm tasks" /* –1.x */}},
	{role: hint, summary: "Open MPI cannot copy between processes", costs: "The container forbids process_vm_readv, which Open MPI uses between ranks of a host. It is a fault of its own beside NCCL's.", instead: "Start the container with --cap-add=SYS_PTRACE, or set --mca btl_vader_single_copy_mechanism none.", forms: []string{"Read -1, expected*errno = 1"}},
	{role: result, summary: "NCCL ended with an error", costs: "NCCL, or the stub that loads it, returned a code that the program does not know: the library is of another version than the program was built with, or it is not there.", instead: askNCCL + " Compare the libnccl that is loaded (ldd, LD_DEBUG=libs) with the one of the build.", forms: []string{"'unknown result code'"}},
}

// explainNoParams says more where a rank seems to have no parameters at all: the collective that compares them has not worked.
func explainNoParams(_ *logged, m string) (summary, costs, instead string) {
	if !strings.Contains(m, "inconsistent 0 params") {
		return "", "", ""
	}
	return "The first collective gave wrong data", "A rank seems to have 0 parameters: the collective that compares them did not deliver, because it was aborted after a timeout, or because direct access between the GPUs is broken. The models may well be equal.",
		"Set NCCL_P2P_DISABLE=1: if it helps, ACS or the IOMMU disturbs direct access between GPUs. Otherwise find the rank that comes late (py-spy dump on each)."
}

// missing is the beginning of a monitored barrier's error: "Ranks 4, 5, 6, 7 failed to pass …" or "Rank 4 failed …".
var missing = pattern{text: `Ranks? ([0-9, ]{1,400}) failed to pass monitoredBarrier`}

// explainMissedBarrier names the ranks that did not come to a monitored barrier.
func explainMissedBarrier(_ *logged, m string) (summary, costs, instead string) {
	at := missing.re().FindStringSubmatch(m)
	if at == nil {
		return "", "", ""
	}
	return "", fmt.Sprintf("Rank 0 waited for %s: they failed, hang, or were never started.", some("rank", strings.Split(at[1], ", "))), ""
}

// begun is the line with which each process of Lightning begins: its rank, and the number of all.
var begun = pattern{text: `nitializing (?:ddp|distributed): GLOBAL_RANK: (\d+), MEMBER: \d+/(\d+)`}

// entering is a line of PyTorch's store while not all processes have come to the first barrier.
const entering = "Waiting in store based barrier to initialize process group"

// begins notes a process of Lightning, or how many processes came to PyTorch's first barrier, and forgets them when all are there.
func (l *logged) begins(number int, line string) bool {
	switch {
	case strings.Contains(line, "ompleted store-based barrier"), strings.Contains(line, "All distributed processes registered"):
		l.entered = foreignLine{}
		l.together = true
	case strings.Contains(line, entering):
		l.entered = foreignLine{number, line, nil}
		return true
	}
	at := begun.re().FindStringSubmatch(line)
	if at == nil {
		return false
	}
	rank, err1 := strconv.Atoi(at[1])
	size, err2 := strconv.Atoi(at[2])
	if err1 != nil || err2 != nil || len(l.starts) >= maxHosts {
		return true
	}
	if l.starts == nil {
		l.starts = map[int]int{}
	}
	l.starts[rank]++
	l.startsOf, l.startsAt = size, number
	return true
}

// twice reports processes that have equal ranks, while others are missing: each host believes that it is the first one.
func (l *logged) twice() {
	var double []string
	for rank, times := range l.starts {
		if times > 1 {
			double = append(double, strconv.Itoa(rank))
		}
	}
	if len(double) == 0 || len(l.starts) >= l.startsOf {
		l.absent()
		return
	}
	slices.SortFunc(double, byNumber)
	l.say(l.startsAt, env.Error, "Two processes with one rank", fmt.Sprintf("Of %d processes, only %d ranks begin, and %s more than once.", l.startsOf, len(l.starts), some("rank", double)),
		"Each host believes that it is the first one, and the others never come: the job waits.", "Under Slurm start one task for each GPU (srun with --ntasks-per-node). Elsewhere set NODE_RANK, MASTER_ADDR and MASTER_PORT on each host, or use torchrun.")
}

// absent reports a job that waits for ranks which never came, as its last lines show.
func (l *logged) absent() {
	const cure = "See that the launcher starts on every host (in Slurm with srun, one task per host or per GPU), with the same address and number of hosts, and that the missing ranks' own logs show no error."
	if at := barred.re().FindStringSubmatch(l.entered.text); at != nil && at[1] != at[2] {
		l.say(l.entered.number, env.Warning, "Ranks did not all come", fmt.Sprintf("%s of %s processes came to the first barrier, and no later line shows the others.", at[2], at[1]), "The job waits for ranks that were not started, have failed, or do not reach the first one.", cure)
	}
	if n := len(l.starts); n > 0 && n < l.startsOf && !l.together {
		l.say(l.startsAt, env.Warning, "Ranks did not all come", fmt.Sprintf("%d of %d processes begin in these lines: %s.", n, l.startsOf, some("rank", numbers(l.starts))), "If these are the lines of all hosts, the others were never started, and the job waits for them.", cure)
	}
}

// numbers returns the keys in their order.
func numbers(of map[int]int) (out []string) {
	for _, n := range slices.Sorted(maps.Keys(of)) {
		out = append(out, strconv.Itoa(n))
	}
	return out
}
