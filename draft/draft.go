// Package draft writes the files of a fabric from the models of running hosts and from what was found out about their cables. It is pure:
// models in, text out. Hosts that are alike become one block with for_each; so do rails.
package draft

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/cabling"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/resource"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Host is a host that was read.
type Host struct {
	Name    string // a name that files can declare, different from those of the other hosts
	Address string // "": its name
	User    string // "": ssh's own
	Model   *fabric.Host
	Remarks []resource.Remark
	// Asked is the name of the host in the report.
	Asked string
}

// Input is what files are written from.
type Input struct {
	Fabric string
	Hosts  []Host // sorted by name
	Report *cabling.Report
	NCCL   []string // remarks on the settings of NCCL
	// Left is what no file can declare, and why. A link or network, such as "link a-b-rail0", is written as a comment, and its NICs declare
	// their MTUs and addresses themselves; Write adds links whose ends have different MTUs. A NIC, such as "nic a.rail0", gets no addresses. A class of traffic, such
	// as "qos lossless-2", is written as a comment, and NICs do not refer to it. A variable of NCCL, such as "env a.NCCL_DEBUG", or
	// "env .NCCL_DEBUG" if all hosts have the same settings, is left out.
	Left map[string]string
	Flat bool // no block is folded, so that each has a line of its own
	// Origin says where the hosts come from, for the first comment; "": they were read.
	Origin string
}

// Write returns the text of the file.
func Write(in Input) []byte {
	w := &writer{in: in, printer: &printer{group: map[string]string{}, family: map[string]family{}}, number: map[fabric.NICRef]int{},
		byLink: map[fabric.NICRef]bool{}, port: map[fabric.NICRef]string{}, ports: map[string]bool{}, mtu: map[fabric.NICRef]bool{}, comments: map[fabric.NICRef][]string{},
		known: map[fabric.NICRef]*fabric.NIC{}, bond: map[fabric.NICRef]fabric.NICRef{}, vlans: map[fabric.NICRef][]fabric.NICRef{}}
	w.in.Hosts = slices.Clone(in.Hosts)
	for i := range w.in.Hosts {
		w.leaveAddresses(&w.in.Hosts[i])
		w.index(w.in.Hosts[i])
	}
	w.folder = &folder{printer: w.printer, flat: in.Flat}
	links := w.links()
	networks := w.networks()
	hosts := w.folder.hosts(w.hosts())
	links = w.folder.fold(links, "link", false, nil)
	networks = w.folder.fold(networks, "network", false, nil)
	return w.text(hosts, slices.Concat(links, networks))
}

type writer struct {
	in      Input
	folder  *folder
	printer *printer
	classes []*block                 // the qos blocks
	number  map[fabric.NICRef]int    // host numbers that networks give
	byLink  map[fabric.NICRef]bool   // a link gives the addresses
	mtu     map[fabric.NICRef]bool   // a link or network gives the MTU
	port    map[fabric.NICRef]string // the port group of links from this end
	ports   map[string]bool          // all port groups
	// comments are further comments of NICs.
	comments map[fabric.NICRef][]string
	left     []string // of what could not be written

	// The NICs of all hosts, the bonds of members, and the VLANs on NICs and bonds: a host may have thousands of them.
	known map[fabric.NICRef]*fabric.NIC
	bond  map[fabric.NICRef]fabric.NICRef
	vlans map[fabric.NICRef][]fabric.NICRef
}

// index indexes the devices of a host.
func (w *writer) index(h Host) {
	for _, n := range h.Model.NICs {
		at := fabric.NICRef{Host: h.Name, NIC: n.Name}
		w.known[at] = n
		if n.Bond != nil {
			for _, m := range n.Bond.NICs {
				w.bond[fabric.NICRef{Host: h.Name, NIC: m.NIC}] = at
			}
		}
		if n.VLAN != nil {
			on := fabric.NICRef{Host: h.Name, NIC: n.VLAN.On.NIC}
			w.vlans[on] = append(w.vlans[on], at)
		}
	}
}

// leaveAddresses copies the model of a host, without the addresses that no file can declare.
func (w *writer) leaveAddresses(h *Host) {
	model := *h.Model
	model.NICs = slices.Clone(model.NICs)
	for i, n := range model.NICs {
		at := fabric.NICRef{Host: h.Name, NIC: n.Name}
		own := *n
		model.NICs[i] = &own
		if why := w.in.Left["nic "+at.String()]; why != "" {
			own.Addresses, own.AddressesSet = nil, false
			w.comments[at] = append(w.comments[at], fmt.Sprintf("addresses are left out (%s): %s", strings.Trim(fmt.Sprint(n.Addresses), "[]"), why))
		}
	}
	h.Model = &model
}

func (w *writer) nic(r fabric.NICRef) *fabric.NIC { return w.known[r] }

// ends returns the NICs at the end of a cable that were imported: several if they are functions of one port.
func (w *writer) ends(e cabling.End) (out []fabric.NICRef) {
	for _, h := range w.in.Hosts {
		if h.Asked != e.Host {
			continue
		}
		for _, n := range h.Model.NICs {
			if slices.Contains(e.Netdevs, n.Netdev) {
				out = append(out, fabric.NICRef{Host: h.Name, NIC: n.Name})
			}
		}
	}
	return out
}

// ref refers to a NIC from outside of its host.
func (w *writer) ref(r fabric.NICRef) ref { return ref{NICRef: r, kind: kindOf(w.nic(r))} }

// refHere refers to a NIC of the host itself.
func refHere(h *fabric.Host, r fabric.NICRef) ref {
	return ref{NICRef: fabric.NICRef{NIC: r.NIC}, kind: kindOf(h.NIC(r.NIC))}
}

// kindOf is the kind of block of a reference; "" for a plain NIC, and for none.
func kindOf(n *fabric.NIC) string {
	if n == nil || n.Kind() == "nic" {
		return ""
	}
	return n.Kind()
}

func unique(taken map[string]bool, name string) string {
	out := name
	for n := 2; taken[out]; n++ {
		out = fmt.Sprintf("%s-%d", name, n)
	}
	taken[out] = true
	return out
}

// text writes the file.
func (w *writer) text(hosts, rest []*block) []byte {
	p := w.printer
	fmt.Fprintf(&p.Builder, "# %s\n", cmp.Or(w.in.Origin, "Imported from running hosts. NICs are named by their order on the PCI bus."))
	fmt.Fprintf(&p.Builder, "fabric %q {}\n\n", w.in.Fabric)
	if len(w.in.Hosts) > 0 && w.in.Hosts[0].User != "" && w.oneUser() {
		fmt.Fprintf(&p.Builder, "ssh {\n  user = %s\n}\n\n", string(quoted(w.in.Hosts[0].User)))
	}
	for _, b := range slices.Concat(w.classes, w.nccl()) {
		p.block(b, "")
		fmt.Fprintln(&p.Builder)
	}
	if locals := w.folder.used(slices.Concat(hosts, rest)); len(locals) > 0 {
		fmt.Fprintln(&p.Builder, "locals {")
		for _, l := range locals {
			l.write(&p.Builder)
		}
		fmt.Fprint(&p.Builder, "}\n\n")
	}
	for i, b := range slices.Concat(hosts, rest) {
		if i > 0 {
			fmt.Fprintln(&p.Builder)
		}
		p.at = b.label
		if b.each != nil && b.kind == "host" {
			p.at = b.each.keys[0]
		}
		p.block(b, "")
	}
	w.notImported(p)
	return hclwrite.Format([]byte(p.String()))
}

// notImported lists what the files do not say, each text once with the hosts that it is about.
func (w *writer) notImported(p *printer) {
	hosts := map[string][]string{}
	for _, h := range w.in.Hosts {
		for _, r := range h.Remarks {
			if !r.Left {
				continue
			}
			text := r.Text
			if r.NIC != "" {
				text = r.NIC + ": " + text
			}
			if !slices.Contains(hosts[text], h.Name) { // routes may differ in what the text does not say
				hosts[text] = append(hosts[text], h.Name)
			}
		}
	}
	if len(hosts)+len(w.left) == 0 {
		return
	}
	fmt.Fprint(&p.Builder, "\n# On the hosts, but not in these files:\n")
	alike := map[string][]string{} // texts that differ in numbers alone
	for _, text := range slices.Sorted(maps.Keys(hosts)) {
		shape := numbers().ReplaceAllString(text, "#")
		alike[shape] = append(alike[shape], text)
	}
	for _, shape := range slices.Sorted(maps.Keys(alike)) {
		texts := alike[shape]
		more := ""
		var on []string
		for _, text := range texts {
			on = append(on, hosts[text]...)
		}
		if len(texts) > maxAlike {
			slices.Sort(on)
			more = fmt.Sprintf(" (and %d more like this, on %s)", len(texts)-1, names(slices.Compact(on)))
			texts = texts[:1]
		}
		for _, text := range texts {
			fmt.Fprintf(&p.Builder, "# - %s: %s\n", clean(names(hosts[text])), clean(text+more))
		}
	}
	for _, text := range w.left {
		fmt.Fprintf(&p.Builder, "# - %s\n", clean(text))
	}
}

// maxAlike is how many remarks that differ in numbers alone are listed; of more, the first one stands for all.
const maxAlike = 3

// numbers are numbers and addresses in a remark.
var numbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9a-fA-F:./]*[0-9][0-9a-fA-F:./]*`) })

// names lists hosts, the first few by name.
func names(hosts []string) string {
	if len(hosts) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(hosts[:2], ", "), len(hosts)-2)
	}
	return strings.Join(hosts, ", ")
}
