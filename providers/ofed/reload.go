package ofed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
)

// own are the modules that openibd unloads and that are the stack's own: of UNLOAD_MODULES in
// ofed_scripts/mod_load_funcs of Mellanox's mlnx-ofa_kernel (2025). Any other one that holds the driver makes openibd
// fail. Left out here is what it unloads under somebody's feet and does not load again: storage (ib_iser, ib_srp,
// rnbd_client, rnbd_server, rds), virtual machines (eth_ipoib, mlx4_vnic, mlx5_vdpa, mlx5_vfio_pci, vfio_mdev), and
// the drivers of other makers' cards (cxgb4, hns_roce, mana_ib). Whom the loss of rdma_rxe hurts, its devices tell.
var own = []string{"auxiliary", "ib_addr", "ib_cm", "ib_core", "ib_ipoib", "ib_mad", "ib_netlink", "ib_sa", "ib_ucm", "ib_umad", "ib_uverbs", "iw_cm", "mlx4_ib",
	"mlx5_core", "mlx5_dpll", "mlx5_fpga_tools", "mlx5_fwctl", "mlx5_ib", "mlxdevm", "mlxfw", "rdma_cm", "rdma_rxe", "rdma_ucm"}

// stopped are the programs that openibd stops by itself before it looks who has a device open.
var stopped = []string{"ibacm", "srp_daemon"}

// most bounds how many of a kind are named: a job of NCCL's has a process for each GPU.
const most = 3

// refuseReload says who keeps the driver from being reloaded, where the host may not be restarted. openibd would
// say most of it, but only after the packages were installed.
func refuseReload(got *Status, want Spec) error {
	if want.Reboot || installed(want, got.Stack) && !reloads(got.Stack) {
		return nil
	}
	if why := inTheWay(got); len(why) > 0 {
		return fmt.Errorf("the driver cannot be reloaded while %s: do that first, or set reboot = \"allow\" in the ofed block", strings.Join(why, ", and while "))
	}
	if len(got.Path) > 0 {
		return fmt.Errorf("a reload of the driver would cut your own connection to this host, which may go over %s: set reboot = \"allow\" in the ofed block, or come in by another card", strings.Join(got.Path, ", "))
	}
	return nil
}

// inTheWay are who uses the driver, each with what to do about it.
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
		why = append(why, fmt.Sprintf("%s %s it (unload %s)", strings.Join(busy, ", "), number(busy, "uses", "use"), number(busy, "it", "them")))
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
		if len(r.Functions) > 0 { // openibd itself refuses only those that libvirt has given to guests
			why = append(why, fmt.Sprintf("%s %s virtual functions, which would be gone (release their users, and write 0 to sriov_numvfs)", some(r.Functions), number(r.Functions, "has", "have")))
		}
		if r.Forbidden {
			why = append(why, reloadConfig+" forbids it, as it should where the root file system is on remote storage (set ALLOW_STOP=yes there if it is not)")
		}
	}
	if len(got.RXE) > 0 { // the vendors' rdma_rxe is an empty one: drivers/infiniband/sw/rxe/rdma_rxe_dummy.c of mlnx-ofa_kernel
		why = append(why, fmt.Sprintf("Soft-RoCE runs on %s, which vendors' stacks do not have (remove %s)", some(got.RXE), number(got.RXE, "it", "them")))
	}
	return why
}

// number is the form of a word for one of the things, or for several.
func number(things []string, one, several string) string {
	if len(things) == 1 {
		return one
	}
	return several
}

// some names the first few.
func some(things []string) string {
	if len(things) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(things[:most], ", "), len(things)-most)
	}
	return strings.Join(things, ", ")
}

// drivers are those of the links that a reload takes down: IPoIB's go over mlx4_core, too.
var drivers = []string{"mlx4_core", "mlx5_core"}

// pathOf are the devices under the operator's connection that the stack drives; where the path is not
// known, all that it drives.
func pathOf(snap *facts.Snapshot) (names []string) {
	for _, l := range snap.Links {
		if slices.Contains(drivers, l.Driver) && (snap.Management.Unknown != "" || slices.Contains(snap.Management.Devices, l.Name)) {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return names
}

// softRoCE are the host's Soft-RoCE devices.
func softRoCE(snap *facts.Snapshot) (names []string) {
	for _, d := range snap.RDMA { // one port each
		if d.Driver == "rxe" {
			names = append(names, d.Name)
		}
	}
	return names
}
