package perftest

import "fmt"

// rule tells a cause by what programs say. A %s in sentence is the side.
type rule struct {
	cause    Cause
	wordings []string // any of them, as printed; * stands for anything
	sentence string
	cure     string
}

func (r rule) failure(e *end, said string) Failure {
	return Failure{Cause: r.cause, Side: e.side, Sentence: fmt.Sprintf(r.sentence, e.side), Cure: r.cure, Said: said}
}

// gaveUpWaiting is in check_alive of perftest_resources.c.
const gaveUpWaiting = "Did not get Message for 120 Seconds"

// peerGone is what an end says when the other closes the control connection
// (perftest_communication.c, and the exchanges in write_bw.c and its like).
var peerGone = []string{
	"Couldn't read remote address", "Couldn't read reports", "Unable to read from socket", "Unable to read to socket",
	"Unable to write to socket", "Unable to write from socket", "Couldn't send local address", "Couldn't send reports",
	"Failed to exchange data between server and clients", "Failed to close connection between server and client",
	"Failed to exchange Page Size data", "Failed to exchange Cache Line Size data",
}

// rules are from the most telling to the least; each is looked for on both ends before the next.
var rules = []rule{
	{
		BadArguments,
		// --ipv6-addr is there since 23.07.0-0.27, which names itself 6.16.
		[]string{"unrecognized option*--ipv6-addr"},
		"perftest on the %s is too old for a control connection over IPv6",
		"install perftest 23.07 or newer on both hosts",
	},
	{
		BadArguments,
		// parser in perftest_parameters.c and getopt_long of the C library; CHECK_VALUE_IN_RANGE and
		// its like in perftest_parameters.h.
		[]string{"Invalid Command or flag", "unrecognized option", "should be between * and ", "Invalid Command line"},
		"perftest on the %s does not take the arguments of this test",
		"bring perftest there to the same release as on the other host",
	},
	{
		NoProvider,
		// ibverbs_get_device_list in rdma-core's libibverbs/init.c, where IBV_SHOW_WARNINGS is set.
		[]string{"no userspace device-specific driver found for"},
		"libibverbs on the %s has no library for its RDMA device",
		"install ibverbs-providers there (rdma-core's; libibverbs on RPM systems)",
	},
	{
		NoSuchDevice,
		// ctx_find_dev in perftest_resources.c.
		[]string{"IB device * not found"},
		"the %s has no RDMA device of that name",
		"compare with `rdma link` there; a device that was renamed or removed needs a new plan",
	},
	{
		NoDevices,
		// ctx_find_dev in perftest_resources.c; the last line is main's, and comes after both.
		[]string{"Did not detect devices", "No IB devices found", "Unable to find the Infiniband/RoCE device"},
		"the %s has no RDMA device that a program can use",
		"see that its driver is loaded together with ib_uverbs, and that `ibv_devices` lists it; for Soft-RoCE, apply the fabric again",
	},
	{
		PortDown,
		// set_link_layer and check_link in perftest_parameters.c.
		[]string{"Port number * state is", "Couldn't set the link layer", "Link layer on port * is Unknown"},
		"the RDMA port on the %s is not active",
		"bring its NIC up and see that the cable has a link: an RDMA port is as active as its NIC",
	},
	{
		NoGID,
		// main in write_bw.c and its like. Without rdma_cm, only a GID that cannot be read ends
		// set_up_connection in perftest_communication.c.
		[]string{"Unable to set up socket connection", "Invalid GID index"},
		"the GID index of this test is not in the %s's GID table",
		"see that the NIC there has its address: each address makes one GID for RoCE v1 and one for v2, and they move when it changes",
	},
	{
		GIDFamilies,
		// main in write_bw.c, after ctx_check_gid_compatibility in perftest_communication.c.
		[]string{"Found Incompatibility issue with GID types"},
		"the GIDs of the ends are of two families: one is an IPv4 address, one an IPv6 address (seen on the %s)",
		"choose GID indices of the same family on both hosts",
	},
	{
		Memlock,
		// create_reg_mr, create_mr and ctx_init in perftest_resources.c.
		[]string{"Couldn't allocate MR", "failed to create mr", "Failed to create MR"},
		"memory could not be registered with the RDMA device on the %s",
		"raise the limit of locked memory there (`ulimit -l`): memlock unlimited in limits.d, and LimitMEMLOCK=infinity for services",
	},
	{
		NoQueues,
		// create_qp_main, ctx_qp_create and create_reg_cqs in perftest_resources.c.
		[]string{"Unable to create QP", "Failed to create QP", "Couldn't create CQ", "Couldn't create a receiver CQ", "Couldn't create send completion channel",
			"Failed to create CQs", "Couldn't allocate PD"},
		"the RDMA device on the %s gave no more queues",
		"see who holds them with `rdma resource` there, use fewer queue pairs, and see the limit of locked memory (`ulimit -l`)",
	},
	{
		NoPath,
		// ctx_connect in perftest_resources.c; main in write_bw.c says the second line.
		[]string{"Failed to modify QP * to RTR", "Unable to Connect the HCA's through the link", "Failed to modify QP to RTR", "Failed to modify QP to RTS",
			"Failed to modify QP to INIT", "Failed to create AH"},
		"the %s could not connect its queue pair to the other end's GID",
		"see that the hosts reach each other's RDMA addresses by ping (an answer to ARP is needed), and that both GIDs are RoCE v2 of addresses that the NICs still have",
	},
	{
		VersionsDiffer,
		// check_version_compatibility in perftest_communication.c.
		[]string{"is not compatible with versions older than", "Failed to exchange negotiation parameters", "Couldn't parse line <"},
		"the ends run perftests that do not understand each other (seen on the %s)",
		"bring perftest on both hosts to the same release",
	},
	{
		OptionsDiffer,
		// compare in perftest_parameters.c, since 26.01; main in write_bw.c says the second line.
		[]string{" mismatch: local=*, remote=", "Failed to negotiate parameters"},
		"the ends were started with different tests (seen on the %s)",
		"end what else runs perftest on this control port, and run the test again",
	},
	{
		NoAccess,
		// main in write_bw.c, for each of several reasons; those with words of their own are above.
		[]string{"Couldn't get context for the device"},
		"the RDMA device on the %s could not be opened",
		"see that ib_uverbs is loaded there and that /dev/infiniband/uverbs* may be opened",
	},
}

// lateRules come after completions with an error: they are also what an end says when the other failed.
var lateRules = []rule{
	{
		SilentData,
		[]string{gaveUpWaiting},
		"no message came in for two minutes on the %s",
		"let UDP port 4791 pass in both hosts' firewalls, and compare both ends' MTU",
	},
	{
		ClockUnusable,
		// print_report_bw in perftest_parameters.c.
		[]string{"Can't produce a report"},
		"perftest on the %s found no steady CPU frequency to measure time by",
		"run with -F, or set the CPU governor there to performance",
	},
	{
		PortBusy,
		// ethernet_server_connect in perftest_communication.c.
		[]string{"Couldn't listen to port"},
		"the control port is taken on the %s",
		"end the perftest that still runs there, or choose another port",
	},
	{
		NoControl,
		// ethernet_client_connect, check_add_port and establish_connection in perftest_communication.c;
		// main in write_bw.c says the last.
		[]string{"Couldn't connect to", "Problem in resolving basic address and port", "Failed to bind socket",
			"Unable to open file descriptor for socket connection", "Unable to init the socket connection"},
		"the %s could not open the TCP control connection",
		"see that the server was started first and still waits, and let the control port (TCP) pass in its firewall",
	},
}
