package perftest

import "fmt"

// rule maps messages of the programs to a cause. %s in sentence is the side.
type rule struct {
	cause    Cause
	wordings []string // one of them must match; * matches anything
	sentence string
	cure     string
}

func (r rule) failure(e *end, said string) Failure {
	return Failure{Cause: r.cause, Side: e.side, Sentence: fmt.Sprintf(r.sentence, e.side), Cure: r.cure, Said: said}
}

// gaveUpWaiting is printed by check_alive in perftest_resources.c.
const gaveUpWaiting = "Did not get Message for 120 Seconds"

// clockUnmeasured is printed by sample_get_cpu_mhz in get_clock.c: the frequency is then 0, and each time of the report "inf".
const clockUnmeasured = "Correlation coefficient r^2"

// peerGone are the messages of an end when the other closes the control connection (perftest_communication.c, and
// the exchanges in write_bw.c and the other programs).
var peerGone = []string{
	"Couldn't read remote address", "Couldn't read reports", "Unable to read from socket", "Unable to read to socket",
	"Unable to write to socket", "Unable to write from socket", "Couldn't send local address", "Couldn't send reports",
	"Failed to exchange data between server and clients", "Failed to close connection between server and client",
	"Failed to exchange Page Size data", "Failed to exchange Cache Line Size data",
}

// rules are sorted from the most specific to the least. Each is checked on both ends before the next.
var rules = []rule{
	{
		BadArguments,
		// --ipv6-addr exists since 23.07.0-0.27, whose internal version is 6.16.
		[]string{"unrecognized option*--ipv6-addr"},
		"perftest on the %s is too old for a control connection over IPv6",
		"install perftest 23.07 or newer on both hosts",
	},
	{
		BadArguments,
		// Builds before 2016 (perftest 5.5) do not have it.
		[]string{"unrecognized option*--tclass"},
		"perftest on the %s is too old to set a traffic class, so the class that NCCL_IB_TC gives NCCL's packets cannot be measured",
		"install a newer perftest on both hosts",
	},
	{
		BadArguments,
		// parser in perftest_parameters.c and getopt_long of the C library; CHECK_VALUE_IN_RANGE and
		// its like in perftest_parameters.h.
		[]string{"Invalid Command or flag", "unrecognized option", "should be between * and ", "Invalid Command line"},
		"perftest on the %s does not accept the arguments of this test",
		"install the same release of perftest there as on the other host",
	},
	{
		NoProvider,
		// ibverbs_get_device_list in rdma-core's libibverbs/init.c, where IBV_SHOW_WARNINGS is set.
		[]string{"no userspace device-specific driver found for"},
		"libibverbs on the %s has no library for its RDMA device",
		"install ibverbs-providers there (on RPM systems, libibverbs)",
	},
	{
		NoSuchDevice,
		// ctx_find_dev in perftest_resources.c.
		[]string{"IB device * not found"},
		"the %s has no RDMA device of that name",
		"compare with `rdma link` there; if the device was renamed or removed, plan again",
	},
	{
		NoDevices,
		// ctx_find_dev in perftest_resources.c; the last line is main's, and comes after both.
		[]string{"Did not detect devices", "No IB devices found", "Unable to find the Infiniband/RoCE device"},
		"the %s has no usable RDMA device",
		"check that its driver and ib_uverbs are loaded, and that `ibv_devices` lists it; for Soft-RoCE, apply the fabric again",
	},
	{
		PortDown,
		// set_link_layer and check_link in perftest_parameters.c.
		[]string{"Port number * state is", "Couldn't set the link layer", "Link layer on port * is Unknown"},
		"the RDMA port on the %s is not active",
		"bring its NIC up and check that the cable has a link: an RDMA port is active only if its NIC is",
	},
	{
		NoGID,
		// main in write_bw.c and its like. Without rdma_cm, only a GID that cannot be read ends
		// set_up_connection in perftest_communication.c.
		[]string{"Unable to set up socket connection", "Invalid GID index"},
		"the GID index of this test is not in the %s's GID table",
		"check that the NIC there has its address: each address has one GID for RoCE v1 and one for v2, " +
			"and their index changes when the address does",
	},
	{
		GIDFamilies,
		// main in write_bw.c, after ctx_check_gid_compatibility in perftest_communication.c.
		[]string{"Found Incompatibility issue with GID types"},
		"the GIDs of the two ends are of different families: one IPv4, the other IPv6 (reported by the %s)",
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
		[]string{"Unable to create QP", "Failed to create QP", "Couldn't create CQ", "Couldn't create a receiver CQ",
			"Couldn't create send completion channel",
			"Failed to create CQs", "Couldn't allocate PD"},
		"the RDMA device on the %s has no more free queues",
		"run `rdma resource` there to see which programs use them, use fewer queue pairs, " +
			"and check the limit of locked memory (`ulimit -l`)",
	},
	{
		NoPath,
		// ctx_connect in perftest_resources.c; main in write_bw.c says the second line.
		[]string{"Failed to modify QP * to RTR", "Unable to Connect the HCA's through the link", "Failed to modify QP to RTR",
			"Failed to modify QP to RTS",
			"Failed to modify QP to INIT", "Failed to create AH"},
		"the %s could not connect its queue pair to the other end's GID",
		"check that the hosts can ping each other's RDMA addresses (an ARP answer is needed), " +
			"and that both GIDs are RoCE v2 GIDs of addresses that the NICs still have",
	},
	{
		VersionsDiffer,
		// check_version_compatibility in perftest_communication.c.
		[]string{"is not compatible with versions older than", "Failed to exchange negotiation parameters", "Couldn't parse line <"},
		"the two ends run incompatible releases of perftest (reported by the %s)",
		"install the same release of perftest on both hosts",
	},
	{
		OptionsDiffer,
		// compare in perftest_parameters.c, since 26.01; main in write_bw.c says the second line.
		[]string{" mismatch: local=*, remote=", "Failed to negotiate parameters"},
		"the two ends were started with different tests (reported by the %s)",
		"stop the other perftest on this control port, and run the test again",
	},
	{
		NoAccess,
		// main in write_bw.c, for several reasons; those with their own message are above.
		[]string{"Couldn't get context for the device"},
		"the RDMA device on the %s could not be opened",
		"check that ib_uverbs is loaded there, and that /dev/infiniband/uverbs* can be opened",
	},
}

// lateRules are checked after completion errors: an end also prints these messages when the other end failed.
var lateRules = []rule{
	{
		SilentData,
		[]string{gaveUpWaiting},
		"no message arrived on the %s for two minutes",
		"with Soft-RoCE allow UDP port 4791 in both hosts' firewalls, and compare both ends' MTU",
	},
	{
		ClockUnusable,
		// print_report_bw in perftest_parameters.c.
		[]string{"Can't produce a report", clockUnmeasured},
		"perftest on the %s cannot measure time, because the CPU frequency is not steady, or the machine is too busy",
		"set the CPU governor there to performance, or try again when the machine is less busy",
	},
	{
		PortBusy,
		// ethernet_server_connect in perftest_communication.c.
		[]string{"Couldn't listen to port"},
		"the control port is in use on the %s",
		"stop the perftest that still runs there, or choose another port",
	},
	{
		NoControl,
		// ethernet_client_connect, check_add_port and establish_connection in perftest_communication.c;
		// main in write_bw.c says the last.
		[]string{"Couldn't connect to", "Problem in resolving basic address and port", "Failed to bind socket",
			"Unable to open file descriptor for socket connection", "Unable to init the socket connection"},
		"the %s could not open the TCP control connection",
		"check that the server was started first and still waits, and allow the control port (TCP) in its firewall",
	},
}
