package facts

import (
	"context"
	"path"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// Slot is where a device sits on the PCI tree. The zero value stands for no PCI device.
type Slot struct {
	Path string `json:"path,omitempty"` // below /sys/devices: pci0000:16/0000:16:01.0/0000:17:00.0
	NUMA int    `json:"numa,omitempty"` // node; -1: unknown
}

// PCI is the device's own address, such as 0000:17:00.0; "" for no PCI device.
func (s Slot) PCI() string {
	if s.Path == "" {
		return ""
	}
	return path.Base(s.Path)
}

// The distances of two devices, as `nvidia-smi topo -m` names them, near ones first.
const (
	DistancePIX  = "PIX"  // one PCI bridge or switch at most
	DistancePXB  = "PXB"  // several PCI bridges, not the CPU's
	DistancePHB  = "PHB"  // the CPU's host bridge
	DistanceNode = "NODE" // two host bridges of one NUMA node
	DistanceSys  = "SYS"  // between NUMA nodes
)

// distances are in the order from near to far. C2C and what NVLink joins do not pass PCI at all.
var distances = []string{"X", "C2C", "NV", DistancePIX, DistancePXB, DistancePHB, DistanceNode, DistanceSys}

// far is a distance's place in the order; large for what is not known.
func far(d string) int {
	for i, known := range distances {
		if d == known || known == "NV" && strings.HasPrefix(d, "NV") {
			return i
		}
	}
	return len(distances)
}

// Distance returns the distance of two devices; "" if one of them is not on the PCI tree.
func (s Slot) Distance(t Slot) string {
	if s.Path == "" || t.Path == "" {
		return ""
	}
	a, b := strings.Split(s.Path, "/"), strings.Split(t.Path, "/")
	shared := 0
	for shared < min(len(a), len(b)) && a[shared] == b[shared] {
		shared++
	}
	switch {
	case shared == 0 && s.NUMA == t.NUMA && s.NUMA >= 0:
		return DistanceNode
	case shared == 0:
		return DistanceSys
	case shared == 1: // the host bridge alone
		return DistancePHB
	case shared >= max(len(a), len(b))-2: // all but a switch's two ends, or two functions of a card
		return DistancePIX
	}
	return DistancePXB
}

// slot follows a link of sysfs to a device below /sys/devices. below is what follows the device.
func slot(ctx context.Context, r host.Reader, link, below string) Slot {
	to, err := r.Readlink(ctx, link)
	if err != nil {
		return Slot{}
	}
	_, to, found := strings.Cut(to, "devices/")
	to, ended := strings.CutSuffix(to, below)
	if !found || !ended || !strings.HasPrefix(to, "pci") {
		return Slot{} // a platform's or a software device
	}
	s := Slot{Path: to, NUMA: -1}
	if n, err := strconv.Atoi(host.Text(ctx, r, "/sys/bus/pci/devices/"+s.PCI()+"/numa_node")); err == nil {
		s.NUMA = n
	}
	return s
}
