package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
)

// topology reads the output of nvidia-smi topo -m, and checks which NIC is nearest to each GPU.
func (r *reading) topology(text string) {
	t, err := facts.ParseTopology(text)
	if err != nil {
		r.say(0, env.Note, "Not a topology", strings.ToUpper(err.Error()[:1])+err.Error()[1:]+".", "", "")
		return
	}
	if all := nccl.Misplaced(t, t.Devices); len(all) > 0 {
		wrong := strings.ToUpper(all[0][:1]) + all[0][1:] + "."
		if len(all) > 1 {
			wrong += fmt.Sprintf(" So it is with %s.", plural(len(all)-1, "other GPU", "other GPUs"))
		}
		r.say(0, env.Warning, "A rail is not the nearest NIC of its GPU", wrong, "", "Order the rails by nearness to the GPUs, in the same way on all hosts.")
	}
	if pair := acrossProcessors(text); pair != "" {
		r.say(0, env.Note, "GPUs of different processors", pair+" reach each other only over the link between the processors (SYS), and not over NVLink.", "Collectives of GPUs of both sides are as fast as that link and the host's memory. NCCL does not use direct access at that distance, unless NCCL_P2P_LEVEL=SYS.", "If a job does not need all GPUs, give it those of one processor (CUDA_VISIBLE_DEVICES).")
	}
	near := slices.ContainsFunc(t.GPUs, func(gpu string) bool {
		_, distance := t.Nearest(gpu, t.Devices)
		return distance == facts.DistancePIX || distance == facts.DistancePXB
	})
	for _, gpu := range t.GPUs {
		_, distance := t.Nearest(gpu, t.Devices)
		switch {
		case distance != facts.DistanceSys:
		case near && nvlinked(text, gpu):
			r.say(0, env.Note, "GPU without a NIC on its NUMA node", gpu+" reaches every RDMA device only across NUMA nodes (SYS).", "NCCL 2.12 and later send its data over NVLink through a GPU that has a NIC near it (PXN), so that several GPUs share that NIC.", "Leave NCCL_PXN_DISABLE unset.")
		default:
			r.say(0, env.Warning, "GPU without a NIC on its NUMA node", gpu+" reaches every RDMA device only across NUMA nodes (SYS).", "NCCL does not use GPUDirect RDMA at that distance, and data goes through memory.", "Move a NIC to that NUMA node, or do not use this GPU.")
		}
	}
}

// acrossProcessors returns two GPUs that the output of nvidia-smi topo -m joins by SYS, of which the first has no NVLink; "": there are none.
func acrossProcessors(text string) string {
	for row := range strings.Lines(text) {
		fields := strings.Fields(row)
		if len(fields) < 3 || !strings.HasPrefix(fields[0], "GPU") || !digits(fields[0][3:]) || nvlinked(row, fields[0]) {
			continue
		}
		own := slices.Index(fields, "X")
		for i := own + 1; own > 0 && i < len(fields) && i-1 < maxGPUs; i++ {
			if fields[i] == "SYS" && strings.Contains(text, fmt.Sprintf("GPU%d", i-1)) {
				return fmt.Sprintf("%s and GPU%d", fields[0], i-1)
			}
		}
	}
	return ""
}

// nvlinked reports whether a GPU's row in the output of nvidia-smi topo -m shows NVLink (NV1, NV18).
func nvlinked(text, gpu string) bool {
	for row := range strings.Lines(text) {
		fields := strings.Fields(row)
		if len(fields) > 1 && fields[0] == gpu {
			return slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "NV") && digits(f[2:]) })
		}
	}
	return false
}

// xmlTopology is what a file of NCCL_TOPO_DUMP_FILE shows (src/graph/xml.cc).
type xmlTopology struct {
	begun    int // line of <system>
	gpus     int
	nics     []string
	distance int // line of the first RDMA device without GPUDirect
	direct   bool
}

// line reads a line of the file.
func (x *xmlTopology) line(number int, fields []string) bool {
	tag := strings.TrimLeft(fields[0], "</")
	if tag == "system" && strings.HasPrefix(fields[1], "version=") {
		x.begun = number
	}
	if x.begun == 0 || !strings.HasPrefix(fields[0], "<") {
		return false
	}
	attribute := func(name string) string {
		for _, f := range fields {
			if v, ok := strings.CutPrefix(f, name+`="`); ok {
				v, _, _ = strings.Cut(v, `"`)
				return v
			}
		}
		return ""
	}
	switch tag {
	case "gpu":
		x.gpus++
	case "net":
		if len(x.nics) < maxFirst {
			x.nics = append(x.nics, fmt.Sprintf("%s (%s Mb/s)", shorten(attribute("name")), shorten(attribute("speed"))))
		}
		switch gdr := attribute("gdr"); {
		case gdr == "1":
			x.direct = true
		case gdr == "0" && x.distance == 0 && attribute("guid") != "0x0": // sockets have no GUID
			x.distance = number
		}
	}
	return true
}

func (x *xmlTopology) judge(r *reading) {
	if x.begun == 0 {
		return
	}
	r.say(x.begun, env.Note, "NCCL's topology", fmt.Sprintf("NCCL saw %s and these NICs: %s.", plural(x.gpus, "GPU", "GPUs"), strings.Join(x.nics, ", ")), "", "Compare the speeds with the links, and on all hosts.")
	if x.distance > 0 && !x.direct {
		r.say(x.distance, env.Warning, "No GPUDirect RDMA", "NCCL found no NIC that supports GPUDirect RDMA.", "Data goes through the host's memory, which can halve the speed of fast NICs. GPUs that share memory with the processor, such as GB10, do not support GPUDirect RDMA.", (&logged{reading: r}).peermem())
	}
}
