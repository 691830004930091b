package facts

import (
	"context"
	"path"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// Slot is the position of a device in the PCI tree. The zero value means that the device is not a PCI device.
type Slot struct {
	Path string `json:"path,omitempty"` // below /sys/devices: pci0000:16/0000:16:01.0/0000:17:00.0
	NUMA int    `json:"numa,omitempty"` // node; -1: unknown
}

// PCI returns the device's own address, such as 0000:17:00.0; "" if it is not a PCI device.
func (s Slot) PCI() string {
	if s.Path == "" {
		return ""
	}
	return path.Base(s.Path)
}

// Distances between two devices, as `nvidia-smi topo -m` names them, from near to far.
const (
	DistancePIX  = "PIX"  // one PCI bridge or switch at most
	DistancePXB  = "PXB"  // several PCI bridges, but not the CPU's host bridge
	DistancePHB  = "PHB"  // the CPU's host bridge
	DistanceNode = "NODE" // two host bridges of one NUMA node
	DistanceSys  = "SYS"  // between NUMA nodes
)

// distances lists all distances from near to far. C2C and NVLink connections do not use PCI at all.
var distances = []string{"X", "C2C", "NV", DistancePIX, DistancePXB, DistancePHB, DistanceNode, DistanceSys}

// far returns the position of a distance in distances, or len(distances) if it is unknown.
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
	case shared >= max(len(a), len(b))-2: // two ports of one switch, or two functions of one card
		return DistancePIX
	}
	return DistancePXB
}

// slot follows a link of sysfs to a device below /sys/devices. below is the part of the target after the device.
func slot(ctx context.Context, r host.Reader, link, below string) Slot {
	to, err := r.Readlink(ctx, link)
	if err != nil {
		return Slot{}
	}
	_, to, found := strings.Cut(to, "devices/")
	to, ended := strings.CutSuffix(to, below)
	if !found || !ended || !strings.HasPrefix(to, "pci") {
		return Slot{} // a platform device or a software device
	}
	s := Slot{Path: to, NUMA: -1}
	if n, err := strconv.Atoi(host.Text(ctx, r, "/sys/bus/pci/devices/"+s.PCI()+"/numa_node")); err == nil {
		s.NUMA = n
	}
	return s
}
