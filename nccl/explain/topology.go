package explain

import (
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
)

// topology reads nvidia-smi topo -m: which NIC is each GPU's.
func (r *reading) topology(text string) {
	t, err := facts.ParseTopology(text)
	if err != nil {
		r.say(0, env.Error, "Not a topology", strings.ToUpper(err.Error()[:1])+err.Error()[1:]+".", "", "")
		return
	}
	for _, wrong := range nccl.Misplaced(t, t.Devices) {
		r.say(0, env.Warning, "A rail is not its GPU's nearest NIC", strings.ToUpper(wrong[:1])+wrong[1:]+".", "", "Order the rails as the GPUs have them near, alike on all hosts.")
	}
	for _, gpu := range t.GPUs {
		if _, distance := t.Nearest(gpu, t.Devices); distance == facts.DistanceSys {
			r.say(0, env.Warning, "GPU without a NIC of its own side", gpu+" reaches every RDMA device across NUMA nodes (SYS).", "GPUDirect RDMA is not used at that distance, and data goes through memory.", "Put a NIC beside it, or leave the GPU out.")
		}
	}
}
