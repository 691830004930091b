package launch

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl"
)

// Kubeflow's operators make the pods of a job from one template: what differs between hosts is set by a script in the container,
// which knows its host by uname -n, because the pod is in the host's network.

// checkKubeflow refuses hosts that one template cannot describe.
func checkKubeflow(j Job) error {
	for _, h := range j.Hosts {
		if first := j.Hosts[0]; h.GPUs != first.GPUs {
			return fmt.Errorf("hosts %s and %s have %d and %d GPUs, but all pods of the job have one template: use -format kubernetes, or -host to choose hosts that are alike",
				first.Name, h.Name, first.GPUs, h.GPUs)
		}
	}
	return checkPods(j)
}

// jobName returns the name of the job. Names of pods and services are made from it (default-worker-15), and must begin with a
// letter (RFC 1035).
func (j Job) jobName() string {
	name := label(j.Fabric)
	if name[0] <= '9' {
		name = "job-" + name
	}
	return strings.Trim(name[:min(len(name), 63-len("-launcher-worker-9999"))], "-")
}

// rdma reports whether a host has RDMA.
func (j Job) rdma() bool { return slices.ContainsFunc(j.Hosts, func(h Host) bool { return h.RDMA }) }

// podTemplate renders the start of a template whose pods are each on another host of the fabric, and in its network.
func (s *script) podTemplate(in string, j Job) {
	line := func(format string, a ...any) { s.line(in+format, a...) }
	var nodes []string
	for _, h := range j.Hosts {
		nodes = append(nodes, yaml(h.node()))
	}
	line("metadata:")
	line("  labels: {fabricform: %s}", yaml(label(j.Fabric)))
	line("spec:")
	line("  affinity:")
	line("    nodeAffinity: # the hosts of the fabric")
	line("      requiredDuringSchedulingIgnoredDuringExecution:")
	line("        nodeSelectorTerms:")
	line("        - matchExpressions:")
	line("          - {key: %s, operator: In, values: [%s]}", nodeLabel, strings.Join(nodes, ", "))
	line("    podAntiAffinity: # one pod per host")
	line("      requiredDuringSchedulingIgnoredDuringExecution:")
	line("      - labelSelector: {matchLabels: {fabricform: %s}}", yaml(label(j.Fabric)))
	line("        topologyKey: %s", nodeLabel)
	line("  hostNetwork: true")
	line("  dnsPolicy: ClusterFirstWithHostNet # so that the names of the operator's services resolve")
}

// hostCommand returns the words that start COMMAND with what only this host's environment has.
func (j Job) hostCommand(rest []nccl.Env) []string {
	if w := j.wrapper(rest); w != "" {
		return []string{"sh", "-c", w, "sh", "COMMAND"}
	}
	return []string{"COMMAND"}
}

// pytorchJob renders a job for Kubeflow's training operator. The operator sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK and
// torchrun's PET_NNODES, PET_NODE_RANK, PET_NPROC_PER_NODE, PET_MASTER_ADDR and PET_MASTER_PORT (pytorch/envvar.go, v1.9.0).
func pytorchJob(j Job) []byte {
	var s script
	common, rest := j.split(func(h Host) nccl.Env { return slices.Concat(h.Env, h.torch()) })
	each := "auto"
	if j.Hosts[0].GPUs > 0 {
		each = fmt.Sprint(j.Hosts[0].GPUs)
	}
	s.line("# For Kubeflow's training operator. Replace IMAGE and COMMAND: \"torchrun\", \"train.py\", … The operator sets torchrun's ranks and master.")
	s.line("# The namespace's pod security level must be privileged. TCP port 23456 must be open between the hosts.")
	s.line("apiVersion: kubeflow.org/v1")
	s.line("kind: PyTorchJob")
	s.line("metadata:")
	s.line("  name: %s", yaml(j.jobName()))
	s.line("spec:")
	s.line("  nprocPerNode: %s", yaml(each))
	s.line("  pytorchReplicaSpecs:")
	s.line("    Master:")
	s.line("      replicas: 1")
	s.line("      restartPolicy: Never")
	s.line("      template: &pod")
	s.podTemplate("        ", j)
	// The operator's service, port and variables belong to the container of this name.
	s.containers("          ", container{name: "pytorch", command: j.hostCommand(rest), env: common, limits: j.Hosts[0].gpus(), shm: true}.privileged(j.rdma()))
	if workers := len(j.Hosts) - 1; workers > 0 {
		s.line("    Worker:")
		s.line("      replicas: %d", workers)
		s.line("      restartPolicy: Never")
		s.line("      template: *pod")
	}
	return s.Bytes()
}

// sshPort is the port of the workers' sshd: 22 is the host's own.
const sshPort = 2222

// mpiJob renders a job for Kubeflow's MPI operator. Its launcher starts the ranks over SSH, whose sessions have none of the
// container's environment: mpirun passes it. The launcher is not in a host's network: mpirun would take that host's worker for
// itself, because the worker's name resolves to the host's address, and start its ranks in the launcher, which has no GPUs. So
// mpirun gets no oob_tcp_if_include: the launcher has none of the hosts' networks.
func mpiJob(j Job) []byte {
	var s script
	common, rest := j.common()
	common, rest = splitSemicolons(common, rest)
	h := j.Hosts[0]
	networks := j.launchNetworks()
	if !j.managementNetwork().IsValid() { // the launcher logs in to the names of the workers, and the ranks meet where NCCL does
		networks = j.networks(func(h Host) netip.Prefix { return h.Socket4 })
	}
	run := []string{"sh", "-c", `exec mpirun ${LD_LIBRARY_PATH:+-x LD_LIBRARY_PATH} "$@"`, "mpirun", "--allow-run-as-root",
		"-np", fmt.Sprint(len(j.Hosts) * h.slots()), "--mca", "plm_rsh_args", fmt.Sprintf("-p %d -o ConnectionAttempts=10", sshPort)}
	for _, option := range openMPIOptions(networks) {
		run = append(run, strings.Fields(option)...)
	}
	run = append(run, "-x", "PATH")
	for _, v := range common {
		run = append(run, "-x", v.Name+"="+v.Value)
	}
	s.line("# For Kubeflow's MPI operator (v2beta1). Replace IMAGE and COMMAND: \"all_reduce_perf\", \"-b\", … IMAGE has Open MPI and sshd, as the operator's")
	s.line("# base images have. The namespace's pod security level must be privileged. TCP port %d and MPI's ports must be open between the hosts.", sshPort)
	for _, v := range common {
		s.line("%s", nccl.Comment(v.Name+": "+v.Reason))
	}
	s.line("apiVersion: kubeflow.org/v2beta1")
	s.line("kind: MPIJob")
	s.line("metadata:")
	s.line("  name: %s", yaml(j.jobName()))
	s.line("spec:")
	s.line("  slotsPerWorker: %d", h.slots())
	s.line("  launcherCreationPolicy: WaitForWorkersReady")
	s.line("  runPolicy: {cleanPodPolicy: Running, backoffLimit: 0} # by default, a failed job would start 6 more times")
	s.line("  mpiReplicaSpecs:")
	s.line("    Launcher:")
	s.line("      replicas: 1")
	s.line("      restartPolicy: Never")
	s.line("      template:")
	s.line("        spec:")
	s.containers("          ", container{name: "launcher", command: append(run, j.hostCommand(rest)...)})
	s.line("    Worker:")
	s.line("      replicas: %d", len(j.Hosts))
	s.line("      restartPolicy: Never")
	s.line("      template:")
	s.podTemplate("        ", j)
	s.containers("          ", container{name: "worker", command: []string{"/usr/sbin/sshd", "-De", "-p", fmt.Sprint(sshPort)}, limits: h.gpus(), shm: true}.privileged(j.rdma()))
	return s.Bytes()
}
