package fabric

import "time"

// Host is one machine. Its name is the name of its block, or its for_each key.
type Host struct {
	Block
	Name      string
	BlockName string // differs from Name under for_each

	// Management address or name, as for ssh. Default: the host's name, which `~/.ssh/config` may resolve. With `slurm`: the name or
	// address of the node, as `scontrol show node` says it.
	Address string `ff:"address"`
	// Your own names and values, for expressions and `-host`.
	Labels map[string]string `ff:"labels"`
	// Kernel settings under `net`, `vm`, `kernel` and `fs`, as sysctl(8) writes them: `"net.ipv4.ip_forward" = 1`.
	Sysctl map[string]string `ff:"sysctl"`
	// How much memory users may pin for RDMA: `"unlimited"` or a number of bytes.
	Memlock string `ff:"memlock"`
	// The program that manages the host's network settings. Set it if detection is ambiguous.
	NetworkManager string `ff:"network_manager,one=netplan|networkmanager|systemd-networkd|ifupdown|ifcfg"`
	// The class of traffic of all NICs of this host that name none themselves: `qos.lossless`.
	Class QoSRef `ff:"qos"`

	// SSH settings of this host.
	SSH SSH `ff:"ssh,block"`
	// How this host is reached through Slurm, instead of SSH.
	Slurm *Slurm `ff:"slurm,block"` // nil: by SSH
	// A network interface of the fabric. Interfaces without a block are never changed.
	NICs []*NIC `ff:"nic,block,label=NAME,repeat"` // and the bonds and VLANs, whose names differ from those of NICs
	// Several NICs that act as one, which fabricform makes. A bond can be used wherever a NIC can: `bond.b0`, or outside the host `host.a.bond.b0`.
	Bonds []*BondBlock `json:"-" ff:"bond,block,label=NAME,repeat"`
	// A VLAN on a NIC or bond, which fabricform makes. A VLAN can be used wherever a NIC can: `vlan.storage`, or outside the host
	// `host.a.vlan.storage`.
	VLANs []*VLANBlock `json:"-" ff:"vlan,block,label=NAME,repeat"`
	// A route of the main table.
	Routes []*MainRoute `ff:"route,block,label=NAME,repeat"`
	// A rule and the routes of its table, which are added together. Other routes in the table are left alone.
	Policy []*PolicyRoute `ff:"policy_route,block,label=NAME,repeat"`
	// A Soft-RoCE device on a plain NIC.
	RXE []*RXE `ff:"rxe,block,label=DEVICE,repeat"`
	// The RDMA driver stack.
	OFED *OFED `ff:"ofed,block"`
	// NCCL settings of this host.
	NCCL NCCL `ff:"nccl,block"`
}

// SSH holds the settings of the SSH connection. Zero fields default to ~/.ssh/config and then to ssh's
// own defaults.
type SSH struct {
	// Login name.
	User string `ff:"user"`
	// TCP port.
	Port int `ff:"port,min=1,max=65535"`
	// Private key, relative to the fabric file. Default: ssh-agent, then the usual default keys.
	IdentityFile string `ff:"identity_file,path"`
	// File of known host keys, relative to the fabric file. Default: `~/.ssh/known_hosts`. A host with an unknown key is refused.
	KnownHosts string `ff:"known_hosts,path"`
	// Jump hosts, `[user@]host[:port]`, separated by commas.
	ProxyJump string `ff:"proxy_jump"`
	// Whether the helper runs under `sudo -n`. Default: true, unless the user is root.
	Sudo *bool `ff:"sudo"`
	// How long to wait for a connection, with the login and the answers of the SSH agent. Default: 10 s. A longer timeout also
	// raises the heartbeat timeout.
	ConnectTimeout time.Duration `ff:"connect_timeout"`
}

// Slurm holds the settings of hosts that are nodes of a Slurm cluster. The helper runs in a small job step, and dials back.
type Slurm struct {
	// Partition of the steps. Default: the cluster's. A node without a free processor is read only in a partition that shares
	// processors (docs/slurm.md).
	Partition string `ff:"partition"`
	// Reservation of the steps, such as that of a maintenance.
	Reservation string `ff:"reservation"`
	// Account that the jobs of fabricform are charged to. Default: the user's.
	Account string `ff:"account"`
	// Quality of service of the jobs of fabricform. Default: that of the account.
	QOS string `ff:"qos"`
	// Time limit of the jobs of fabricform. While a command runs, root and operators of Slurm extend it; for other users, it must be enough for
	// a whole command. A job whose command was killed while slurmctld was away ends after this time.
	TimeLimit time.Duration `ff:"time_limit,default=15m"`
	// Whether the step, which runs as the user who runs fabricform, starts the helper by `sudo -n` on the node. Default: true, unless
	// that user is root.
	Sudo *bool `ff:"sudo"`
	// How many hosts are drained and changed at once, never both ends of a link.
	Wave int `ff:"wave,min=1,max=10000,default=1"`
	// How many nodes of a partition may be drained at once, whoever drained them: with more, nothing more is changed. Default: any number.
	MaxDrained int `ff:"max_drained,min=1"`
	// How long to wait until the jobs of drained hosts have ended. Then the hosts are given back unchanged.
	DrainTimeout time.Duration `ff:"drain_timeout,default=1h"`
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
