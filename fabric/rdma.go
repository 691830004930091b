package fabric

// RXE is a Soft-RoCE device: RDMA over a plain NIC, carried by the kernel's rdma_rxe.
type RXE struct {
	Block
	Name string // of the RDMA device
	Host string

	// The NIC below it. Exactly one of `nic` and `netdev` is needed.
	NIC NICRef `ff:"nic"`
	// Name of the interface below it, where no nic block names it.
	Netdev string `ff:"netdev"`
	// Whether the device is made again after a reboot.
	Persist bool `ff:"persist,default=true"`
}

// OFED is a host's RDMA driver stack.
type OFED struct {
	Block

	// The distribution's own packages, or a stack of NVIDIA's from a bundle.
	Stack string `ff:"stack,required,one=inbox|mlnx_ofed|doca_ofed"`
	// Version of the stack, such as `"24.10-2.1.8.0"`; for the inbox stack, of rdma-core. With DOCA's
	// bundle also DOCA's own, such as `"3.1.0"`; without it, that of its OFED, such as `"25.07"`.
	Version string `ff:"version"`
	// NVIDIA's file under its own name, relative to the file that names it. It is uploaded where it is
	// needed.
	Bundle string `ff:"bundle,path"`
	// SHA-256 of the bundle, 64 hexadecimal digits.
	SHA256 string `ff:"sha256,shape=sha256"`
	// Name of another host with the same bundle, which gets it from here first and hands it to this one
	// over their own network, so that the operator's link carries it once. Where this host cannot reach
	// that one, it is sent from here.
	Relay string `ff:"relay"`
	// More packages of the distribution, for the inbox stack: `["perftest"]`; `"perftest=25.01-1"` pins a version.
	Packages []string `ff:"packages"`
	// Whether MLNX_OFED's installer may change the card's firmware.
	Firmware string `ff:"firmware,one=keep|update,default=keep"`
	// Whether the host may be rebooted; apply wants `-allow=reboot` besides. Without it the driver is reloaded.
	Reboot string `ff:"reboot,one=never|allow,default=never"`
}
