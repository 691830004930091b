// Package fabric is the typed model of a declared fabric: hosts, NICs, links, networks, routes and
// thresholds, as one fabric's files say them. It is pure: no files, no hosts, no I/O.
//
// The types are also the language's definition. A tag `ff:"name,…"` makes a field an attribute or a
// nested block of the fabric files, and the field's comment its documentation: package config
// decodes by these tags, and docs/language.md is made from the comments.
package fabric

import "embed"

// Source is this package's own source, for Doc.
//
//go:embed fabric.go host.go nic.go route.go rdma.go link.go nccl.go validate.go
var Source embed.FS

// Fabric is everything that the files of one fabric declare. Slices are sorted by name.
type Fabric struct {
	Name        string // scopes ownership on the hosts; "default" without a fabric block
	Description string

	// Defaults for every host; a host's own block wins per attribute, and ~/.ssh/config fills what is left open.
	SSH SSH `ff:"ssh,block"`
	// One machine, or with `for_each` one for each key.
	Hosts []*Host `ff:"host,block,label=NAME,repeat"`
	// A direct cable between two NICs: one object for both ends.
	Links []*Link `ff:"link,block,label=NAME,repeat"`
	// A switched segment, or with `routed` a set of routed subnets.
	Networks []*Network `ff:"network,block,label=NAME,repeat"`
	// NCCL settings of all hosts; a host's own block wins per attribute.
	NCCL NCCL `ff:"nccl,block"`
	// Thresholds of all links and networks, whose own blocks win per attribute.
	Validate Validate `ff:"validate,block"`

	Outputs []Output
}

// Output is a named value that the files give to other programs.
type Output struct {
	Name        string
	Description string
	Sensitive   bool
	JSON        []byte // the value, as JSON
}

// Pos is a place in a fabric file, for messages about a thing that the file declares.
type Pos struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// Block is what every declared thing knows of its place in the files.
type Block struct {
	Pos     Pos
	AttrPos map[string]Pos `json:"-"` // attribute name -> where it is set; shared by the block's instances
	Invalid bool           // an attribute of it has an error of its own: checks of the whole leave it out
}

// At is where an attribute is set, or the block itself.
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

// NIC resolves a reference; nil when it names nothing.
func (f *Fabric) NIC(r NICRef) *NIC {
	if h := f.Host(r.Host); h != nil {
		return h.NIC(r.NIC)
	}
	return nil
}
