package explain

import (
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/nccl/env"
)

// telling is what a sentence tells or asks of, and what is known about that.
type telling struct {
	says    *expression
	beside  *expression // what the rest of the text must have
	finding env.Finding
}

// tellings are for texts in which nothing else was found, except a code that has many reasons.
var tellings = sync.OnceValue(func() []telling {
	rdma := slowly().overRDMA
	return []telling{
		{compile(`(?i)\brendez-?vous\b[^.\n]{0,30}\btim(?:es|ed|e|ing)[ -]?out`), compile(`torchrun|torch\.distributed|rdzv`),
			env.Finding{Summary: "The rendezvous failed", Wrong: "The text tells of a rendezvous that times out.", Costs: "Nobody listens at the rendezvous address, or it is not reached. With c10d, only a torchrun listens that finds its own host's name or address in --rdzv-endpoint: a host with several NICs, or a pod whose hostname is short where the endpoint is a full name, does not take itself for it.",
				Instead: "Write the endpoint as rank 0's host knows itself (hostname, hostname -I), or start it there with --rdzv-conf is_host=1 and elsewhere with is_host=0. " + rendezvous}},
		{compile(`\b(?:ProcessGroup)?[Gg]loo\b[^\n]*\b(?:error|fail\w*|issue|problem|hang\w*)|\b(?:errors?|issues?|problems?|fail\w*|hangs?)\b[^.\n]*\b(?:ProcessGroup)?[Gg]loo\b`), compile(`(?i)\b(?:two|2|both|multiple|multi|each|several|separate)[- ](?:\w+ )?(?:nodes?|hosts?|machines?|servers?)|nnodes`),
			env.Finding{Summary: "Gloo between hosts", Wrong: "The text tells of a failure of Gloo, and of several hosts.", Costs: "Gloo, which programs use beside NCCL for data of the CPU, announces the address of the host's own name: 127.0.1.1 from /etc/hosts, or an address of a container's own network, which other hosts do not reach.",
				Instead: "Set GLOO_SOCKET_IFNAME on each host to its interface that reaches the others (ip -br address), and NCCL_SOCKET_IFNAME, too; run containers with --network=host, and open the hosts' TCP ports for each other."}},
		{compile(`(?i)\b(?:without|no|(?:are|is)n['’]t|(?:are|is|was|were) not|(?:do|does)n['’]t have|lacks?)\b(?: (?:an?|any|assigned|given|have|having))*\b[^.\n]{0,12}\bip(?:v4)? ?address(?:es)?\b`), rdma,
			env.Finding{Summary: "NIC without an address", Wrong: "The text tells of interfaces without an IP address.", Costs: "RoCE v2 between hosts uses the GID of an IPv4 address, which a NIC without one does not have: connections fail, or get a link-local GID. On InfiniBand no address is needed, except for the bootstrap's own interface.",
				Instead: "Give each NIC that NCCL is to use over RoCE an IPv4 address, in its own host or pod (NCCL_IB_HCA leaves the others out); show_gids lists what each has."}},
		{compile(`(?i)\bnics?\b[^.\n]{0,60}\b(?:single|same|one)\b[^.\n]{0,30}\bsubnet`), rdma,
			env.Finding{Summary: "Two NICs in one subnet", Wrong: "The text tells of several NICs in one subnet.", Costs: "If they are of one host: the kernel sends traffic to that network through one of them, whichever address a program is bound to, and answers for all (ARP flux). RDMA over the others fails or waits, unless each has a rule for its source address.",
				Instead: "Give each NIC of a host a subnet of its own, the same rail in the same subnet on all hosts; or rules for each source address with arp_ignore=1 and arp_announce=2, as a policy_route declares."}},
		{compile(`(?i)\b(?:PFC|flow[- ]control)\b[^.\n]{0,20}\b(?:(?:is|was|were|are) not|(?:is|was)n['’]t|not|missing|mis-?configured|disabled|off)\b|\b(?:no|without|missing) (?:PFC|flow[- ]control)\b`), rdma,
			env.Finding{Summary: "RoCE without flow control", Wrong: "The text tells of PFC or flow control that is not set up.", Costs: "Under load, packets are dropped, and each one costs RDMA a timeout or a repetition: the rate falls to a fraction, tests run into timeouts, and errors 12 follow.",
				Instead: "Set PFC (or pause frames) for the class of NCCL's packets on both NICs and on every switch port between them: trust in DSCP, the same priority everywhere (mlnx_qos -i NIC), and NCCL_IB_TC to match; ECN besides."}},
		{compile(`(?i)\bGID\b[^\n]{0,80}\b\d+\b[^.\n]{0,20}\bon (?:the |node |host )?\w+\W+and\b[^.\n]{0,10}\b\d+\b[^.\n]{0,20}\bon\b|\bGID[_ ]?ind(?:ex|exes|ices)\b[^.\n]{0,40}\b(?:differs?|(?:is|are) (?:not the same|different))\b`), rdma,
			env.Finding{Summary: "The GID index differs between hosts", Wrong: "The text tells of a GID whose index is not the same on all hosts.", Costs: "One NCCL_IB_GID_INDEX for all of them is wrong on some: a rank connects with a link-local GID, RoCE v1, or an address of another network, and fails.",
				Instead: "Remove NCCL_IB_GID_INDEX with NCCL 2.21 or later, which choose by address (NCCL_IB_ADDR_RANGE selects a network). Before, set it on each host to its own index of RoCE v2 with the NIC's IPv4 address (show_gids)."}},
		{compile(`(?i)\b(?:more|several|all|multiple|both|every|the) (?:the |of the |of my )?process(?:es)?\b[^.\n]{0,40}\b(?:on|us\w+|occup\w+)\b[^.\n]{0,10}\b(?:(?:one|the same|a single|the first) gpu|gpu ?0)\b|\bonly (?:the )?(?:first gpu|gpu ?0) (?:is|are|was|were) used`), compile(`(?i)nccl|\bddp\b|DistributedDataParallel|torchrun|torch\.distributed`),
			env.Finding{Summary: "All processes may use GPU 0", Wrong: "The text tells of several processes on one GPU.", Costs: "A process takes GPU 0 unless the program chooses another: NCCL refuses two ranks on one GPU (Duplicate GPU detected, invalid usage), or its memory does not suffice.",
				Instead: "Take the GPU from LOCAL_RANK before anything else of CUDA: torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])), and .to(\"cuda\") or device_ids=[LOCAL_RANK] after it."}},
		{compile("(?i)(?:(?:\\bnot|n['’]t) (?:expose|have|mount|map|pass|contain|include|see|find)\\w*|\\bwithout|\\bmissing|\\blacks?)(?: (?:a|any|the))*[ `]+/dev/infiniband"), compile(`(?i)docker|podman|container|\bpods?\b|kubernetes|enroot|singularity|apptainer`),
			env.Finding{Summary: "Container without RDMA devices", Wrong: "The text tells of a container without /dev/infiniband.", Costs: "NCCL finds no RDMA device in it, and uses TCP sockets without an error.",
				Instead: "Give it --device=/dev/infiniband (a pod: the resource of an RDMA device plugin), --ulimit memlock=-1 or IPC_LOCK, the host's network or the NIC's interface, and libibverbs with its providers in the image."}},
		{compile(`(?i)\bpods?\b(?:\W+(?:on|of|in|from|different|separate|two|both|all|the|nodes?|hosts?|have|has|had|get|gets|got|receive|are|were|is|assigned|given|with|share|use|using)){0,9}\W+same ip(?:v4)?\b|\bsame ip(?:v4)?(?: address(?:es)?)? (?:on|for|in) (?:(?:two|both|all|different|several|the) )*pods\b`), compile(`(?i)rdma|\broce\b|sr-?iov|macvlan|ipvlan|multus|network-attachment|host-local`),
			env.Finding{Summary: "Pods with one address", Wrong: "The text tells of pods that have the same IP address.", Costs: "host-local, the usual IPAM of a secondary network, counts on each node for itself: pods of different nodes get the same addresses, and their connections over RDMA reach nobody, or themselves.",
				Instead: "Use an IPAM that counts for the whole cluster (whereabouts, nv-ipam), or give each node a range of its own."}},
		{compile(`(?i)\bisolat(?:ion|ed?|ing)\b|\bstill see (?:all|the)\b`), compile(`(?i)rdma-?shared-?dev|rdma_shared_device`),
			env.Finding{Summary: "RDMA devices are not isolated", Wrong: "The text asks why a pod sees RDMA devices that it did not ask for.", Costs: "The shared device plugin gives a pod the device files. With RDMA's network namespaces shared, as they are by default, each container lists all devices of its host.",
				Instead: "For isolation set the node to rdma system set netns exclusive before the first pod, and hand devices over with SR-IOV and rdma-cni. Otherwise name the devices to NCCL: NCCL_IB_HCA with = in front."}},
		{compile(`(?i)\bwait(?:s|ing)? for ranks? that (?:never|do(?:es)? not|don['’]t|will not) (?:exist|start|come|join|appear)|\bworld[ _-]size\b[^.\n]{0,20}\b(?:larger|greater|bigger|higher) than\b[^.\n]{0,20}\bprocess`), compile(`init_process_group|(?i:nccl|torchrun|torch\.distributed)`),
			env.Finding{Summary: "More ranks are expected than start", Wrong: "The text tells of a number of ranks that is larger than that of the processes.", Costs: "init_process_group, and NCCL after it, wait for ranks that nobody starts, until the timeout.",
				Instead: "Let WORLD_SIZE be the number of processes that really start: in a step of Slurm SLURM_STEP_NUM_TASKS (SLURM_NTASKS of the batch script is that of the whole job), with torchrun what it sets itself."}},
	}
})

// differs is a sentence by which hosts have different MTUs.
var differs = pattern{text: `(?i)\bdifferent (?:(?:active|path|port|link) )?mtus?\b|\bmtus?\b[^.\n]{0,30}\b(?:mismatch\w*|differs?|differed|(?:are|is|were|was) (?:different|not the same)|mis-?configured)\b|\bmismatch\w*[^.\n]{0,20}\bmtus?\b`}

// mtuTold reports prose by which the MTU differs.
func (s *script) mtuTold(number int, line string) {
	if differs.re().MatchString(line) && s.rdmaTold && !anyOf(line, printers) && !strings.Contains(line, "?") {
		wrong := "The text tells of MTUs that differ."
		if tell := said(); tell.helps.MatchString(line) && !tell.helpsNot.MatchString(line) {
			wrong = "The text tells of MTUs that differed, and says that one MTU" + helps
		}
		s.add(number, env.Finding{Severity: env.Warning, Summary: "MTUs differ", Wrong: wrong, Costs: "RDMA takes its MTU from that of the interface. With different ones on two hosts packets are dropped on the way, or the smaller side refuses them; NCCL 2.20.3 and later do not even them out on the receiving side (NVIDIA/nccl#1524).",
			Instead: "Set one MTU on the NICs of all hosts (9000 gives RDMA 4096) and a larger one on the switches, and compare active_mtu of ibv_devinfo; `fabricform verify` sends full-size packets over each path. Mooncake takes one by MC_MTU on all hosts."})
	}
}

// asked reports what a text without a finding tells or asks of.
func (s *script) asked(text string, skip func(number int) bool) {
	if len(s.helped) > 0 || slices.ContainsFunc(s.out, func(f Finding) bool { return explains(f) && !strings.HasSuffix(f.Costs, unnamed) }) {
		return
	}
	all := tellings()
	fits := make([]func() bool, len(all))
	for i, t := range all {
		fits[i] = sync.OnceValue(func() bool { return t.beside.MatchString(text) })
	}
	number := 0
	for line := range strings.Lines(text) {
		if number++; skip(number) || anyOf(line, printers) || strings.HasPrefix(strings.TrimSpace(line), "#SBATCH") {
			continue
		}
		for i, t := range all {
			if t.says.MatchString(line) && fits[i]() {
				t.finding.Severity = env.Warning
				s.add(number, t.finding)
				return
			}
		}
	}
}
