package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// peers is what p2pBandwidthLatencyTest shows (its .cu in cuda-samples, 11.0 to 12.8): the bandwidth between GPUs through the host (P2P=Disabled), and directly.
type peers struct {
	line   int // heading of the first matrix with direct access; 0: none
	direct bool
	reads  bool // a matrix of bandwidths in one direction follows
	rates  [2]map[[2]int]float64
	delays bool // a matrix of latencies with direct access follows
	slow   int  // line of a latency of a millisecond and more
	slows  string
}

// row takes a line of the program into account.
func (p *peers) row(number int, line string, fields []string) {
	if strings.Contains(line, "P2P=") {
		p.direct, p.reads = strings.Contains(line, "P2P=Enabled"), strings.Contains(line, "Unidirectional")
		p.delays = p.direct && strings.Contains(line, "Latency")
		if p.direct && p.reads && p.line == 0 {
			p.line = number
		}
	}
	from, err := strconv.Atoi(fields[0])
	if p.delays && strings.HasPrefix(fields[0], "CPU") { // the program prints both, and the host's has other limits
		p.delays = false
	}
	for to := range fields {
		if delay, err2 := strconv.ParseFloat(fields[to], 64); p.delays && p.slow == 0 && err == nil && err2 == nil && to > 0 && to <= maxGPUs && delay >= 1000 {
			p.slow, p.slows = number, fmt.Sprintf("GPU %d to GPU %d: %s µs", from, to-1, fields[to])
		}
	}
	if !p.reads || err != nil || len(fields) < 3 || len(fields) > maxGPUs {
		return
	}
	i := 0
	if p.direct {
		i = 1
	}
	if p.rates[i] == nil {
		p.rates[i] = map[[2]int]float64{}
	}
	for to, f := range fields[1:] {
		if rate, err := strconv.ParseFloat(f, 64); err == nil && to != from {
			p.rates[i][[2]int{from, to}] = rate
		}
	}
}

// maxGPUs limits the columns of a matrix.
const maxGPUs = 64

// finish reports direct access that is slower than the way through the host, or that does not arrive.
func (p *peers) finish(r *reading) {
	if p.slow > 0 {
		r.say(p.slow, env.Error, "Direct access between GPUs does not work", p.slows+" directly. A working path takes some microseconds, or some ten.",
			"What one GPU writes to another does not arrive, or only after a timeout: the IOMMU or PCI access control (ACS) redirects it. NCCL, which waits for such writes, hangs with the GPUs at 100 %.",
			"Set the IOMMU to passthrough or off (iommu=pt, intel_iommu=off or amd_iommu=off on the kernel's command line), and disable ACS of the bridges (lspci -vvv: no ReqRedir+). To go without meanwhile: NCCL_P2P_DISABLE=1.")
	}
	worst := [2]int{-1, -1}
	for pair, direct := range p.rates[1] {
		if through := p.rates[0][pair]; through > 0 && direct < through*0.7 && (worst[0] < 0 || direct < p.rates[1][worst] || direct == p.rates[1][worst] && slices.Compare(pair[:], worst[:]) < 0) {
			worst = pair
		}
	}
	if worst[0] >= 0 {
		r.say(p.line, env.Warning, "Direct access between GPUs is slower than through the host", fmt.Sprintf("GPU %d to GPU %d: %.1f GB/s directly, %.1f GB/s with P2P disabled.", worst[0], worst[1], p.rates[1][worst], p.rates[0][worst]),
			"PCI access control (ACS) or the IOMMU redirects what one GPU writes to another, or the GPUs are below different processors. NCCL takes direct access where the driver offers it.",
			"Disable ACS of the bridges (lspci -vvv: no ReqRedir+) and set the IOMMU to passthrough (iommu=pt), outside of virtual machines. Otherwise let NCCL go through the host: NCCL_P2P_DISABLE=1, or NCCL_P2P_LEVEL=PXB for GPUs below one switch alone.")
	}
}
