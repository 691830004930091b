package explain

import (
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// buses are the links of GPUs and cards that nvidia-smi nvlink -s and lspci -vv show.
type buses struct {
	gpu    int    // line of the GPU whose NVLinks follow; 0: none
	name   string // of that GPU
	up     bool   // one of its NVLinks is active
	off    int    // line of its first inactive NVLink
	some   int    // line of the first GPU with active and inactive NVLinks
	where  string // its name
	narrow int    // line of the first PCIe link that has fewer lanes than its card
}

var (
	linksOf = pattern{text: `^(GPU \d+): .*\(UUID: `}
	oneLink = pattern{text: `^\s+Link \d+: (<inactive>|[\d.]+ GB/s)\s*$`}
	lanes   = pattern{text: `LnkSta:.*Width x(\d+) \(downgraded\)`}
)

// line reads a line of these programs.
func (b *buses) line(number int, line string) bool {
	if len(line) > maxText {
		return false
	}
	if at := linksOf.re().FindStringSubmatch(line); at != nil {
		b.gpu, b.name, b.up, b.off = number, at[1], false, 0
		if strings.Contains(line, "H100 NVL") || strings.Contains(line, "H200 NVL") || strings.Contains(line, "PCIe") || strings.Contains(line, "PCIE") {
			b.gpu = 0 // a card with bridges, of whose links some are always off
		}
		return false // other options of nvidia-smi print it, too
	}
	if strings.Contains(line, "LnkSta:") && lanes.re().MatchString(line) {
		if b.narrow == 0 {
			b.narrow = number
		}
		return true
	}
	at := []string(nil)
	if b.gpu > 0 && strings.Contains(line, "Link ") {
		at = oneLink.re().FindStringSubmatch(line)
	}
	if at == nil {
		return false
	}
	if at[1] == "<inactive>" {
		b.off = number
	} else {
		b.up = true
	}
	if b.off > 0 && b.up && b.some == 0 {
		b.some, b.where = b.gpu, b.name
	}
	return b.off > 0
}

// judge reports links that are off or slow.
func (b *buses) judge(r *reading) {
	if b.some > 0 {
		r.say(b.some, env.Warning, "Some NVLinks are inactive", b.where+" has active and inactive NVLinks.",
			"On a board with NVSwitches or on SXM modules a link has failed: NCCL is slow, or stops. "+
				"PCIe cards show this if not all bridges are plugged.",
			"Compare the GPUs, and read dmesg for Xid 74 and SXid lines. On PCIe cards seat the bridges again. "+resetGPU)
	}
	if b.narrow > 0 {
		r.say(b.narrow, env.Warning, "A PCIe link has fewer lanes than its card", "lspci shows a width that is downgraded.",
			"The card reaches a part of its speed: the slot has fewer lanes, is divided, or the contact is bad.",
			"Move the card to a slot with all lanes, seat it or its riser again, and check bifurcation in the system's firmware.")
	}
}
