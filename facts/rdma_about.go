package facts

import "strings"

// ActiveMTU returns the RDMA path MTU in bytes that a port gets from its netdev's MTU: the largest power of two from 256
// to 4096 that leaves room for 96 bytes of headers (iboe_get_mtu in the kernel's include/rdma/ib_addr.h). It returns 0
// if the netdev's MTU is too small for RDMA.
func ActiveMTU(netdevMTU int) int {
	for _, m := range []int{4096, 2048, 1024, 512, 256} {
		if netdevMTU-96 >= m {
			return m
		}
	}
	return 0
}

// ethernetOnly maps the hca_type of cards without an InfiniBand mode to their names (pci_device_id table of the kernel's
// drivers/net/ethernet/mellanox/mlx5/core/main.c, and NVIDIA's release notes, which list no InfiniBand for Lx and
// Dx).
var ethernetOnly = map[string]string{"MT4117": "ConnectX-4 Lx", "MT4125": "ConnectX-6 Dx", "MT4127": "ConnectX-6 Lx"}

// ethernetDrivers are the drivers of Ethernet-only cards.
var ethernetDrivers = []string{"bnxt_en", "bnxt_re", "irdma", "ice", "ionic", "mana", "erdma", "hns3"}

// SoftRoCE is the driver of Soft-RoCE devices.
const SoftRoCE = "rxe"

// Kind returns a short name for the kind of device.
func (d RDMADevice) Kind() string {
	switch {
	case d.Driver == SoftRoCE:
		return "Soft-RoCE"
	case d.LinkLayer == "InfiniBand":
		return "InfiniBand"
	case d.Virtual:
		return "software RDMA"
	}
	return "RoCE"
}

// About explains misleading output of other tools about the device: `ibv_devinfo` prints "transport: InfiniBand" for
// every RDMA device, and `ibstat` prints "Base lid: 0" for every Ethernet port.
func (d RDMADevice) About() []string {
	if d.LinkLayer != "Ethernet" {
		return nil
	}
	about := []string{"Ethernet link layer: LID " + strings.TrimPrefix(d.LID, "0x") +
		" and \"transport: InfiniBand\" are right, and no subnet manager is needed"}
	if name := ethernetOnly[d.HCA]; name != "" {
		return append(about, name+" is an Ethernet-only card: it has no LINK_TYPE_P1 to change")
	}
	for _, driver := range ethernetDrivers {
		if d.Driver == driver {
			return append(about, "an Ethernet-only card ("+driver+")")
		}
	}
	return about
}
