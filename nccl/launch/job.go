// Package launch renders scripts and manifests that start a job with a fabric's NCCL settings: for shells, torchrun, Docker and
// Podman, Open MPI, MPICH, Slurm, Kubernetes and Kubeflow. It is pure.
package launch

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
)

// MaxGPUs limits the GPUs of a host, which the host itself reports: a launcher starts a rank for each.
const MaxGPUs = 256

// Job holds what the hosts of a fabric need to run NCCL together.
type Job struct {
	Fabric string
	Hosts  []Host
	User   string // who can log in from each host to the others, by a login_mesh that has them all; "": unknown
	MPIRun string // path of MPI's launcher, whose libraries are in ../lib or ../lib64; "": the one in PATH
}

// Host is one host of a job.
type Host struct {
	Name       string     // name in the files
	Hostname   string     // output of uname -n
	Address    string     // management address
	Login      netip.Addr // for logins by a login_mesh: dialled or declared, and no other host's; invalid: Address
	Management netip.Prefix
	GPUs       int    // 0: unknown
	Socket     string // netdev for bootstrap; "": unknown
	SocketAddr netip.Addr

	// The IPv4 networks of the interfaces with Management and SocketAddr, which these may be; invalid: none. Open MPI's lists of
	// networks have only IPv4 (split_and_resolve in btl_tcp_component.c, 4.1 and 5.0). Socket4 is declared; the host itself says
	// Management4.
	Management4, Socket4 netip.Prefix

	RDMA     bool
	File     string // path of nccl.conf; "": not written
	NICs     []NIC
	Env      nccl.Env
	Problems []nccl.Problem // problems that keep NCCL from working

	dialled  netip.Addr // at which we reached the host; invalid: unknown, or another host may have it
	declared netip.Addr // of Socket, by the files; invalid: none, or another host may have it
}

// NIC is a NIC of the host that NCCL uses.
type NIC struct {
	Name, Netdev string
	Kind         string // of the interface: "vlan", "bond"; "": a plain device
	UCX          string // name of its RDMA device for UCX, such as mlx5_0:1; "": none, or UCX would choose another GID than NCCL
	Addresses    []netip.Prefix
	MTU          int               // bytes; 0: not declared
	Sysctl       map[string]string // without the interface's name: "ipv4.conf.arp_ignore"
	Routes       []fabric.Route    // of the main table, and of Sourced
	Sourced      bool              // routes are chosen by the NIC's own address: policy routes from it
	Policy       string            // name of another policy route on the NIC; "": none
	Soft         bool              // its RDMA device is software on the NIC (Soft-RoCE)
}

// New derives the settings of all hosts that have a snapshot.
func New(f *fabric.Fabric, snaps map[string]*facts.Snapshot) Job {
	var hosts []Host
	owners := AddressOwners(f, snaps)
	for _, h := range f.Hosts {
		if snap := snaps[h.Name]; snap != nil {
			hosts = append(hosts, NewHost(f, h, snap, owners))
		}
	}
	return Of(f, hosts)
}

// AddressOwners returns who may have which address. snaps has the hosts that were reached.
func AddressOwners(f *fabric.Fabric, snaps map[string]*facts.Snapshot) fabric.AddressOwners {
	return f.AddressOwners(func(host string) (dialled netip.Addr) {
		if snap := snaps[host]; snap != nil {
			dialled = snap.Management.Dialled
		}
		return dialled
	})
}

// Of returns the job of some hosts of a fabric.
func Of(f *fabric.Fabric, hosts []Host) Job {
	j := Job{Fabric: f.Name, Hosts: hosts, MPIRun: f.Validate.NCCL.MPIRun}
	if m := f.Mesh(j.names()...); m != nil {
		j.User, j.Hosts = m.User, slices.Clone(hosts)
		for i, h := range j.Hosts {
			if !j.managementNetwork().IsValid() && h.declared.IsValid() { // the hosts may reach each other only where NCCL does
				j.Hosts[i].Login = h.declared
			}
		}
	}
	return j
}

func (j Job) names() (out []string) {
	for _, h := range j.Hosts {
		out = append(out, h.Name)
	}
	return out
}

// NewHost derives the settings of one host. Other hosts are sent to its addresses, so a host does not get one by its own word alone
// that another host may have (owners).
func NewHost(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot, owners fabric.AddressOwners) Host {
	out := Host{Name: h.Name, Hostname: snap.System.Hostname, Address: h.Address, GPUs: len(snap.GPUs)}
	if a := snap.Management.Dialled; owners.Admits(h.Name, a) {
		out.dialled = a
	}
	if f.Mesh(h.Name) != nil { // its keys are for addresses, and for the names in the files
		out.Login = out.dialled
	}
	if out.Hostname == "" {
		out.Hostname = h.Name
	}
	if out.Address == "" {
		out.Address = h.Name
	}
	out.Env, out.Problems = nccl.Derive(f, h, snap)
	out.File = f.NCCLFile(h)
	if v, ok := out.Env.Get("NCCL_SOCKET_IFNAME"); ok && strings.HasPrefix(v, "=") && !strings.Contains(v, ",") {
		out.Socket = v[1:]
	}
	for _, a := range snap.Addrs {
		l := snap.LinkByIndex(a.Index)
		if l != nil && l.Name == out.Socket && !out.SocketAddr.IsValid() && owners.Admits(h.Name, a.Prefix.Addr()) {
			out.SocketAddr = a.Prefix.Addr()
		}
		if a.Prefix.Addr().String() == h.Address || a.Prefix.Addr() == snap.Management.Server {
			out.Management, out.Management4 = a.Prefix.Masked(), network4(snap, a.Index, a.Prefix)
		}
	}
	for _, p := range nccl.Ports(f, h, snap) {
		out.RDMA = out.RDMA || p.HCA != ""
		n := h.NIC(p.NIC)
		nic := NIC{Name: p.NIC, Netdev: p.Netdev, Addresses: n.Addresses, MTU: n.MTU, Sysctl: n.Sysctl}
		if l := snap.Link(p.Netdev); l != nil {
			nic.Kind = l.Kind
		}
		nic.Soft = slices.ContainsFunc(h.RXE, func(r *fabric.RXE) bool { return r.NIC == n.Ref() }) ||
			slices.ContainsFunc(snap.RDMAOn(p.Netdev), func(d *facts.RDMADevice) bool { return d.Virtual })
		for _, r := range h.Routes {
			if r.NIC == n.Ref() {
				nic.Routes = append(nic.Routes, r.Route)
			}
		}
		for _, r := range h.Policy {
			switch {
			case r.NIC != n.Ref():
			case r.From.IsSingleIP() && !r.To.IsValid() && slices.ContainsFunc(n.Addresses, func(a netip.Prefix) bool { return a.Addr() == r.From.Addr() }):
				nic.Sourced, nic.Routes = true, append(nic.Routes, r.Routes...)
			default:
				nic.Policy = r.Name
			}
		}
		if _, ranged := out.Env.Get("NCCL_IB_ADDR_RANGE"); p.HCA != "" && !ranged {
			nic.UCX = fmt.Sprintf("%s:%d", p.HCA, p.Number)
		}
		out.NICs = append(out.NICs, nic)
		if p.Netdev == out.Socket && len(n.Addresses) > 0 {
			out.SocketAddr = n.Addresses[0].Addr()
			if i := slices.IndexFunc(n.Addresses, func(a netip.Prefix) bool { return a.Addr().Is4() }); i >= 0 {
				out.Socket4 = n.Addresses[i].Masked()
			}
			if owners.Admits(h.Name, out.SocketAddr) {
				out.declared = out.SocketAddr
			}
		}
	}
	return out
}

// network4 returns the network of an IPv4 address, or the first IPv4 network of its interface; invalid if there is none.
func network4(snap *facts.Snapshot, index int, p netip.Prefix) netip.Prefix {
	if p.Addr().Is4() {
		return p.Masked()
	}
	for _, o := range snap.Addrs {
		if o.Index == index && o.Prefix.Addr().Is4() {
			return o.Prefix.Masked()
		}
	}
	return netip.Prefix{}
}

// torch returns the settings of PyTorch's other transports, which choose their interface by the name of the host. They accept
// whole names without NCCL's "=". Gloo accepts a list (c10d/init.cpp splits it at commas). TensorPipe accepts one name, and uses
// 127.0.0.1 if the host does not have that interface (guessAddress in rpc/tensorpipe_agent.cpp, PyTorch 1.6 to 2.11).
func (h Host) torch() nccl.Env {
	if h.Socket == "" {
		return nil
	}
	return h.unless(nccl.Env{
		{Name: "GLOO_SOCKET_IFNAME", Value: h.Socket, Reason: "torch's CPU collectives use the same interface; Gloo accepts only whole names"},
		{Name: "TP_SOCKET_IFNAME", Value: h.Socket, Reason: "torch's RPC uses the same interface; TensorPipe accepts one whole name"},
	})
}

// ucx returns the setting of UCX, on which MPI may run: it uses every device that it finds, whether or not a network joins the two
// ends. UCX_NET_DEVICES is a list of RDMA ports (mlx5_0:1) and interfaces (eth0); MPI only starts the ranks, so one of them is enough.
func (h Host) ucx() nccl.Env {
	device := h.Socket
	for _, n := range h.NICs {
		if n.Netdev == h.Socket && n.UCX != "" && nccl.UsesRDMA(h.Env) {
			device = n.UCX
		}
	}
	if device == "" {
		return nil
	}
	return h.unless(nccl.Env{{Name: "UCX_NET_DEVICES", Value: device, Reason: "MPI over UCX starts the ranks; it would use any device that it finds"}})
}

// unless returns the settings that nccl.env does not declare.
func (h Host) unless(settings nccl.Env) nccl.Env {
	return slices.DeleteFunc(settings, func(s nccl.Setting) bool { _, declared := h.Env.Get(s.Name); return declared })
}

// common splits the settings, with those of torch and UCX, into those that are equal on all hosts and the rest for each host.
func (j Job) common() (common nccl.Env, rest []nccl.Env) {
	return j.split(func(h Host) nccl.Env { return slices.Concat(h.Env, h.torch(), h.ucx()) })
}

// split splits the settings of the hosts into those that are equal on all of them and the rest for each host.
func (j Job) split(settings func(Host) nccl.Env) (common nccl.Env, rest []nccl.Env) {
	rest = make([]nccl.Env, len(j.Hosts))
	all := make([]nccl.Env, len(j.Hosts))
	for i, h := range j.Hosts {
		all[i] = settings(h)
	}
	for i := range j.Hosts {
		for _, s := range all[i] {
			alike := !slices.ContainsFunc(all, func(o nccl.Env) bool { v, ok := o.Get(s.Name); return !ok || v != s.Value })
			switch {
			case !alike:
				rest[i] = append(rest[i], s)
			case i == 0:
				common = append(common, s)
			}
		}
	}
	return common, rest
}

// At returns where the other hosts log in to this one.
func (h Host) At() string {
	if h.Login.IsValid() {
		return h.Login.String()
	}
	return h.Address
}

// slots returns the number of ranks on a host: one per GPU.
func (h Host) slots() int { return max(h.GPUs, 1) }

// master returns the address that all ranks connect to.
func (j Job) master() string { return j.Hosts[0].ranksAddress() }

// ranksAddress returns the address at which the ranks of other hosts reach this one.
func (h Host) ranksAddress() string {
	if h.SocketAddr.IsValid() {
		return h.SocketAddr.String()
	}
	return h.Address
}

// managementNetwork returns the network that contains all management addresses. It is invalid if there is
// no single one. The first host, where launchers run, says how large it is; what another host says counts only if we do not know
// where we reached that host.
func (j Job) managementNetwork() netip.Prefix {
	net := j.Hosts[0].Management
	for _, h := range j.Hosts {
		if !net.Contains(h.dialled) && (h.dialled.IsValid() || h.Management != net) {
			return netip.Prefix{}
		}
	}
	return net
}

// launchNetworks returns the IPv4 networks for the messages of MPI and its launcher; nil if they are unknown. They are those of the
// management path, or declared ones. All hosts use them, so the report of one host alone cannot add a network.
func (j Job) launchNetworks() []string {
	switch n := j.managementNetwork(); {
	case n.IsValid():
		return j.managementNetworks(n)
	case j.User != "":
		return j.networks(func(h Host) netip.Prefix { return h.Socket4 })
	}
	return nil
}

// managementNetworks returns the IPv4 network of the management path, if all hosts say that it is theirs. If they do not agree, it is
// the smallest network with all the addresses at which we reached them.
func (j Job) managementNetworks(n netip.Prefix) []string {
	said := func(h Host) netip.Prefix { return h.Management }
	if !n.Addr().Is4() {
		said = func(h Host) netip.Prefix { return h.Management4 }
	}
	if all := j.networks(said); len(all) == 1 {
		return all
	}
	first := j.Hosts[0].dialled
	if !n.Addr().Is4() || !first.IsValid() {
		return nil
	}
	for bits := 30; ; bits-- { // Open MPI reads /32 as /0 (opal_net_prefix2netmask in opal/util/net.c, 4.1 and 5.0)
		p := netip.PrefixFrom(first, bits).Masked()
		other := slices.IndexFunc(j.Hosts, func(h Host) bool { return !p.Contains(h.dialled) })
		switch {
		case other < 0:
			return []string{p.String()}
		case !n.Contains(j.Hosts[other].dialled): // unknown
			return nil
		}
	}
}

// networks returns a network of each host, without duplicates; nil if a host has none: it could not use a list without its own.
func (j Job) networks(of func(Host) netip.Prefix) (out []string) {
	for _, h := range j.Hosts {
		n := of(h)
		if !n.IsValid() {
			return nil
		}
		if !slices.Contains(out, n.String()) {
			out = append(out, n.String())
		}
	}
	return out
}

// check rejects values that a line of a file or script cannot contain.
func (j Job) check() error {
	if len(j.Hosts) == 0 {
		return fmt.Errorf("fabric %s: no host answered", j.Fabric)
	}
	for _, h := range j.Hosts {
		if h.GPUs > MaxGPUs {
			return fmt.Errorf("host %s reports %d GPUs: at most %d are possible", h.Name, h.GPUs, MaxGPUs)
		}
		for _, s := range []string{j.Fabric, h.Name, h.Hostname, h.Address, h.Socket, h.File, j.MPIRun} {
			if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
				return fmt.Errorf("host %q: %q contains characters that do not print", h.Name, s)
			}
		}
		if _, err := nccl.RenderConf(h.Env); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return nil
}
