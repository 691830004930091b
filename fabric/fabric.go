// Package fabric is the typed model of a declared fabric: hosts, NICs, links, networks, routes and
// thresholds. It is pure: it reads no files, contacts no hosts and does no I/O.
//
// The types also define the language. A tag `ff:"name,…"` makes a field an attribute or a nested block
// of the fabric files, and the field's comment is its documentation. Package config decodes by these
// tags, and docs/language.md is generated from the comments.
package fabric

import (
	"embed"
	"slices"
)

// Source holds the source of this package, from which package config reads the comments.
//
//go:embed fabric.go host.go nic.go bond.go route.go rdma.go link.go mesh.go nccl.go qos.go validate.go workload.go
var Source embed.FS

// Fabric holds everything that the files of one fabric declare. Slices are sorted by name.
type Fabric struct {
	Name        string // scope of ownership on the hosts; "default" without a fabric block
	Description string

	// Defaults for every host. A host's own block overrides them per attribute; `~/.ssh/config` supplies the rest.
	SSH SSH `ff:"ssh,block"`
	// All hosts are nodes of a Slurm cluster, and are reached by it instead of SSH. A host's own block overrides it per attribute, and a
	// host with an `ssh` block is reached by SSH.
	Slurm *Slurm `ff:"slurm,block"`
	// One machine, or one for each key of `for_each`.
	Hosts []*Host `ff:"host,block,label=NAME,repeat"`
	// A direct cable between two NICs. One block describes both ends.
	Links []*Link `ff:"link,block,label=NAME,repeat"`
	// A switched segment or, with `routed`, a set of routed subnets.
	Networks []*Network `ff:"network,block,label=NAME,repeat"`
	// A class of traffic for NICs, such as lossless RoCE. `nic` and `host` blocks refer to it as `qos.NAME`.
	Classes []*QoS `ff:"qos,block,label=NAME"`
	// What runs over a long link: training, inference or checkpoints of a model. `link` and `network` blocks refer to it as `workload.NAME`.
	Workloads []*Workload `ff:"workload,block,label=NAME"`
	// Hosts among which one user may log in without a password, as `mpirun` needs it. Each host makes a key of its own, and the
	// others accept it.
	LoginMeshes []*LoginMesh `ff:"login_mesh,block,label=NAME"`
	// NCCL settings of all hosts. A host's own block overrides them per attribute.
	NCCL NCCL `ff:"nccl,block"`
	// Thresholds of all links and networks. Their own blocks override them per attribute.
	Validate Validate `ff:"validate,block"`

	// RootLogin is -allow=root-login: meshes may be for the user root.
	RootLogin bool `json:",omitempty"`

	Outputs []Output
	// Sensitive names the variables whose values no message may show.
	Sensitive []string `json:"-"`
	// Secrets has the values of the placeholders.
	Secrets Secrets `json:"-"`
}

// Output is a named value for other programs.
type Output struct {
	Name        string
	Description string
	Sensitive   bool
	JSON        []byte // the value, as JSON
}

// Pos is a position in a fabric file, for messages.
type Pos struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// Block holds the position of a declared block in the files.
type Block struct {
	Pos     Pos
	AttrPos map[string]Pos `json:"-"` // positions of attributes by name; shared by the instances of the block
	Invalid bool           // an error in the block was already reported; further checks skip it
}

// At returns the position of an attribute, or of the block if the attribute is not set.
func (b Block) At(attr string) Pos {
	if p, ok := b.AttrPos[attr]; ok {
		return p
	}
	return b.Pos
}

// Host returns the host of that name, or nil.
func (f *Fabric) Host(name string) *Host {
	for _, h := range f.Hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// NIC returns the NIC that a reference names, or nil.
func (f *Fabric) NIC(r NICRef) *NIC {
	if h := f.Host(r.Host); h != nil {
		return h.NIC(r.NIC)
	}
	return nil
}

// UsesNetdev reports whether a declared NIC uses the interface of that name.
func (f *Fabric) UsesNetdev(name string) bool {
	return slices.ContainsFunc(f.Hosts, func(h *Host) bool {
		return slices.ContainsFunc(h.NICs, func(n *NIC) bool { return n.Netdev == name })
	})
}
