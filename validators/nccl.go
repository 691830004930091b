package validators

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
)

// nccl judges what NCCL would choose on a host: a wrong GID fails silently and late.
func (r *run) nccl(h *fabric.Host) (out []Result) {
	add := func(res Result) { out = append(out, res) }
	snap := r.snapshots[h.Name]
	if snap == nil {
		add(Result{Check: "nccl", Host: h.Name, Verdict: Skip, What: "HCA and GID", Cause: "host could not be reached: " + r.options.Unreachable[h.Name]})
		return out
	}
	for _, p := range nccl.Ports(r.fabric, h, snap) {
		res := Result{Check: "nccl", Host: h.Name, What: p.NIC}
		switch {
		case p.HCA == "":
			res.Verdict, res.Cause = Skip, p.Why+": NCCL would use sockets on "+p.Netdev
		case p.Wrong != "":
			continue // Derive names it among the problems
		default:
			res.Verdict, res.Measured = Pass, fmt.Sprintf("%s on %s, GID %d", p.HCA, p.Netdev, p.GID)
		}
		add(res)
	}
	for _, f := range nccl.Findings(r.fabric, h, snap) {
		add(Result{Check: "nccl", Host: h.Name, Verdict: Warn, What: "GPUs and NICs", Measured: "slower than they could be", Cause: f})
	}
	env, problems := nccl.Derive(r.fabric, h, snap)
	for _, s := range env {
		if s.Name == "NCCL_SOCKET_IFNAME" && !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, "socket_ifname ") }) {
			add(Result{Check: "nccl", Host: h.Name, Verdict: Pass, What: "socket interface", Measured: s.Value})
		}
	}
	for _, p := range problems {
		add(Result{Check: "nccl", Host: h.Name, Verdict: Fail, What: "settings", Measured: "cannot work", Expected: "active devices with RoCE v2 GIDs of declared addresses", Cause: p})
	}
	return append(out, confFile(r.fabric, h, snap)...)
}
