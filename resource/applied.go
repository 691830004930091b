package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

// Local is a kind whose state is read from the kernel and from local files, in milliseconds and without a program: `fabricform health`
// compares resources of these kinds with the host.
type Local interface{ Local() }

// Applied is what an apply made of a host. The host keeps it, so that it can compare itself with it later.
type Applied struct {
	Fabric    string     `json:"fabric"`
	Build     string     `json:"build"` // of the program that applied it
	Time      time.Time  `json:"time"`
	Resources []Resource `json:"resources"` // of Local kinds; none: the host has nothing to compare
	// Cabled are the NICs among them that are on a link or in a network, so that they must have a carrier.
	Cabled []Addr `json:"cabled,omitempty"`
	// Uncovered are resources of Local kinds that are left out, because they contain sensitive values.
	Uncovered []Addr `json:"uncovered,omitempty"`
}

// NewApplied returns what an apply makes of a host: of the resources, those of Local kinds. cabled says which NICs must have a carrier.
func (k Kinds) NewApplied(fabricName, build string, now time.Time, all []Resource, cabled func(nic string) bool) *Applied {
	a := &Applied{Fabric: fabricName, Build: build, Time: now.UTC(), Resources: []Resource{}}
	for _, r := range all {
		kind, known := k.Lookup(r.Addr.Kind)
		if !known || !kind.Local {
			continue
		}
		if string(fabric.Mask(r.Spec)) != string(r.Spec) {
			a.Uncovered = append(a.Uncovered, r.Addr)
			continue
		}
		r.Pos, r.Payload = fabric.Pos{}, nil
		a.Resources = append(a.Resources, r)
		if kind.NIC && cabled(r.Addr.Name) {
			a.Cabled = append(a.Cabled, r.Addr)
		}
	}
	covered := func(addr Addr) bool {
		return slices.ContainsFunc(a.Resources, func(r Resource) bool { return r.Addr == addr })
	}
	for i := range a.Resources { // what is not kept cannot be waited for
		a.Resources[i].After = slices.DeleteFunc(slices.Clone(a.Resources[i].After), func(addr Addr) bool { return !covered(addr) })
	}
	return a
}

// Digest is equal if the same is to be compared with the host, whoever applied it.
func (a *Applied) Digest() string {
	same := *a
	same.Build, same.Time = "", time.Time{}
	raw, err := json.Marshal(same)
	if err != nil {
		panic(err) // our own types can always be encoded
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
