package explain

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// srun parses --export=ALL,NAME=VALUE, also in two words, where a comma ends a value. It reports whether there is one.
func (s *script) srun(words []word) (exports bool) {
	for i, w := range words {
		list, ok := strings.CutPrefix(w.text, "--export=")
		if w.text == "--export" && i+1 < len(words) {
			w, ok = words[i+1], true
			list = w.text
		}
		if !ok {
			continue
		}
		exports = true
		if first, _, _ := strings.Cut(list, ","); !slices.Contains(strings.Split(list, ","), "ALL") && first != "NONE" && first != "NIL" && !w.dynamic {
			s.say(w.line, env.Warning, "The tasks get these variables alone", fmt.Sprintf("--export=%s has no ALL.", shorten(list)), "Slurm passes nothing else on but its own variables: the tasks lack PATH, LD_LIBRARY_PATH, MASTER_ADDR and the NCCL_ variables of the script. In a container most of that comes from its image.", "Write --export=ALL,NAME=VALUE.")
		}
		last := ""
		for part := range strings.SplitSeq(list, ",") {
			v := word{text: part, line: w.line, dynamic: w.dynamic && strings.ContainsAny(part, "$`")}
			if s.set(v, "srun", true) {
				last = part
				continue
			}
			if last != "" && part != "ALL" && part != "NONE" {
				s.say(w.line, env.Error, "Comma inside an exported value", fmt.Sprintf("--export=%s: the comma ends %s.", shorten(list), shorten(last)), fmt.Sprintf("srun reads %q as another variable and cuts the list.", part), "Export the variable before srun, and use --export=ALL.")
			}
		}
	}
	return exports
}

// docker reads the variables of a docker run line.
func (s *script) docker(c command) {
	words := c.texts()
	if len(words) < 2 || words[1] != "run" {
		return
	}
	s.alone = s.alone || len(s.runs) > 0 // another container
	for i, w := range c.words {
		switch {
		case (w.text == "-e" || w.text == "--env") && i+1 < len(c.words):
			s.set(c.words[i+1], "docker run", false)
		case strings.HasPrefix(w.text, "--env="):
			s.set(word{text: strings.TrimPrefix(w.text, "--env="), line: w.line, dynamic: w.dynamic}, "docker run", false)
		}
	}
	s.runs = append(s.runs, c)
}

// singularity reports a job for GPUs in a container without GPUs.
func (s *script) singularity(c command) {
	words := c.texts()
	if len(words) < 3 || words[1] != "exec" && words[1] != "run" || s.seen[logLine] > 0 {
		return
	}
	gpus := slices.ContainsFunc(words, func(w string) bool { return w == "--nv" || w == "--nvccli" || w == "--rocm" }) ||
		slices.ContainsFunc(s.sets, func(v setting) bool {
			return strings.HasSuffix(v.name, "_NV") || strings.HasSuffix(v.name, "_NVCCLI") || strings.HasSuffix(v.name, "_ROCM")
		})
	if !gpus && slices.ContainsFunc(words, func(w string) bool { return slices.Contains(launchers, path.Base(w)) || isNCCLTest(path.Base(w)) }) {
		s.say(c.line(), env.Warning, "The container has no GPUs", fmt.Sprintf("%s %s without --nv gives the container neither the GPUs nor the driver's libraries.", words[0], words[1]), "Unless the site's singularity.conf says \"always use nv\", CUDA finds no GPU or no driver.", "Add --nv (AMD: --rocm), or set APPTAINER_NV=1 (SINGULARITY_NV=1).")
	}
}

// requested is a resource of a device plugin in a manifest, with its name.
var requested = pattern{text: `(?m)(?:^|[{,])\s*['"]?[a-z0-9.-]+/([\w.-]+)['"]?: *['"]?\d+`}

// sharedRDMA is the resource of a plugin for RDMA devices, with NVIDIA's default prefix, and a number.
var sharedRDMA = pattern{text: `(?m)^\s*['"]?rdma/[\w.-]+['"]?: *['"]?[1-9]`}

// onlyGPUs reports whether a manifest requests no devices but GPUs.
func onlyGPUs(text string) bool {
	return !slices.ContainsFunc(requested.re().FindAllStringSubmatch(text, -1), func(at []string) bool { return at[1] != "gpu" })
}

// lockedBytes is a limit of locked memory of less than 100 MB.
var lockedBytes = pattern{text: `--ulimit[= ]memlock=(\d{1,8})(?:[: ]|$)`}

// containers checks that containers for RDMA get what it needs. Whether a job is for RDMA, the variables say that it sets
// for it: a container for one host alone needs none of this.
// quotedBool is a boolean of a pod (k8s.io/api/core/v1: PodSpec, SecurityContext) that is written as a text.
var quotedBool = pattern{text: `(?m)^\s*(?:- )?(hostNetwork|hostIPC|hostPID|shareProcessNamespace|privileged|allowPrivilegeEscalation|runAsNonRoot): *["'](?:true|false)["']`}

// manifestAt returns the line where the first manifest begins: what notes say above it is not for its pods.
func manifestAt(text string, kind Kind) int {
	if at := strings.Index("\n"+text, "\napiVersion:"); at >= 0 && kind == Kubernetes {
		return 1 + strings.Count(text[:at], "\n")
	}
	return 0
}

func (s *script) containers(text string, kind Kind) {
	if at := quotedBool.re().FindStringSubmatchIndex(text); at != nil && kind == Kubernetes {
		s.say(1+strings.Count(text[:at[2]], "\n"), env.Error, "Text instead of a boolean", fmt.Sprintf("The value of %s is quoted.", text[at[2]:at[3]]), "Kubernetes accepts only true and false there, and rejects the manifest.", "Write it without quotes.")
	}
	if kind == Kubernetes {
		s.unexpanded(text)
	}
	disabled, from := false, manifestAt(text, kind)
	rdma := slices.ContainsFunc(s.sets, func(v setting) bool {
		if v.line < from {
			return false
		}
		disabled = disabled || v.name == "NCCL_IB_DISABLE" && env.ParseNumber(v.value).Value != 0
		return strings.HasPrefix(v.name, "NCCL_IB_") && v.name != "NCCL_IB_DISABLE" || v.name == "NCCL_NET" && v.value == "IB"
	})
	if kind == Kubernetes {
		s.slotsOfPods(text)
	}
	if kind == Kubernetes && !disabled {
		s.pods(text, rdma)
		rdma = rdma || sharedRDMA.re().MatchString(text)
	}
	if !rdma || disabled {
		return
	}
	for _, c := range s.runs {
		all := strings.Join(c.texts(), " ")
		if strings.Contains(all, "--privileged") {
			continue // it has all devices, and CAP_IPC_LOCK, which no limit applies to (ib_umem_get in the kernel's umem.c)
		}
		if at := lockedBytes.re().FindStringSubmatch(all); at != nil && !strings.Contains(all, "IPC_LOCK") {
			s.say(c.line(), env.Error, "memlock is limited", fmt.Sprintf("--ulimit memlock=%s is a number of bytes.", at[1]), "RDMA cannot register memory: Couldn't allocate MR.", "Write --ulimit memlock=-1:-1.")
		}
		if !strings.Contains(all, "memlock") && !strings.Contains(all, "IPC_LOCK") {
			s.say(c.line(), env.Warning, "memlock is limited", "Without --ulimit memlock=-1:-1, the container has the daemon's default limit, often 8 MiB or less.", "Unless that is unlimited, RDMA cannot register memory: Couldn't allocate MR.", "Add --ulimit memlock=-1:-1.")
		}
		if !strings.Contains(all, "/dev/infiniband") {
			s.say(c.line(), env.Error, "No RDMA devices in the container", "docker run without --device=/dev/infiniband gives the container no RDMA device.", "NCCL silently falls back to sockets.", "Add --device=/dev/infiniband.")
		}
	}
	if kind != Kubernetes && kind != Compose || strings.Contains(text, "privileged: true") {
		return
	}
	if launcher, worker := strings.Index(text, "Launcher:"), strings.LastIndex(text, "Worker:"); kind == Kubernetes && launcher >= 0 && worker > launcher && strings.Contains(text[launcher:worker], "IPC_LOCK") && !strings.Contains(text[worker:], "IPC_LOCK") && !strings.Contains(text[worker:], "memlock") {
		s.say(1+strings.Count(text[:worker], "\n"), env.Warning, "memlock is limited", "The launcher's container has IPC_LOCK, and the workers', which run the ranks, have it not.", "Unless the container runtime's own limit is unlimited, RDMA cannot register memory.", "Add securityContext: capabilities: add: [\"IPC_LOCK\"] to the workers' container.")
		return
	}
	devices, lock := strings.Contains(text, "/dev/infiniband"), strings.Contains(text, "IPC_LOCK") || strings.Contains(text, "memlock")
	switch {
	case kind == Compose && !devices:
		s.say(0, env.Error, "No RDMA devices in the container", "No service has /dev/infiniband in its devices.", "NCCL silently falls back to sockets.", `Add devices: ["/dev/infiniband"].`)
	case kind == Kubernetes && !devices && onlyGPUs(text):
		s.say(0, env.Error, "No RDMA devices in the container", "No container requests a resource of an RDMA device plugin, or is privileged.", "NCCL silently falls back to sockets.", "Request the resource of an RDMA device plugin, or make the container privileged.")
	case !lock:
		s.say(0, env.Warning, "memlock is limited", "The container has neither CAP_IPC_LOCK nor an unlimited memlock.", "Unless the container runtime's own limit is unlimited, RDMA cannot register memory.", map[Kind]string{Compose: "Add ulimits: memlock: -1.", Kubernetes: `Add securityContext: capabilities: add: ["IPC_LOCK"].`}[kind])
	}
}

// unexpanded reports a variable of a pod that is to be longer than it was: Kubernetes puts in $(NAME) of variables above it alone, and
// no variable of the image (k8s.io/api/core/v1: EnvVar). A value that is its own name alone is for envsubst.
func (s *script) unexpanded(text string) {
	name, number := "", 0
	for line := range strings.Lines(text) {
		number++
		if at := nameOf.re().FindStringSubmatch(strings.TrimRight(line, "\r\n")); at != nil {
			name = at[1]
			continue
		}
		if _, value, found := strings.Cut(line, "value:"); found && name != "" && (strings.Contains(value, ":$"+name) || strings.Contains(value, ":${"+name+"}") || strings.Contains(value, "$"+name+":") || strings.Contains(value, "${"+name+"}:")) {
			s.add(number, env.Finding{Severity: env.Error, Name: name, Summary: "Not expanded by Kubernetes", Wrong: fmt.Sprintf("The value of %s holds $%s, which stays as it is.", name, name), Costs: "The container gets these letters, and loses the value that its image has.", Instead: "Write the whole value, or set it in the container's command: sh -c 'export …'. Kubernetes puts in $(OTHER) of a variable that stands above it, and none of the image."})
		}
		name = ""
	}
}

// nameOf is the name of a variable of a pod.
var nameOf = pattern{text: `^\s*- name: *["']?([A-Z_][A-Z0-9_]*)["']? *$`}

var (
	// perPod are the processes that mpirun starts on each host, and gpusOfEach the GPUs that each of nccl-tests takes.
	perPod     = pattern{text: `mpirun\b[^#]*?\s(?:-N|-npernode|--npernode) +(\d{1,2})\b`}
	gpusOfEach = pattern{text: `_perf\b[^#\n]*?\s(?:-g|--ngpus)[ =](\d{1,2})\b`}
	// gpusOfPod is a pod's number of GPUs, whole or shared ones.
	gpusOfPod = pattern{text: `(?m)^\s*['"]?(?:nvidia\.com/gpu|amd\.com/gpu|volcano\.sh/(?:v?gpu-number))['"]?: *['"]?(\d{1,2})\b`}
)

// slotsOfPods compares the GPUs that the processes of a pod ask for with those that it has.
func (s *script) slotsOfPods(text string) {
	each, in := perPod.re().FindStringSubmatch(text), gpusOfEach.re().FindStringSubmatchIndex(text)
	all := gpusOfPod.re().FindAllStringSubmatch(text, maxFindings)
	if each == nil || in == nil || len(all) == 0 || slices.ContainsFunc(all, func(at []string) bool { return at[1] != all[0][1] }) {
		return
	}
	n, _ := strconv.Atoi(each[1])
	g, _ := strconv.Atoi(text[in[2]:in[3]])
	if has, _ := strconv.Atoi(all[0][1]); has > 0 && n*g > has {
		s.say(1+strings.Count(text[:in[2]], "\n"), env.Error, "More GPUs than a pod has", fmt.Sprintf("mpirun starts %d processes in each pod, and each asks for %d GPUs (-g), but a pod has %d.", n, g, has), "The test ends with invalid device ordinal.", fmt.Sprintf("Write -g 1 with -N %d.", has))
	}
}

// pods checks what pods with GPUs get of the network. rdma says that settings for RDMA are there, which containers checks.
func (s *script) pods(text string, rdma bool) {
	if strings.Contains(text, "privileged: true") {
		return
	}
	plugin := !onlyGPUs(text)
	if at := sharedRDMA.re().FindStringIndex(text); at != nil && strings.Contains(text, "containers:") && !givenNetwork.re().MatchString(text) {
		s.say(1+strings.Count(text[:at[0]+strings.Index(text[at[0]:], "rdma/")], "\n"), env.Warning, "The RDMA NIC's interface stays outside of the pod", "The pod requests an RDMA device that the host shares, and no network beside the cluster's own (annotation k8s.v1.cni.cncf.io/networks).", "On RoCE the device has no GID in the pod: connections fail. On InfiniBand too, RDMA CM (perftest -R, NVMe, UCX's rdmacm) finds no device for an address; NCCL needs none.", "Give the pod a network over that NIC by Multus (macvlan, ipvlan, IPoIB), or hostNetwork: true.")
	}
	at := hostPath.re().FindStringIndex(text)
	switch several := podsOfHosts.re().MatchString(text); {
	case at != nil && !plugin:
		s.say(1+strings.Count(text[:at[0]], "\n"), env.Error, "The container cannot open its RDMA devices", "A hostPath of /dev/infiniband shows the device files, but a container that is not privileged may not open them.", "NCCL silently falls back to sockets.", "Request the resource of an RDMA device plugin, without the hostPath, or make the container privileged.")
	case at != nil:
		s.say(1+strings.Count(text[:at[0]], "\n"), env.Warning, "All RDMA devices in the container", "A hostPath of /dev/infiniband shows the files of all devices, and the device plugin's resource allows the container some of them.", "Libraries find devices that they cannot open: some leave them out with a warning, and libfabric's EFA provider finds none at all.", "Remove the hostPath: the plugin mounts the container's own devices.")
	case several && !rdma && gpus.re().MatchString(text) && !plugin && !strings.Contains(text, "hostNetwork: true") && !strings.Contains(text, "k8s.v1.cni.cncf.io/networks"):
		s.say(0, env.Warning, "The pods have no RDMA device", "Pods of several hosts request GPUs, and no resource of a device plugin for RDMA.", "NCCL sends all data between pods over TCP, through the pod network: with fast GPUs that is the bottleneck.", "If the hosts have RDMA NICs, request the resource of their device plugin (and IPC_LOCK), or use hostNetwork and privileged.")
	}
}

var (
	hostPath = pattern{text: `path: *["']?/dev/infiniband`}
	// podsOfHosts is a resource of Kubernetes that starts pods on several hosts.
	podsOfHosts = pattern{text: `(?m)^kind: *(MPIJob|PyTorchJob|TrainJob|TFJob|RayJob|RayCluster|JobSet|LeaderWorkerSet|PaddleJob)\b`}
)

var (
	// givenNetwork are words of a compose file or a manifest whose containers have the host's interfaces, or others than eth0.
	givenNetwork = pattern{text: `network_mode: *["']?[^b\s"']|hostNetwork: *["']?[^f\s"']|interface_name:|cni\.cncf\.io|multus|networking\.gke\.io|resourceClaims|\{\{`}
	// ofHost is the name of a host's interface, which a network for containers does not give.
	ofHost = pattern{text: `^(en[opsx]\w*|ib[\dps]\w*|bond\d+)$`}
)

// ownNetwork reports containers and pods with a network of their own, in which several hosts or the host's interfaces are asked for.
func (s *script) ownNetwork(text string, kind Kind) {
	if kind != Compose && (kind != Kubernetes || !strings.Contains(text, "containers:")) || givenNetwork.re().MatchString(text) {
		return
	}
	cure := map[Kind]string{Compose: "Add network_mode: host to the service.", Kubernetes: "Name the pod's own interface (=eth0), or give the pod hostNetwork: true, or the NIC through Multus."}[kind]
	from := manifestAt(text, kind)
	for _, v := range s.sets {
		list := env.ParseList(v.value)
		if v.line < from || (v.name != "NCCL_SOCKET_IFNAME" && v.name != "GLOO_SOCKET_IFNAME") || v.dynamic || list.Exclude || len(list.Entries) == 0 || slices.ContainsFunc(list.Entries, func(e env.Entry) bool { return !ofHost.re().MatchString(e.Name) }) {
			continue
		}
		s.add(v.line, env.Finding{Severity: env.Error, Name: v.name, Summary: "Interface that the container does not have", Wrong: fmt.Sprintf("%s = %q is an interface of the host, and the container has a network of its own.", v.name, shorten(v.value)), Costs: "In the container there is eth0 alone: ranks fail with no socket interface found.", Instead: cure})
	}
	if kind == Compose && s.job.nodes > 1 {
		s.say(0, env.Error, "The container has a network of its own", fmt.Sprintf("The job has %d hosts, and no service has network_mode: host.", s.job.nodes), "Ranks announce addresses of Docker's bridge, which other hosts do not reach; ports: opens only single ports, and NCCL chooses its own.", cure)
	}
}
