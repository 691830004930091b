package fabric

// RXE is a Soft-RoCE device: RDMA over a plain NIC by the kernel's rdma_rxe module.
type RXE struct {
	Block
	Name string // name of the RDMA device
	Host string

	// The NIC below the device. Exactly one of `nic` and `netdev` is required.
	NIC NICRef `ff:"nic"`
	// Name of the interface below the device, for an interface without a nic block.
	Netdev string `ff:"netdev"`
	// Whether the device is created again after a reboot.
	Persist bool `ff:"persist,default=true"`
}

// OFED is a host's RDMA driver stack.
type OFED struct {
	Block

	// The distribution's own packages (`inbox`), or a stack of NVIDIA's from a bundle.
	Stack string `ff:"stack,required,one=inbox|mlnx_ofed|doca_ofed"`
	// Version of the stack, such as `"24.10-2.1.8.0"`; for the inbox stack, the version of rdma-core. For
	// DOCA, the version of its OFED, such as `"25.07"`, or with a bundle that of DOCA itself, such as `"3.1.0"`.
	Version string `ff:"version"`
	// NVIDIA's file under its original name, relative to the fabric file. It is uploaded to the hosts that need
	// it.
	Bundle string `ff:"bundle,path"`
	// SHA-256 of the bundle, 64 hexadecimal digits.
	SHA256 string `ff:"sha256,shape=sha256"`
	// Name of another host with the same bundle. That host gets the bundle from the operator and sends it
	// to this one over their own network, so that it crosses the operator's link only once. If this host
	// cannot reach the relay, the operator uploads the bundle directly.
	Relay string `ff:"relay"`
	// Further packages of the distribution, for the inbox stack, such as `["perftest"]`; `"perftest=25.01-1"` pins a version.
	Packages []string `ff:"packages"`
	// Whether MLNX_OFED's installer may change the card's firmware.
	Firmware string `ff:"firmware,one=keep|update,default=keep"`
	// Whether the host may be rebooted; apply also needs `-allow=reboot`. With `never`, the driver is reloaded instead.
	Reboot string `ff:"reboot,one=never|allow,default=never"`
}
