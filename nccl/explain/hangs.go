package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/nccl/env"
)

const (
	// tryHost is what keeps ranks of one host that have begun a collective, the most frequent reason first.
	tryHost = "See first whether it runs with NCCL_P2P_DISABLE=1: if so, disable ACS and set the IOMMU to passthrough (iommu=pt), or update the driver. Otherwise " + stands
	stands  = "ncclras (NCCL 2.24 and later) lists ranks that lag behind, and py-spy dump on every rank shows whether one stands elsewhere: it failed, takes another branch, has fewer batches, or does alone what takes long (loading, saving, evaluating)."
	// tryHosts is the same for ranks of several hosts.
	tryHosts = "See first whether it runs with NCCL_IB_DISABLE=1: if so, measure between the NICs with ib_write_bw or `fabricform verify` (GIDs, MTU, PFC); NCCL_NET_GDR_LEVEL=LOC alone shows whether it is GPUDirect RDMA (ACS). Otherwise " + stands
	// trySockets is the same for ranks of several hosts that use TCP.
	trySockets = "See which interfaces NCCL uses (the line NET/Socket : Using), and set NCCL_SOCKET_IFNAME to = followed by the one that reaches all hosts. Then open all TCP ports between the hosts in firewalls, and compare the MTU of both ends and the path (ping -M do -s 8972 for 9000). If that changes nothing, " + stands
	// inDriver is for processes that stay in spite of a signal.
	inDriver = "The text says that the processes cannot be killed: then they stand in the driver, which waits for a GPU that no longer answers. Look into dmesg for Xid lines, PCIe errors and hung tasks, update the driver and the GPUs' firmware, and test single pairs of GPUs (p2pBandwidthLatencyTest). "
	// tryMeet is what keeps ranks that have not met.
	tryMeet = "See that all ranks have started, with one WORLD_SIZE and different ranks, and that none has ended: NCCL waits for the last. Then whether the hosts reach each other's address there (ip -br address; nc -vz ADDRESS PORT): no firewall, and NCCL_SOCKET_IFNAME set to = followed by the interface that reaches all of them."
)

// mendedHangs is a version of NCCL since which its release notes tell of few hangs that it mends.
var mendedHangs = env.Version{Major: 2, Minor: 18, Patch: 5}

// hanging says what to suspect if a job hangs whose log has no error: nothing else is in it then. Where the log ends tells.
func (l *logged) hanging() {
	waits := l.table > 0 && (l.ready || len(l.testers) > 1 || slices.Max(append(slices.Collect(maps.Values(l.testers)), 0)) > 1) // a test of several ranks has printed no row
	if l.moved || l.strangers > 0 || len(l.order) == 0 && !waits || slices.ContainsFunc(l.inOrder, func(r *report) bool { return r.of.role != harmless && r.of.role != remark }) {
		return
	}
	several := max(len(l.order), len(l.testers)) != 1 || len(l.order) == 1 && l.hosts[l.order[0]].remote
	say := func(line int, summary, wrong, costs, instead string) {
		if l.version.Known() && l.version.Before(mendedHangs) {
			instead += fmt.Sprintf(" NCCL %s is old: see whether a newer one hangs, too.", l.version)
		}
		bad := env.Note
		if l.stuck > 0 {
			bad = env.Warning
			if l.unkillable {
				instead = inDriver + instead
			}
			costs = fmt.Sprintf("Line %d tells of a hang. ", l.stuck) + costs
		} else {
			costs = "A running job looks the same. " + costs
			instead = "Only if it hangs: " + strings.ToLower(instead[:1]) + instead[1:]
		}
		l.say(line, bad, summary, wrong, costs, instead)
	}
	switch {
	case !several && l.direct > 0:
		say(l.direct, "Direct access between GPUs is not shown to work", "The GPUs connect directly (via P2P), and no later line shows that data went that way or that a communicator was destroyed.", "If it hangs here, mostly with the GPUs at 100 %, ACS, the IOMMU or the driver often keeps data from arriving.", tryHost)
	case several && l.remoteAt > 0 && l.overTCP():
		say(l.remoteAt, "The path between hosts is not shown to work", "Ranks connect to other hosts by TCP (via NET/Socket), and no later line shows that data went that way or that a communicator was destroyed.", "If it hangs here, data over one of the connections does not arrive: NCCL uses several interfaces (the number behind Socket/) of which one does not reach the other host, a firewall lets a part of the ports through, or large packets are lost because the MTU differs. Or a rank does not take part.", trySockets)
	case several && l.remoteAt > 0:
		say(l.remoteAt, "The path between hosts is not shown to work", "Ranks connect to other hosts (via NET), and no later line shows that data went that way or that a communicator was destroyed.", "If it hangs here, packets of RDMA are often lost on the way, GPUDirect RDMA does not arrive, or a rank does not take part.", tryHosts)
	case waits && (l.ready || len(l.order) == 0) && several:
		say(l.table, "The path between hosts is not shown to work", "The test has printed the heading of its table, and no row.", "If it hangs here, its ranks have met, and their first data do not arrive: packets of RDMA or TCP are lost on the way, GPUDirect RDMA does not work, or a rank does not take part.", tryHosts)
	case waits && (l.ready || len(l.order) == 0):
		say(l.table, "Direct access between GPUs is not shown to work", "The test has printed the heading of its table, and no row.", "If it hangs here, mostly with the GPUs at 100 %, ACS, the IOMMU or the driver often keeps data from arriving.", tryHost)
	case len(l.order) == 0:
	case !l.ready && l.hosts[l.order[0]].oob == "" && l.begun && (several || l.nodes > 1):
		say(l.hosts[l.order[0]].line, "NCCL's initialization is not shown to end", "A communicator begins here, and no line shows that one was complete.", "If it hangs here, a rank is mostly missing, or the ranks do not reach each other."+l.meetHere(), tryMeet)
	case !l.ready && l.hosts[l.order[0]].oob != "" && (l.nodes != 1 || l.stuck > 0 || l.begun):
		h := l.hosts[l.order[0]]
		say(h.line, "NCCL's initialization is not shown to end", fmt.Sprintf("%s meets the others over %s (%s), and no line shows a complete communicator.", speaker(l.order[0]), h.oob, h.address), "If it hangs here, a rank is mostly missing, or the ranks do not reach each other at such an address."+l.meetHere(), tryMeet)
	}
}

// meetHere says that each host meets at itself.
func (l *logged) meetHere() string {
	if l.loopAt == 0 {
		return ""
	}
	return fmt.Sprintf(" By line %d the ranks meet at localhost, which is right on one host alone: with several, each waits at itself, until the program is given the address of rank 0's host.", l.loopAt)
}

// overTCP reports whether all hosts of the log use sockets between them.
func (l *logged) overTCP() bool {
	return !slices.ContainsFunc(l.order, func(name string) bool {
		h := l.hosts[name]
		return h.network != "Socket" && h.network != fastSocket && (h.remote || h.network != "")
	})
}

// hangWords are expressions for what a text tells of a hang.
type hangWords struct {
	hangs     *expression // words for a job that neither goes on nor fails
	denies    *expression // words before them that deny it
	withRanks *expression // what a text has about programs with several ranks
	withHosts *expression // what a text has about several hosts
}

var hanging = sync.OnceValue(func() hangWords {
	return hangWords{
		hangs:     compile(`(?i)\b(?:hang(?:s|ing|ed)?|hung|stucks?|stall(?:s|ed|ing)?|freez(?:e|es|ing)|froze|frozen|deadlock\w*|(?:blocks?|waits?|waiting) forever|no (?:more |further |new )?(?:response|progress|output)|nothing happens|stops? (?:running|responding)|n['o]t (?:proceed|progress|respond|move))\b|卡住|卡死|卡在|一直等|不动`),
		denies:    compile(`(?i)(?:\b(?:not|never|without|no longer)|n['’]t|\b(?:can|could|may|might)(?: potentially)?(?: (?:cause|lead to|result in))?)(?: (?:get|be|to|any|a|the))*[ ]$`),
		withRanks: compile(`(?i)\bnccl|torchrun|\bdistributed|multi[- ]?gpus?\b|\bddp\b|\bgpus?\b|dist_train|tensor[-_ ]parallel|deepspeed|accelerate launch|mpirun|all_?reduce|nproc|多卡|双卡`),
		withHosts: compile(`(?i)multi[- _]?(?:nodes?|workers?|hosts?)|different (?:subnets?|networks?|regions?)|\bNAT\b|public ips?\b|multi[- ]servers?\b|large[- ]scale (?:\w+ )?(?:training|jobs?|clusters?)|(?:two|three|four|five|six|eight|sixteen|[2-9]|[1-9]\d+|several|multiple|different|both|other|these|across|all) (?:\w+ )?(?:nodes|machines|servers|hosts|pods)|\b(?:another|the other|second|remote) (?:node|machine|server|host|pod)\b|\b(?:two|three|four|2|3|4)[- ](?:node|machine|server|host)\b|--?hostfile|node[-_]rank|machine[-_]rank|num[-_]nodes["']?[:=] *[2-9]|more than (?:8|16|32|64) gpus|多机|多节点|跨主机|跨机|两台|(?:[2-9]|[1-9]\d+|[两二三四五六八])(?:机|台|个?节点)|[两二三四多]个?(?:节点|机器|服务器|主机)|双机`),
	}
})

// tells returns the first line of prose that tells of a hang; 0: none does. A line of NCCL may be quoted in it.
func tells(text string, skip func(number int) bool) int {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if skip(number) && (number > 1 || anyOf(line, []string{" -", "NCCL INFO ", "NCCL WARN "})) { // a title may begin with the name of a program
			before, _, quoted := strings.Cut(line, "NCCL INFO ")
			if line = before; !quoted || !strings.HasSuffix(strings.TrimRight(before, " "), "\"") && !strings.HasSuffix(before, "`") {
				continue
			}
		}
		if !anyOf(line, printers) && hangsIn(line) {
			return number
		}
	}
	return 0
}

// hangsIn reports whether a line tells of a hang, and does not deny it ("it does not hang").
func hangsIn(line string) bool {
	for _, at := range hanging().hangs.FindAllStringIndex(line, maxFirst) {
		if !hanging().denies.MatchString(line[:at[0]]) {
			return true
		}
	}
	return false
}

// stages are lines of programs after which ranks first meet, or first exchange data: a log that ends there is often that of a job that hangs.
var stages = []struct{ form, at, instead string }{
	// vLLM, SGLang, Lightning, DDP of PyTorch
	{"is using nccl==", "makes NCCL's communicator and its first collective", tryHost},
	{"Init nccl begin", "makes NCCL's communicator and its first collective", tryHost},
	{"All distributed processes registered", "has met the others, and begins with collectives", tryHost},
	{"Reducer buckets have been rebuilt", "has done its first step, and waits for the gradients of the others", tryHost},
	{"Init torch distributed begin", "waits for the other ranks", tryMeet},
	{"distributed_init_method=", "waits for the other ranks", tryMeet},
}

// lastLines is how many lines at the end of a log tell where it ends: people write a remark below it.
const lastLines = 3

// endsAt returns the place where the log of a program ends, by its last lines that say anything; 0: they are no stage.
func endsAt(text string) (line int, at, instead string) {
	text = strings.TrimRight(text, " \t\r\n")
	number, left := strings.Count(text, "\n")+1, lastLines
	for left > 0 && text != "" {
		begin := strings.LastIndexByte(text, '\n') + 1
		l := text[begin:]
		text = text[:max(0, begin-1)]
		for _, s := range stages {
			if strings.Contains(l, s.form) {
				return number, s.at, s.instead
			}
		}
		if number--; strings.Trim(l, "`.> \t\r") != "" {
			left--
		}
	}
	return 0, "", ""
}

// onlyTold reports a hang that a text tells of, if nothing in it shows an error. hosts is how many hosts a log shows; 0: unknown.
func (s *script) onlyTold(line, hosts int, text string) {
	if len(s.helped) > 0 || slices.ContainsFunc(s.out, func(f Finding) bool { return f.Severity == env.Error || slices.Contains(hangsToo, f.Summary) }) {
		return
	}
	if end, at, instead := endsAt(text); end > 0 {
		s.say(end, env.Warning, "The log ends where ranks begin to exchange data", "There the program "+at+".", "If it goes no further, it hangs: with several ranks on one host mostly because direct access between GPUs does not work, otherwise because a rank is missing or not reached.", instead)
		return
	}
	if line == 0 || !hanging().withRanks.MatchString(text) {
		return
	}
	tryFirst := ""
	if v, ok := find(s.sets, "NCCL_COLLNET_ENABLE"); ok && v.value == "1" {
		tryFirst += fmt.Sprintf("Line %d asks for collectives in the network's switches (CollNet, SHARP): see first whether it runs without it, and whether sharp_am runs, has resources left and serves these ports (SHARP_COLL_LOG_LEVEL=3). ", v.line)
	}
	if translated.re().MatchString(text) {
		tryFirst += "NCCL and Gloo announce the addresses of their own interfaces, and every rank connects to others: a translated address (NAT, a forwarded port, a cloud's public IP that no interface has) does not work for that. Join the hosts by a routed network or a VPN with an interface of its own (WireGuard), and name it in NCCL_SOCKET_IFNAME. "
	}
	if launchBlocking.re().MatchString(text) {
		tryFirst += "CUDA_LAUNCH_BLOCKING=1, which full_determinism sets, too, makes each call wait for its kernel: a rank then waits in one collective before it has called the one that the others wait in. See first whether it runs without. "
	}
	if oneHasRDMA.re().MatchString(text) {
		tryFirst += "Each host decides by itself whether it uses RDMA: where one does and another cannot, they never connect. Set NCCL_IB_DISABLE=1 on all hosts, or give all of them NICs for RDMA. "
	}
	if overlay.re().MatchString(text) {
		tryFirst += "In an overlay network of Docker a container has two interfaces: that of the overlay, and one (docker_gwbridge) that other hosts do not reach. NCCL may take the wrong one, and RDMA does not go through either: give the containers the host's network (--network=host), or name the overlay's interface in NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME. "
	}
	if slurm.re().MatchString(text) {
		tryFirst += "With Slurm, see that one task for each rank runs: the script that sbatch starts runs on the first host alone, and only srun in it starts a process for each task there (python without srun waits for ranks that nobody starts), with --ntasks-per-node equal to what the program expects (Lightning: devices=, and num_nodes= as in --nodes; torchrun: one task for each host). "
	}
	if name := virtual.re().FindString(text); name != "" {
		tryFirst += fmt.Sprintf("The text names %s: NCCL also takes such an interface of containers or virtual machines, and other hosts do not reach it (the line Bootstrap : Using shows which it took; NCCL_SOCKET_IFNAME=^docker,%s,lo leaves it out). ", name, strings.TrimRight(name, "0123456789"))
	}
	if strings.Contains(text, "mpirun") {
		tryFirst += "See first that mpirun runs a program of MPI alone on these hosts to its end: if not, MPI is the reason (--mca btl_tcp_if_include, UCX_NET_DEVICES). "
	}
	if s.job.nodes > 1 || s.fleet || hosts > 1 || s.job.nodes == 0 && hanging().withHosts.MatchString(text) {
		s.say(line, env.Warning, "The job hangs without an error", "The text tells of a hang of ranks on several hosts.", "Before the first step it is mostly that ranks are missing or do not reach each other; at or after it, the path of RDMA, or a rank that stands elsewhere.", tryFirst+tryMeet+" If all have met: "+strings.ToLower(tryHosts[:1])+tryHosts[1:])
		return
	}
	if unkillable.re().MatchString(text) {
		tryFirst += inDriver
	}
	why, try := "often direct access between GPUs does not work (ACS, the IOMMU, a virtual machine, the driver), or a rank stands elsewhere", tryHost
	if _, tried := find(append(s.tried, s.sets...), "NCCL_P2P_DISABLE"); tried {
		why, try = "a rank stands elsewhere, or data does not arrive through shared memory", "See that /dev/shm is large enough (df /dev/shm). "+stands
	}
	where := "The text tells of a hang, and of no second host."
	if s.job.nodes == 1 {
		where = "The text tells of a hang of ranks on one host."
	}
	s.say(line, env.Warning, "The job hangs without an error", where, "With the GPUs at 100 % they wait in a collective: "+why+". Without load, a rank has mostly not started or not met the others.", tryFirst+try+" If they have not met, see that all processes of the job have started, with one MASTER_PORT that no other job uses.")
}

// launchBlocking are words that make calls of CUDA wait for their kernels.
var launchBlocking = pattern{text: `\bfull_determinism\b|CUDA_LAUNCH_BLOCKING\W{1,4}1`}

// oneHasRDMA is a sentence about a host without RDMA.
var oneHasRDMA = pattern{text: `(?i)\b(?:node|host|participant|machine|server|pod|one)s?\b.{0,40}\b(?:no|without|not have|not support|n.t have|n.t support|lacks?)\b.{0,15}\b(?:IB|InfiniBand|RDMA|RoCE)\b|\bonly (?:one|some) (?:of the )?(?:nodes?|hosts?|machines?|servers?).{0,20}\b(?:IB|InfiniBand|RDMA|RoCE)\b`}

// timedOut is a sentence about a collective that ended by a timeout.
var timedOut = pattern{text: `(?i)\b(?:nccl|collectives?|watchdog)\b.{0,30}\btime[- ]?(?:d )?outs?\b|\b(?:nccl|collectives?)\b.{0,20}\btimed out\b|\btime-?outs?\b.{0,20}\b(?:nccl|collectives?)\b`}

// timeoutTold reports a timeout that prose tells of, if nothing else was found. epoch is the line that tells of the end of an epoch.
func (s *script) timeoutTold(text string, epoch int, skip func(number int) bool) {
	if len(s.helped) > 0 || slices.ContainsFunc(s.out, explains) {
		return
	}
	number := 0
	for line := range strings.Lines(text) {
		if number++; skip(number) || anyOf(line, printers) || !timedOut.re().MatchString(line) || strings.Contains(line, "NCCL_TIMEOUT") || strings.Contains(line, "_timeout") {
			continue
		}
		costs, instead := "A rank did not take part in a collective or failed, or the network stopped. The timeout is an effect, not the cause.", "Read the logs of all ranks: the first that has another error, or that none wrote, is the reason. "+slowest
		if strings.Contains(text, "sglang") {
			instead = "If ranks only load for longer than it lasts (10 minutes), raise --dist-timeout: TORCH_NCCL_… variables and --watchdog-timeout do not change it. Otherwise: " + strings.ToLower(instead[:1]) + instead[1:]
		}
		if saves.re().MatchString(line) {
			costs = "The line names a checkpoint: a rank reads, converts or writes it while the others already wait in a collective, and that takes longer than the timeout."
			instead = "Give the collectives around it a longer timeout: init_process_group(timeout=timedelta(hours=1)), or the framework's option for it. Let every rank read and write its own part (torch.distributed.checkpoint), or stage the files on fast storage first."
		} else if epoch > 0 {
			costs = fmt.Sprintf("Line %d names the end of an epoch, an evaluation, or data that differ: there ranks most often differ, because one has fewer batches, or evaluates, saves or logs alone, and the others wait for it. The timeout is an effect, not the cause.", epoch)
			instead = "Give all ranks equally many batches (drop_last, DistributedSampler, join() of DDP), and call collectives on all of them also there. " + slowest
		}
		s.say(number, env.Warning, "A collective timed out", "The text tells of a timeout, and shows no line of it.", costs, instead)
		return
	}
}

// saves is prose about a checkpoint that is read or written.
var saves = pattern{text: `(?i)\b(?:load|read|sav|writ|convert)\w*\b.{0,30}\bcheckpoints?\b|\bcheckpoints?\b.{0,15}\b(?:load|sav|writ)\w*`}

// unkillable is a sentence that says that a process stays in spite of a signal.
var unkillable = pattern{text: `(?i)(?:ctrl ?[-+] ?c|kill(?: -9)?|sigkill|sigint)\b.{0,30}(?:n['’]t|\bnot|never|unable|fails?)\b|(?:n['’]t|cannot|not|never|unable to) (?:be )?kill|\bunkillable\b|(?:need|have|had) to (?:reboot|restart|power[- ]cycle) (?:the |my |our )?(?:server|machine|host|node|system|computer)`}

// overlay is what a text has about Docker's networks over several hosts.
var overlay = pattern{text: `(?i)\boverlay[- ]network|\bdocker[_ ]gwbridge\b|\bdocker (?:swarm|overlay)\b`}

// slurm is what a text has about Slurm.
var slurm = pattern{text: `(?i)\b(?:slurm|sbatch)\b`}

// translated is what a text has about addresses that no interface of the hosts has.
var translated = pattern{text: `\bNAT\b|(?i:port[- ]forward|over the internet|through the internet|public ip)`}

// virtual is the name of an interface of containers or virtual machines that NCCL does not leave out by itself.
var virtual = pattern{text: `\b(?:veth|virbr|cni|flannel\.|lxcbr|podman)\d*`}

// hangsToo are findings that already say why a job hangs.
var hangsToo = []string{"The rendezvous failed", "Direct access between GPUs is not shown to work", "The path between hosts is not shown to work", "NCCL's initialization is not shown to end", "Ranks did not all come", "Bootstrap over a local interface", "Ranks may meet at localhost", "Not all ranks call a collective", "Each process runs a test of its own", "The container has a network of its own", "The hosts do not meet", "Hosts meet at different places", "Ranks of vLLM hang", "Sparse GID table", "No suitable GID"}
