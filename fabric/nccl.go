package fabric

import "maps"

// Netdev is the name of a NIC of the host, or of an interface.
type Netdev string

// NCCL holds declared NCCL settings. An attribute that is absent, null or "auto" is derived.
type NCCL struct {
	Block

	// RDMA or TCP sockets.
	Transport string `ff:"transport,one=ib|socket,auto"`
	// The NICs that NCCL uses: `[nic.rail0, nic.rail1]`.
	HCA []NICRef `ff:"hca,auto"`
	// The NIC, or the name of the interface, that NCCL bootstraps over.
	SocketIfname Netdev `ff:"socket_ifname,auto"`
	// Pins the GID index of all HCAs of the host.
	GIDIndex *int `ff:"gid_index,min=0,max=255,auto"`
	// NCCL's version on the hosts, such as `"2.27.5"`: variables are checked against it. Without it the newest known one is assumed here, and what a host has is looked at there.
	Version string `ff:"version"`
	// More variables of NCCL, by name; they win over what is derived, and are checked against NCCL's own.
	Env map[string]string `ff:"env"`
	// Whether the file is written.
	Write *bool `ff:"write,absent=true"`
	// Path on the host: `/etc/nccl.conf`, or a name of your own in `/etc` that holds `fabricform`, for `NCCL_CONF_FILE`.
	File string `ff:"file,absent=/etc/nccl.conf"`
	// Whether a file that somebody else wrote is replaced. It is kept beside ours, and given back.
	Replace *bool `ff:"replace,absent=false"`
}

// NCCLConf is the file that every NCCL on a host reads by itself.
const NCCLConf = "/etc/nccl.conf"

// NCCLFile is the file that NCCL's settings are written to on a host; "": none is written, because no
// block asks for it or one forbids it.
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

// NCCLOf is what the files say of NCCL on a host: its own block wins over the fabric's per
// attribute, and env merges by key.
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
