package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// communicators are those of NCCL, and what tests between their ranks showed.
type communicators struct {
	members   map[string]*members // commId -> its ranks
	nodes     int                 // the largest number of nodes of a communicator; 0: unknown
	asked     int                 // the largest number of nodes that a launcher is told; 0: unknown
	begun     bool                // a communicator begins
	ready     bool                // a communicator with several ranks is complete, and none was destroyed
	moved     bool                // a test shows that data arrived
	direct    int                 // the first line of a channel by which a GPU writes into another one's memory
	remoteAt  int                 // the first line of a channel to another host
	sharedGPU bool                // two ranks of a communicator were on one GPU
	testers   map[string]int      // hosts in the list of ranks of nccl-tests, and their ranks
	tested    int                 // line of the result of nccl-tests
	table     int                 // line of the heading of its table
}

// hostLog is what a log shows about one host.
type hostLog struct {
	line      int                // its first line
	devices   map[string]bool    // RDMA devices that NCCL uses
	oob       string             // netdev for bootstrap
	local     string             // the first netdev of them that other hosts do not reach
	localAt   int                // its line
	localIP   string             // its address
	network   string             // IB, Socket or a plugin
	at        int                // line of network
	gdr       int                // number of network channels with GPUDirect RDMA
	channels  int                // line of the first IB channel without GPUDirect RDMA
	disabled  int                // line that reports GPUDirect RDMA as disabled for a device
	fe80      string             // an interface for bootstrap that has a link-local address alone
	fe80At    int                // its line
	aside     string             // an interface for sockets, but not for bootstrap, that has a link-local address alone
	asideAt   int                // its line
	address   netip.Addr         // of the interface for bootstrap
	routed    string             // the first netdev of them that may reach other hosts
	several   bool               // that interface has several addresses: hosts with equal names
	noIB      int                // line that says that there is no RDMA device
	warnsAt   int                // line that warns of libibverbs
	noVerbs   bool               // that line says that libibverbs is missing
	mixed     int                // line that lists InfiniBand and RoCE ports
	direct    bool               // a NIC supports GPUDirect RDMA
	remote    bool               // it has a channel to another host
	roce      bool               // some of the devices are RoCE ports
	complete  bool               // a communicator with several ranks is complete
	plugin    string             // for the network, of a library
	internal  int                // line that says that no plugin was found
	early     string             // "NCCL before …": a line has a form of that time; "": none has
	ownMade   string             // an interface whose address the host gave itself
	ownMadeAt int                // its line
	spread    int                // line of the first channel over another socket interface than the first
	late      bool               // a line has a form of NCCL 2.21 or later
	version   string             // of NCCL, if a line of this host says it
	onGPU     map[string]gpuUser // communicator and bus ID of a GPU -> the first rank there
}

// gpuUser is a rank of a communicator, and the process that has it.
type gpuUser struct{ rank, process string }

// onGPU reports two processes of a host that have ranks of one communicator on one GPU: NCCL may not get as far as to say so.
func (l *logged) onGPU(number int, h *hostLog, before, m string) {
	bus, rank, size := field(m, "busId"), field(m, "rank"), field(m, "nranks")
	parts := strings.Split(before, ":")
	if bus == "" || rank == "" || size == "" || len(parts) < 3 || l.sharedGPU || len(h.onGPU) > maxRows {
		return
	}
	one := gpuUser{rank, parts[len(parts)-2]}
	key := cmp.Or(field(m, "commId"), size) + " " + bus
	other, seen := h.onGPU[key]
	if !seen {
		if h.onGPU == nil {
			h.onGPU = map[string]gpuUser{}
		}
		h.onGPU[key] = one
		return
	}
	if other.rank != one.rank && other.process != one.process && digits(one.process) {
		l.sharedGPU = true
		l.say(number, env.Error, "Two ranks on one GPU", fmt.Sprintf("Ranks %s and %s, of two processes, have the GPU with bus ID %s.", shorten(other.rank), shorten(one.rank), shorten(bus)), "NCCL refuses that, or hangs.", oneGPU)
	}
}

// host returns the host of a line. A line begins with "host:pid:tid [gpu]", often after a timestamp or a
// launcher's rank.
func (l *logged) host(number int, before string) *hostLog {
	name := ""
	for field := range strings.FieldsSeq(before) {
		parts := strings.Split(field, ":")
		if n := len(parts); n >= 3 && digits(parts[n-2]) && digits(parts[n-1]) {
			name = parts[n-3][strings.LastIndexAny(parts[n-3], "]>")+1:] // [1,0]<stdout>:host is mpirun's, [host:2]:host torchrun's
		}
	}
	h := l.hosts[name]
	if h == nil {
		h = &hostLog{line: number, devices: map[string]bool{}}
		if len(l.hosts) < maxHosts {
			l.hosts[name] = h
			l.order = append(l.order, name)
		}
	}
	return h
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// ncclVersion notes a version. It reports whether the text begins with one.
func (l *logged) ncclVersion(number int, text string) bool {
	text, _, _ = strings.Cut(text, " ")
	v, err := env.ParseVersion(text)
	if err != nil {
		return false
	}
	if l.version = v; l.versions[v.String()] == 0 {
		l.versions[v.String()] = number
	}
	return true
}

// brokenPlugin is what the loader says of a library that NCCL's plugin for the network needs: "NET/Plugin: Plugin load returned 2 :
// libhwloc.so.15: cannot open shared object file" (2.20–2.25), "NET/Plugin: libhwloc.so.15: cannot open …" (2.26–, src/plugin/plugin_open.cc).
var brokenPlugin = pattern{text: `NET/Plugin.*?\b(lib[\w.+-]+\.so[\w.]*): (?:cannot open shared object file|undefined symbol: \w+|version .\w+. not found)`}

// info reads the message of an INFO line. It reports whether a rule knows the message.
func (l *logged) info(number int, h *hostLog, m string) (known bool) {
	h.setUp(number, m)
	if h.early == "" && strings.Contains(m, "using internal implementation") { // init.cc, net.cc: –2.20.5
		h.early = "NCCL before 2.21"
	}
	if at := brokenPlugin.re().FindStringSubmatch(m); at != nil && !strings.HasPrefix(at[1], "libnccl") {
		l.say(number, env.Warning, "The network plugin cannot be loaded", fmt.Sprintf("NCCL found a plugin for the network, and the loader says: %s.", at[0][strings.Index(at[0], at[1]):]), "NCCL goes on without it: with its own network for RDMA, or with TCP sockets.", fmt.Sprintf("Install what has %s in the image, or the plugin's release for this image; ldd libnccl-net.so shows what else is missing.", at[1]))
	}
	switch {
	case strings.HasPrefix(m, "Using network "), strings.HasPrefix(m, "Using internal Network ") /* –2.3.7 */ :
		h.network, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(m, "Using network "), "Using internal Network "), " ")
		h.at = number
	case strings.HasPrefix(m, "NET/IB : No device found") /* all */ :
		h.noIB = number
	case strings.HasPrefix(m, "Failed to open libibverbs.so") /* 2.11.4–2.29.7 */, m == "Count not open libibverbs.so.1" /* 2.30.3– */ :
		h.noIB, h.noVerbs = number, true
	case strings.HasPrefix(m, "NET/IB : Using"):
		l.usingIB(number, h, m)
	case strings.HasPrefix(m, "NET/IB: [") && strings.Contains(m, " speed=") /* 2.20.5– */ :
	case strings.HasPrefix(m, "NET/IB: [") /* –2.3.7 */ :
		l.usingIB(number, h, strings.Replace(m, "] ", "]", 1))
		h.early, l.before24 = "NCCL before 2.4", true
	case strings.HasPrefix(m, "NET/Socket : Using"), strings.HasPrefix(m, "Bootstrap : Using"), strings.HasPrefix(m, "Bootstrap: Using"), strings.HasPrefix(m, "NET : Using interface ") /* –2.3 */ :
		_, rest, _ := strings.Cut(m, "Using ")
		for field := range strings.FieldsSeq(strings.TrimPrefix(rest, "interface ")) {
			name, address, _ := strings.Cut(field[strings.Index(field, "]")+1:], ":")
			if name != "" && name[0] != '[' && address != "" { // otherwise the line is truncated
				l.meets(number, h, name, address)
			}
		}
	case strings.HasPrefix(m, "Could not get speed from /sys/class/net/"):
		name, _, _ := strings.Cut(strings.TrimPrefix(m, "Could not get speed from /sys/class/net/"), "/")
		if h.local == "" && isLocal(name) {
			h.local, h.localAt = name, number
		}
	case strings.Contains(m, "GPU Direct RDMA Disabled for ") && !strings.HasPrefix(m, "NET/Socket"): // sockets never have it
		h.disabled = number
	case strings.Contains(m, "GPU Direct RDMA Enabled for ") || strings.Contains(m, "GPU Direct RDMA (") && strings.Contains(m, ") enabled for HCA"):
		h.direct = true
	case strings.Contains(m, " via NET/"):
		l.channel(number, h, m)
	case strings.HasPrefix(m, "comm ") && strings.Contains(m, " nNodes "):
		n, _ := strconv.Atoi(field(m, "nNodes"))
		l.nodes = max(l.nodes, n)
	case strings.Contains(m, " nvmlDev ") && l.elsewhere(m):
		fallthrough
	case strings.Contains(m, " nranks ") && (strings.Contains(m, " commId ") /* 2.18.1– */ || strings.HasPrefix(m, "comm 0x")):
		l.joins(field(m, "commId"), field(m, "rank"), field(m, "nranks"))
	case strings.Contains(m, " set by environment to "):
		name, value, _ := strings.Cut(m, " set by environment to ")
		value, _, _ = strings.Cut(value, " [") // the next line, where somebody has joined them
		l.noteSetting(number, name, strings.TrimSuffix(value, "."))
	case strings.HasPrefix(m, "NCCL_") && strings.Contains(m, " set to "):
		name, value, _ := strings.Cut(m, " set to ")
		l.noteSetting(number, name, value)
	case strings.HasPrefix(m, "Invalid value "):
		l.say(number, env.Error, "Invalid value for NCCL", shorten(m), "NCCL uses its default.", "Write a whole number.")
	case strings.HasPrefix(m, "NET/IB") && strings.Contains(m, " GID ") && strings.Contains(m, " mtu "):
		l.connection(number, m)
	default:
		return false
	}
	return true
}

// setUp notes the plugin for the network, and that a communicator is complete.
func (h *hostLog) setUp(number int, m string) {
	switch {
	case strings.HasPrefix(m, "comm ") && strings.HasSuffix(m, "Init COMPLETE") && field(m, "nranks") != "1":
		h.complete = true
	case strings.HasPrefix(m, "Plugin Path : ") /* HPC-X */, strings.HasPrefix(m, "P2P plugin ") /* HPC-X */, strings.Contains(m, "Loaded net plugin ") /* 2.9– */ :
		h.plugin = strings.TrimSpace(m[strings.LastIndexAny(m[:len(m)-1], " ")+1:])
	case strings.Contains(m, "sing internal network plugin") /* 2.21– */ :
		h.internal, h.late = number, true
	case strings.Contains(m, "No plugin found (libnccl-net.so)"):
		h.internal = number
	}
}

// elsewhere notes that a job has other hosts, if a rank's number is far above that of its GPU: ranks count over all hosts. It returns false.
func (l *logged) elsewhere(m string) bool {
	rank, err1 := strconv.Atoi(field(m, "rank"))
	gpu, err2 := strconv.Atoi(field(m, "nvmlDev"))
	if err1 == nil && err2 == nil && rank-gpu >= manyGPUs {
		l.asked = max(l.asked, 2)
	}
	return false
}

// joins notes a rank of a communicator.
func (l *logged) joins(id, rank, size string) {
	r, err1 := strconv.Atoi(rank)
	n, err2 := strconv.Atoi(size)
	if err1 != nil || err2 != nil || len(l.members) >= maxHosts {
		return
	}
	if id == "" {
		id = size // communicators of equal size are not told apart
	}
	c := l.members[id]
	if c == nil {
		c = &members{size: n, ranks: map[int]bool{}}
		l.members[id] = c
	}
	if len(c.ranks) < min(c.size, maxHosts) {
		c.ranks[r] = true
	}
}

// oneHost reports whether the log shows all ranks of its communicators, and all of them on one host. NCCL's own number of nodes
// can be larger: NCCL_HOSTID divides a host.
func (l *logged) oneHost() bool {
	if len(l.order) != 1 || l.order[0] == "" || l.hosts[l.order[0]].several || l.hosts[l.order[0]].remote {
		return false
	}
	found := false
	for _, c := range l.members {
		if len(c.ranks) < c.size {
			return false
		}
		found = found || c.size > 1
	}
	return found
}

func (l *logged) noteSetting(number int, name, value string) {
	if strings.HasPrefix(name, "NCCL_") && !strings.ContainsAny(name, " \t") && len(l.settings) < maxFindings {
		if s, ok := find(l.settings, name); !ok || s.value != value {
			l.settings = append(l.settings, setting{line: number, name: name, value: value, where: "log"})
		}
	}
}

// manyDevices is more RDMA devices than the NICs of a host make.
const manyDevices = 20

// usingIB parses " NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>".
func (l *logged) usingIB(number int, h *hostLog, m string) {
	list, oob, _ := strings.Cut(m, "; OOB ")
	l.overIB = true
	h.roce = h.roce || strings.Contains(list, "/RoCE")
	for field := range strings.FieldsSeq(list) {
		bracket := strings.Index(field, "]")
		if strings.HasPrefix(field, "[") && strings.Contains(field+"/", "/IB/") && h.roce && h.mixed == 0 {
			h.mixed = number
		}
		colon := strings.Index(field, ":")
		if strings.HasPrefix(field, "[") && bracket > 0 && colon > bracket && len(h.devices) < 64 {
			h.devices[field[bracket+1:colon]] = true
		}
	}
	if n := len(h.devices); n > manyDevices {
		l.say(number, env.Warning, "Many devices", fmt.Sprintf("NCCL uses %d RDMA devices of one host.", n), "So many are mostly virtual functions of containers or virtual machines, without an address here: connections over them fail or hang.", "Set NCCL_IB_HCA to = followed by the devices of this job's NICs (ibdev2netdev shows which belong to its interfaces).")
	}
	if name, address, _ := strings.Cut(oob, ":"); name != "" {
		l.meets(number, h, name, address)
	}
}

// meets notes an interface for bootstrap or sockets, with its address as ncclSocketToString prints it: "10.0.0.1<0>". The first is
// bootstrap's.
func (l *logged) meets(number int, h *hostLog, name, address string) {
	if alias, rest, found := strings.Cut(address, ":"); found && alias == "avahi" { // "eno1:avahi" is the name of an address that avahi-autoipd made
		h.ownMade, h.ownMadeAt, address = name+":avahi", number, rest
	}
	address, _, _ = strings.Cut(address, "<")
	address, _, _ = strings.Cut(address, "%")
	a, _ := netip.ParseAddr(strings.Trim(address, "[]"))
	if h.oob == "" {
		h.oob, h.address = name, a.Unmap()
	}
	if h.routed == "" && !isLocal(name) && a.IsGlobalUnicast() {
		h.routed = name
	}
	h.several = h.several || name == h.oob && a.Unmap() != h.address
	if h.fe80 == "" && h.oob == name && a.Is6() && a.IsLinkLocalUnicast() {
		h.fe80, h.fe80At = name, number
	}
	if h.aside == "" && h.oob != name && a.Is6() && a.IsLinkLocalUnicast() {
		h.aside, h.asideAt = name, number
	}
	if h.local == "" && isLocal(name) {
		h.local, h.localAt, h.localIP = name, number, a.Unmap().String()
	}
}

// isLocal reports whether an interface is one of this machine alone by its name: a container's own may be called veth0, but the
// host's end of it has a long random name.
func isLocal(name string) bool {
	for _, p := range []string{"docker", "virbr", "br-", "cni", "flannel", "cali", "lxc", "podman", "kube-", "nodelocaldns", "pod-id-link"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return name == "lo" || strings.HasPrefix(name, "veth") && len(name) > len("veth123")
}

// fastSocket is the network of Google's plugin that sends over several TCP connections.
const fastSocket = "FastSocket"

// channel parses "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA".
func (l *logged) channel(number int, h *hostLog, m string) {
	_, path, _ := strings.Cut(m, " via NET/")
	h.remote = true
	l.tcp = l.tcp || strings.HasPrefix(path, "Socket") || strings.HasPrefix(path, fastSocket)
	if strings.HasPrefix(path, fastSocket) && h.network == "" {
		h.network, h.at = fastSocket, number
	}
	switch {
	case strings.Contains(path, "GDRDMA"):
		h.gdr++
	case strings.HasPrefix(path, "IB"):
		if h.channels == 0 {
			h.channels = number
		}
	case strings.HasPrefix(path, "Socket") && h.network == "":
		h.network, h.at = "Socket", number
	}
	if device, ok := strings.CutPrefix(path, "Socket/"); ok && h.spread == 0 && !strings.HasPrefix(device, "0") {
		h.spread = number
	}
}
