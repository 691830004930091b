package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
)

// derive is the cure for values that depend on the host.
const derive = "`fabricform render nccl` prints the right settings for each host."

// find returns the setting of a variable. The first one is effective.
func find(all []setting, name string) (setting, bool) {
	i := slices.IndexFunc(all, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return all[i], true
}

// set reports problems of the settings as a whole, without a fabric.
func (r *reading) set(all []setting) {
	hca, hasHCA := find(all, "NCCL_IB_HCA")
	ifname, hasIfname := find(all, "NCCL_SOCKET_IFNAME")
	disable, _ := find(all, "NCCL_IB_DISABLE")
	sockets := env.ParseNumber(disable.value).Value != 0
	if net, ok := find(all, "NCCL_NET"); ok && strings.EqualFold(net.value, "Socket") {
		sockets = true
		r.add(net.line, env.Finding{Severity: env.Note, Name: net.name, Summary: "RDMA is disabled", Wrong: "NCCL uses TCP sockets, whatever NCCL_IB_DISABLE says.", Costs: "Sockets cost processor time, and a 25G link carries at most about 23.5 Gb/s.", Instead: "Remove it if the NICs support RDMA."})
	} else if sockets {
		r.add(disable.line, env.Finding{Severity: env.Note, Name: disable.name, Summary: "RDMA is disabled", Wrong: "NCCL uses TCP sockets.", Costs: "Sockets cost processor time, and a 25G link carries at most about 23.5 Gb/s.", Instead: "Remove it if the NICs support RDMA."})
	}
	if graph, ok := find(all, "NCCL_GRAPH_FILE"); ok && !graph.dynamic && graph.value != "" {
		r.add(graph.line, env.Finding{Severity: env.Warning, Name: graph.name, Summary: "For experiments only", Wrong: fmt.Sprintf("NCCL takes its rings and trees from %s instead of finding them.", shorten(graph.value)), Costs: "With other GPUs or another number of them than in that file, NCCL stops with a system or an internal error.", Instead: "Remove it, also from /etc/nccl.conf and ~/.nccl.conf; NCCL_TOPO_FILE may stay."})
	}
	if hasIfname && !hasHCA && !sockets && !r.noIB && !r.plugged {
		r.add(ifname.line, env.Finding{Severity: env.Warning, Name: "NCCL_IB_HCA", Summary: "No list of devices", Wrong: "NCCL_SOCKET_IFNAME selects the interface for bootstrap, not the devices that carry data.", Costs: "NCCL uses every active RDMA port, including those for management and storage, or none.", Instead: "Set NCCL_IB_HCA to the fabric's devices, with = in front."})
	}
	if !hasIfname && r.overMPI.line > 0 {
		r.say(r.overMPI.line, env.Note, "The interface is named to MPI alone", fmt.Sprintf("mpirun names %s to MPI, and NCCL_SOCKET_IFNAME is not set.", shorten(r.overMPI.text)), "NCCL does not read that. Where hosts have several interfaces it may choose another, over which they do not reach each other: the job hangs or fails at its start.", "Add -x NCCL_SOCKET_IFNAME, with = in front of the interface that reaches all hosts.")
	}
	if _, pinned := find(all, "NCCL_IB_GID_INDEX"); pinned && !sockets {
		if _, class := find(all, "NCCL_IB_TC"); !class {
			r.say(0, env.Note, "No traffic class", "A GID index is set for RoCE, but NCCL_IB_TC is not set.", "NCCL asks for class 0, unless the NIC itself forces another one.", "If the switches give RoCE a priority, set NCCL_IB_TC to its class: DSCP times 4. Which priority a class is, the NIC's trust mode and map say. Direct cables do not need it.")
		}
	}
	if hasHCA && !hca.dynamic {
		for _, e := range env.ParseList(hca.value).Entries {
			if strings.HasPrefix(e.Name, "mlx") && !strings.HasPrefix("mlx5_", e.Name) && !strings.HasPrefix("mlx4_", e.Name) && !strings.HasPrefix(e.Name, "mlx5_") && !strings.HasPrefix(e.Name, "mlx4_") {
				r.add(hca.line, env.Finding{Severity: env.Warning, Name: hca.name, Summary: "Not a name that the driver gives", Wrong: fmt.Sprintf("%s: the drivers name their devices as mlx5_0 or mlx4_0.", shorten(e.Name)), Costs: "If no device has that name, NCCL leaves it out, and falls back to sockets if none remains.", Instead: "Compare with ibv_devices or `fabricform show`."})
			}
		}
		r.halves(hca)
	}
	if hasIfname && !hasHCA && !sockets && !ifname.dynamic {
		list := env.ParseList(ifname.value)
		for _, e := range list.Entries {
			if rest, ok := strings.CutPrefix(e.Name, "enp1s0f"); ok && strings.Contains(rest, "np") && !list.Selects("enP2p1s0f"+rest, -1) {
				r.add(ifname.line, env.Finding{Severity: env.Warning, Name: ifname.name, Summary: "Half of a port", Wrong: fmt.Sprintf("On a DGX Spark, %s is one of the two functions of a port; the other is enP2p1s0f%s.", e.Name, rest), Costs: "If the other function has no address there, a job gets half of the port's speed.", Instead: "On a DGX Spark, give each function an address in its own subnet, and name both devices in NCCL_IB_HCA."})
			}
		}
	}
}

// halves reports one function of a DGX Spark's port without the other.
func (r *reading) halves(hca setting) {
	l := env.ParseList(hca.value)
	if l.Exclude {
		return
	}
	for _, e := range l.Entries {
		rest, ok := strings.CutPrefix(e.Name, "rocep1s0f")
		if other := "roceP2p1s0f" + rest; ok && rest != "" && !l.Selects(other, -1) {
			r.add(hca.line, env.Finding{Severity: env.Warning, Name: hca.name, Summary: "Half of a port", Wrong: fmt.Sprintf("On a DGX Spark, %s is one of the two functions of a port; %s is the other.", e.Name, other), Costs: "A job gets half of the port's speed there.", Instead: fmt.Sprintf("On a DGX Spark, name both: =%s,%s.", e.Name, other)})
		}
	}
}

// against compares the settings with a fabric.
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
		line = hca.line // the variable is missing: report it at the line that chooses the devices
	}
	for _, h := range r.hosts {
		why := nccl.OneRail(r.fabric, h)
		if why == "" || !has && !hasHCA || has && env.ParseNumber(cross.value).Value == 0 {
			continue
		}
		r.add(line, env.Finding{Severity: env.Warning, Name: "NCCL_CROSS_NIC", Summary: "Traffic may cross rails", Wrong: "NCCL_CROSS_NIC is not 0, but the fabric has several rails: " + why + ".", Costs: "NCCL may send to a NIC that no cable reaches.", Instead: "Set NCCL_CROSS_NIC=0."})
		break
	}
	for _, h := range r.hosts {
		for _, n := range r.fabric.ForCollectives(h) {
			r.class(all, n)
		}
	}
	if s, ok := find(all, "NCCL_IB_DISABLE"); ok && env.ParseNumber(s.value).Value != 0 && r.fabric.NCCL.Transport == "ib" {
		r.add(s.line, env.Finding{Severity: env.Error, Name: s.name, Summary: "Contradicts the fabric", Wrong: `The fabric declares transport = "ib", but this disables RDMA.`, Instead: "Remove it."})
	}
}

// class compares the class of packets with that of a NIC.
func (r *reading) class(all []setting, n *fabric.NIC) {
	for _, name := range []string{"NCCL_IB_TC", "NCCL_IB_SL"} {
		s, ok := find(all, name)
		why := n.QoS.Contradiction(name, int(env.ParseNumber(s.value).Value))
		if !ok || s.dynamic || why == "" || r.hidden[name] {
			continue
		}
		r.add(s.line, env.Finding{Severity: env.Error, Name: name, Summary: "Contradicts the fabric",
			Wrong: fmt.Sprintf("%s = %s contradicts qos.%s of %s: %s.", name, shorten(s.value), n.QoS.Name, n.Ref(), why),
			Costs: "The packets are in another class than the one that NICs and switches are set for, and are dropped under congestion.", Instead: "Remove it: " + derive})
		return
	}
}

// training returns the hosts that take part in collectives, and their NICs for it.
func (r *reading) training() (hosts []*fabric.Host, nics [][]*fabric.NIC) {
	for _, h := range r.hosts {
		if n := r.fabric.ForCollectives(h); len(n) > 0 {
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
		r.add(s.line, env.Finding{Severity: env.Error, Name: s.name, Summary: "Not on every host", Wrong: fmt.Sprintf("%s = %q matches no declared NIC on %s.", s.name, shorten(s.value), some("host", without)), Costs: "Ranks on it do not start, or bootstrap over another network.", Instead: derive})
	case len(without) > 0:
		where := "that the fabric declares"
		if len(r.hosts) == 1 { // others may have one
			where = "of " + some("host", without)
		}
		r.add(s.line, env.Finding{Severity: env.Warning, Name: s.name, Summary: "Not a NIC of the fabric", Wrong: fmt.Sprintf("%s = %q matches no NIC %s.", s.name, shorten(s.value), where), Costs: "NCCL bootstraps over that interface and, with sockets, sends all data over it.", Instead: derive})
	}
}

func (r *reading) devices(s setting) {
	l := env.ParseList(s.value)
	hosts, nics := r.training()
	for i, h := range hosts {
		for _, n := range nics[i] {
			if n.Match.RDMA != "" && !l.Selects(n.Match.RDMA, -1) {
				r.add(s.line, env.Finding{Severity: env.Error, Name: s.name, Summary: "A rail is missing", Wrong: fmt.Sprintf("%s = %q does not select %s, which is %s.", s.name, shorten(s.value), n.Match.RDMA, n.Ref()), Costs: "That rail carries no traffic.", Instead: derive})
			}
		}
		if l.Exclude || len(l.Entries) == len(nics[i]) || len(l.Entries) > len(nics[i]) && !l.Exact {
			continue
		}
		f := env.Finding{Severity: env.Warning, Name: s.name, Summary: "Part of the fabric is unused", Wrong: fmt.Sprintf("%s names %d of the %d NICs for collectives of host %s.", s.name, len(l.Entries), len(nics[i]), h.Name), Costs: "The others carry no traffic.", Instead: derive}
		if len(l.Entries) > len(nics[i]) {
			f.Summary, f.Costs = "Devices outside the fabric", "NCCL uses links that are not declared for it."
			f.Wrong = fmt.Sprintf("%s names %d devices, but host %s has only %d NICs for collectives.", s.name, len(l.Entries), h.Name, len(nics[i]))
		}
		r.add(s.line, f)
		return
	}
}

// some lists up to four names, and the number of the others.
func some(kind string, names []string) string {
	if len(names) > 4 {
		return fmt.Sprintf("%s and %d more %ss", strings.Join(names[:4], ", "), len(names)-4, kind)
	}
	return kind + " " + strings.Join(names, ", ")
}
