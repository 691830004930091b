package ofed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
)

// own are the stack's own modules that openibd unloads: from UNLOAD_MODULES in ofed_scripts/mod_load_funcs of
// Mellanox's mlnx-ofa_kernel (2025). Any other module that holds the driver makes openibd fail. The list leaves out
// modules that openibd unloads while they are in use and does not load again: storage (ib_iser, ib_srp, rnbd_client,
// rnbd_server, rds), virtual machines (eth_ipoib, mlx4_vnic, mlx5_vdpa, mlx5_vfio_pci, vfio_mdev), and drivers of
// other vendors' cards (cxgb4, hns_roce, mana_ib). Users of rdma_rxe are found by its devices instead.
var own = []string{"auxiliary", "ib_addr", "ib_cm", "ib_core", "ib_ipoib", "ib_mad", "ib_netlink", "ib_sa", "ib_ucm",
	"ib_umad", "ib_uverbs", "iw_cm", "mlx4_ib",
	"mlx5_core", "mlx5_dpll", "mlx5_fpga_tools", "mlx5_fwctl", "mlx5_ib", "mlxdevm", "mlxfw", "rdma_cm", "rdma_rxe", "rdma_ucm"}

// stopped are the programs that openibd stops before it looks for processes with an open device.
var stopped = []string{"ibacm", "srp_daemon"}

// most is how many items a message names: an NCCL job has one process for each GPU.
const most = 3

// refuseReload returns an error when something prevents a reload of the driver and the host may not be rebooted.
// openibd reports most of this too, but only after the packages are installed.
func refuseReload(got *Status, want Spec) error {
	if want.Reboot || installed(want, got.Stack) && !reloads(got.Stack) {
		return nil
	}
	if why := inTheWay(got); len(why) > 0 {
		return fmt.Errorf("the driver cannot be reloaded while %s: do that first, or set reboot = \"allow\" in the ofed block",
			strings.Join(why, ", and while "))
	}
	if len(got.Path) > 0 {
		return fmt.Errorf("a reload of the driver would cut your own connection to this host, which may go over %s: "+
			"set reboot = \"allow\" in the ofed block, or connect over another NIC", strings.Join(got.Path, ", "))
	}
	return nil
}

// inTheWay lists the users of the driver, each with its cure.
func inTheWay(got *Status) (why []string) {
	var busy []string
	for _, m := range got.Stack.Modules {
		for _, u := range m.Users {
			if !slices.Contains(own, u) {
				busy = append(busy, u)
			}
		}
	}
	slices.Sort(busy)
	if busy = slices.Compact(busy); len(busy) > 0 {
		why = append(why, fmt.Sprintf("%s %s it (unload %s)", strings.Join(busy, ", "), number(busy, "uses", "use"),
			number(busy, "it", "them")))
	}
	if r := got.Stack.Reload; r != nil {
		var open []string
		for _, u := range r.Users {
			if !slices.Contains(stopped, u.Name) {
				open = append(open, fmt.Sprintf("process %s has %s open", u, u.File))
			}
		}
		if len(open) > 0 {
			why = append(why, fmt.Sprintf("%s (stop %s)", some(open), number(open, "it", "them")))
		}
		if len(r.Functions) > 0 { // openibd refuses only those that libvirt has assigned to guests
			why = append(why,
				fmt.Sprintf("%s %s virtual functions, which a reload would remove (release their users, and write 0 to sriov_numvfs)",
					some(r.Functions), number(r.Functions, "has", "have")))
		}
		if r.Forbidden {
			why = append(why, reloadConfig+
				" forbids it (this is right if the root file system is on remote storage; otherwise set ALLOW_STOP=yes there)")
		}
	}
	// The vendors' rdma_rxe is empty: drivers/infiniband/sw/rxe/rdma_rxe_dummy.c of mlnx-ofa_kernel.
	if len(got.RXE) > 0 {
		why = append(why, fmt.Sprintf("Soft-RoCE runs on %s, and vendors' stacks do not support it (remove %s)", some(got.RXE),
			number(got.RXE, "it", "them")))
	}
	return why
}

// number picks the singular or the plural of a word by how many things there are.
func number(things []string, one, several string) string {
	if len(things) == 1 {
		return one
	}
	return several
}

// some names the first things, and the count of the others.
func some(things []string) string {
	if len(things) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(things[:most], ", "), len(things)-most)
	}
	return strings.Join(things, ", ")
}

// drivers are the drivers whose links a reload takes down: IPoIB links of ConnectX-3 use mlx4_core.
var drivers = []string{"mlx4_core", "mlx5_core"}

// pathOf returns the NICs of the stack's drivers that carry the operator's connection, or all of them when the path
// is unknown.
func pathOf(snap *facts.Snapshot) (names []string) {
	for _, l := range snap.Links {
		if slices.Contains(drivers, l.Driver) && (snap.Management.Unknown != "" || slices.Contains(snap.Management.Devices, l.Name)) {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return names
}

// softRoCE returns the names of the host's Soft-RoCE devices.
func softRoCE(snap *facts.Snapshot) (names []string) {
	for _, d := range snap.RDMA { // one port each
		if d.Driver == "rxe" {
			names = append(names, d.Name)
		}
	}
	return names
}
