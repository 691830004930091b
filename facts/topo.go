package facts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Topology holds the distances between GPUs and RDMA devices.
type Topology struct {
	GPUs    []string                     `json:"gpus"` // in nvidia-smi's order: GPU0, GPU1, …
	Devices []string                     `json:"devices"`
	From    map[string]map[string]string `json:"from"` // GPU -> RDMA device -> distance
}

// Topology returns the distances between GPUs and RDMA devices by their positions in the PCI tree.
func (s *Snapshot) Topology() Topology {
	t := Topology{From: map[string]map[string]string{}}
	for _, d := range s.RDMA {
		if d.Slot.Path != "" && !slices.Contains(t.Devices, d.Name) {
			t.Devices = append(t.Devices, d.Name)
		}
	}
	for _, g := range s.GPUs {
		name := fmt.Sprintf("GPU%d", g.Index)
		t.GPUs = append(t.GPUs, name)
		t.From[name] = map[string]string{}
		for _, d := range s.RDMA {
			if distance := g.Slot.Distance(d.Slot); distance != "" {
				t.From[name][d.Name] = distance
			}
		}
	}
	return t
}

// Nearest returns the devices nearest to the GPU and their distance; none if no distance is known.
func (t Topology) Nearest(gpu string, devices []string) (nearest []string, distance string) {
	best := len(distances)
	for _, d := range devices {
		at := far(t.From[gpu][d])
		if at < best {
			nearest, best = nil, at
		}
		if at == best && best < len(distances) {
			nearest = append(nearest, d)
			distance = t.From[gpu][d]
		}
	}
	return nearest, distance
}

// maxColumns bounds the columns of a matrix; a machine has about 16 GPUs and as many NICs.
const maxColumns = 256

// ParseTopology parses the output of `nvidia-smi topo -m`: a matrix whose columns are GPUs and NICs, followed by the
// names of the NICs (before driver 515, the columns have the names themselves).
func ParseTopology(output string) (Topology, error) {
	t := Topology{From: map[string]map[string]string{}}
	var columns []string
	names := map[string]string{}
	for line := range strings.Lines(output) {
		line = strings.TrimRight(plain(line), " \r\n")
		cells := strings.Split(line, "\t")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case columns == nil:
			if len(cells) > 1 && cells[0] == "" && strings.HasPrefix(cells[1], "GPU") && len(cells) <= maxColumns {
				columns = cells
			}
		case strings.HasPrefix(cells[0], "GPU"):
			t.row(columns, cells)
		case strings.HasPrefix(strings.TrimSpace(line), "NIC"):
			if n, name, found := strings.Cut(strings.TrimSpace(line), ": "); found {
				names[n] = name
			}
		}
	}
	if len(t.GPUs) == 0 {
		return Topology{}, errors.New("this is not the output of nvidia-smi topo -m: it has no row for a GPU")
	}
	t.rename(columns, names)
	return t, nil
}

func (t *Topology) row(columns, cells []string) {
	gpu := cells[0]
	if t.From[gpu] != nil {
		return
	}
	t.GPUs = append(t.GPUs, gpu)
	t.From[gpu] = map[string]string{}
	for i, c := range columns {
		if i > 0 && i < len(cells) && isDevice(c) && far(cells[i]) < len(distances) {
			t.From[gpu][c] = cells[i]
		}
	}
}

// isDevice reports whether a column is for a NIC, and not for a GPU or about CPUs.
func isDevice(column string) bool {
	return column != "" && !strings.HasPrefix(column, "GPU") && !strings.Contains(column, "Affinity") && !strings.Contains(column, "NUMA")
}

// rename replaces NIC0, NIC1, … by the names of the NICs.
func (t *Topology) rename(columns []string, names map[string]string) {
	for _, c := range columns {
		if !isDevice(c) || slices.Contains(t.Devices, c) {
			continue
		}
		name := c
		if n := names[c]; isDevice(n) {
			name = n
		}
		t.Devices = append(t.Devices, name)
		if name == c {
			continue
		}
		for _, gpu := range t.GPUs {
			if d, ok := t.From[gpu][c]; ok {
				delete(t.From[gpu], c)
				t.From[gpu][name] = d
			}
		}
	}
}

// plain removes the escape sequences (ESC [ … m) with which nvidia-smi underlines its heading.
func plain(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, s, found = strings.Cut(after, "m")
		if !found {
			return b.String()
		}
	}
}
