package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

const (
	rendezvous = "Check MASTER_ADDR and MASTER_PORT on all hosts, that rank 0 runs and listens there, and that no firewall is between."
	slowest    = "Find the rank that is missing, or that is at another operation: TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (TORCH_FR_BUFFER_SIZE from PyTorch 2.9) and TORCH_NCCL_DUMP_ON_TIMEOUT=1 write what each rank did last, py-spy dump shows where a rank stands. A longer timeout helps only if the slow work is known."
)

// torchMeanings are lines of PyTorch's c10d, Gloo and of what starts ranks under it.
var torchMeanings = []*meaning{
	{role: harmless, summary: "c10d tried another address", forms: []string{"failed to connect to*errno: 99 - Cannot assign requested address", "failed to connect to*errno: 97 - Address family not supported", "socket cannot be initialized*errno: 97 - Address family not supported", "hostname of the client socket cannot be retrieved", "(localhost,*cannot be retrieved", "retrying after"}},
	{role: hint, summary: "Windows refuses an address", costs: "An address of the name cannot be used (0.0.0.0, port 0, or IPv6 without IPv6), and PyTorch tries the next one: harmless if the job goes on.",
		instead: "If it stops there: with one host set MASTER_ADDR=127.0.0.1; otherwise correct the name in the hosts file (Docker Desktop writes kubernetes.docker.internal there). PyTorch for Windows has Gloo alone, and no NCCL.", forms: []string{"failed to connect to*(system error: 10049"}},
	{role: hint, summary: "c10d cannot connect to one of the addresses", costs: "The name of the rendezvous has a link-local IPv6 address (fe80::), to which the kernel connects only with an interface (tcp_v6_connect in net/ipv6/tcp_ipv6.c of Linux). PyTorch then tries the next address: harmless if the job goes on.",
		instead: "If it goes no further: set MASTER_ADDR to the IPv4 address of rank 0's host, and remove the fe80:: address of that name from /etc/hosts or DNS.", forms: []string{"failed to connect to*errno: 22 - Invalid argument"}},
	{role: cause, summary: "The rendezvous address is not valid", costs: "The line shows a path in place of an address: DeepSpeed takes what ssh HOST hostname -I prints, and the shell's start-up file (.bashrc) there prints a text of its own before it.", instead: "Let .bashrc print nothing in shells that are not interactive, or give the address: --master_addr (accelerate: main_process_ip).", forms: []string{"network addresses of (/*cannot be retrieved"}},
	{role: hint, summary: "A host name has no IPv6 address", costs: "PyTorch's store looks for an IPv6 address of the name first. That is harmless if the name has an IPv4 address; otherwise this host does not know the name, and the job waits or fails.",
		instead: "If the job goes no further: check getent ahosts NAME on this host, and add the name (also the host's own) to /etc/hosts or DNS. In Kubernetes a pod knows another one's name only through a headless service. torchrun announces the host's own name unless --local-addr gives an address.", forms: []string{"IPv6 network addresses of*cannot be retrieved"}},
	{role: hint, summary: "Gloo uses the loopback address", costs: "This process's host name has no address of this host, and GLOO_SOCKET_IFNAME is not set in this process: it announces 127.0.0.1, which other hosts do not reach. On one host it is harmless.",
		instead: "Set GLOO_SOCKET_IFNAME for each process on each host: with Ray before ray start (docker run -e), because a variable of the program that starts the job does not come to workers on other hosts. Or give the host's name its address in /etc/hosts.",
		forms:   []string{"Unable to resolve hostname to a (local) address"}},
	{role: cause, summary: "Gloo finds no such interface", costs: "GLOO_SOCKET_IFNAME names an interface that this host does not have, or that has no address, as a bond's port. Without that variable, this host's own name has no address of the host.", instead: "Name an interface of this host that has an address (ip -br addr); if the names differ between hosts, set it on each host. Gloo takes whole names: no ^, no = and no address.",
		forms: []string{"Unable to find address for: ", "Unable to find interface for: "}},
	{role: effect, summary: "A Gloo peer closed the connection", costs: "A rank has ended, or what is between them (in Kubernetes a sidecar of Istio) closed it.", instead: onePeer + " If all pods still run, annotate their template with sidecar.istio.io/inject: \"false\".", forms: []string{"gloo/transport/tcp*onnection closed by peer", "gloo/transport/tcp*Connection reset by peer", "Socket closed ["}},
	{role: symptom, summary: "Gloo connects to a loopback address", costs: "The peer announced 127.0.x.x, because its host name resolves to it. Other hosts do not reach that address. On one host it is right, and the other process has not begun or has ended.", instead: "With several hosts set GLOO_SOCKET_IFNAME to an interface that reaches all of them, or correct the host name's line in /etc/hosts. On one host read the other process's output.",
		forms: []string{"gloo*127.0.", "onnectFullMesh failed with*127.0."}},
	{role: cause, summary: "Hosts mix IPv4 and IPv6", costs: "Gloo took an IPv4 address on one host, and an IPv6 address on another (2 is IPv4, 10 is IPv6).", instead: "Set GLOO_SOCKET_IFNAME on each host to an interface with an IPv4 address that reaches the others, and give the host names addresses of one family in DNS or /etc/hosts.",
		forms: []string{"ss1.ss_family == ss2.ss_family"}},
	{role: cause, summary: "Gloo's ends do not fit", costs: "The address that a peer announced has another form than here: the hosts have different versions of PyTorch or systems (Windows and Linux do not fit), or the store has entries of an earlier job.", instead: "Use one version of PyTorch and one system on all hosts, and a new store (port, file) for each start.", forms: []string{"sizeof(impl_) == bytes.size()"}},
	{role: symptom, summary: "Gloo cannot connect", costs: "CPU collectives use Gloo over TCP: the peer's address is not reachable, or the peer has ended.", instead: "Set GLOO_SOCKET_IFNAME to an interface that reaches all hosts, and open TCP ports between them.",
		forms: []string{"onnectFullMesh failed", "gloo/transport/tcp*onnect*timed out", "gloo/transport/tcp*onnection refused", "gloo/transport/tcp*No route to host", "gloo/transport/tcp/pair.cc*no error"}},
	{role: effect, summary: "A Gloo peer did not answer in time", costs: "A rank waited for another one in an operation on the CPU: that one ended, hangs, is late, or did not take part in it.", instead: "Read the logs of the other ranks. If they have no error, py-spy dump shows where each stands.", forms: []string{"gloo/transport/tcp*Timed out waiting", "Wait timeout for key(s): "}},
	{role: cause, summary: "The ranks' variables are missing", costs: "The program was started without the variables that torchrun sets for each rank.", instead: "Start it with torchrun, or set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each process.", forms: []string{"environment variable*expected, but not set", "KeyError: 'RANK'", "KeyError: 'LOCAL_RANK'", "KeyError: 'WORLD_SIZE'", "KeyError: 'MASTER_ADDR'", "KeyError: 'MASTER_PORT'", "KeyError: 'SLURM_PROCID'"}},
	{role: symptom, summary: "A host's name stands for 127.0.1.1", costs: "Debian and Ubuntu give the host's own name that address in /etc/hosts: a process that announces its name's address announces one that every host takes for itself.", instead: "On each host give the name its real address in /etc/hosts, or name the interface: GLOO_SOCKET_IFNAME, TP_SOCKET_IFNAME, NCCL_SOCKET_IFNAME.",
		forms: []string{"127.0.1.1*refused", "127.0.1.1*timed out", "onnect*127.0.1.1"}},
	{role: cause, summary: "The rank is too large", costs: "Ranks count from 0 to one less than the number of processes: this process was given another number, or WORLD_SIZE does not count all processes.", instead: "Let torchrun set RANK and WORLD_SIZE, or count RANK over all hosts (NODE_RANK * processes of a host + LOCAL_RANK).", forms: []string{"rank should be in the interval [0"}},
	{role: cause, summary: "The rendezvous method is not known", costs: "This PyTorch has no such method: the name in --rdzv-backend or init_method is misspelt, or the package for it (etcd) is not installed.", instead: "Use --rdzv-backend=c10d, and init_method env:// or tcp://HOST:PORT.", forms: []string{"No rendezvous handler for", "The rendezvous backend '*' is not registered"}},
	{role: cause, summary: "The rendezvous address is not valid", costs: "--rdzv-endpoint takes HOST:PORT: the line names the part that is wrong, often of a variable that was empty.", instead: "Write it as node1:29500, with the address of one host for all hosts.", forms: []string{"The hostname of the rendezvous endpoint", "The port number of the rendezvous endpoint"}},
	{role: symptom, summary: "The store answers unexpectedly", costs: "What listens at MASTER_ADDR and MASTER_PORT is not the store that this PyTorch expects: the hosts have different versions, another program has the port, or the connection broke.", instead: "Install one version of PyTorch everywhere, and use a port that is free on the host of rank 0.",
		forms: []string{"Stop_waiting response is expected", "wait_canceled response is expected", "ready or not_ready response expected", "The rendezvous state is corrupt"}},
	{role: hint, summary: "The store does not listen yet", costs: "The process of rank 0 has not begun to listen, or a firewall drops the packets.", instead: "If the job goes no further: " + rendezvous, forms: []string{"Socket connect worker*failed, try again" /* PaddlePaddle */, "No socket on*is listening yet, will retry", "The server socket on*has timed out, will retry"}},
	{role: hint, summary: "The queue for connections is short", costs: "More ranks connect to the store than the host of rank 0 takes at once.", instead: "If ranks fail to connect there: sysctl -w net.core.somaxconn=8192 on that host.", forms: []string{"workers but somaxconn is"}},
	{role: harmless, summary: "The program ended without destroy_process_group", forms: []string{"rocess group has NOT been destroyed before", "destroy_process_group() was not called before program exit"}},
	{role: symptom, summary: "Ranks did not all come", costs: "Not all processes reached the store within the time: a host or rank did not start, ended at once, or cannot reach MASTER_ADDR.", instead: rendezvous + " WORLD_SIZE must equal the number of processes.",
		forms: []string{"clients joined", "waiting for clients", "RendezvousTimeoutError", "rendezvous timed out", "The rendezvous*timed out"}},
	{role: hint, summary: "torchrun makes its own rendezvous ID", costs: "No --rdzv-id was given, so that torchrun made one at random. With several hosts and c10d each host has another ID, and they never meet. On one host it is right.", instead: "With several hosts give all of them the same --rdzv-id (and --rdzv-endpoint).", forms: []string{"config has no run_id, generated a random run_id"}},
	{role: symptom, summary: "The rendezvous address does not answer", costs: "The process cannot connect to the store of rank 0.", instead: rendezvous, more: explainMeetingPlace,
		forms: []string{"client socket has timed out", "client socket has failed to connect", "TCPStore() failed", "RuntimeError: connect() timed out", "failed to connect to*errno: 110", "failed to connect to*errno: 111", "failed to connect to*errno: 113"}},
	{role: harmless, summary: "sudo does not find the host's own name", forms: []string{"sudo: unable to resolve host"}},
	serviceSilent,
	downloadFailed,
	{role: cause, summary: "A host name is not known", costs: "The name cannot be resolved on this host.", instead: "Correct it (MASTER_ADDR, the hostfile), or add it to DNS or /etc/hosts of all hosts. In Kubernetes see that the pod and its headless service are there.",
		forms: []string{"IPv4 network addresses of*cannot be retrieved", "emporary failure in name resolution", "ame or service not known", "error encountered when getting address info" /* NCCL */, "host not found: ", "Could not resolve hostname"}},
	rendezvousFailed,
	{role: symptom, summary: "Ranks did not all come", costs: "Not all processes came to the barrier of init_process_group in time: a rank is missing, failed, or makes its groups in another order.", instead: "Find the missing ranks' logs. All ranks must make all groups, in the same order. WORLD_SIZE must equal the number of processes.", more: joined,
		forms: []string{"in store based barrier on rank"}},
	{role: effect, summary: "The store's connection was lost", costs: "PyTorch's store is in the process of rank 0, or of torchrun on MASTER_ADDR: that process ended, or the network between them failed.", instead: "Read the log of rank 0 and of torchrun on MASTER_ADDR: its first error is the cause. If the job had finished its work there, only the order of ending is wrong: call destroy_process_group on all ranks.",
		forms: []string{"DistNetworkError: Connection reset by peer", "DistNetworkError: Connection closed by peer", "DistNetworkError: Broken pipe", "RuntimeError: Connection reset by peer", "RuntimeError: Connection closed by peer", "RuntimeError: Broken pipe", "ailed to recv, got 0 bytes", "Broken pipe*TCPStore", "TCPStore broken pipe", "TCPStore*recvValue failed", "TCPStore*sendBytes failed", "recvValueWithTimeout failed", "recvVector failed", "Failed to check the \"should dump\" flag on TCPStore"}},
	{role: effect, summary: "A rank waited in vain at the store", costs: "Another rank did not write a key into PyTorch's store in time: it failed, hangs, or takes another branch.", instead: "Read the logs of the other ranks: the one that stopped first has the cause.",
		forms: []string{"RuntimeError: Socket Timeout", "DistStoreError: Socket Timeout", "DistStoreError: wait timeout after", "waitForInput: socket*timed out after", "waitForInput: poll for socket*likely a timeout"}},
	{role: effect, summary: "The rendezvous was closed", costs: "A torchrun of this job had ended or failed.", instead: "Read the log of torchrun on the other hosts. Start again with a new --rdzv-id.", forms: []string{"RendezvousClosedError"}},
	{role: cause, summary: "This PyTorch has no NCCL", costs: "PyTorch was built without NCCL, as for Windows, macOS or CPUs.", instead: "Install PyTorch with CUDA on Linux (or WSL), or use the backend gloo.", forms: []string{"doesn't have NCCL built in", "PyTorch is not compiled with NCCL support"}},
	{role: cause, summary: "This PyTorch has no torch.distributed", costs: "PyTorch was built without it (USE_DISTRIBUTED=0), as builds for macOS, Windows and boards often are; or it is too old for what the program calls.", instead: "python -c 'import torch; print(torch.__version__, torch.distributed.is_available())' shows which. Install a build that has it, for GPUs on Linux (or WSL), or run one process without torch.distributed.", forms: []string{"module 'torch.distributed' has no attribute", "No module named 'torch._C._distributed_c10d'"}},
	{role: cause, summary: "This PyTorch has no MPI", costs: "PyTorch's packages are built without the backend mpi.", instead: "Use the backend nccl (gloo for CPUs), which mpirun can start as well, or build PyTorch on a host that has MPI.", forms: []string{"doesn't have MPI built in"}},
	{role: cause, summary: "Ranks call different collectives", costs: "PyTorch compared the ranks' collectives, and they differ.", instead: "Correct the branch or the number of steps on the ranks that the line names.", forms: []string{"Detected mismatch between collectives on ranks"}},
	{role: cause, summary: "DDP misses gradients", costs: "Parameters took no part in the loss on some rank, so that its collectives are incomplete. The network is not the cause.", instead: "Use all parameters in forward, or set find_unused_parameters=True.", forms: []string{"Expected to have finished reduction in the prior iteration", "has parameters that were not used in producing the loss"}},
	{role: hint, summary: "PyTorch guesses the rank's GPU", costs: "barrier() ran before the process chose its GPU. If PyTorch guesses wrong, ranks share a GPU or hang.", instead: "Call torch.cuda.set_device(LOCAL_RANK) first, or give device_id to init_process_group.", forms: []string{"device used by this process is currently unknown", "devices used by this process are currently unknown"}},
	{role: effect, summary: "Rank 0 did not make the communicator", costs: "A rank waited for the identifier that rank 0 of the communicator puts into the store: that rank failed, hangs, does not call the same operation, or does alone what takes longer than the timeout (reading or caching data, a download).", instead: "Read rank 0's log: its first error is the cause. If it has none, it takes another branch of the program, or is at such work: finish that before, or raise the timeout (init_process_group(timeout=…)).",
		forms: []string{"retrieving ncclUniqueId", "retrieving NCCL unique id", "store->get(", "possible application crash on rank 0"}},
	{role: cause, summary: "The port needs root", costs: "Ports below 1024 are for root alone.", instead: "Use a port from 1024 on (MASTER_PORT, --master-port).", forms: []string{"failed to bind*errno: 13 - Permission denied"}},
	{role: effect, summary: "The rendezvous did not start", costs: "The store of rank 0 could not listen.", instead: "The line before it names the reason: often another process has the port.", forms: []string{"[E*failed to listen on any local network address"}},
	{role: symptom, vague: true, summary: "The program uses instructions that the processor lacks", costs: "It, or a library of it, was built for a newer processor.", instead: "Build it on the oldest host of the job, or install a build for this processor.", forms: []string{"Illegal instruction", "SIGILL"}},
	{role: symptom, vague: true, summary: "The program crashed", costs: "A process accessed memory that it does not have.", instead: "Read its backtrace: libraries of different builds (MPI, CUDA, a plugin of NCCL) are a frequent reason. NCCL_NET_PLUGIN=none excludes the network plugin.", more: crashed, forms: []string{"Segmentation fault", "SIGSEGV", "Segfault encountered", ": segfault at ", "eneral protection fault ip", "double free or corruption", "free(): invalid", "corrupted double-linked list", "corrupted size vs. prev_size", "malloc(): ", "munmap_chunk(): invalid pointer", "stack smashing detected", "exitcode: -11", "exitcode  : -11", "signal 11 ("}},
	{role: result, summary: "A rank ended with an error", costs: "The launcher ends the other ranks when one fails.", more: explainEnd, instead: "Read the log of the first rank that failed: \"Root Cause (first observed failure)\" names it, and the traceback above it has the error.",
		forms: []string{"ChildFailedError", "failed (exitcode: 1)", "exitcode: -6", "exitcode  : -6", "exitcode: -15", "Signal 6 (SIGABRT)", "on signal 6 (Aborted)", "Sending process*closing signal SIGTERM", "ProcessExitedException", "ProcessRaisedException", "Received Signals.SIGTERM", "SignalException", "Root Cause (first observed failure)", "Engine core initialization failed", "Engine process failed to start", "Engine core proc", "Error: failed to run torchrun " /* ColossalAI */, "terminate called after throwing an instance of", "EngineDeadError", "RayActorError", "RendezvousGracefulExitError", "BrokenProcessPool"}},
	endedItself,
}

// endedItself is a program that gave up: after a timeout, PyTorch does it so.
var endedItself = &meaning{role: symptom, vague: true, summary: "The program ended itself", costs: "It stopped after an error, which mostly one of the lines before names.", instead: "Read the lines before it, and its backtrace.", forms: []string{"Aborted (core dumped)", "Fatal Python error: Aborted", "SIGABRT", "terminate called without an active exception"}}

// launcherMeanings are lines of mpirun, Slurm, the loader and SSH.
var launcherMeanings = []*meaning{
	{role: cause, summary: "A library of another CUDA is missing", costs: "A program or an extension was built for the CUDA whose number the library's name has, and the environment has another one or none.", instead: "Install the build for the CUDA that is there (python -c 'import torch; print(torch.version.cuda)'), or the package with that library (pip: nvidia-cuda-runtime-cu12, nvidia-cublas-cu12 and their like), on every host.",
		forms: []string{"libcudart.so.*: cannot open shared object file", "libcublas.so.*: cannot open shared object file", "libcudnn*.so.*: cannot open shared object file", "libnvrtc.so.*: cannot open shared object file"}},
	{role: cause, summary: "A library is missing", costs: "The loader does not find the library. mpirun over SSH does not pass LD_LIBRARY_PATH to other hosts; srun passes it unless --export excludes it.", instead: "Install the library on every host, or pass LD_LIBRARY_PATH (mpirun -x LD_LIBRARY_PATH).", forms: []string{"error while loading shared libraries", ": libnccl.so*: cannot open shared object file", "ImportError: lib*cannot open shared object file", "OSError: *.so*cannot open shared object file"}},
	{role: cause, summary: "A header is missing", costs: "The compiler does not find MPI or NCCL.", instead: "nccl-tests: make MPI=1 MPI_HOME=… NCCL_HOME=… CUDA_HOME=…, each with its include and lib below.", forms: []string{"mpi.h: No such file or directory", "nccl.h: No such file or directory"}},
	{role: cause, summary: "A library is missing for the build", costs: "The linker does not find it.", instead: "Install its package for development, or name its place: nccl-tests make NCCL_HOME=… MPI_HOME=… CUDA_HOME=…, each with lib below.", forms: []string{"cannot find -lnccl", "cannot find -lmpi", "cannot find -lcudart"}},
	{role: cause, summary: "CUDA's compiler does not know the GPU", costs: "The toolkit is older than the GPU's architecture that the build asks for.", instead: "Install a newer CUDA toolkit, or leave that architecture out (NVCC_GENCODE, TORCH_CUDA_ARCH_LIST) if no GPU needs it.", forms: []string{"nvcc fatal*Unsupported gpu architecture", "invalid value for --gpu-architecture"}},
	{role: cause, summary: "The system's libraries are too old", costs: "The library was built for a newer C or C++ library than the one that is loaded: that of the system, or an older libstdc++ which comes first (conda, LD_LIBRARY_PATH).", instead: "Use a package or a container image that is built for this system. For GLIBCXX take the older libstdc++ out of LD_LIBRARY_PATH, or update it (conda install libstdcxx-ng).", forms: []string{"version `GLIBC_*not found", "version `GLIBCXX_*not found", "version `CXXABI_*not found"}},
	{role: harmless, summary: "There is no display", forms: []string{"Authorization required, but no authorization protocol specified"}},
	{role: symptom, vague: true, summary: "git may not log in", costs: "The server of the repository does not know this user's key: it is about a download, and not about the ranks.", instead: "Give this user a key there, or use https.", forms: []string{"git@*Permission denied (publickey", "git@*Host key verification failed"}},
	{role: cause, summary: "Login to a host failed", costs: "mpirun starts ranks over SSH, without a password.", instead: "Give the user a key on every host, and accept the hosts' keys once.", forms: []string{"Permission denied (publickey", "Host key verification failed"}},
	{role: cause, summary: "mpirun runs as root", costs: "Open MPI refuses to start ranks as root.", instead: "Use another user, or --allow-run-as-root.", forms: []string{"mpirun has detected an attempt to run as root", "prterun has detected an attempt to run as root"}},
	{role: cause, summary: "mpirun cannot start the program", costs: "A program or a directory is missing on a host, or may not be executed.", instead: "Write the full path of the program, and install it on every host at that path.", forms: []string{"mpirun was unable to", "prterun was unable to"}},
	{role: cause, summary: "Slurm's time limit was reached", costs: "Slurm ended the job.", instead: "Ask for more time (--time). If the job waited in a collective, the reason is earlier in the log.", forms: []string{"DUE TO TIME LIMIT"}},
	{role: symptom, vague: true, summary: "The job was cancelled", costs: "Somebody, or a program, ended the whole job with scancel: Slurm gives no reason of its own (no DUE TO).", instead: "sacct -j JOB -o JobID,State%40 names who it was (CANCELLED by UID). If the job hung before, its log ends where the ranks waited.", forms: []string{"*** JOB * CANCELLED AT * ***" /* src/slurmd/slurmstepd/req.c */}},
	{role: cause, summary: "Slurm's credential has expired", costs: "The host's clock differs from that of the host of srun or slurmctld, or the task was started too long after its credential was made.", instead: "Compare date on these hosts, and let chrony or NTP run on all of them. Then look whether munge and slurmd run.", forms: []string{"Job credential expired"}},
	{role: symptom, summary: "Slurm cannot start the tasks", costs: "slurmd could not start a task: a plugin of the step failed (PMIx of --mpi=pmix, pyxis with its container), or the program could not be executed.",
		instead: "Read slurmd's log on that host. If srun --mpi=pmi2 or --mpi=none starts it, Slurm's PMIx is the reason: the same libpmix must be on all hosts (srun --mpi=list).", forms: []string{"aborted before step completely launched", "srun: error: task*launch failed"}},
	{role: symptom, summary: "Slurm cannot start the tasks", costs: "srun and the slurmd of a host do not reach each other, or slurmd failed.", instead: "Look at sinfo and the log of slurmd on the hosts that the lines name, and open Slurm's ports (SlurmdPort, SrunPortRange) between the hosts.", forms: []string{"srun: error: Task launch*failed", "srun: error: Application launch failed", "srun: error: slurm_receive_msgs*failed"}},
	{role: effect, summary: "mpirun lost a host", costs: "Its helper on the host that the lines below name (Remote daemon) ended, or the TCP connection to it broke: the host or pod was restarted, evicted or out of memory, or the network failed.", instead: "Look at that host or pod first: its own output, dmesg and events.", forms: []string{"has lost communication with a remote daemon"}},
	{role: result, summary: "The launcher ended the job", costs: "A rank or a daemon ended.", instead: "Look for the first error above.", forms: []string{"Primary job  terminated normally", "MPI_ABORT was invoked", "mpirun noticed that process", "mpirun detected that one or more processes exited", "prterun noticed that process", "srun: error:*task", "srun: Job step aborted", "slurmstepd: error: *** STEP", "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "MPI_ERRORS_ARE_FATAL", "Local abort before MPI_INIT completed", "error waiting for completion", "on a NULL communicator", "prterun detected that one or more processes exited", "application called MPI_Abort", "exiting improperly"}},
}

// watchdogMeanings are lines of the thread that watches PyTorch's collectives. They come after the errors that this thread quotes.
var watchdogMeanings = []*meaning{
	{role: symptom, summary: "PyTorch failed a check of its own", costs: "A condition inside PyTorch's watchdog does not hold: a fault of this version. TraceUtils looks for ranks that went apart, if TORCH_NCCL_DESYNC_DEBUG (or NCCL_DESYNC_DEBUG) is set, and itself fails.", instead: "Remove that variable, and upgrade PyTorch. A timeout or an error of a collective may have come before it: look for the first one on all ranks.",
		forms: []string{"atchdog thread terminated with exception*INTERNAL ASSERT FAILED", "INTERNAL ASSERT FAILED*TraceUtils.h"}},
	{role: aftermath, summary: "PyTorch's watchdog itself hung", costs: "The thread that watches the collectives stood in a call of CUDA or NCCL for minutes: the GPU or its driver hangs, a collective waits for a rank that does not come, or another thread holds Python's lock (as while saving, compiling or ending).", instead: "py-spy dump --native on this process, and on the other ranks, shows where it stands; look into dmesg for Xid lines, and for earlier errors of any rank. If the work is only slow: TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC.",
		forms: []string{"atchdog got stuck for", "Heartbeat monitor timed out"}},
	{role: aftermath, summary: "PyTorch's watchdog stopped the job", costs: "A collective failed, or did not end in time because a rank did not take part in it (it failed, is late, or saves or evaluates alone) or the network stopped. The timeout is an effect, not the cause.", instead: slowest, more: waits,
		forms: []string{"Watchdog caught collective operation timeout", "atchdog thread terminated with exception", "detected by watchdog at work", "Some NCCL operations have failed or timed out", "we are taking the entire process down", "ast enqueued NCCL work", "last enqueued work: ", "HeartbeatMonitor", "heartBeatMonitor", "Observed flight recorder dump signal", "collective operation timeout:", "Terminating the process after attempting to dump debug info",
			"Stack trace of the failed collective", "First PG on this rank to signal dumping", "preparing to dump debug info", "Received a dump signal", "Received a timeout signal", "Timeout at NCCL work", "Exception raised from checkTimeout at", "Exception raised from ncclCommWatchdog at"}},
	// torch/distributed/flight_recorder (torchfrtrace): as print up to 2.4, as log later.
	{role: cause, summary: "Ranks did not come to a collective", costs: "The flight recorder compared what the ranks did: the missing ranks did not call this collective. They failed before it, are slower, or take another branch. The network is not the cause.",
		instead: "Look at the stacks that it shows, and at the logs of the missing ranks.", forms: []string{"Not all ranks joining collective"}},
	{role: cause, summary: "Ranks call different collectives", costs: "The flight recorder compared what the ranks did: at one place they call other collectives, or with other sizes or types, or some have finished what others have not begun.", instead: disagree, forms: []string{"Collective sequence number:*has errors", "Input/output mismatch in the collective sequence number"}},
	{role: aftermath, summary: "SGLang's watchdog stopped the server", costs: "A step of a scheduler did not end in time: a rank waits in a collective, or a kernel runs or compiles too long.", instead: "Read the stacks that the lines after it show of each rank: the one that stands elsewhere is the reason. If the first step compiles, raise --watchdog-timeout.",
		forms: []string{"atchdog timeout (self.watchdog_timeout="}},
	{role: aftermath, summary: "The communicator was aborted", costs: "The program gave up after an error or a timeout.", instead: "Look for an earlier error, on this rank and on the others.", forms: []string{"NCCL communicator was aborted", "ncclCommAbort"}},
}

const (
	askNCCL  = "Run again with NCCL_DEBUG=WARN (or INFO) on all ranks, and look for the first NCCL WARN line: it names the cause."
	oneByOne = "NCCL_NVLS_ENABLE=0, NCCL_CUMEM_ENABLE=0 and NCCL_P2P_DISABLE=1, one at a time, show which part it is."

	// Why calls of the system fail, the most frequent reason first.
	sharedFirst = "Most frequent are, among the GPUs of one host, a full /dev/shm (a container has 64 MiB), and between hosts an address that ranks do not reach (a firewall, or NCCL chose another interface) or a NIC that RDMA cannot use."
	fullShared  = "In a container df /dev/shm shows the first: docker --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with medium: Memory."
	otherHosts  = "Between hosts set NCCL_SOCKET_IFNAME to = followed by the interface that reaches all of them, open TCP between them, and give containers the host's network (--network=host); NCCL_IB_DISABLE=1 shows whether it is RDMA (then ulimit -l in the job, and the NIC's GIDs)."
)

// onWSL is the first version of NCCL that finds the GPUs on WSL 2 (release notes of 2.10.3).
var onWSL = env.Version{Major: 2, Minor: 10, Patch: 3}

// explainProxy says more of a proxy thread that could not connect, where the line is the only one of NCCL: PyTorch copies it without the
// reason, and mostly with NCCL's system error.
func explainProxy(l *logged, m string) (summary, costs, instead string) {
	if !strings.Contains(m, "operation=Connect") && (!strings.Contains(m, "Proxy Call to rank") || strings.Contains(m, "(Init)") || strings.Contains(m, "(Setup)")) || l.prefixed {
		return "", "", ""
	}
	if l.containers > 0 {
		return "", fmt.Sprintf("The proxy thread of a rank could not set up a connection for data to another rank. Line %d speaks of containers: each has a network of its own unless it is told otherwise, and announces an address there that other hosts do not reach.", l.containers),
			"Run containers on several hosts with --network=host, and set NCCL_SOCKET_IFNAME to = followed by the interface that reaches all hosts. Run again with NCCL_DEBUG=WARN, and look for the first line with NCCL WARN of every rank."
	}
	return "", "The proxy thread of a rank could not set up a connection for data to another rank. The reason stands in lines of NCCL that are not shown: over sockets mostly an interface that the others do not reach, over RDMA the NIC's GID or memlock.",
		"Run again with NCCL_DEBUG=WARN, and look for the first line with NCCL WARN of every rank. Until then: " + otherHosts
}

// explainPML says more where Open MPI's component for UCX leaves itself out.
func explainPML(l *logged, m string) (summary, costs, instead string) {
	if l.ucxTLS == "" && !strings.Contains(m, "PML ucx") || !strings.Contains(m, "PML ucx") && !strings.Contains(m, "in the pml framework") {
		return "", "", ""
	}
	costs = "Open MPI's pml ucx leaves itself out where UCX has none of the devices and transports that it wants (opal_common_ucx_devices: mlx*, opal_common_ucx_tls: rc_*, dc_*, …), or it is not built with UCX (ompi_info shows it)."
	if l.ucxTLS != "" {
		costs += fmt.Sprintf(" UCX_TLS = %s has none of them.", shorten(l.ucxTLS))
	}
	return "", costs, "For TCP and shared memory alone use --mca pml ob1 --mca btl tcp,self,vader, or add --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any. On hosts with RDMA let UCX_TLS name rc, or remove it."
}

// explainLoader says more of a connection that PyTorch's DataLoader had with its own processes.
func explainLoader(l *logged, _ string) (summary, costs, instead string) {
	if l.pinning == 0 {
		return "", "", ""
	}
	return "", fmt.Sprintf("Line %d is of PyTorch's DataLoader, which takes a batch from one of its own processes on this host: that process has ended. It is not the network.", l.pinning),
		"At the end of a program that left its loop early it is harmless. Otherwise a worker of the DataLoader died: see its own error, host memory (dmesg: OOM killer), /dev/shm, and try num_workers=0."
}

// explainRoute says more of RDMA CM's event for a path.
func explainRoute(_ *logged, m string) (summary, costs, instead string) {
	if !strings.Contains(m, "ROUTE_ERROR") && !strings.Contains(m, "resolve_route") {
		return "", "", ""
	}
	return "", "RDMA CM found an interface for the address, and no path to the peer. On InfiniBand the subnet manager gives the path: it did not answer in time (a large job asks it for very many), or has none. On RoCE the peer's address does not answer.",
		"On InfiniBand see that a subnet manager runs and answers (sminfo, saquery), and that the peer's address is that of its port. On RoCE check ping -I NIC."
}

// explainRendezvous says more where the text shows the program of each process.
func explainRendezvous(l *logged, _ string) (summary, costs, instead string) {
	if l.jaxPrograms < 2 || l.jaxCollective == 0 || l.jaxCollective >= l.jaxPrograms {
		return "", "", ""
	}
	return "", fmt.Sprintf("XLA waits for devices of another process. Of %d programs in the text, %d computes over all devices (psum, pmap …): the others never come.", l.jaxPrograms, l.jaxCollective), "Run the same program in all processes: each must call the same computations over all devices, in one order."
}

// explainSystem says more of a failed call of the system where the log shows whether the job has one host.
func explainSystem(l *logged, _ string) (summary, costs, instead string) {
	switch several := len(l.order) > 1; {
	case l.wsl && l.version.Known() && l.version.Before(onWSL):
		return "", fmt.Sprintf("The text speaks of WSL, where PCI devices have no place in /sys, and NCCL %s stops for that: it is mended from 2.10.3 on.", l.version), "Install a PyTorch with NCCL 2.10.3 or later (torch.cuda.nccl.version()). If it fails then, too: " + fullShared + " " + askNCCL
	case l.shortShm > 0:
		return "", fmt.Sprintf("Line %d says that /dev/shm is too small or full: NCCL makes its segments there. Segments of ranks that were killed stay there.", l.shortShm), fullShared + " Remove what ended ranks have left (rm /dev/shm/nccl-* while no job runs). " + askNCCL
	case l.topology() != "" && (l.nodes == 1 || l.asked == 1 || !several):
		return "", fmt.Sprintf("A call of the system or of a library failed on this rank. %s names a file of the machine's topology: one that is of another kind of machine, as the images of clouds set it for all of theirs, ends with this error. Otherwise it is mostly a full /dev/shm (a container has 64 MiB).", l.topology()), fmt.Sprintf("Try without %s. ", l.topology()) + fullShared + " " + askNCCL
	case l.bareShm > 0 && !several && max(l.asked, l.nodes) < 2:
		return "", fmt.Sprintf("docker run in line %d has neither --shm-size nor --ipc=host: /dev/shm has 64 MiB in the container, which NCCL's segments for several GPUs of one host fill.", l.bareShm), "Add --ipc=host or --shm-size=8g, and --ulimit memlock=-1. " + askNCCL
	case l.containers > 0 && l.nodes != 1:
		return "", fmt.Sprintf("Line %d speaks of containers: each has a network of its own unless it is told otherwise, and announces an address there (172.17.…) that containers on other hosts do not reach. On one host it is mostly a full /dev/shm (64 MiB in a container).", l.containers), "Run containers on several hosts with --network=host, and set NCCL_SOCKET_IFNAME to = followed by the interface that reaches all hosts. " + fullShared + " " + askNCCL
	case l.nodes == 1 || l.asked == 1 && !several:
		return "", "A call of the system or of a library failed on this rank. On one host that is mostly a full /dev/shm (a container has 64 MiB), an interface without an address (NCCL_SOCKET_IFNAME), or a limit of open files or memory.", fullShared + " " + askNCCL
	case several || max(l.asked, l.nodes) > 1:
		return "", "A call of the system or of a library failed on this rank. Between hosts that is mostly an address that ranks do not reach (a firewall, or NCCL chose another interface), or a NIC that RDMA cannot use; in a container also a full /dev/shm." + l.mpiAlone(), otherHosts + " " + fullShared + " " + askNCCL
	}
	return "", "", ""
}

// topology returns the variable that gives NCCL a file of the machine's topology or of its rings; "" if none is set.
func (l *logged) topology() string {
	for _, name := range []string{"NCCL_GRAPH_FILE", "NCCL_TOPO_FILE"} {
		if _, set := find(l.settings, name); set {
			return name
		}
	}
	return ""
}

// crashed says more of a crash where NCCL joins hosts by NVLink.
func crashed(l *logged, _ string) (summary, costs, instead string) {
	if l.joinedAt == 0 {
		return "", "", ""
	}
	return "", "", fmt.Sprintf("In line %d NCCL joins hosts by NVLink (MNNVL): see first whether NCCL_MNNVL_ENABLE=0 helps, then update NCCL and the driver with its IMEX and Fabric Manager. (healthMask 0xaa there is that of a healthy GPU.) Otherwise read the backtrace: libraries of different builds are a frequent reason.", l.joinedAt)
}

// unseen says more of a refusal where the log shows the interface that is asked for, and not that it was found.
func unseen(l *logged, _ string) (summary, costs, instead string) {
	set, ok := find(l.settings, "NCCL_SOCKET_IFNAME")
	if !ok || set.dynamic || len(l.order) == 0 || slices.ContainsFunc(l.order, func(name string) bool { return l.hosts[name].oob != "" }) {
		return "", "", ""
	}
	return "", fmt.Sprintf("The program or its settings ask for what NCCL does not allow. NCCL_SOCKET_IFNAME is %s (line %d), and no line says that NCCL found it (Bootstrap: Using): mostly this host, container or pod has no such interface, or it has no address. Two ranks on one GPU are refused, too.", shorten(set.value), set.line),
		"Name an interface that ip -br address lists where the rank runs, or remove the variable. " + oneGPU + " " + askNCCL
}

// mpiAlone is a sentence about an interface that is named to MPI and not to NCCL; "" if there is none.
func (l *logged) mpiAlone() string {
	if _, set := find(l.settings, "NCCL_SOCKET_IFNAME"); set || l.mpiAt == 0 {
		return ""
	}
	return fmt.Sprintf(" Line %d names %s to MPI alone: NCCL does not read that, and may choose another interface.", l.mpiAt, shorten(l.mpiOver))
}

// interfaceSet says more of a lost peer where the text sets NCCL's interface for several hosts.
func interfaceSet(l *logged, _ string) (summary, costs, instead string) {
	set, ok := find(l.settings, "NCCL_SOCKET_IFNAME")
	if !ok || set.dynamic || l.nodes == 1 {
		return "", "", ""
	}
	return "", "", fmt.Sprintf("%s If no rank ended by itself, compare the interface in line %d (%s) with ip -br addr on every host: it must be the one whose address is in the network by which the hosts know each other (the hostfile's, MASTER_ADDR's), and firewalls must let all TCP through there.", onePeer, set.line, shorten(set.value))
}

// codeMeanings are NCCL's error codes (src/nccl.h.in) in the words of ncclGetErrorString (src/init.cc) and of PyTorch, by number from 1.
var codeMeanings = []*meaning{
	{role: code, summary: "NCCL reports an error of CUDA", costs: "A call of CUDA failed on this rank. Sockets and verbs do not give this code. Most frequent are a driver or a build that does not fit the GPU, a GPU that the rank does not have (more processes than GPUs) or whose memory is full, and GPUs that cannot reach each other.",
		instead: "Compare nvidia-smi with torch.version.cuda and torch.cuda.get_arch_list(), and the processes of a host with its GPUs; nvidia-smi shows full memory, too. NCCL_P2P_DISABLE=1, NCCL_CUMEM_ENABLE=0 and NCCL_NVLS_ENABLE=0, one at a time, show whether it is the way between GPUs. " + askNCCL + " It has CUDA's own text.",
		forms:   []string{"ncclUnhandledCudaError", "unhan*led cuda error", "NcclError: Unhandled Cuda Error"}},
	{role: code, summary: "NCCL reports a system error", costs: "A call of the system or of a library failed on this rank. " + sharedFirst, more: explainSystem, instead: fullShared + " " + otherHosts + " " + askNCCL,
		forms: []string{"ncclSystemError", "unhan*led system error", "NcclError: System Error"}},
	{role: code, summary: "NCCL reports an internal error", costs: "NCCL met a state that it does not expect. Most frequent are an interface or address for bootstrap that is not there or not reached (before 2.24 with this code), a rank that ended or that has another version, plugin or NCCL_… variable, and GPUs and NICs of which a container or virtual machine shows a part alone (/sys, a topology file).",
		instead: "See that NCCL_SOCKET_IFNAME names an interface with an IPv4 address on every host (ip -br address), and that no other rank failed before. Compare NCCL's version, plugin and variables on all ranks. " + askNCCL,
		forms:   []string{"ncclInternalError", "Test NCCL failure*'internal error'", "internal error - please report this issue", "internal error, NCCL version", "NCCL Error 3", "failed: internal error", "NCCL_ERROR_INTERNAL_ERROR"}},
	{role: code, summary: "NCCL refuses an argument", costs: "The program passes a value that NCCL cannot use. The network is not the cause.", instead: askNCCL, forms: []string{"Reason=4:invalid argument", "ncclInvalidArgument", "invalid argument (run with", "invalid argument, NCCL version", "nccl*failed: invalid argument", "NCCL_ERROR_INVALID_ARGUMENT"}},
	{role: code, summary: "NCCL refuses how it is used", more: unseen, costs: "The program or its settings ask for what NCCL does not allow: two ranks on one GPU are the most frequent reason, others are a network or an interface that is not there.", instead: oneGPU + " " + askNCCL,
		forms: []string{"Reason=5:invalid usage", "ncclInvalidUsage", "Test NCCL failure*'invalid usage'", "invalid usage (run with", "invalid usage, NCCL version", "NCCL error*invalid usage", "NCCL Error 5", "nccl*failed: invalid usage", "NCCL_ERROR_INVALID_USAGE"}},
	{role: effect, vague: true, summary: "A remote rank failed", costs: "ncclRemoteError: another rank exited, or the network failed.", instead: onePeer, more: interfaceSet, forms: []string{"ncclRemoteError", "remote process exited or there was a network error"}},
}

// resultMeanings are what programs say at last.
var resultMeanings = []*meaning{
	{role: result, summary: "A rank ended with an error", costs: "Ray hands on the error of one of its workers.", instead: "Read the line that follows the stack, or the worker's own output: it names the error.", forms: []string{"RayTaskError", "because of an error raised in its creation task", "RaySystemError: "}},
	{role: result, summary: "NCCL ended with an error", costs: "NCCL returned an error code.", instead: askNCCL,
		forms: []string{"NCCL Error ", "NCCL error", "NCCL failure*:", "Test failure", "DistBackendError", "NCCL operation*failed"}},
}

// assertsResult is how pynccl of vLLM up to 0.4.1 ends when a function of NCCL fails: the code is in no line.
var assertsResult = &meaning{role: result, summary: "NCCL ended with an error", costs: "vLLM up to 0.4.1 asserts that each function of NCCL returns 0, and does not print what it returned.", instead: "Compare NCCL's version (vLLM is using nccl==…) and the interfaces on all hosts. " + askNCCL + " A newer vLLM prints the code."}

// barred is the end of the barrier of init_process_group: how many processes should come, and how many have come.
var barred = pattern{text: `world_size=(\d+), (?:worker_count|num_workers_joined)=(\d+)`}

// joined says more of a barrier to which more processes came than there should be.
func joined(_ *logged, m string) (summary, costs, instead string) {
	at := barred.re().FindStringSubmatch(m)
	if at == nil {
		return "", "", ""
	}
	size, err1 := strconv.Atoi(at[1])
	came, err2 := strconv.Atoi(at[2])
	switch {
	case err1 != nil || err2 != nil:
		return "", "", ""
	case came > size:
		return "More processes than WORLD_SIZE", fmt.Sprintf("%d processes came to a barrier for %d: the store has entries of an earlier start (a file of init_method=file://, a store that still runs), or the launcher starts more processes than WORLD_SIZE.", came, size),
			"Remove the store's file before each start, end processes that earlier starts have left, use another port, and let torchrun or the program, not both, start the processes."
	}
	return "", fmt.Sprintf("%d of %d processes came to the barrier of init_process_group in time: a rank is missing, failed, or makes its groups in another order.", came, size), ""
}

// meetingPlace is the address of a store to which a process cannot connect.
var meetingPlace = pattern{text: `connect to (?:[^(]{0,40}[(\[])?(?:::ffff:)?(\d+\.\d+\.\d+\.\d+)`}

// rendezvousFailed is what torchrun says at last.
var rendezvousFailed = &meaning{role: symptom, vague: true, summary: "The rendezvous failed", costs: "The store at the rendezvous address did not answer, or closed the connection: torchrun there has not started or has ended, another program listens at that port, or the hosts have different versions of PyTorch.",
	instead: rendezvous + " With c10d, only a torchrun listens that finds its own host's name or address in --rdzv-endpoint; --rdzv-conf is_host=1 there makes it do so. See which torchrun ended first, and install one version of PyTorch everywhere.", forms: []string{"RendezvousConnectionError"}}

// explainMeetingPlace says more of an address that other hosts cannot reach.
func explainMeetingPlace(l *logged, m string) (summary, costs, instead string) {
	if l.reports[reportOf{rendezvousFailed, rendezvousFailed.summary}] != nil { // by torchrun, which then says so
		costs, instead = rendezvousFailed.costs, rendezvousFailed.instead
	}
	at := meetingPlace.re().FindStringSubmatch(m)
	if at == nil {
		return "", costs, instead
	}
	switch a, err := netip.ParseAddr(at[1]); {
	case err != nil:
	case inDocker(a):
		return "", fmt.Sprintf("The store is said to be at %s, an address of Docker's default network: other hosts and their containers do not reach it.", a), "With several hosts run the containers with --network=host, and give the program the host's own address (MASTER_ADDR, VLLM_HOST_IP, ray start --node-ip-address)."
	case bridged(a):
		return "", fmt.Sprintf("The store is said to be at %s, which may be an address of a network that Docker made: other hosts do not reach it. Otherwise nothing listens there, or a firewall is between.", a), "If it is Docker's, give the program the host's own address, and run the containers with --network=host. " + rendezvous
	case a.Is4() && a.As4()[0] >= 224: // multicast, reserved, broadcast
		return "Not the address of a host", fmt.Sprintf("%s cannot be a host's address: it is a netmask, or of a range that no host has. MASTER_ADDR, or the name that it holds, gives it.", a), "Give MASTER_ADDR the address of rank 0's host (ip -br address there); on one host 127.0.0.1."
	case a.Is4() && a.As4()[0] == 0:
		return "A host's name is read as an address", fmt.Sprintf("No host has the address %s: the name of rank 0's host consists of digits alone, and such a name is read as a number, and so as an address.", a), "Give the host a name that begins with a letter (hostnamectl hostname NAME, docker run --hostname), or pass its address: torchrun --local-addr, --master_addr."
	case a.IsLoopback():
		return "", fmt.Sprintf("The store is said to be at %s, which is each host itself: other hosts than that of rank 0 find nothing there. On one host, rank 0's process has not begun, is busy, or has ended.", a), "On one host read the output of rank 0's process, and see that no proxy or earlier job takes the port. With several hosts give the address of rank 0's host: MASTER_ADDR, or --master_addr."
	}
	return "", costs, instead
}
