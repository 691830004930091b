package explain

// efaMeanings are errors of libfabric's provider efa (prov/efa/src/efa_errno.h; up to 1.17 efa_strerror.c) and of EFA's driver.
var efaMeanings = []*meaning{
	{role: effect, summary: "The peer of an EFA connection is gone", costs: "The peer's process has ended, or has released the memory or the connection that this request is for.", instead: "Look for an earlier error on the peer: the line names its host and address.",
		forms: []string{"Invalid receiver queue pair number", "Bad queue pair (QP) number", "Connection was reset by remote peer", "Receiver connection aborted", "Unresponsive remote (was", "Unresponsive receiver (connection previously",
			"efa:*message: Invalid address", "NET/OFI Request*Error: Invalid address", "Remote key (RKEY) not registered"}},
	{role: symptom, summary: "The peer does not answer over EFA", costs: "No packet came back: the security group does not allow all traffic to and from itself, outbound rules included, the hosts are in different Availability Zones, or the peer has ended.",
		instead: "Add an inbound and an outbound rule for all traffic whose source and destination is the security group itself (0.0.0.0/0 does not cover EFA), on all interfaces of both hosts. Then see whether the peer's rank ended first.",
		forms:   []string{"Unreachable remote (never", "Unresponsive receiver. This", "Unresponsive receiver (reachable", "No valid address handle at remote", "NET/OFI Unable to insert remote address into address vector"}},
	{role: cause, summary: "libfabric stops at a device that is not EFA", costs: "The container sees RDMA devices in /sys that it may not open, such as a ConnectX beside EFA. libfabric's provider efa then offers no device at all (ofiwg/libfabric#12708), and NCCL uses sockets.",
		instead: "Remove a hostPath of /dev/infiniband and let EFA's device plugin give the pod its devices, or make the container privileged. Update libfabric.", forms: []string{"efa_device_construct_gid*ibv_open_device failed", "efa_device_construct_gid failed for"}},
	{role: cause, summary: "EFA's device plugin found no EFA", costs: "The plugin of Kubernetes runs on a host that has no EFA interface, or whose driver is not loaded.", instead: "On instances with EFA attach an interface of that type, and load the module efa (EFA's installer). Elsewhere keep the plugin's pods away by their node selector.", forms: []string{"No valid EFA devices found"}},
	{role: cause, summary: "The EFA device has no room left", costs: "The driver could not make an object for a program: -12 (ENOMEM) is the device's answer that it has none left.", instead: "End other programs that use EFA on this host, or start fewer ranks on it. Update the EFA installer on host and image. For memory (REG_MR) use huge pages, of which the device needs fewer entries.", forms: []string{"infiniband efa_*: Failed to process command*err -12", "infiniband efa_*: Failed to*[-12]"}},
	{role: hint, summary: "The EFA device refused a command", costs: "The driver could not make an object for a program.", instead: "Update the EFA installer on host and image, and read the lines of the program.", forms: []string{"infiniband efa_*: Failed to"}},
}
