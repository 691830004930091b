package facts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host"
)

const sysInfiniband = "/sys/class/infiniband"

// maxGIDs bounds a GID table; mlx5 has 256 slots.
const maxGIDs = 1024

// rdma reads every port of every RDMA device. A host without RDMA has none.
func rdma(ctx context.Context, r host.Reader) ([]RDMADevice, error) {
	names, err := r.ReadDir(ctx, sysInfiniband)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	slices.Sort(names)
	var out []RDMADevice
	for _, name := range names {
		ports, err := r.ReadDir(ctx, path.Join(sysInfiniband, name, "ports"))
		if err != nil {
			return nil, fmt.Errorf("list ports of RDMA device %s: %w", name, err)
		}
		for _, p := range ports {
			number, err := strconv.Atoi(p)
			if err != nil {
				continue
			}
			out = append(out, rdmaPort(ctx, r, name, number))
		}
	}
	return out, nil
}

func rdmaPort(ctx context.Context, r host.Reader, name string, port int) RDMADevice {
	device := path.Join(sysInfiniband, name)
	dir := portDir(name, port)
	d := RDMADevice{
		Name: name, Port: port, LinkLayer: host.Text(ctx, r, dir+"/link_layer"), Rate: host.Text(ctx, r, dir+"/rate"),
		LID:      host.Text(ctx, r, dir+"/lid"),
		Firmware: host.Text(ctx, r, device+"/fw_ver"), HCA: host.Text(ctx, r, device+"/hca_type"),
		Board: host.Text(ctx, r, device+"/board_id"),
		Slot:  slot(ctx, r, device, "/infiniband/"+name),
	}
	d.State = PortState(ctx, r, name, port)
	_, d.PhysState, _ = strings.Cut(host.Text(ctx, r, dir+"/phys_state"), ": ")
	d.Driver, d.Virtual = rdmaDriver(ctx, r, device)

	d.Netdev = rdmaNetdev(ctx, r, device, d)
	return d
}

// ReadGIDs reads the GID tables of all RDMA ports. Gather leaves them out, because they have up to 1,024 slots of three
// files each, and no provider needs them.
func (s *Snapshot) ReadGIDs(ctx context.Context, r host.Reader) {
	for i := range s.RDMA {
		d := &s.RDMA[i]
		dir := portDir(d.Name, d.Port)
		slots, err := r.ReadDir(ctx, dir+"/gids")
		if err != nil {
			continue
		}
		for i := range min(len(slots), maxGIDs) {
			if g, ok := readGID(ctx, r, dir, i); ok {
				d.GIDs = append(d.GIDs, g)
			}
		}
	}
}

// readGID reads one slot of a GID table; false if it is empty. Reading the type or netdev of an empty slot fails with
// EINVAL.
func readGID(ctx context.Context, r host.Reader, dir string, index int) (GID, bool) {
	at := strconv.Itoa(index)
	addr, ok := parseGID(host.Text(ctx, r, dir+"/gids/"+at))
	if !ok {
		return GID{}, false
	}
	return GID{
		Index: index, Addr: addr,
		Version: gidVersion(host.Text(ctx, r, dir+"/gid_attrs/types/"+at)),
		Netdev:  host.Text(ctx, r, dir+"/gid_attrs/ndevs/"+at),
	}, true
}

func portDir(device string, port int) string {
	return path.Join(sysInfiniband, device, "ports", strconv.Itoa(port))
}

// PortState returns the state of a port, such as "ACTIVE"; "" if there is none. The file has
// "4: ACTIVE", from ib_port_state in the kernel's drivers/infiniband/core/sysfs.c.
func PortState(ctx context.Context, r host.Reader, device string, port int) string {
	_, state, _ := strings.Cut(host.Text(ctx, r, portDir(device, port)+"/state"), ": ")
	return state
}

// rdmaDriver returns the driver of the device. Software devices have no hardware below them, and only rxe has a file that
// names its netdev (rxe_verbs.c).
func rdmaDriver(ctx context.Context, r host.Reader, device string) (driver string, virtual bool) {
	if to, err := r.Readlink(ctx, device+"/device/driver"); err == nil {
		return path.Base(to), false
	}
	if host.Text(ctx, r, device+"/parent") != "" {
		return SoftRoCE, true
	}
	to, err := r.Readlink(ctx, device)
	return "", err == nil && strings.Contains(to, "/virtual/")
}

// rdmaNetdev returns the netdev below a port. The default GID, if there is one, names the port's own netdev; later GIDs
// may be of VLANs. A PCI function may have several netdevs, numbered by dev_port.
func rdmaNetdev(ctx context.Context, r host.Reader, device string, d RDMADevice) string {
	if g, ok := readGID(ctx, r, portDir(d.Name, d.Port), 0); ok && g.Netdev != "" {
		return g.Netdev
	}
	if parent := host.Text(ctx, r, device+"/parent"); parent != "" {
		return parent
	}
	nets, err := r.ReadDir(ctx, device+"/device/net")
	if err != nil {
		return ""
	}
	if len(nets) == 1 {
		return nets[0]
	}
	for _, n := range nets {
		if host.Text(ctx, r, path.Join(device, "device/net", n, "dev_port")) == strconv.Itoa(d.Port-1) {
			return n
		}
	}
	return ""
}

// parseGID parses eight hextets; false for an empty slot and for anything else.
func parseGID(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Zone() != "" || a == netip.IPv6Unspecified() {
		return netip.Addr{}, false
	}
	return a, true
}

// gidVersion parses gid_attrs/types: "IB/RoCE v1" or "RoCE v2".
func gidVersion(s string) int {
	if s == "RoCE v2" {
		return 2
	}
	return 1
}
