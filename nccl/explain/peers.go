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
}

// row takes a line of the program into account.
func (p *peers) row(number int, line string, fields []string) {
	if strings.Contains(line, "P2P=") {
		p.direct, p.reads = strings.Contains(line, "P2P=Enabled"), strings.Contains(line, "Unidirectional")
		if p.direct && p.reads && p.line == 0 {
			p.line = number
		}
	}
	from, err := strconv.Atoi(fields[0])
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

// finish reports direct access that is slower than the way through the host.
func (p *peers) finish(r *reading) {
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
