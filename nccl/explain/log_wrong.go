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

// field is the word behind a name in a line of NCCL's.
func field(m, name string) string {
	_, rest, _ := strings.Cut(m, " "+name+" ")
	v, _, _ := strings.Cut(rest, " ")
	return v
}

// mtus are bytes of ibv_mtu's numbers (infiniband/verbs.h).
var mtus = map[string]int{"1": 256, "2": 512, "3": 1024, "4": 2048, "5": 4096}

// connection reads "… mtu 5 … GID 3 (0/101A8C0FFFF0000) …": index, and the GID's halves as a
// little-endian machine prints them.
func (l *logged) connection(number int, m string) {
	index := field(m, "GID")
	if index == "0" {
		l.say(number, env.Error, "RoCE v1 or link-local GID", "NCCL connects with GID 0.", "It is the link-local address, on many cards RoCE v1: no router and few switches' QoS carry it.", "Give the NIC an IPv4 address, and leave NCCL_IB_GID_INDEX out with NCCL 2.21 or later.")
	} else if a := gidAddress(m); a.Is6() && a.IsLinkLocalUnicast() {
		l.say(number, env.Error, "RoCE v1 or link-local GID", fmt.Sprintf("NCCL connects with GID %s, which is %s.", index, a), "A link-local GID crosses no router, and means that the NIC has no address of the wanted family.", "Give the NIC an IPv4 address.")
	} else if n, err := strconv.Atoi(index); err == nil && n%2 == 0 && a.IsValid() {
		l.say(number, env.Warning, "Perhaps a RoCE v1 GID", fmt.Sprintf("NCCL connects with GID %s (%s); on cards of NVIDIA's even indexes are often RoCE v1.", index, a), "RoCE v1 crosses no router, and most switches give it no QoS.", "Look at `fabricform show`, which lists versions.")
	}
	if mtu := mtus[field(m, "mtu")]; mtu > 0 && mtu < 4096 {
		l.say(number, env.Warning, "Small RDMA MTU", fmt.Sprintf("The connection has an RDMA MTU of %d.", mtu), "More headers and packets for the same bytes.", "Set mtu = 9000 on both ends and on what is between them.")
	}
}

// gidAddress reads the halves of a GID; invalid where there are none.
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

// warnings are parts of NCCL's warnings with what they mean.
var warnings = []struct{ part, summary, costs, instead string }{
	{"ibv_modify_qp failed with error Connection timed out", "The peer's address does not answer", "The kernel found no neighbour for the peer's GID.", "Check that both NICs are on one subnet and cable: `fabricform verify`."},
	{"ibv_modify_qp failed with error No such device", "GID of another network namespace", "The GID belongs to a NIC that this container does not have.", "Set NCCL_IB_ADDR_RANGE to the subnet of the container's own NIC."},
	{"ibv_modify_qp failed with error No data available", "Empty GID", "The pinned index holds no GID on this device.", "Leave NCCL_IB_GID_INDEX out."},
	{"ibv_modify_qp failed with error Invalid argument", "GID that does not fit", "The two ends have GIDs of different kinds, or one is RoCE v1.", "Leave NCCL_IB_GID_INDEX out; give both NICs an address of one family."},
	{"ibv_modify_qp failed with error Network is unreachable", "No route to the peer's GID", "The peer is in another subnet, and nothing leads there.", "Give each cable a subnet of its own, or a route; direct cables of three hosts need NCCL_IB_SUBNET_AWARE_ROUTING=1."},
	{"ibv_reg_mr", "Memory could not be registered", "memlock is limited, or the GPU's memory cannot be shared with the NIC.", "Set memlock to unlimited for the job (in a container --ulimit memlock=-1:-1), and load nvidia_peermem or use dma-buf."},
	{"status=IBV_WC_RETRY_EXC_ERR", "Packets are lost on the way", "The path, the MTU or PFC is wrong, or a cable is out.", "Check MTUs of all parts of the path with full-size packets: `fabricform verify`."},
	{"status=12 ", "Packets are lost on the way", "The path, the MTU or PFC is wrong, or a cable is out.", "Check MTUs of all parts of the path with full-size packets: `fabricform verify`."},
	{"status=4 ", "Memory protection", "Often PCI access control (ACS) between GPU and NIC.", "Switch ACS off on bare metal, or set NCCL_NET_GDR_LEVEL=LOC to see the difference."},
	{"IBV_WC_LOC_PROT_ERR", "Memory protection", "Often PCI access control (ACS) between GPU and NIC.", "Switch ACS off on bare metal, or set NCCL_NET_GDR_LEVEL=LOC to see the difference."},
	{"No IP interface found", "No interface to meet over", "NCCL_SOCKET_IFNAME matches nothing here that is up and has an address.", "Name an interface that this host has, with = in front."},
	{"no socket interface found", "No interface to meet over", "NCCL_SOCKET_IFNAME matches nothing here that is up and has an address.", "Name an interface that this host has, with = in front."},
	{"no interface found", "No interface to meet over", "NCCL_SOCKET_IFNAME matches nothing here that is up and has an address.", "Name an interface that this host has, with = in front."},
	{"> failed : Network is unreachable", "The peer cannot be reached", "No route leads from this host's interface to the peer's address: the two are in different subnets.", "Give both ends of a link one subnet, or a route; name an interface that reaches all hosts with nccl.socket_ifname."},
	{"> failed : No route to host", "The peer cannot be reached", "Nobody answers for the peer's address, or a firewall rejects it.", "Look at the cable and at the peer's address with `fabricform verify -only link,ping`, then at firewalls."},
	{"> failed : Connection refused", "The peer does not listen", "The other rank has ended or has not begun, or a firewall refuses the port.", "Look at the other ranks' logs first; let the hosts' TCP ports through."},
	{"> failed : Connection timed out", "The peer cannot be reached", "Packets to the peer's address vanish: a firewall drops them, or the path is wrong.", "Let the hosts' TCP ports through, and look at the path with `fabricform verify -only link,ping,tcp`."},
	{"Mismatched NCCL version", "Hosts have different NCCLs", "They cannot talk to each other.", "Install one version everywhere."},
	{"Only matched ", "NCCL_NET_FORCE_MERGE does not match", "A device that it names is not there, or its port is down.", "Correct the list, or bring the port up."},
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

// finish judges what the whole log shows.
func (l *logged) finish() {
	if len(l.versions) > 1 {
		l.say(0, env.Error, "Hosts have different NCCLs", fmt.Sprintf("The log shows %d versions of NCCL.", len(l.versions)), "They cannot talk to each other, or only by luck.", "Install one version everywhere.")
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
		l.say(h.at, env.Error, "Silent fall-back to sockets", fmt.Sprintf("%s uses TCP sockets, and nobody asked for that.", speaker(name)), "RDMA is not used: every byte costs processor time, and latency is tens of microseconds instead of a few.", "Set NCCL_NET=IB while you look for the cause, so that NCCL says why; check NCCL_IB_HCA.")
	}
	if h.channels == 0 {
		h.channels = h.disabled
	}
	if h.gdr == 0 && h.channels > 0 {
		l.say(h.channels, env.Warning, "No GPUDirect RDMA", fmt.Sprintf("%s uses IB without GPUDirect RDMA.", speaker(name)), "Data goes through the host's memory, at half of the speed or less. GPUs that share their memory with the processor, such as GB10, have none.", "Load nvidia_peermem or use the open driver's dma-buf, and see that GPU and NIC are near: `nvidia-smi topo -m`.")
	}
	for _, device := range slices.Sorted(maps.Keys(h.devices)) {
		if rest, ok := strings.CutPrefix(device, "rocep1s0f"); ok && !h.devices["roceP2p1s0f"+rest] {
			l.say(h.line, env.Warning, "Half of a port", fmt.Sprintf("%s uses %s, and not roceP2p1s0f%s, the other half of that port.", speaker(name), device, rest), "A job gets half of the port's speed.", "Give the other half an address, and name both in NCCL_IB_HCA.")
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
		l.say(h.line, env.Warning, "Part of the fabric is unused", fmt.Sprintf("%s uses %d RDMA devices, and has %d NICs for collectives.", speaker(name), n, len(nics)), "The others carry nothing.", derive)
	}
	want := string(l.fabric.NCCLOf(declared).SocketIfname)
	if n := declared.NIC(want); n != nil {
		want = n.Netdev
	}
	if want != "" && h.oob != "" && h.oob != want {
		l.say(h.line, env.Error, "Ranks meet over another interface", fmt.Sprintf("%s meets the others over %s, and the fabric declares %s.", speaker(name), h.oob, want), "They may not reach each other, or share a slow network.", derive)
	}
}

// speaker is a host's name in a sentence.
func speaker(name string) string {
	if name == "" {
		return "The host"
	}
	return shorten(name)
}
