package calls

import (
	"errors"
	"fmt"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/resource"
)

// Import drafts the model of a host from what it has.
var Import = agent.Method[ImportParams, ImportResult]("import")

// ImportParams says for which files the model is.
type ImportParams struct {
	// See resource.Draft.
	Persist bool     `json:"persist,omitempty"`
	Cabled  []string `json:"cabled,omitempty"`
}

// ImportResult is the model of a host, and what it does not say.
type ImportResult struct {
	Host    *fabric.Host      `json:"host"`
	Remarks []resource.Remark `json:"remarks,omitempty"`
	// Owners are the fabrics that own values on the host.
	Owners []string `json:"owners,omitempty"`
}

// Check returns an error unless files could declare the names of the answer, and its references are to its own NICs: whatever else a host
// answers must not become an expression of a file.
func (r ImportResult) Check() error {
	if r.Host == nil {
		return errors.New("its answer holds no host")
	}
	for _, name := range r.Owners {
		if !fabric.IsName(name) {
			return errors.New("its answer has a fabric of an impossible name")
		}
	}
	nics, devices := map[string]bool{"": true}, map[string]bool{} // a block may name no NIC
	for _, n := range r.Host.NICs {
		if n == nil || !fabric.IsName(n.Name) || !isDevice(n.Netdev) {
			return errors.New("its answer has a NIC of an impossible name")
		}
		if nics[n.Name] || devices[n.Netdev] {
			return errors.New("its answer has two NICs of one name")
		}
		nics[n.Name], devices[n.Netdev] = true, true
	}
	vlans, members := map[string]bool{}, map[string]bool{}
	for _, n := range r.Host.NICs {
		if n.Bond != nil && len(n.Bond.NICs) == 0 {
			return errors.New("its answer has a bond without members")
		}
		if n.Bond != nil {
			for _, m := range n.Bond.NICs {
				if members[m.NIC] {
					return errors.New("its answer has a member of two bonds")
				}
				members[m.NIC] = true
			}
		}
		for _, m := range n.Below() {
			if m.NIC == "" || !nics[m.NIC] {
				return errors.New("its answer has a bond or VLAN on a NIC that it does not have")
			}
			if below := r.Host.NIC(m.NIC); below.VLAN != nil || n.Bond != nil && below.Bond != nil {
				return errors.New("its answer has a bond or VLAN on a device that can carry none")
			}
		}
		if v := n.VLAN; v != nil {
			at := fmt.Sprint(v.On.NIC, " ", v.ID)
			if vlans[at] {
				return errors.New("its answer has a VLAN twice")
			}
			vlans[at] = true
		}
	}
	for _, x := range r.Host.RXE {
		if x == nil || !fabric.IsName(x.Name) || !nics[x.NIC.NIC] {
			return errors.New("its answer has an RDMA device of an impossible name, or on a NIC that it does not have")
		}
	}
	for _, p := range r.Host.Policy {
		if p == nil || !fabric.IsName(p.Name) || !nics[p.NIC.NIC] {
			return errors.New("its answer has a policy route of an impossible name, or on a NIC that it does not have")
		}
	}
	for _, m := range r.Host.Routes {
		if m == nil || !fabric.IsName(m.Name) || !nics[m.NIC.NIC] {
			return errors.New("its answer has a route of an impossible name, or on a NIC that it does not have")
		}
	}
	return nil
}
