package explain

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// watchdog is what PyTorch's watchdog says of ranks that wait.
type watchdog struct {
	waits    map[string]string   // rank -> operation in which PyTorch's watchdog stopped it
	sizes    map[string]string   // rank -> elements of that operation
	progress map[string]progress // process group -> how far its ranks came
	differ   bool                // ranks wait in different operations
	sawFirst string              // rank whose timeout PyTorch's watchdog of another rank names
}

// field returns the word after a name in a line of NCCL's log.
func field(m, name string) string {
	_, rest, _ := strings.Cut(m, " "+name+" ")
	v, _, _ := strings.Cut(rest, " ")
	return v
}

// mtus maps the numbers of ibv_mtu (infiniband/verbs.h) to bytes.
var mtus = map[string]int{"1": 256, "2": 512, "3": 1024, "4": 2048, "5": 4096}

// connection parses "… mtu 5 … GID 3 (0/101A8C0FFFF0000) …": the index, and the two halves of the GID as a
// little-endian machine prints them.
func (l *logged) connection(number int, m string) {
	index := field(m, "GID")
	a := gidAddress(m)
	if index == "0" && (!a.IsValid() || a.IsLinkLocalUnicast()) {
		l.say(number, env.Error, "RoCE v1 or link-local GID", "NCCL connects with GID 0.", "It is the link-local address, on many cards with RoCE v1. Routers do not forward it, and few switches can prioritize it.", "Give the NIC an IPv4 address, and remove NCCL_IB_GID_INDEX with NCCL 2.21 or later.")
	} else if a.Is6() && a.IsLinkLocalUnicast() {
		l.say(number, env.Error, "RoCE v1 or link-local GID", fmt.Sprintf("NCCL connects with GID %s, which is %s.", index, a), "Routers do not forward link-local GIDs. The NIC has no address of the wanted family.", "Give the NIC an IPv4 address.")
	} else if n, err := strconv.Atoi(index); err == nil && n%2 == 0 && a.IsValid() {
		l.say(number, env.Note, "Possible RoCE v1 GID", fmt.Sprintf("NCCL connects with GID %s (%s). On NVIDIA's cards even indexes begin as RoCE v1, and are RoCE v2 where the table has changed since.", index, a), "Routers do not forward RoCE v1, and most switches cannot prioritize it.", "show_gids shows the version, as does `fabricform show`.")
	}
	if mtu := mtus[field(m, "mtu")]; mtu > 0 && mtu < 4096 {
		l.say(number, env.Warning, "Small RDMA MTU", fmt.Sprintf("The connection has an RDMA MTU of %d.", mtu), "The same data needs more packets and headers.", "Set mtu = 9000 on both ends and on the switches between them.")
	}
}

// gidAddress parses the two halves of a GID. It returns an invalid address if there are none.
func gidAddress(m string) netip.Addr {
	_, rest, _ := strings.Cut(m, " GID ")
	_, rest, _ = strings.Cut(rest, "(")
	halves, _, _ := strings.Cut(rest, ")")
	high, low, found := strings.Cut(halves, "/")
	a, err1 := strconv.ParseUint(high, 16, 64)
	b, err2 := strconv.ParseUint(low, 16, 64)
	if !found || err1 != nil || err2 != nil {
		return netip.Addr{}
	}
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], a)
	binary.LittleEndian.PutUint64(raw[8:], b)
	return netip.AddrFrom16(raw).Unmap()
}

// finish reports problems that only the whole log shows.
func (l *logged) finish() {
	l.differentVersions()
	for _, h := range l.hosts {
		l.noIB = l.noIB || h.noIB > 0
	}
	l.reading.settings(l.settings)
	l.nodes = max(l.nodes, min(2, len(l.testers)))
	if l.oneHost() || len(l.testers) == 1 && !slices.ContainsFunc(l.order, func(name string) bool { return l.hosts[name].several }) || slices.ContainsFunc(l.order, func(name string) bool { return l.hosts[name].oob == "lo" && l.hosts[name].complete }) {
		l.nodes = 1
	}
	if l.nodes == 0 && l.asked == 1 {
		l.nodes = 1
	}
	for _, name := range l.order {
		l.judge(name, l.hosts[name])
	}
	l.output()
	l.networks()
	l.plugins()
	l.waiting()
	l.behind()
	l.twice()
	l.onlyTrace()
	l.besideEFA()
	l.stillTrying()
	l.hanging()
	l.olderDriver()
	if summary, costs, instead := explainTestGID(l, ""); l.testing && len(l.inOrder) == 0 && summary != "" {
		l.say(l.testGID.line, env.Warning, summary, "A test of RDMA begins with this GID, and prints no result.", costs+" Packets from it do not leave its link, and not every peer answers them.", instead)
	}
	l.noLimit()
	l.thinLinks()
	l.errors()
}

// besideEFA reports errors of NCCL's own transport for RDMA in a text that speaks of EFA, which NCCL reaches by a plugin.
func (l *logged) besideEFA() {
	at := slices.IndexFunc(l.inOrder, func(r *report) bool {
		return strings.Contains(r.message, "NET/IB") && (r.of.role == cause || r.of.role == symptom) && !strings.Contains(r.message, "rdmap")
	})
	if l.plugged && at >= 0 {
		l.blamed = l.inOrder[at].line
		l.say(l.blamed, env.Error, "NCCL uses RDMA devices beside EFA", "The text speaks of EFA, and the error is one of NCCL's own transport (NET/IB).", "With EFA, NCCL reaches other hosts by the plugin aws-ofi-nccl (NET/OFI, AWS Libfabric). Other RDMA devices of such a machine, as the bridges of its NVSwitches, lead to no other host.",
			"See that the plugin loads (NCCL_DEBUG=INFO: NET/OFI; its directory in LD_LIBRARY_PATH, also in the container), and leave the other devices out, as by NCCL_IB_HCA=rdmap.")
	}
}

// thinLinks reports GPUs behind PCI links of 0.2 GB/s, which only virtual machines show.
func (l *logged) thinLinks() {
	if l.thinAt > 0 {
		l.say(l.thinAt, env.Warning, "The virtual machine hides the topology", "NCCL finds PCI links of 0.2 GB/s (PCI[0.2]): one lane of PCIe 1.", "No GPU is behind such a link. It is what the virtual ports of a virtual machine say, and NCCL believes them: "+flatTopology, realTopology)
	}
}

// differentVersions reports versions of NCCL that differ. A line without a host may be of another run, or of a second NCCL in one process.
func (l *logged) differentVersions() {
	if l.formsDiffer() {
		return
	}
	if len(l.versions) < 2 {
		return
	}
	shown := slices.SortedFunc(maps.Keys(l.versions), func(a, b string) int { return cmp.Compare(l.versions[a], l.versions[b]) })
	shows := fmt.Sprintf("The log shows %s (line %d) and %s (line %d).", shown[0], l.versions[shown[0]], shown[1], l.versions[shown[1]])
	known := slices.DeleteFunc(slices.Clone(l.order), func(name string) bool { return l.hosts[name].version == "" })
	for _, name := range known {
		if one, other := l.hosts[known[0]].version, l.hosts[name].version; one != other {
			l.say(l.versions[other], env.Error, "Hosts have different versions of NCCL", fmt.Sprintf("%s has %s, and %s has %s.", speaker(known[0]), one, speaker(name), other), "They cannot communicate reliably.", "Install one version everywhere.")
			return
		}
	}
	l.say(l.versions[shown[1]], env.Warning, "Different versions of NCCL", shows, "If they are of ranks of one job, these cannot communicate reliably. Two runs in one text, or a program that loads a second NCCL (vLLM beside PyTorch), are no fault.", "Compare the versions of all hosts, and install one everywhere.")
}

// formsDiffer reports hosts of which one has a line that only older versions of NCCL print, and another a line or a version of a later time.
func (l *logged) formsDiffer() bool {
	older, later := "", ""
	for _, name := range l.order {
		switch h := l.hosts[name]; {
		case name == "":
		case h.early != "":
			older = cmp.Or(older, name)
		case h.late:
			later = cmp.Or(later, name)
		}
	}
	if older == "" || later == "" {
		return false
	}
	l.say(l.hosts[older].line, env.Error, "Hosts have different versions of NCCL", fmt.Sprintf("A line of %s is of %s, and one of %s of NCCL 2.21 or later.", speaker(older), l.hosts[older].early, speaker(later)), "They cannot communicate reliably.", "Install one version everywhere, and see which libnccl each host loads (LD_LIBRARY_PATH, ldd).")
	return true
}

// systemFailed reports whether the log has NCCL's code for an error of the system, and no line that names the error.
func (l *logged) systemFailed() bool {
	return slices.ContainsFunc(l.inOrder, func(r *report) bool { return r.of == codeMeanings[1] }) && !slices.ContainsFunc(l.inOrder, func(r *report) bool { return r.of.role == cause || r.of.role == symptom })
}

// olderDriver takes a driver for an older CUDA than that of the software as a possible reason, if the log has an error of CUDA without
// CUDA's own words for it. Within one major version CUDA mostly runs on older drivers, but not code that the driver has to compile.
func (l *logged) olderDriver() {
	at := slices.IndexFunc(l.inOrder, func(r *report) bool { return r.of == codeMeanings[0] })
	if l.driver.version == 0 || l.software.version <= l.driver.version || at < 0 || slices.ContainsFunc(l.inOrder, func(r *report) bool { return r.of.role == cause || r.of.role == symptom && !r.of.vague }) {
		return
	}
	bad := env.Warning
	if l.software.version/100 > l.driver.version/100 {
		bad = env.Error
	}
	name := func(v int) string { return fmt.Sprintf("%d.%d", v/100, v%100) }
	l.say(l.software.line, bad, "The driver is older than the software's CUDA", fmt.Sprintf("The software was built with CUDA %s, and the driver supports CUDA %s (line %d).", name(l.software.version), name(l.driver.version), l.driver.line),
		"A driver for an older major version does not work. Within a major version, code fails that the driver has to compile (PTX), as for a GPU that is newer than the build.", driver)
}

// choosesGID is the first version of NCCL that chooses a GID (src/transport/net_ib.cc).
var choosesGID = env.Version{Major: 2, Minor: 21, Patch: 5}

// noModule is the finding of a host without a module for GPUDirect RDMA.
const noModule = "No module for GPUDirect RDMA"

// manyGPUs is as many GPUs of a host as mostly have more than one NIC.
const manyGPUs = 4

// onlyCode reports whether NCCL's system error is all that the log says of a failure.
func (l *logged) onlyCode() bool {
	found := false
	says := func(m *meaning) bool {
		found = found || m == codeMeanings[1]
		return m.role == cause || m.role == symptom || m.role == effect
	}
	return !slices.ContainsFunc(l.inOrder, func(r *report) bool { return says(r.of) }) && !slices.ContainsFunc(l.foreign, func(f foreignLine) bool { return says(f.of) }) && found
}

func (l *logged) judge(name string, h *hostLog) {
	if l.disableAt > 0 && strings.HasPrefix(h.network, ibPlugin) {
		l.say(l.disableAt, env.Warning, "The plugin does not read NCCL_IB_DISABLE", fmt.Sprintf("%s uses the network %s: that is a plugin (nccl-rdma-sharp-plugins of HPC-X), and NCCL_IB_DISABLE is for the transport of NCCL itself.", speaker(name), h.network), "RDMA stays in use.", "To do without RDMA set NCCL_IBEXT_DISABLE=1 beside NCCL_IB_DISABLE=1, or NCCL_NET=Socket. NCCL_NET_PLUGIN=none (NCCL 2.11 or later) leaves the plugin out.")
	}
	l.sockets(name, h)
	switch bootstrap := h.local == h.oob; {
	case h.local == "" || l.nodes == 1:
	case !bootstrap && l.dialled[h.localIP] > 0:
		l.blamed = h.localAt
		l.say(h.localAt, env.Error, "Local interfaces among NCCL's", fmt.Sprintf("NCCL also uses %s, which is local to this machine or belongs to a container network, and a rank connects to its address (line %d).", h.local, l.dialled[h.localIP]), "Other hosts do not reach it.", h.otherInterface())
	case !bootstrap && l.onlyCode() && (len(l.order) > 1 || max(l.nodes, l.asked) > 1 || l.startsOf > len(l.starts)):
		l.blamed = h.localAt
		l.say(h.localAt, env.Error, "Local interfaces among NCCL's", fmt.Sprintf("NCCL also uses %s, which is local to this machine or belongs to a container network, and a rank failed with a system error.", h.local), "Other hosts do not reach it. No known line names another cause.", h.otherInterface())
	case !bootstrap:
		l.say(h.localAt, env.Warning, "Local interfaces among NCCL's", fmt.Sprintf("NCCL also uses %s, which is local to this machine or belongs to a container network.", h.local), "Sockets to other hosts over it fail or take a detour.", h.otherInterface())
	default:
		bad, costs := env.Error, "Ranks on other hosts cannot connect, or all traffic crosses that bridge."
		if l.nodes == 0 && l.asked == 0 && len(l.order) == 1 && len(l.dialled) == 0 && (l.fabric == nil || len(l.fabric.Hosts) < 2) { // nothing shows a second host
			bad, costs = env.Warning, "On one host that works. With several, "+strings.ToLower(costs[:1])+costs[1:]
		}
		l.say(h.localAt, bad, "Bootstrap over a local interface", fmt.Sprintf("NCCL chose %s, which is local to this machine or belongs to a container bridge.", h.local), costs, h.otherInterface())
	}
	if a := h.address; (inDocker(a) || bridged(a) && containerID.re().MatchString(name)) && strings.HasPrefix(h.oob, "eth") && l.nodes != 1 {
		l.say(h.line, env.Warning, "Bootstrap over Docker's own network", fmt.Sprintf("%s uses %s, an address of a network that Docker made.", speaker(name), a), "Ranks on other hosts cannot connect to it, and wait or fail. On one host it is right.", "With several hosts run the containers with --network=host.")
	}
	if h.ownMade != "" {
		l.say(h.ownMadeAt, env.Error, "Bootstrap over a self-made address", fmt.Sprintf("%s uses %s, an address of 169.254.0.0/16 that the host gave itself (avahi-autoipd).", speaker(name), h.ownMade), "It is valid on its own link alone, and goes away when the interface gets another address: ranks cannot connect.", h.addressed())
	}
	if _, named := find(l.settings, "NCCL_SOCKET_IFNAME"); h.spread > 0 && !named && h.local == "" && h.aside == "" && l.systemFailed() {
		l.say(h.spread, env.Error, "Data go over several interfaces", fmt.Sprintf("%s sends over more than one interface by TCP (NET/Socket/1 and so on), and a call of the system failed.", speaker(name)), "NCCL takes all interfaces that are up, without asking whether the other hosts reach them: one that leads nowhere makes connections fail.", h.otherInterface())
	}
	if h.mixed > 0 {
		l.say(h.mixed, env.Warning, "InfiniBand and RoCE are mixed", fmt.Sprintf("%s uses ports of both kinds.", speaker(name)), "NCCL may connect a port of one kind with one of the other, or send data through the management network: it hangs or fails.", onelink)
	}
	if _, pinned := find(l.settings, "NCCL_IB_GID_INDEX"); h.roce && !pinned && !l.routedGID && (l.version.Before(choosesGID) || !l.version.Known()) && (l.version.Known() || h.early != "") {
		which := h.early
		if l.version.Known() {
			which = "NCCL " + l.version.String()
		}
		l.say(max(l.versions[l.version.String()], h.line), env.Warning, noChoice, which+" uses GID index 0 unless NCCL_IB_GID_INDEX is set.", "On RoCE that is a link-local address, on many cards with RoCE v1.", "Upgrade to 2.21.5 or later (2.26.2 where show_gids skips indexes, as in a container), or pin an index and check it on every device.")
	}
	if h.fe80 != "" && l.nodes != 1 {
		l.say(h.fe80At, env.Error, "Link-local address for bootstrap", fmt.Sprintf("%s uses %s, which has only a link-local IPv6 address.", speaker(name), h.fe80), "Hosts outside that link cannot connect.", h.addressed())
	}
	if h.aside != "" && h.local == "" && l.nodes != 1 && (len(l.order) > 1 || l.asked > 1) && (h.network == "Socket" || h.network == "") {
		l.say(h.asideAt, env.Warning, "Link-local interfaces among NCCL's", fmt.Sprintf("%s also uses %s for sockets, which has only a link-local IPv6 address.", speaker(name), h.aside), "NCCL sends data over all of its interfaces: ranks on other hosts cannot connect to such an address, and wait or fail.", h.otherInterface())
	}
	if h.channels == 0 {
		h.channels = h.disabled
	}
	if h.gdr == 0 && h.channels > 0 {
		bad, cure := env.Warning, l.peermem()
		if h.direct { // the drivers are there
			bad, cure = env.Note, "The NICs support it: check with `nvidia-smi topo -m` that GPU and NIC are near each other."
		}
		l.say(h.channels, bad, "No GPUDirect RDMA", fmt.Sprintf("%s uses IB without GPUDirect RDMA.", speaker(name)), "Data goes through the host's memory, which can halve the speed of fast NICs. GPUs that share memory with the processor, such as GB10, do not support GPUDirect RDMA.", cure)
	}
	if h.gdr > 0 && h.channels > 0 {
		l.say(h.channels, env.Note, "GPUDirect RDMA on some channels alone", fmt.Sprintf("%s uses IB without GPUDirect RDMA on some channels, and with it on others.", speaker(name)), "Data of those channels goes through the host's memory. NCCL does so where GPU and NIC are farther apart than NCCL_NET_GDR_LEVEL, and on hosts without a module for it.", "If the channels are of different hosts, load nvidia_peermem on the other host, too. On one host see nvidia-smi topo -m: PHB and SYS are too far by default.")
	}
	if h.gdr == 0 && h.channels == 0 && !h.direct && l.noPeermemAt > 0 && l.peermemAt == 0 && len(h.devices) > 0 {
		l.say(l.noPeermemAt, env.Note, noModule, fmt.Sprintf("lsmod shows neither nvidia_peermem nor nv_peer_mem, and %s uses RDMA.", speaker(name)), "RDMA works without them: NCCL then copies data through the host's memory, which can halve the speed of fast NICs, unless the open driver offers dma-buf. A channel with GPUDirect RDMA ends with GDRDMA in the log.", l.peermem())
	}
	if gpus := l.testers[name]; l.tested > 0 && l.nodes > 1 && len(h.devices) == 1 && gpus >= manyGPUs {
		l.say(h.line, env.Note, oneForAll, fmt.Sprintf("%s has %d ranks, and uses one RDMA device.", speaker(name), gpus), "The bus bandwidth between hosts is at most the speed of that NIC (200 Gb/s are 25 GB/s), however many GPUs there are.", "If the host has more NICs, see why NCCL leaves them out: ibv_devinfo (active ports), NCCL_IB_HCA, and the devices that the container has.")
	}
	for _, device := range slices.Sorted(maps.Keys(h.devices)) {
		if rest, ok := strings.CutPrefix(device, "rocep1s0f"); ok && !h.devices["roceP2p1s0f"+rest] {
			l.say(h.line, env.Warning, "Half of a port", fmt.Sprintf("%s uses %s, but not roceP2p1s0f%s, the other half of that port.", speaker(name), device, rest), "A job gets half of the port's speed.", "Give the other half an address, and name both halves in NCCL_IB_HCA.")
		}
	}
	if l.fabric != nil {
		l.hostAgainst(name, h)
	}
}

// networks reports hosts whose bootstrap addresses look like ones of different networks.
func (l *logged) networks() {
	first := ""
	for _, name := range l.order {
		h := l.hosts[name]
		if !h.address.Is4() || h.address.IsLoopback() {
			continue
		}
		if first == "" {
			first = name
		}
		a := l.hosts[first]
		if near, err := a.address.Prefix(24); err == nil && !near.Contains(h.address) {
			l.say(h.line, env.Note, "Bootstrap in different networks", fmt.Sprintf("%s has %s on %s, and %s has %s on %s.", speaker(first), a.address, a.oob, speaker(name), h.address, h.oob), "Unless their network is larger than /24, these must be routed.", "If ranks do not connect: "+bootstrapAt)
			return
		}
	}
}

// plugins reports hosts with a plugin for the network beside hosts without one.
func (l *logged) plugins() {
	with, without := "", ""
	for _, name := range l.order {
		switch h := l.hosts[name]; {
		case name == "":
			return
		case h.plugin != "" && with == "":
			with = name
		case h.plugin == "" && h.internal > 0 && without == "":
			without = name
		}
	}
	if with != "" && without != "" {
		l.say(l.hosts[without].internal, env.Error, "Hosts use different network plugins", fmt.Sprintf("%s uses %s, and %s the network of NCCL itself.", speaker(with), shorten(l.hosts[with].plugin), speaker(without)), "The two do not understand each other: ranks hang, or fail to connect.", "Give all hosts the same software and LD_LIBRARY_PATH, or set NCCL_NET_PLUGIN=none on all of them to use NCCL's own.")
	}
}

// sockets reports TCP instead of RDMA. Ranks of one host alone need no network: for them it matters only
// that a device which NCCL_IB_HCA names is not there.
func (l *logged) sockets(name string, h *hostLog) {
	disable, asked := find(l.settings, "NCCL_IB_DISABLE")
	asked = asked && env.ParseNumber(disable.value).Value != 0
	net, named := find(l.settings, "NCCL_NET")
	asked = asked || named && strings.EqualFold(net.value, "Socket")
	_, selected := find(l.settings, "NCCL_IB_HCA")
	if h.warnsAt > 0 && l.nodes == 1 && !selected {
		l.say(h.warnsAt, env.Note, "NCCL warns of libibverbs", "NCCL before 2.11 warns when it finds no libibverbs.", "That library is for RDMA between hosts. The GPUs of one host do without it.", "Ignore it on one host. For RDMA with several install libibverbs1 and ibverbs-providers (rdma-core) in the image, and give the container /dev/infiniband.")
	}
	if asked || l.nodes == 1 && !selected || l.fabric != nil && l.fabric.NCCL.Transport == "socket" {
		return
	}
	bad := env.Warning
	if l.fabric != nil {
		bad = env.Error // the fabric has NICs for it
	}
	if l.plugged && h.plugin == "" && h.internal > 0 && (h.noIB > 0 || h.network == "Socket") {
		l.say(h.internal, env.Warning, "The network plugin is not found", "The text speaks of EFA or another network that NCCL reaches by a plugin (libnccl-net.so), and the loader found none.", "NCCL uses TCP sockets.", "Give the job the plugin's directory in LD_LIBRARY_PATH, in the container, too: on AWS /opt/amazon/ofi-nccl/lib (earlier installers: /opt/aws-ofi-nccl/lib) and /opt/amazon/efa/lib. The log then says NET/OFI.")
		return
	}
	if h.noIB > 0 {
		then := "It falls back to sockets without a warning."
		if at := slices.IndexFunc(l.inOrder, func(r *report) bool { return r.summary == noNetwork }); at >= 0 {
			then = fmt.Sprintf("NCCL may use no other network, and stops (line %d).", l.inOrder[at].line)
		}
		if h.noVerbs {
			l.say(h.noIB, bad, "libibverbs is missing", "NCCL could not load libibverbs.so.1, without which it uses no RDMA.", then, "If this host has a NIC for RDMA, install the libraries of rdma-core where the rank runs, in a container in its image: libibverbs1 and ibverbs-providers on Debian and Ubuntu, libibverbs on RHEL. A container also needs /dev/infiniband.")
		} else {
			l.say(h.noIB, bad, "No RDMA device", "NCCL found no usable RDMA device.", then, "If this host has a NIC for RDMA, check that NCCL_IB_HCA matches, that its port is active, and that a container has /dev/infiniband and libibverbs with its providers.")
		}
	}
	if h.network == "Socket" && l.nodes != 1 {
		l.say(h.at, bad, "Silent fallback to sockets", fmt.Sprintf("%s uses TCP sockets, although no setting asks for them.", speaker(name)), "Without RDMA, data between hosts costs processor time, and latency is tens of microseconds instead of a few.", "If the hosts have NICs for RDMA, check NCCL_IB_HCA, and set NCCL_NET=IB while you look for the cause: NCCL then reports it.")
	}
}

// watched is a line of PyTorch's watchdog: "[Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=64088,
// OpType=ALLREDUCE, …".
var watched = pattern{text: `\[Rank (\d+)\] Watchdog caught collective operation timeout: ?WorkNCCL\((?:SeqNum=(\d+), )?OpType=(\w+),(?: NumelIn=(\d+))?`}

// equalSizes are the collectives for which all ranks must pass equally many elements.
var equalSizes = map[string]bool{"ALLREDUCE": true, "BROADCAST": true, "REDUCE": true, "ALLGATHER": true, "_ALLGATHER_BASE": true, "REDUCE_SCATTER": true, "_REDUCE_SCATTER_BASE": true}

// addressed is the cure for an interface that has a link-local address alone.
func (h *hostLog) addressed() string {
	if h.routed == "" || h.routed == h.fe80 {
		return "Give the interface an IPv4 address, or set NCCL_SOCKET_FAMILY=AF_INET. " + bootstrapAt
	}
	return h.otherInterface()
}

// otherInterface is the cure for an interface that does not reach other hosts: the log may show one that does.
func (h *hostLog) otherInterface() string {
	if h.routed == "" {
		return bootstrapAt
	}
	return bootstrapAt + fmt.Sprintf(" Of those in this log, %s has an address for that.", h.routed)
}

const (
	firstOnes  = 2   // A collective up to this number is one of a group's first.
	manyBefore = 100 // A collective from this number on had many before it.
)

// waits notes in which collective the watchdog stopped a rank: the first one counts. It names the ranks if all were in one.
func waits(l *logged, m string) (summary, costs, instead string) {
	if at := watched.re().FindStringSubmatch(m); at != nil && l.waits[at[1]] == "" && len(l.waits) < maxHosts {
		l.waits[at[1]] = at[3]
		if at[2] != "" { // PyTorch 1.11 and later
			l.waits[at[1]] += " number " + at[2]
		}
		if equalSizes[at[3]] {
			l.sizes[at[1]] = at[4]
		}
	} else if at != nil && l.sizes[at[1]] == "" && equalSizes[at[3]] && strings.HasSuffix(l.waits[at[1]], " number "+at[2]) {
		l.sizes[at[1]] = at[4]
	}
	ranks, in := slices.SortedFunc(maps.Keys(l.waits), byNumber), ""
	for _, rank := range ranks {
		if in = cmp.Or(in, l.waits[rank]); in != l.waits[rank] {
			return "", "", ""
		}
	}
	firsts, check := " It is one of the group's first: nothing shows that its ranks ever exchanged data.", "If NCCL_P2P_DISABLE=1 helps ranks of one host, direct access between its GPUs does not work: ACS, the IOMMU or a virtual machine. Between hosts, check the interface (NCCL_SOCKET_IFNAME), the firewall, whether NCCL_IB_DISABLE=1 helps (RDMA), and nccl-tests. If only some ranks wait: "+slowest
	switch {
	case len(ranks) == 0 && l.sawFirst != "":
		return "", fmt.Sprintf("Rank %s reported the timeout first, and told the others: a collective did not end there, because a rank did not take part in it (it failed, is late, or saves or evaluates alone) or the network stopped. The timeout is an effect, not the cause.", l.sawFirst), fmt.Sprintf("Read the lines of rank %s: they name the collective and its group. ", l.sawFirst) + slowest
	case len(ranks) == 0 && l.epochAt > 0:
		return "", fmt.Sprintf("A collective did not end in time. Line %d names the end of an epoch, an evaluation, or data that differ: there ranks most often differ, because one has fewer batches, or evaluates, saves or logs alone, and the others wait for it. The timeout is an effect, not the cause.", l.epochAt), "Give all ranks equally many batches (drop_last, DistributedSampler, join() of DDP), and call collectives on all of them also there. " + slowest
	case len(ranks) == 0 && l.noneEnded():
		return "", "A rank did not take part in a collective or failed, or the network stopped. The timeout is an effect, not the cause." + firsts, check
	case len(ranks) == 0 && l.asked > 1:
		return "", "", check
	case len(ranks) == 0:
		return "", "", ""
	}
	costs = fmt.Sprintf("Rank %s waited in %s: another rank did not take part in it or failed, or the network stopped. The timeout is an effect, not the cause.", ranks[0], in)
	if len(ranks) > 1 {
		costs = fmt.Sprintf("The timeout is an effect, not the cause. All ranks in these lines (%s) waited in %s: if they are all ranks of the group, the network or a GPU stopped. Otherwise a rank that is not in these lines did not take part in it.", strings.Join(ranks, ", "), in)
	}
	for _, rank := range ranks {
		if size := l.sizes[ranks[0]]; l.sizes[rank] != size && size != "" && l.sizes[rank] != "" {
			return "", fmt.Sprintf("Ranks %s and %s waited in %s with different sizes: %s and %s elements. If they are in one process group, the program is the reason, and not the network: they do not make the same collectives, or have tensors of different shapes.", ranks[0], rank, in, size, l.sizes[rank]), slowest
		}
	}
	if l.sizes[ranks[0]] == "1" && strings.HasPrefix(in, "ALLREDUCE") {
		costs += " An all-reduce of one element is mostly a barrier (PyTorch makes it so), or a loss or a flag: this rank came there, and waits for others that load, save or evaluate, or that have ended."
	}
	_, number, _ := strings.Cut(in, " number ")
	switch n, err := strconv.Atoi(number); {
	case err != nil:
	case n <= firstOnes && l.preparing > 0:
		costs += fmt.Sprintf(" A rank prepares data and has not ended in line %d: probably the others wait for it, for longer than the timeout.", l.preparing)
		instead = "Prepare and cache the data before the job, use more processes for it, or raise the timeout (ddp_timeout, init_process_group(timeout=…)). " + slowest
	case n <= firstOnes && l.dataAt > 0 && l.sizes[ranks[0]] == "1":
		costs += fmt.Sprintf(" Line %d names the loading or preparing of data: if one rank does it while the others wait, it takes longer than the timeout.", l.dataAt)
		instead = "Prepare and cache the data before the job, use more processes for it, or raise the timeout (ddp_timeout, init_process_group(timeout=…)). If no rank prepares data: " + strings.ToLower(check[:1]) + check[1:]
	case n <= firstOnes && l.loadedAt > 0 && l.sizes[ranks[0]] == "1":
		costs += fmt.Sprintf(" A rank has loaded its weights by line %d: probably others still load theirs, for longer than the timeout, or have ended while they did.", l.loadedAt)
		instead = "See in the logs of the other hosts how far they have loaded. Put the weights on a local disk of each host, or raise the timeout (SGLang: --dist-timeout; otherwise init_process_group(timeout=…)). If all have loaded: " + strings.ToLower(check[:1]) + check[1:]
	case n <= firstOnes:
		costs, instead = costs+firsts, check
	case n >= manyBefore:
		costs += fmt.Sprintf(" The group's %d collectives before it ended, so that its ranks did reach each other: a rank that failed, is late (saving, evaluating, reading data, compiling) or has fewer steps is more frequent than a broken path.", n-1)
	}
	if l.epochAt > 0 {
		costs += fmt.Sprintf(" Line %d names the end of an epoch, an evaluation, or data that differ: there ranks most often differ, because one has fewer batches, or evaluates, saves or logs alone.", l.epochAt)
	}
	if len(ranks) > 1 && l.waits["0"] == "" {
		costs += " Rank 0 is not among them: unless its lines were left out here, it failed, or does alone what takes longer than the timeout (reading or caching data, a download, saving, evaluating)."
		instead = "Read rank 0's log first. Let it finish such work before the others wait for it, or raise the timeout (init_process_group(timeout=…)). " + slowest
	}
	return "", costs, instead
}

// onlyTrace takes NCCL's error code from its own trace, such as "group.cc:72 -> 3 [Async thread]", if nothing else of the error is in
// the log. If all warnings before it are only hints otherwise, the last of them is the error. A trace that does not come to group.cc or enqueue.cc ends inside NCCL, which goes on, as with sockets instead of verbs.
func (l *logged) onlyTrace() {
	t := l.traced
	if t.of == nil || l.strangers > 0 {
		return
	}
	if len(l.inOrder) == 0 {
		l.record(t.number, t.text, t.of)
	}
	for _, r := range l.inOrder {
		switch {
		case r.of.role == harmless, r.of.role == remark:
		case r.of.role != hint:
			l.fatal = nil
			return
		case strings.Contains(r.message, warnMark) && r.line < t.number:
			l.fatal = r
		}
	}
}

// codeOf returns what the error code at the end of a step of NCCL's trace means, or nil.
func codeOf(step string) *meaning {
	_, text, _ := strings.Cut(step, " -> ")
	digit, _, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(digit)
	if err != nil || n < 1 || n > len(codeMeanings) {
		return nil
	}
	return codeMeanings[n-1]
}

// stillTrying reports a connection that NCCL tried again and again, if the log ends so: then the job hangs, or has just started.
func (l *logged) stillTrying() {
	m := anyLine().meant(l.retried.text)
	if m == nil || m.role == harmless || slices.ContainsFunc(l.inOrder, func(r *report) bool { return r.of.role != harmless && r.of.role != hint }) {
		return
	}
	r := &report{of: m, summary: m.summary, message: l.retried.text}
	if m.more != nil {
		s, _, _ := m.more(l, r.message)
		r.summary = cmp.Or(s, r.summary)
	}
	costs, instead := r.advice(l)
	attempt, _, _ := strings.Cut(quote(r.message), ", exceeded error retry count")
	l.say(l.retried.number, env.Warning, r.summary, "The log says: "+attempt+", retrying. No later line shows that the ranks are connected.", costs, instead)
}

// byNumber compares decimal numbers without leading zeros.
func byNumber(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) }

// waiting names ranks that wait in different collectives: then the program, and not the network, is the reason.
func (l *logged) waiting() {
	ranks := map[string][]string{} // collective -> ranks
	for rank, in := range l.waits {
		ranks[in] = append(ranks[in], rank)
	}
	if len(ranks) < 2 {
		return
	}
	var said []string
	for _, in := range slices.Sorted(maps.Keys(ranks)) {
		slices.SortFunc(ranks[in], byNumber)
		said = append(said, fmt.Sprintf("%s: %s", in, some("rank", ranks[in])))
	}
	if len(said) > 4 {
		said = append(said[:4], fmt.Sprintf("and %d more", len(said)-4))
	}
	l.differ = true
	l.say(0, env.Error, "Ranks wait in different collectives", "PyTorch's watchdog stopped them in "+strings.Join(said, "; ")+".", "If they are in one process group, the ranks do not make the same collectives: a rank takes another branch, has another number of steps, or stopped.", slowest)
}

// step is the last work that a rank has called, and the last that it has finished, of those of a process group.
type step struct{ line, at, called, finished int }

// progress is how far the ranks of a process group came.
type progress map[int]step

// stepForm is a line of PyTorch's watchdog: "[PG 1 Rank 0] Timeout at NCCL work: 8, last enqueued NCCL work: 9, last completed NCCL work: 7."
// (2.4 to 2.5), "[PG ID 0 PG GUID 0(default_pg) Rank 0] failure detected by watchdog at work sequence id: 8 PG status: last enqueued work: 9,
// last completed work: 7" (from 2.6).
var stepForm = pattern{text: `\[(PG [^\]]{0,80}?)Rank (\d+)\](?:.{0,80}? work(?: sequence id)?: (\d+))?.{0,200}?[lL]ast enqueued (?:NCCL )?work: (\d+), .{0,40}?last completed (?:NCCL )?work: (-?\d+)`}

// steps notes how far a rank came. Groups of different ranks that have one name cannot be told apart, so that they are not compared.
func (l *logged) steps(number int, line string) {
	at := stepForm.re().FindStringSubmatch(line)
	if at == nil || len(l.progress) >= maxHosts {
		return
	}
	group := at[1]
	if _, unique, found := strings.Cut(group, " GUID "); found {
		group = unique
	}
	var n [4]int
	for i := range n {
		n[i], _ = strconv.Atoi(at[2+i])
	}
	if l.progress[group] == nil {
		l.progress[group] = progress{}
	}
	one := step{number, n[1], n[2], n[3]}
	if old, again := l.progress[group][n[0]]; again && (old.at != one.at || old.called != one.called) {
		one.called = -1
	}
	if len(l.progress[group]) < maxFindings {
		l.progress[group][n[0]] = one
	}
}

// noneEnded reports whether the watchdog's lines show ranks, and none that finished any work.
func (l *logged) noneEnded() bool {
	for _, ranks := range l.progress {
		for _, s := range ranks {
			if s.finished > 0 {
				return false
			}
		}
	}
	return len(l.progress) > 0
}

// behind reports ranks that did not call the work in which others of their group wait.
func (l *logged) behind() {
	for _, group := range slices.Sorted(maps.Keys(l.progress)) {
		ranks := l.progress[group]
		most, late := step{}, []string(nil)
		for _, rank := range slices.Sorted(maps.Keys(ranks)) {
			if s := ranks[rank]; s.called < 0 {
				most = step{}
				break
			} else if s.at > most.at {
				most = s
			}
		}
		for _, rank := range slices.Sorted(maps.Keys(ranks)) {
			switch s := ranks[rank]; {
			case s.called < most.at && s.finished == s.called:
				late = append(late, strconv.Itoa(rank))
			case s.at > 0 && s.at <= most.finished:
				l.say(s.line, env.Warning, "A rank is still in a collective that others have finished", fmt.Sprintf("Rank %d waits in work %d, and others of its group have finished that.", rank, s.at), "Either its GPU or its link stopped, or its collectives are not those of the others.", "Look at that rank first: its log, dmesg for Xid lines, and the OpType and sizes in its watchdog's line.")
			}
		}
		if len(late) > 0 {
			l.say(most.line, env.Error, "A rank did not come to a collective", fmt.Sprintf("Other ranks of the group wait in work %d, and %s has finished all that it has called, and called less.", most.at, some("rank", late)), "That rank does something else, has ended, or takes another branch of the program: the network is not the cause.", slowest)
		}
	}
}

func (l *logged) hostAgainst(name string, h *hostLog) {
	short, _, _ := strings.Cut(name, ".")
	var declared *fabric.Host
	for _, n := range []string{name, short} {
		if declared == nil {
			declared = l.fabric.Host(n)
		}
	}
	if declared == nil {
		return
	}
	nics := l.fabric.ForCollectives(declared)
	if n := len(h.devices); n > 0 && n < len(nics) {
		l.say(h.line, env.Warning, "Part of the fabric is unused", fmt.Sprintf("%s uses %d of its %d NICs for collectives.", speaker(name), n, len(nics)), "The others carry no traffic.", derive)
	}
	want := string(l.fabric.NCCLOf(declared).SocketIfname)
	if n := declared.NIC(want); n != nil {
		want = n.Netdev
	}
	if want != "" && h.oob != "" && h.oob != want {
		l.say(h.line, env.Error, "Bootstrap over another interface", fmt.Sprintf("%s uses %s for bootstrap, but the fabric declares %s.", speaker(name), h.oob, want), "The hosts may not reach each other, or share a slow network.", derive)
	}
}

// speaker returns the subject of a sentence about a host.
func speaker(name string) string {
	if name == "" {
		return "The host"
	}
	return shorten(name)
}
