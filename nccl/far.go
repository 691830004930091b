package nccl

import (
	"fmt"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
	"github.com/fabricform/fabricform/widearea"
)

// patience returns a retry timeout that exceeds the longest declared round trip of the host's NICs, if NCCL's default does not: 67 ms
// before 2.14. Otherwise each packet would be sent again before its answer can come. A longer default stays, because a job then survives a link that flaps.
func patience(f *fabric.Fabric, h *fabric.Host, at env.Version) Env {
	standard, known := env.Lookup("NCCL_IB_TIMEOUT").DefaultAt(at)
	if !known {
		return nil
	}
	var out Env
	for _, s := range widearea.Segments(f) {
		mine := slices.ContainsFunc(f.ForCollectives(h), func(n *fabric.NIC) bool { return slices.Contains(s.NICs, n.Ref()) })
		rtt := widearea.Roundtrip(s.Span)
		need, _ := widearea.Timeout(rtt)
		if !mine || rtt.Low == 0 || int64(need) <= standard {
			continue
		}
		standard = int64(need)
		out = Env{{"NCCL_IB_TIMEOUT", fmt.Sprint(need), fmt.Sprintf("%s has a round trip of %s: NCCL's default would send each packet again before its answer can come", s.Title,
			rtt.In(widearea.Seconds))}}
	}
	return out
}
