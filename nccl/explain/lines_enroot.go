package explain

import "strings"

// explainContainerCLI says more of nvidia-container-cli by the library's words (libnvidia-container, nvc.c).
func explainContainerCLI(_ *logged, m string) (summary, costs, instead string) {
	switch {
	case strings.Contains(m, "version mismatch"):
		return "Driver and libraries do not match", "The loaded kernel module has another version than the driver's libraries on the host.", "Reboot after an update of the driver, or unload and load the module."
	case strings.Contains(m, "load library failed"):
		return "The driver's libraries are missing", "The host has no libnvidia-ml or libcuda of the driver where the container runtime looks for it.", "Install the driver's libraries on the host (nvidia-smi must work there). With snap's or rootless Docker, or Docker Desktop, the runtime may not see them: use the distribution's Docker."
	case strings.Contains(m, "driver not loaded"):
		return "The GPU's driver is not loaded", "The kernel module nvidia is not loaded on this host.", "Run nvidia-smi on the host, and read dmesg; after a new kernel, build the module for it (dkms) or reboot."
	case strings.Contains(m, "cuda error"):
		return "", "CUDA does not start on the host itself: a GPU failed or has fallen off the bus, power is short, or the driver is in a wrong state.", "Run nvidia-smi on the host, and read dmesg for NVRM and Xid lines. Reboot; if it comes back, have the GPU and its power checked."
	}
	return "", "", ""
}

// enrootMeanings are lines of pyxis (Slurm's plugin for containers), of enroot and of nvidia-container-cli below it, and of InfiniBand's
// tools.
var enrootMeanings = []*meaning{
	{role: cause, summary: "The image cannot run the program", costs: "The container's first program or shell is not in the image, may not be executed, or is for another processor.", instead: "Check its path in the image and the image's architecture. With pyxis try --no-container-entrypoint.",
		forms: []string{"enroot-switchroot: failed to execute", "enroot-nsenter: failed to execute"}},
	{role: cause, summary: "A path cannot be mounted in the container", costs: "A path of --container-mounts or of a hook does not exist on that host, or may not be mounted.", instead: "See that the path exists on every host of the job, and that its file system is mounted there.",
		forms: []string{"enroot-mount: failed to", "--container-mounts: source path does not exist"}},
	{role: cause, summary: "User namespaces are forbidden", costs: "The kernel's settings do not let users make namespaces, which enroot needs.", instead: "Raise user.max_user_namespaces, and on Debian and Ubuntu set kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0 (sysctl) on all hosts.",
		forms: []string{"failed to create user namespace"}},
	{role: cause, summary: "The image cannot be fetched", costs: "The registry refused: 401 and 403 are missing credentials, 404 is a wrong name, 429 is too many requests.", instead: "Write the name as nvcr.io#nvidia/pytorch:TAG, and put credentials in enroot's .credentials. A squashfs file that all hosts see spares the download.",
		forms: []string{"[ERROR] URL*returned error code:"}},
	{role: cause, summary: "There is no room for the image", costs: "enroot's directory or its cache is full.", instead: "Free it, or set ENROOT_DATA_PATH, ENROOT_CACHE_PATH and ENROOT_TEMP_PATH to a larger file system.", forms: []string{"Not enough space left in"}},
	{role: symptom, summary: "The image cannot be fetched", costs: "pyxis could not import it: name, credentials, network, or room for it.", instead: "The lines of enroot's log say which. Try enroot import on that host.", forms: []string{"pyxis: failed to import docker image", "pyxis: importer*failed with exit code", "pyxis: failed to create container filesystem"}},
	{role: cause, summary: "NVIDIA's driver does not start for containers", more: explainContainerCLI, costs: "nvidia-container-cli could not ask the driver for the GPUs: the driver is not loaded or failed on this host, before any container began.", instead: "Run nvidia-smi on the host, and read dmesg for NVRM and Xid lines. If it works there, update the NVIDIA container toolkit.", forms: []string{"nvidia-container-cli: initialization error"}},
	{role: cause, summary: "The container's GPU support failed", costs: "nvidia-container-cli could not read the image's files, or its ldconfig ended. Its version, the permissions of enroot's directories, or a file system without room or with other owners are frequent reasons.",
		instead: "Compare the version of libnvidia-container and enroot's directories with a host that works, and start the image by hand on the host that fails: enroot start.", forms: []string{"nvidia-container-cli: ldcache error", "nvidia-container-cli: container error: file"}},
	{role: symptom, summary: "A hook of enroot failed", costs: "enroot prepares the container with scripts in /etc/enroot/hooks.d: one of them ended with an error on this host.", instead: "Read the line before it, and compare that host with one that works.", forms: []string{"enroot/hooks.d/", "pyxis: *Segmentation fault"}},
	{role: cause, summary: "The container does not exist", costs: "--container-name names a container that is not on this host, or not in the state that its flag asks for.", instead: "Give --container-image, too. Containers with a name belong to one host, and may end with the job.", forms: []string{"pyxis: error: a container with name*does not exist", "flag was passed to --container-name but the container"}},
	{role: cause, summary: "An option of pyxis is wrong", costs: "pyxis does not understand it.", instead: "Correct it: srun --help lists pyxis' options.", forms: []string{"pyxis: --container-"}},
	{role: hint, summary: "pyxis ignores an option", costs: "Options for containers do nothing without --container-image or --container-name.", instead: "Give one of them in the same srun or sbatch.", forms: []string{"pyxis: ignoring --"}},
	{role: cause, summary: "Slurm does not load pyxis", costs: "srun does not know pyxis' options: the plugin is not in plugstack.conf of the host on which srun runs, or was built for another Slurm.",
		instead: "Install pyxis for this version of Slurm on all hosts, with a line in plugstack.conf, and restart slurmd: srun --help then lists --container-image.", forms: []string{"unrecognized option '--container-", "unrecognized option `--container-"}},
	{role: harmless, summary: "pyxis tells what it does", forms: []string{"log file:", "pyxis: importing docker image", "pyxis: imported docker image", "try using --no-container-entrypoint", "pyxis: printing contents"}},
	{role: result, summary: "The container could not be started", costs: "pyxis or enroot could not start it on this host, so that the job ended.", instead: "The lines of enroot's log around it name the reason. Try enroot create and enroot start on that host.",
		forms: []string{"pyxis: container start", "pyxis: container exited too soon", "pyxis: couldn't", "pyxis: failed to", "pyxis: child", "pyxis: a previous task terminated", "pyxis: container was not started", "spank_pyxis.so: task_init() failed", "Failed to invoke spank plugin stack"}},

	{role: cause, summary: "The umad device cannot be opened", costs: "InfiniBand's tools need /dev/infiniband/umad: ib_umad is not loaded, the container does not have it, only root may open it, or the port is Ethernet.", instead: "Load ib_umad, and run the tool as root on the host. On RoCE there is no subnet to ask.",
		forms: []string{"can't open UMAD port", "umad_open_port failed", "ailed to open umad port"}},
	{role: symptom, summary: "Ports do not answer InfiniBand's management", costs: "Management packets to a switch or a NIC get no answer: a link on the path is bad or restarting, the device hangs, or its queue for such packets is full.", instead: "ibnetdiscover and iblinkinfo show the link at the end of the path that the line names; check its cable and its errors (ibqueryerrors), and restart the device if it stays silent. If single lines come and go, ask less often.",
		forms: []string{"bad status 110", "_do_madrpc: recv failed", "_do_madrpc: send failed", "mad_rpc: _do_madrpc failed"}},
}
