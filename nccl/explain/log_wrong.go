package explain

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
)

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
	if index == "0" {
		l.say(number, env.Error, "RoCE v1 or link-local GID", "NCCL connects with GID 0.", "It is the link-local address, on many cards with RoCE v1. Routers do not forward it, and few switches can prioritize it.", "Give the NIC an IPv4 address, and remove NCCL_IB_GID_INDEX with NCCL 2.21 or later.")
	} else if a := gidAddress(m); a.Is6() && a.IsLinkLocalUnicast() {
		l.say(number, env.Error, "RoCE v1 or link-local GID", fmt.Sprintf("NCCL connects with GID %s, which is %s.", index, a), "Routers do not forward link-local GIDs. The NIC has no address of the wanted family.", "Give the NIC an IPv4 address.")
	} else if n, err := strconv.Atoi(index); err == nil && n%2 == 0 && a.IsValid() {
		l.say(number, env.Warning, "Possible RoCE v1 GID", fmt.Sprintf("NCCL connects with GID %s (%s); on NVIDIA's cards, even indexes are often RoCE v1.", index, a), "Routers do not forward RoCE v1, and most switches cannot prioritize it.", "Check the version with `fabricform show`.")
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

// warnings maps parts of NCCL's warnings to their meaning.
var warnings = []struct{ part, summary, costs, instead string }{
	{"ibv_modify_qp failed with error Connection timed out", "The peer's address does not answer", "Neighbour resolution failed for the peer's GID.", "Run `fabricform verify` to check that both NICs are in one subnet and on one cable."},
	{"ibv_modify_qp failed with error No such device", "GID of another network namespace", "The GID belongs to a NIC that this container does not have.", "Set NCCL_IB_ADDR_RANGE to the subnet of the container's own NIC."},
	{"ibv_modify_qp failed with error No data available", "Empty GID", "The pinned index is empty on this device.", "Remove NCCL_IB_GID_INDEX."},
	{"ibv_modify_qp failed with error Invalid argument", "Incompatible GIDs", "The two ends have GIDs of different kinds, or one is RoCE v1.", "Remove NCCL_IB_GID_INDEX, and give both NICs an address of the same family."},
	{"ibv_modify_qp failed with error Network is unreachable", "No route to the peer's GID", "The peer is in another subnet, and there is no route to it.", "Give each cable its own subnet, or add a route. Direct cables between three hosts need NCCL_IB_SUBNET_AWARE_ROUTING=1."},
	{"ibv_reg_mr", "Memory could not be registered", "memlock is limited, or the GPU's memory cannot be shared with the NIC.", "Set memlock to unlimited for the job (in a container with --ulimit memlock=-1:-1), and load nvidia_peermem or use dma-buf."},
	{"status=IBV_WC_RETRY_EXC_ERR", "Packets are lost", "The path, the MTU or PFC is wrong, or a cable is unplugged.", "Run `fabricform verify`, which checks the MTU of the whole path with full-size packets."},
	{"status=12 ", "Packets are lost", "The path, the MTU or PFC is wrong, or a cable is unplugged.", "Run `fabricform verify`, which checks the MTU of the whole path with full-size packets."},
	{"status=4 ", "Memory protection error", "A frequent cause is PCI access control (ACS) between GPU and NIC.", "Disable ACS on bare metal, or set NCCL_NET_GDR_LEVEL=LOC to see the difference."},
	{"IBV_WC_LOC_PROT_ERR", "Memory protection error", "A frequent cause is PCI access control (ACS) between GPU and NIC.", "Disable ACS on bare metal, or set NCCL_NET_GDR_LEVEL=LOC to see the difference."},
	{"No IP interface found", "No interface for bootstrap", "NCCL_SOCKET_IFNAME matches no interface that is up and has an address.", "Name an interface of this host, with = in front."},
	{"no socket interface found", "No interface for bootstrap", "NCCL_SOCKET_IFNAME matches no interface that is up and has an address.", "Name an interface of this host, with = in front."},
	{"no interface found", "No interface for bootstrap", "NCCL_SOCKET_IFNAME matches no interface that is up and has an address.", "Name an interface of this host, with = in front."},
	{"> failed : Network is unreachable", "The peer cannot be reached", "No route leads from this host's interface to the peer's address: the two are in different subnets.", "Put both ends of a link into one subnet, or add a route. Set nccl.socket_ifname to an interface that reaches all hosts."},
	{"> failed : No route to host", "The peer cannot be reached", "No host answers for the peer's address, or a firewall rejects the connection.", "Check the cable and the peer's address with `fabricform verify -only link,ping`, then check firewalls."},
	{"> failed : Connection refused", "The peer does not listen", "The other rank has exited or has not started yet, or a firewall rejects the port.", "Check the logs of the other ranks first; then open the hosts' TCP ports in firewalls."},
	{"> failed : Connection timed out", "The peer cannot be reached", "Packets to the peer's address are lost: a firewall drops them, or the path is wrong.", "Open the hosts' TCP ports in firewalls, and check the path with `fabricform verify -only link,ping,tcp`."},
	{"Mismatched NCCL version", "Hosts have different versions of NCCL", "They cannot communicate.", "Install one version everywhere."},
	{"Only matched ", "NCCL_NET_FORCE_MERGE does not match", "A device in the list does not exist, or its port is down.", "Correct the list, or bring the port up."},
}

func (l *logged) warn(number int, m string) {
	for _, w := range warnings {
		if strings.Contains(m, w.part) {
			l.say(number, env.Error, w.summary, "NCCL warns: "+shorten(m)+".", w.costs, w.instead)
			return
		}
	}
	if m != "" {
		l.say(number, env.Warning, "NCCL warns", shorten(m), "", "")
	}
}

// finish reports problems that only the whole log shows.
func (l *logged) finish() {
	if len(l.versions) > 1 {
		l.say(0, env.Error, "Hosts have different versions of NCCL", fmt.Sprintf("The log shows %d versions of NCCL.", len(l.versions)), "They cannot communicate reliably.", "Install one version everywhere.")
	}
	l.reading.settings(l.settings)
	for _, name := range l.order {
		l.judge(name, l.hosts[name])
	}
}

func (l *logged) judge(name string, h *hostLog) {
	disable, asked := find(l.settings, "NCCL_IB_DISABLE")
	asked = asked && env.ParseNumber(disable.value).Value != 0
	declared := l.fabric != nil && l.fabric.NCCL.Transport == "socket"
	if h.network == "Socket" && !asked && !declared {
		l.say(h.at, env.Error, "Silent fallback to sockets", fmt.Sprintf("%s uses TCP sockets, although no setting asks for them.", speaker(name)), "Without RDMA, data costs processor time, and latency is tens of microseconds instead of a few.", "Check NCCL_IB_HCA. Set NCCL_NET=IB while you look for the cause: NCCL then reports it.")
	}
	if h.channels == 0 {
		h.channels = h.disabled
	}
	if h.gdr == 0 && h.channels > 0 {
		l.say(h.channels, env.Warning, "No GPUDirect RDMA", fmt.Sprintf("%s uses IB without GPUDirect RDMA.", speaker(name)), "Data goes through the host's memory, at half of the speed or less. GPUs that share memory with the processor, such as GB10, do not support GPUDirect RDMA.", "Load nvidia_peermem or use the open driver's dma-buf, and check with `nvidia-smi topo -m` that GPU and NIC are near each other.")
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
	nics := nccl.Chosen(l.fabric, declared)
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
