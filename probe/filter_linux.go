package probe

import "golang.org/x/sys/unix"

// rocePort is RoCE v2's UDP destination port.
const rocePort = 4791

// attach attaches a classic BPF program to a socket, and replaces the previous one.
func attach(fd int, program []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}

// roceFilter keeps the first snapLen bytes of UDP packets to RoCE's port: over IPv4 with or without options,
// and over IPv6 without extension headers, behind up to two VLAN tags. A tag that the kernel has removed is
// not in the packet.
func roceFilter(snapLen uint32) []unix.SockFilter { return ethernetFilter(14, 2, snapLen) }

// ethernetFilter tests the Ethernet type before offset ip, where the next header begins. Each part of the
// program ends in a return, so only the jumps over a whole part have to be counted.
func ethernetFilter(ip uint32, tags int, snapLen uint32) []unix.SockFilter {
	v4, v6 := ipv4Filter(ip, snapLen), ipv6Filter(ip, snapLen)
	out := []unix.SockFilter{load(unix.BPF_H, ip-2)}
	out = append(append(out, jump(unix.BPF_JEQ, unix.ETH_P_IP, 0, len(v4))), v4...)
	out = append(append(out, jump(unix.BPF_JEQ, unix.ETH_P_IPV6, 0, len(v6))), v6...)
	if tags > 0 {
		inner := ethernetFilter(ip+4, tags-1, snapLen)
		out = append(out, jump(unix.BPF_JEQ, unix.ETH_P_8021Q, 1, 0), jump(unix.BPF_JEQ, unix.ETH_P_8021AD, 0, len(inner)))
		out = append(out, inner...)
	}
	return append(out, give(0))
}

func ipv4Filter(ip, snapLen uint32) []unix.SockFilter {
	return []unix.SockFilter{
		load(unix.BPF_B, ip+9), // protocol
		jump(unix.BPF_JEQ, unix.IPPROTO_UDP, 0, 6),
		load(unix.BPF_H, ip+6),                                  // flags and fragment offset
		jump(unix.BPF_JSET, 0x1fff, 4, 0),                       // a later fragment has no ports
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: ip}, // the header's length
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: ip + 2},
		jump(unix.BPF_JEQ, rocePort, 0, 1),
		give(snapLen),
		give(0),
	}
}

func ipv6Filter(ip, snapLen uint32) []unix.SockFilter {
	return []unix.SockFilter{
		load(unix.BPF_B, ip+6), // next header
		jump(unix.BPF_JEQ, unix.IPPROTO_UDP, 0, 3),
		load(unix.BPF_H, ip+40+2),
		jump(unix.BPF_JEQ, rocePort, 0, 1),
		give(snapLen),
		give(0),
	}
}

func load(size uint16, at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | size | unix.BPF_ABS, K: at}
}

// jump skips yes instructions if the test is true, otherwise no instructions.
func jump(test uint16, value uint32, yes, no int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: uint8(yes), Jf: uint8(no), K: value}
}

func give(bytes uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET, K: bytes} }
