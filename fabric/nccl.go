package fabric

import (
	"maps"
	"slices"
)

// Netdev is the name of a NIC of the host or of an interface.
type Netdev string

// NCCL holds declared NCCL settings. An attribute that is absent, null or "auto" is derived.
type NCCL struct {
	Block

	// RDMA (`ib`) or TCP sockets.
	Transport string `ff:"transport,one=ib|socket,auto"`
	// The NICs that NCCL uses: `[nic.rail0, nic.rail1]` in the block of a host, `[for h in values(host) : h.nic.rail0]` outside a host.
	HCA []NICRef `ff:"hca,auto"`
	// The NIC or interface that NCCL uses for bootstrap. Outside a host, a NIC stands for the NIC of this name on each host.
	SocketIfname Netdev `ff:"socket_ifname,auto"`
	// GID index of all HCAs of the host, pinned.
	GIDIndex *int `ff:"gid_index,min=0,max=255,auto"`
	// NCCL's version on the hosts, such as `"2.27.5"`. Variables are checked against it. Default: offline checks assume the
	// newest known version, and checks on a host use the version that is installed there.
	Version string `ff:"version"`
	// Further NCCL variables by name. They override derived values, and are checked against the table of NCCL's variables. `NCCL_IB_TC`
	// and `NCCL_IB_SL` follow from the NICs' `qos`, and the verbs check uses them, too. A value may be sensitive.
	Env map[string]string `ff:"env,sensitive"`
	// Whether to write the file.
	Write *bool `ff:"write,absent=true"`
	// Path on the host: `/etc/nccl.conf`, or a file in `/etc` whose name contains `fabricform`, for `NCCL_CONF_FILE`.
	File string `ff:"file,absent=/etc/nccl.conf"`
	// Whether to replace a file that fabricform did not write. The original is kept beside it and restored when the block is removed.
	Replace *bool `ff:"replace,absent=false"`
}

// NCCLConf is the file that every NCCL on a host reads by default.
const NCCLConf = "/etc/nccl.conf"

// NCCLFile returns the path of the file for NCCL's settings on a host. It returns "" if no block declares
// NCCL settings, or if a block sets write = false.
func (f *Fabric) NCCLFile(h *Host) string {
	n := f.NCCLOf(h)
	if f.NCCL.Pos == (Pos{}) && h.NCCL.Pos == (Pos{}) || n.Write != nil && !*n.Write {
		return ""
	}
	if n.File == "" {
		return NCCLConf
	}
	return n.File
}

// ForCollectives returns the host's NICs that NCCL should use, in their order: those in nccl.hca or, if it is not set, those of
// links and networks with role training.
func (f *Fabric) ForCollectives(h *Host) (out []*NIC) {
	declared := f.NCCLOf(h).HCA
	for _, n := range h.NICs {
		if len(declared) > 0 && slices.Contains(declared, n.Ref()) || len(declared) == 0 && f.Role(n.Ref()) == "training" {
			out = append(out, n)
		}
	}
	return out
}

// NCCLOf returns the NCCL settings of a host. Its own block overrides the fabric's per attribute, and
// env per variable.
func (f *Fabric) NCCLOf(h *Host) NCCL {
	out := h.NCCL
	if out.Transport == "" {
		out.Transport = f.NCCL.Transport
	}
	if out.HCA == nil {
		for _, r := range f.NCCL.HCA {
			if r.Host == h.Name {
				out.HCA = append(out.HCA, r)
			}
		}
	}
	if out.SocketIfname == "" {
		out.SocketIfname = f.NCCL.SocketIfname
	}
	if out.GIDIndex == nil {
		out.GIDIndex = f.NCCL.GIDIndex
	}
	if out.Version == "" {
		out.Version = f.NCCL.Version
	}
	if out.Write == nil {
		out.Write = f.NCCL.Write
	}
	if out.File == "" {
		out.File = f.NCCL.File
	}
	if out.Replace == nil {
		out.Replace = f.NCCL.Replace
	}
	out.Env = map[string]string{}
	maps.Copy(out.Env, f.NCCL.Env)
	maps.Copy(out.Env, h.NCCL.Env)
	return out
}
