package explain

import (
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
)

// topology reads the output of nvidia-smi topo -m, and checks which NIC is nearest to each GPU.
func (r *reading) topology(text string) {
	t, err := facts.ParseTopology(text)
	if err != nil {
		r.say(0, env.Error, "Not a topology", strings.ToUpper(err.Error()[:1])+err.Error()[1:]+".", "", "")
		return
	}
	for _, wrong := range nccl.Misplaced(t, t.Devices) {
		r.say(0, env.Warning, "A rail is not the nearest NIC of its GPU", strings.ToUpper(wrong[:1])+wrong[1:]+".", "", "Order the rails by nearness to the GPUs, in the same way on all hosts.")
	}
	for _, gpu := range t.GPUs {
		if _, distance := t.Nearest(gpu, t.Devices); distance == facts.DistanceSys {
			r.say(0, env.Warning, "GPU without a NIC on its NUMA node", gpu+" reaches every RDMA device only across NUMA nodes (SYS).", "NCCL does not use GPUDirect RDMA at that distance, and data goes through memory.", "Move a NIC to that NUMA node, or do not use this GPU.")
		}
	}
}
