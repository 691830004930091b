package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
)

// derive is what to write instead of what belongs to single hosts.
const derive = "`fabricform render nccl` prints what belongs there, host by host."

// find is a variable's setting; the first one holds.
func find(all []setting, name string) (setting, bool) {
	i := slices.IndexFunc(all, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return all[i], true
}

// set judges what is there and what is missing, without a fabric.
func (r *reading) set(all []setting) {
	hca, hasHCA := find(all, "NCCL_IB_HCA")
	ifname, hasIfname := find(all, "NCCL_SOCKET_IFNAME")
	disable, _ := find(all, "NCCL_IB_DISABLE")
	sockets := env.ParseNumber(disable.value).Value != 0
	if sockets {
		r.add(disable.line, env.Finding{Severity: env.Note, Name: disable.name, Summary: "RDMA is switched off", Wrong: "NCCL uses TCP sockets.", Costs: "Through the kernel a byte costs processor time, and a 25G link carries some 23.5 Gb/s at best.", Instead: "Leave it out where the NICs have RDMA."})
	}
	if hasIfname && !hasHCA && !sockets {
		r.add(ifname.line, env.Finding{Severity: env.Warning, Name: "NCCL_IB_HCA", Summary: "No list of devices", Wrong: "NCCL_SOCKET_IFNAME chooses where ranks meet, not what carries their data.", Costs: "NCCL uses every active RDMA port, those of management and storage among them, or none.", Instead: "Set NCCL_IB_HCA to the fabric's devices, with = in front."})
	}
	if _, pinned := find(all, "NCCL_IB_GID_INDEX"); pinned && !sockets {
		if _, class := find(all, "NCCL_IB_TC"); !class {
			r.say(0, env.Note, "No traffic class", "RoCE is meant, and NCCL_IB_TC is not set.", "Packets go in priority 0: counters and PFC of another priority never see them.", "Set NCCL_IB_TC where switches give RoCE a priority (160 is priority 5); direct cables need none.")
		}
	}
	if hasHCA && !hca.dynamic {
		r.halves(hca)
	}
	if hasIfname && !hasHCA && !sockets && !ifname.dynamic {
		for _, e := range env.ParseList(ifname.value).Entries {
			if rest, ok := strings.CutPrefix(e.Name, "enp1s0f"); ok && strings.Contains(rest, "np") {
				r.add(ifname.line, env.Finding{Severity: env.Warning, Name: ifname.name, Summary: "Half of a port", Wrong: fmt.Sprintf("%s is one of the two functions of a DGX Spark's port; the other is enP2p1s0f%s.", e.Name, rest), Costs: "Where the other has no address, a job gets half of the port's speed.", Instead: "Give both an address in a subnet of its own, and name both devices in NCCL_IB_HCA."})
			}
		}
	}
}

// halves finds one function of a DGX Spark's port without the other.
func (r *reading) halves(hca setting) {
	l := env.ParseList(hca.value)
	if l.Exclude {
		return
	}
	for _, e := range l.Entries {
		rest, ok := strings.CutPrefix(e.Name, "rocep1s0f")
		if other := "roceP2p1s0f" + rest; ok && rest != "" && !l.Selects(other, -1) {
			r.add(hca.line, env.Finding{Severity: env.Warning, Name: hca.name, Summary: "Half of a port", Wrong: fmt.Sprintf("%s is one of the two functions of a DGX Spark's port; %s is the other.", e.Name, other), Costs: "A job gets half of the port's speed.", Instead: fmt.Sprintf("Name both: =%s,%s.", e.Name, other)})
		}
	}
}

// against holds settings against what the files of a fabric say.
func (r *reading) against(all []setting) {
	if s, ok := find(all, "NCCL_SOCKET_IFNAME"); ok && !s.dynamic {
		r.interfaces(s)
	}
	hca, hasHCA := find(all, "NCCL_IB_HCA")
	if hasHCA && !hca.dynamic {
		r.devices(hca)
	}
	cross, has := find(all, "NCCL_CROSS_NIC")
	line := cross.line
	if !has {
		line = hca.line // where the devices are chosen, their use is
	}
	for _, h := range r.fabric.Hosts {
		why := nccl.OneRail(r.fabric, h)
		if why == "" || !has && !hasHCA || has && env.ParseNumber(cross.value).Value == 0 {
			continue
		}
		r.add(line, env.Finding{Severity: env.Warning, Name: "NCCL_CROSS_NIC", Summary: "Rails may be crossed", Wrong: "NCCL_CROSS_NIC is not 0, and the fabric has several rails: " + why + ".", Costs: "NCCL may send to a NIC that no cable reaches.", Instead: "Set NCCL_CROSS_NIC=0."})
		break
	}
	if s, ok := find(all, "NCCL_IB_DISABLE"); ok && env.ParseNumber(s.value).Value != 0 && r.fabric.NCCL.Transport == "ib" {
		r.add(s.line, env.Finding{Severity: env.Error, Name: s.name, Summary: "Against the fabric", Wrong: `The fabric declares transport = "ib", and this switches RDMA off.`, Instead: "Leave it out."})
	}
}

// training are the hosts that take part in collectives, with their NICs.
func (r *reading) training() (hosts []*fabric.Host, nics [][]*fabric.NIC) {
	for _, h := range r.fabric.Hosts {
		if n := nccl.Chosen(r.fabric, h); len(n) > 0 {
			hosts, nics = append(hosts, h), append(nics, n)
		}
	}
	return hosts, nics
}

func (r *reading) interfaces(s setting) {
	l := env.ParseList(s.value)
	var without []string
	with := false
	hosts, _ := r.training()
	for _, h := range hosts {
		known := !slices.ContainsFunc(h.NICs, func(n *fabric.NIC) bool { return n.Netdev == "" })
		if slices.ContainsFunc(h.NICs, func(n *fabric.NIC) bool { return n.Netdev != "" && l.Selects(n.Netdev, -1) }) {
			with = true
		} else if known {
			without = append(without, h.Name)
		}
	}
	switch {
	case with && len(without) > 0:
		r.add(s.line, env.Finding{Severity: env.Error, Name: s.name, Summary: "Not on every host", Wrong: fmt.Sprintf("%s = %q is no NIC of the fabric's on %s.", s.name, shorten(s.value), some(without)), Costs: "Ranks there do not start, or meet over another network.", Instead: derive})
	case len(without) > 0:
		r.add(s.line, env.Finding{Severity: env.Warning, Name: s.name, Summary: "Not a NIC of the fabric", Wrong: fmt.Sprintf("%s = %q is no NIC that the fabric declares.", s.name, shorten(s.value)), Costs: "Ranks meet over it, and with sockets all data goes over it.", Instead: derive})
	}
}

func (r *reading) devices(s setting) {
	l := env.ParseList(s.value)
	hosts, nics := r.training()
	for i, h := range hosts {
		for _, n := range nics[i] {
			if n.Match.RDMA != "" && !l.Selects(n.Match.RDMA, -1) {
				r.add(s.line, env.Finding{Severity: env.Error, Name: s.name, Summary: "A rail is left out", Wrong: fmt.Sprintf("%s = %q does not select %s, which is %s.", s.name, shorten(s.value), n.Match.RDMA, n.Ref()), Costs: "That rail carries nothing.", Instead: derive})
			}
		}
		if l.Exclude || len(l.Entries) == len(nics[i]) || len(l.Entries) > len(nics[i]) && !l.Exact {
			continue
		}
		f := env.Finding{Severity: env.Warning, Name: s.name, Summary: "Part of the fabric is unused", Wrong: fmt.Sprintf("%s names %d of the %d NICs that host %s has for collectives.", s.name, len(l.Entries), len(nics[i]), h.Name), Costs: "The others carry nothing.", Instead: derive}
		if len(l.Entries) > len(nics[i]) {
			f.Summary, f.Costs = "Devices outside the fabric", "NCCL uses links that nobody declared for it."
			f.Wrong = fmt.Sprintf("%s names %d devices, and host %s has %d NICs for collectives.", s.name, len(l.Entries), h.Name, len(nics[i]))
		}
		r.add(s.line, f)
		return
	}
}

// some names a few of many.
func some(names []string) string {
	if len(names) > 4 {
		return fmt.Sprintf("%s and %d more hosts", strings.Join(names[:4], ", "), len(names)-4)
	}
	return "host " + strings.Join(names, ", ")
}
