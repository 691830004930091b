package explain

import (
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// hostLog is what a log shows about one host.
type hostLog struct {
	line     int             // its first line
	devices  map[string]bool // RDMA devices that NCCL uses
	oob      string          // netdev for bootstrap
	network  string          // IB, Socket or a plugin
	at       int             // line of network
	gdr      int             // number of network channels with GPUDirect RDMA
	channels int             // line of the first IB channel without GPUDirect RDMA
	disabled int             // line that reports GPUDirect RDMA as disabled for a device
}

// logged is the state while a log is read. It understands the lines of NCCL 2.18 to 2.30 (INFO and WARN in
// src/init.cc, src/bootstrap.cc, src/transport/net_ib, src/transport/net.cc and src/transport/net_socket.cc).
type logged struct {
	*reading
	hosts    map[string]*hostLog
	order    []string
	versions map[string]int // line
	settings []setting
}

// maxHosts limits the memory for a log.
const maxHosts = 1 << 16

func (r *reading) log(text string) {
	l := &logged{reading: r, hosts: map[string]*hostLog{}, versions: map[string]int{}}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if _, v, found := strings.Cut(line, "NCCL version "); found {
			l.ncclVersion(number, v)
		}
		if before, message, found := strings.Cut(line, "NCCL INFO "); found {
			l.info(number, l.host(number, before), message)
		} else if _, message, found := strings.Cut(line, "NCCL WARN "); found {
			l.warn(number, message)
		}
	}
	l.finish()
}

// host returns the host of a line. A line begins with "host:pid:tid [gpu]", often after a timestamp or a
// launcher's rank.
func (l *logged) host(number int, before string) *hostLog {
	name := ""
	for field := range strings.FieldsSeq(before) {
		parts := strings.Split(field, ":")
		if len(parts) == 3 && digits(parts[1]) && digits(parts[2]) {
			name = parts[0][strings.LastIndexAny(parts[0], "]>")+1:] // [1,0]<stdout>:host is mpirun's
		} else if len(parts) == 4 && digits(parts[2]) && digits(parts[3]) {
			name = parts[1]
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

func (l *logged) ncclVersion(number int, text string) {
	text, _, _ = strings.Cut(text, " ")
	v, err := env.ParseVersion(text)
	if err != nil {
		return
	}
	if l.version = v; l.versions[v.String()] == 0 {
		l.versions[v.String()] = number
	}
	if v.Before(env.Version{Major: 2, Minor: 21, Patch: 5}) {
		l.say(number, env.Warning, "NCCL does not choose a GID", fmt.Sprintf("NCCL %s uses GID index 0 unless NCCL_IB_GID_INDEX is set.", v), "On RoCE that is a link-local address, on many cards with RoCE v1.", "Upgrade to 2.21.5 or later, or pin an index and check it on every device.")
	}
}

// info reads an INFO line.
func (l *logged) info(number int, h *hostLog, m string) {
	switch {
	case strings.HasPrefix(m, "Using network "):
		h.network, _, _ = strings.Cut(strings.TrimPrefix(m, "Using network "), " ")
		h.at = number
	case strings.HasPrefix(m, "NET/IB : No device found"):
		if l.fabric != nil && l.fabric.NCCL.Transport == "socket" {
			return
		}
		l.say(number, env.Error, "No RDMA device", "NCCL found no usable RDMA device.", "It falls back to sockets without a warning.", "Check that NCCL_IB_HCA matches, that ports are active, and that a container has /dev/infiniband.")
	case strings.HasPrefix(m, "NET/IB : Using"):
		l.usingIB(number, h, m)
	case strings.HasPrefix(m, "NET/Socket : Using"), strings.HasPrefix(m, "Bootstrap : Using"), strings.HasPrefix(m, "Bootstrap: Using"):
		_, rest, _ := strings.Cut(m, "Using ")
		first, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		name, _, _ := strings.Cut(first[strings.Index(first, "]")+1:], ":")
		if name != "" && name[0] != '[' { // otherwise the line is truncated
			l.meets(number, h, name)
		}
	case strings.Contains(m, "GPU Direct RDMA Disabled for ") && !strings.HasPrefix(m, "NET/Socket"): // sockets never have it
		h.disabled = number
	case strings.Contains(m, " via NET/"):
		l.channel(number, h, m)
	case strings.Contains(m, " set by environment to "):
		name, value, _ := strings.Cut(m, " set by environment to ")
		l.setting(number, name, strings.TrimSuffix(value, "."))
	case strings.HasPrefix(m, "NCCL_") && strings.Contains(m, " set to "):
		name, value, _ := strings.Cut(m, " set to ")
		l.setting(number, name, value)
	case strings.HasPrefix(m, "Invalid value "):
		l.say(number, env.Error, "Invalid value for NCCL", shorten(m), "NCCL uses its default.", "Write a whole number.")
	case strings.HasPrefix(m, "NET/IB") && strings.Contains(m, " GID ") && strings.Contains(m, " mtu "):
		l.connection(number, m)
	}
}

func (l *logged) setting(number int, name, value string) {
	if strings.HasPrefix(name, "NCCL_") && !strings.ContainsAny(name, " \t") && len(l.settings) < maxFindings {
		if s, ok := find(l.settings, name); !ok || s.value != value {
			l.settings = append(l.settings, setting{line: number, name: name, value: value, where: "log"})
		}
	}
}

// usingIB parses " NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>".
func (l *logged) usingIB(number int, h *hostLog, m string) {
	list, oob, _ := strings.Cut(m, "; OOB ")
	for field := range strings.FieldsSeq(list) {
		bracket := strings.Index(field, "]")
		colon := strings.Index(field, ":")
		if strings.HasPrefix(field, "[") && bracket > 0 && colon > bracket && len(h.devices) < 64 {
			h.devices[field[bracket+1:colon]] = true
		}
	}
	name, _, _ := strings.Cut(oob, ":")
	if name != "" {
		l.meets(number, h, name)
	}
}

// meets checks the bootstrap interface of a host.
func (l *logged) meets(number int, h *hostLog, name string) {
	if h.oob == "" {
		h.oob = name
	}
	for _, p := range []string{"docker", "virbr", "lo", "veth", "br-", "cni", "flannel", "cali"} {
		if rest, ok := strings.CutPrefix(name, p); ok && (p != "lo" || rest == "") {
			l.say(number, env.Error, "Bootstrap over a local interface", fmt.Sprintf("NCCL chose %s, which is local to this machine or belongs to a container bridge.", name), "Ranks on other hosts cannot connect, or all traffic crosses that bridge.", "Set NCCL_SOCKET_IFNAME to = followed by an interface that reaches all hosts.")
			return
		}
	}
}

// channel parses "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA".
func (l *logged) channel(number int, h *hostLog, m string) {
	_, path, _ := strings.Cut(m, " via NET/")
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
}
