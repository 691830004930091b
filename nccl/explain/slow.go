package explain

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/nccl/env"
)

// slowWords are expressions for what a text tells of a rate.
type slowWords struct {
	slow     *expression // that it is low
	ofNCCL   *expression // what it is the rate of
	overRDMA *expression // what a text has about hosts with RDMA
	noDirect *expression // that GPUDirect RDMA is not set up
}

var slowly = sync.OnceValue(func() slowWords {
	return slowWords{
		slow:     compile(`(?i)\bslow(?:er|ly|ness)?\b|\b(?:low|poor|bad|lower|worse) (?:bus ?)?(?:bandwidth|performance|throughput|bw|busbw|speed)\b|\b(?:bandwidth|performance|throughput|busbw|speed)\b.{0,40}\b(?:low|lower|poor|bad|half|worse|less|only|drops?)\b|\b(?:GB/s|Gbps|GBps)\b.{0,40}\b(?:half|less|lower|only|instead of)\b|\bas (?:fast|slow) as (?:on )?(?:1|one|a single) (?:node|host|machine|server|gpu)\b|(?:性能|带宽|速度).{0,12}(?:低|慢|差|一半)|很慢|太慢`),
		ofNCCL:   compile(`(?i)\bnccl|all_?reduce|\bmulti-?nodes?\b.{0,60}\b(?:[AHB]\d00|GB\d00|gpus?)\b|\bbusbw\b|bus bandwidth`),
		overRDMA: compile(`(?i)\b(?:infiniband|roce|rdma|gdr|gpu ?direct|mlx\d_\d|mellanox|connectx|\d+ ?-?gbps?\b.{0,10}\bib\b|ib\b.{0,10}\bnetwork)|\bIB\b`),
		noDirect: compile(`(?i)(?:\bnot\b|n['’]t|\bno\b|\bmissing\b).{0,40}\b(?:nv_peer_mem\w*|nvidia[-_]peermem|gpu ?direct(?: rdma)?|gdr(?:dma)?)\b|\b(?:nv_peer_mem\w*|nvidia[-_]peermem|gpu ?direct(?: rdma)?|gdr(?:dma)?)\b.{0,20}\b(?:is|was|are)(?: not|n['’]t) (?:loaded|installed|working|enabled|available)`),
	}
})

const (
	// flatTopology is what NCCL makes of the PCI tree of a virtual machine, and realTopology the cure.
	flatTopology = "it finds no GPU near a NIC, leaves GPUDirect RDMA off, and chooses slow rings and too few channels."
	realTopology = "Give NCCL the real topology: NCCL_TOPO_FILE with the cloud's file, or with one that NCCL_TOPO_DUMP_FILE writes on the bare host, changed to the bus IDs of the virtual machine. Or let the hypervisor show it: a GPU and its NIC below one virtual switch, root ports with x-speed and x-width (QEMU), and NUMA nodes (pxb-pcie). NCCL_NET_GDR_LEVEL=SYS turns GPUDirect RDMA on at any distance; measure whether it is faster."
)

var (
	// virtualMachine and itsTopology are what a text has about a virtual machine and the tree of its devices.
	virtualMachine = pattern{text: `\bVMs?\b|(?i:\bvirtual machines?\b|\bvirtualized\b|\bpass-?through\b|\b(?:proxmox|kvm|qemu|esxi|vmware|hyper-?v|kubevirt|openstack)\b|虚拟机|直通)`}
	itsTopology    = pattern{text: `(?i)\btopo(?:logy|logies)?\b|拓扑`}
)

// flatTold reports a text that asks for the topology of a virtual machine, and in which nothing else was found.
func (s *script) flatTold(text string, skip func(number int) bool) {
	if slices.ContainsFunc(s.out, explains) || !virtualMachine.re().MatchString(text) {
		return
	}
	number := 0
	for l := range strings.Lines(text) {
		if number++; !skip(number) && !anyOf(l, printers) && itsTopology.re().MatchString(l) {
			s.say(number, env.Warning, "The virtual machine hides the topology", "The text tells of the topology in a virtual machine.", "A virtual machine shows PCI bridges, links and NUMA nodes of its own, and NCCL believes them: "+flatTopology, realTopology)
			return
		}
	}
}

// onlySlow says what decides how fast NCCL is between hosts, if a text asks for it and nothing else in it was found.
func (s *script) onlySlow(text string, skip func(number int) bool) {
	if len(s.helped) > 0 || slices.ContainsFunc(s.out, func(f Finding) bool { return explains(f) || f.Summary == noModule }) {
		return
	}
	tell := slowly()
	if !tell.ofNCCL.MatchString(text) && !tell.noDirect.MatchString(text) || !tell.overRDMA.MatchString(text) && !hanging().withHosts.MatchString(text) {
		return
	}
	number, line, direct := 0, 0, 0
	for l := range strings.Lines(text) {
		if number++; skip(number) || anyOf(l, printers) {
			continue
		}
		if line == 0 && tell.slow.MatchString(l) {
			line = number
		}
		if direct == 0 && !strings.Contains(tell.noDirect.FindString(l), "without") && tell.noDirect.MatchString(l) { // not "no different from without"
			direct = number
		}
	}
	switch {
	case line == 0 && direct > 0:
		s.say(direct, env.Warning, "No GPUDirect RDMA", "The text says that GPUDirect RDMA is not there.", "NCCL copies data through the host's memory, which often halves the rate, most of all for a GPU and a NIC below one PCI switch.", "Load nvidia_peermem (drivers from 465 on have it; nv_peer_mem before), or use the open driver's dma-buf. Channels that use it end with GDRDMA in the log (NCCL_DEBUG=INFO).")
		return
	case line == 0:
		return
	}
	costs := "Between hosts the slowest part decides: TCP in place of RDMA, data through the host's memory because GPUDirect RDMA is off, one NIC for many GPUs, a PCIe link with fewer lanes, or packets that RoCE loses."
	instead := "NCCL_DEBUG=INFO shows the network (NET/IB or NET/Socket), the devices, and GPUDirect RDMA (channels end with GDRDMA). Measure with ib_write_bw between the same NICs, look at nvidia-smi topo -m (PIX or PXB between GPU and NIC) and the lanes (lspci -vv: LnkSta), and for RoCE at the counters of retransmissions."
	if direct > 0 {
		costs = fmt.Sprintf("Line %d says that GPUDirect RDMA is not there: NCCL then copies data through the host's memory, which often halves the rate, most of all for a GPU and a NIC below one PCI switch. ", direct) + costs
		instead = "Load nvidia_peermem (drivers from 465 on have it; nv_peer_mem before), or use the open driver's dma-buf. " + instead
	}
	s.say(line, env.Warning, "NCCL is slower than expected", "The text tells of a low rate between hosts, and nothing in it shows why.", costs, instead)
}
