package facts

import (
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
func rdma(r host.Reader) ([]RDMADevice, error) {
	names, err := r.ReadDir(sysInfiniband)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list RDMA devices: %w", err)
	}
	slices.Sort(names)
	var out []RDMADevice
	for _, name := range names {
		ports, err := r.ReadDir(path.Join(sysInfiniband, name, "ports"))
		if err != nil {
			return nil, fmt.Errorf("list ports of RDMA device %s: %w", name, err)
		}
		for _, p := range ports {
			number, err := strconv.Atoi(p)
			if err != nil {
				continue
			}
			out = append(out, rdmaPort(r, name, number))
		}
	}
	return out, nil
}

func rdmaPort(r host.Reader, name string, port int) RDMADevice {
	dir := path.Join(sysInfiniband, name, "ports", strconv.Itoa(port))
	d := RDMADevice{Name: name, Port: port, LinkLayer: text(r, dir+"/link_layer")}
	// "4: ACTIVE", from ib_port_state in the kernel's drivers/infiniband/core/sysfs.c.
	_, d.State, _ = strings.Cut(text(r, dir+"/state"), ": ")
	slots, err := r.ReadDir(dir + "/gids")
	if err != nil {
		return d
	}
	for i := range min(len(slots), maxGIDs) {
		at := strconv.Itoa(i)
		addr, ok := parseGID(text(r, dir+"/gids/"+at))
		if !ok {
			continue
		}
		// Reading the type or netdev of an empty slot gives EINVAL, which text takes as empty.
		g := GID{Index: i, Addr: addr, Version: gidVersion(text(r, dir+"/gid_attrs/types/"+at)), Netdev: text(r, dir+"/gid_attrs/ndevs/"+at)}
		d.GIDs = append(d.GIDs, g)
		if d.Netdev == "" && i == 0 {
			d.Netdev = g.Netdev
		}
	}
	if d.Netdev == "" {
		if nets, err := r.ReadDir(path.Join(sysInfiniband, name, "device/net")); err == nil && len(nets) == 1 {
			d.Netdev = nets[0]
		}
	}
	return d
}

// parseGID reads eight hextets; false for an empty slot and for what is no GID.
func parseGID(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() || a.Zone() != "" || a == netip.IPv6Unspecified() {
		return netip.Addr{}, false
	}
	return a, true
}

// gidVersion reads gid_attrs/types: "IB/RoCE v1" or "RoCE v2".
func gidVersion(s string) int {
	if s == "RoCE v2" {
		return 2
	}
	return 1
}
