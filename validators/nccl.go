package validators

import (
	"context"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
)

// The items of the check on each host.
const (
	NCCLPort        Item = "gid" // the RDMA device and GID that NCCL uses
	GPUPlacement    Item = "gpu_placement"
	SocketInterface Item = "socket_interface"
	NCCLSettings    Item = "settings"
	ConfFile        Item = "conf_file"
	ConfVariable    Item = "conf_variable"
	ConfFinding     Item = "conf_finding"

	MetricGIDIndex        Metric = "gid_index"
	MetricFindingsOmitted Metric = "findings_omitted"
)

// nccl checks what NCCL would choose on each host, and runs NCCL itself if the files ask for it.
func (r *run) nccl(ctx context.Context, _ []*trial) (out []Result) {
	for _, h := range r.fabric.Hosts {
		if !r.options.excluded(h.Name) {
			out = append(out, r.chooses(ctx, h)...)
		}
	}
	return append(out, r.collectives(ctx)...)
}

// chooses checks what NCCL would choose on a host: with a wrong GID, NCCL fails late and without a message.
func (r *run) chooses(ctx context.Context, h *fabric.Host) (out []Result) {
	result := func(item Item) Result {
		return Result{Check: CheckNCCL, Item: item, Subject: onHost(h.Name), Host: h.Name, Verdict: Pass}
	}
	snap := r.snapshots[h.Name]
	if snap == nil {
		return []Result{result(NCCLPort).skips(HostUnreachable, "host unreachable: "+r.options.Unreachable[h.Name])}
	}
	if why := r.options.omitsHost(h.Name); why != "" {
		return []Result{result(NCCLSettings).skips(NotApplied, why)}
	}
	for _, p := range nccl.Ports(r.fabric, h, snap) {
		res := result(NCCLPort)
		res.Object = p.NIC
		switch {
		case p.HCA == "" && r.fabric.NCCLOf(h).Transport == "socket":
			out = append(out, res.skips(NoRDMA, p.Why+": NCCL uses sockets on "+p.Netdev))
		case p.HCA == "" && r.options.Lab && r.options.LabCapGbps > 0:
			out = append(out, res.skips(InLab, noRDMAInLab+", so NCCL uses sockets"))
		case p.HCA == "":
			res.Verdict, res.Cause = Warn, p.Why+": NCCL cannot use RDMA on "+p.NIC
			switch {
			case p.Netdev == "":
				res.Cure = "run " + r.options.Invocation.Hint("plan") + " to see which devices the host has"
			case len(snap.RDMAOn(p.Netdev)) > 0:
				res.Cure = "make sure that " + p.Netdev + " is up and has a carrier"
			default:
				res.Cure = "install the card's driver, or declare an rxe block for Soft-RoCE; " +
					"if sockets are intended, set transport = \"socket\" in the nccl block"
			}
			out = append(out, res)
		case p.Wrong == "": // Derive names what is wrong among the problems
			res.Found = p.HCA + " on " + p.Netdev
			res.Values = []Measurement{{Name: MetricGIDIndex, Value: float64(p.GID)}}
			out = append(out, res)
		}
	}
	out = append(out, r.ncclClasses(ctx, h, snap)...)
	for _, f := range nccl.Findings(r.fabric, h, snap) {
		res := result(GPUPlacement)
		res.Verdict, res.Cause = Warn, f
		out = append(out, res)
	}
	env, problems := nccl.Derive(r.fabric, h, snap)
	usable := true
	for _, p := range problems {
		usable = usable && p.Of != nccl.SocketInterface
	}
	if name, set := env.Get("NCCL_SOCKET_IFNAME"); set && usable {
		res := result(SocketInterface)
		res.Found = name
		out = append(out, res)
	}
	if _, rdma := env.Get("NCCL_IB_HCA"); rdma {
		for _, text := range nccl.Miswired(r.fabric, h, r.snapshots) {
			out = append(out, result(NCCLSettings).fails(text, ""))
		}
	}
	for _, p := range problems {
		out = append(out, result(NCCLSettings).fails(p.Text, ""))
	}
	return append(out, confFile(r.fabric, h, snap, r.options.Invocation)...)
}
