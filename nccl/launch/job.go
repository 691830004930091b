// Package launch renders scripts and manifests that start a job with a fabric's NCCL settings: for shells,
// mpirun, torchrun, Slurm, Docker and Kubernetes. It is pure.
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

// Job holds what the hosts of a fabric need to run NCCL together.
type Job struct {
	Fabric string
	Hosts  []Host
}

// Host is one host of a job.
type Host struct {
	Name       string // name in the files
	Hostname   string // output of uname -n
	Address    string // management address
	Management netip.Prefix
	GPUs       int    // 0: unknown
	Socket     string // netdev for bootstrap; "": unknown
	SocketAddr netip.Addr
	RDMA       bool
	File       string // path of nccl.conf; "": not written
	NICs       []NIC
	Env        nccl.Env
	Problems   []nccl.Problem // problems that keep NCCL from working
}

// NIC is a NIC of the host that NCCL uses.
type NIC struct {
	Name, Netdev string
	Addresses    []netip.Prefix
	MTU          int // bytes; 0: not declared
}

// New derives the settings of all hosts that have a snapshot.
func New(f *fabric.Fabric, snaps map[string]*facts.Snapshot) Job {
	j := Job{Fabric: f.Name}
	for _, h := range f.Hosts {
		if snap := snaps[h.Name]; snap != nil {
			j.Hosts = append(j.Hosts, NewHost(f, h, snap))
		}
	}
	return j
}

// NewHost derives the settings of one host.
func NewHost(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) Host {
	out := Host{Name: h.Name, Hostname: snap.System.Hostname, Address: h.Address, GPUs: len(snap.GPUs)}
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
		if l != nil && l.Name == out.Socket && !out.SocketAddr.IsValid() && !a.Prefix.Addr().IsLinkLocalUnicast() {
			out.SocketAddr = a.Prefix.Addr()
		}
		if a.Prefix.Addr().String() == h.Address || a.Prefix.Addr() == snap.Management.Server {
			out.Management = a.Prefix.Masked()
		}
	}
	for _, p := range nccl.Ports(f, h, snap) {
		out.RDMA = out.RDMA || p.HCA != ""
		n := h.NIC(p.NIC)
		out.NICs = append(out.NICs, NIC{Name: p.NIC, Netdev: p.Netdev, Addresses: n.Addresses, MTU: n.MTU})
		if p.Netdev == out.Socket && len(n.Addresses) > 0 {
			out.SocketAddr = n.Addresses[0].Addr()
		}
	}
	return out
}

// common splits the settings into those that are equal on all hosts and the rest for each host.
func (j Job) common() (common nccl.Env, rest []nccl.Env) {
	rest = make([]nccl.Env, len(j.Hosts))
	for i, h := range j.Hosts {
		for _, s := range h.Env {
			alike := !slices.ContainsFunc(j.Hosts, func(o Host) bool { v, ok := o.Env.Get(s.Name); return !ok || v != s.Value })
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

// slots returns the number of ranks on a host: one per GPU.
func (h Host) slots() int { return max(h.GPUs, 1) }

// master returns the address that all ranks connect to.
func (j Job) master() string {
	if a := j.Hosts[0].SocketAddr; a.IsValid() {
		return a.String()
	}
	return j.Hosts[0].Address
}

// managementNetwork returns the network that contains all management addresses. It is invalid if there is
// no single one.
func (j Job) managementNetwork() netip.Prefix {
	for _, h := range j.Hosts {
		if h.Management != j.Hosts[0].Management {
			return netip.Prefix{}
		}
	}
	return j.Hosts[0].Management
}

// check rejects values that a line of a file or script cannot contain.
func (j Job) check() error {
	if len(j.Hosts) == 0 {
		return fmt.Errorf("fabric %s: no host answered", j.Fabric)
	}
	for _, h := range j.Hosts {
		for _, s := range []string{h.Name, h.Hostname, h.Address, h.Socket, h.File} {
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
