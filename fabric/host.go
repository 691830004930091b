package fabric

import "time"

// Host is one machine. Its name is the block's name, or the for_each key of its instance.
type Host struct {
	Block
	Name      string
	BlockName string // differs from Name under for_each

	// Management address or name, as ssh takes it; the host's name without it, through `~/.ssh/config`.
	Address string `ff:"address"`
	// Names and values of your own, for expressions.
	Labels map[string]string `ff:"labels"`
	// Kernel settings under `net`, `vm`, `kernel` and `fs`, as sysctl(8) writes them: `"net.ipv4.ip_forward" = 1`.
	Sysctl map[string]string `ff:"sysctl"`
	// How much memory users may pin for RDMA: `"unlimited"` or a number of bytes.
	Memlock string `ff:"memlock"`
	// What owns the host's network settings, where detection is ambiguous.
	NetworkManager string `ff:"network_manager,one=netplan|networkmanager|systemd-networkd|ifupdown|ifcfg"`

	// How this host is reached.
	SSH SSH `ff:"ssh,block"`
	// A network interface of the fabric. One that no block names is never touched.
	NICs []*NIC `ff:"nic,block,label=NAME,repeat"`
	// A route of the main table.
	Routes []*MainRoute `ff:"route,block,label=NAME,repeat"`
	// A rule and the routes of its table, made together. It owns only the routes that it lists.
	Policy []*PolicyRoute `ff:"policy_route,block,label=NAME,repeat"`
	// A Soft-RoCE device on a plain NIC.
	RXE []*RXE `ff:"rxe,block,label=DEVICE,repeat"`
	// The RDMA driver stack.
	OFED *OFED `ff:"ofed,block"`
	// NCCL settings of this host.
	NCCL NCCL `ff:"nccl,block"`
}

// SSH says how a host is reached. Zero fields fall to ~/.ssh/config and the usual defaults.
type SSH struct {
	// Login name.
	User string `ff:"user"`
	// TCP port.
	Port int `ff:"port,min=1,max=65535"`
	// Private key, relative to the file that names it; else ssh-agent, then the usual default keys.
	IdentityFile string `ff:"identity_file,path"`
	// Host keys, relative to the file that names them; else `~/.ssh/known_hosts`. A host must be known.
	KnownHosts string `ff:"known_hosts,path"`
	// Hosts to go through, `[user@]host[:port]`, separated by commas.
	ProxyJump string `ff:"proxy_jump"`
	// Run the helper under `sudo -n`; without it yes, unless the user is root.
	Sudo *bool `ff:"sudo"`
	// How long to wait for a connection; 10 s without it. A host that is given longer is a slow one: its silence is borne longer, too.
	ConnectTimeout time.Duration `ff:"connect_timeout"`
}

// NIC returns the NIC of that name, or nil.
func (h *Host) NIC(name string) *NIC {
	for _, n := range h.NICs {
		if n.Name == name {
			return n
		}
	}
	return nil
}
