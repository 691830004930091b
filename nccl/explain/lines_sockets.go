package explain

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// closesUnread is the first version of NCCL that goes on after a connection which ends before it says who it is (NVIDIA/nccl#1612).
var closesUnread = env.Version{Major: 2, Minor: 27, Patch: 3}

// explainClosed says more of a connection that was closed: in bootstrap it may not be of a rank.
func explainClosed(l *logged, _ string) (summary, costs, instead string) {
	switch old := !l.version.Known() || l.version.Before(closesUnread); {
	case !old:
		return "", "A rank on the peer has ended or is ending.", ""
	case l.inBootstrap:
		return "", "", onePeer + " If all ranks waited there and none had ended, something else opened the port and closed it (a port scan, a health check): upgrade to NCCL 2.27.3 or later, or keep it away from the hosts' ephemeral ports."
	}
	return "", "", ""
}

const (
	bootstrapAt = "Set NCCL_SOCKET_IFNAME on every host to = followed by an interface that reaches all hosts."
	openPorts   = "Open the hosts' TCP ports for each other in firewalls (NCCL takes ephemeral ones), and check the path with `fabricform verify -only link,ping,tcp`."
	onePeer     = "Read the log of the rank on that peer: it ended, or stopped, first."
)

// socketMeanings are lines about TCP. They are in src/include/socket.h up to 2.15.5 ("Net : …"), then in src/misc/socket.cc, and from
// 2.29.2 also in src/os/linux.cc, where the functions begin with ncclOs.
var socketMeanings = []*meaning{
	{role: symptom, summary: "The peer does not listen", costs: "The other rank has exited or has not started, or a firewall rejects the port.", more: reached,
		instead: "Check the logs of the other ranks first; then open the hosts' TCP ports in firewalls. In Kubernetes, NetworkPolicies and sidecars (Istio) are such firewalls.",
		forms: []string{"call to connect returned Connection refused" /* as people quote it */, "Call to connect failed : Connection refused" /* –2.3 */, "Call to connect timeout : Connection refused" /* –2.3 */, "onnect to*failed : Connection refused" /* –2.23.4, 2.24.3– */, "socketStartConnect: exceeded retries (", "socketPollConnect: exceeded retries (", /* 2.16.2–2.23.4: connection refused */
			"connect returned Connection refused, exceeded error retry count" /* 2.24.3–2.26.6 */, "connect to*returned Connection refused, exceeded error retry count" /* 2.27.3– */}},
	{role: symptom, summary: "The peer cannot be reached", costs: "Packets to the peer's address are lost: a firewall drops them, the address is in a network that this host does not reach, or the path is wrong.", more: reached,
		instead: openPorts,
		forms: []string{"onnect to*failed : Connection timed out", "Call to connect failed : Connection timed out" /* –2.3 */, "socketStartConnect: exceeded timeouts (", "socketPollConnect: exceeded timeouts (", /* 2.16.2–2.23.4 */
			"connect returned Connection timed out, exceeded error retry count" /* 2.24.3 */, "connect to*returned Connection timed out, exceeded error retry count", "onnect to*returned 110(Connection timed out)"}},
	{role: cause, summary: "The peer cannot be reached", costs: "No host answers for the peer's address, or a firewall rejects the connection.", more: reached,
		instead: "Check that both hosts use interfaces of one network (NCCL_SOCKET_IFNAME), the cable and the peer's address, then firewalls: `fabricform verify -only link,ping`.",
		forms:   []string{"onnect to*failed : No route to host", "Call to connect failed : No route to host" /* –2.3 */, "connect returned No route to host, exceeded", "connect to*returned No route to host, exceeded", "onnect to*returned 113(No route to host)" /* 2.20.3–2.23.4 */}},
	{role: cause, summary: "The peer cannot be reached", costs: "No route leads from this host's interface to the peer's address: the two are in different subnets.", more: reached,
		instead: "Put both ends into one subnet, or add a route. " + bootstrapAt,
		forms:   []string{"onnect to*failed : Network is unreachable", "connect returned Network is unreachable, exceeded", "connect to*returned Network is unreachable, exceeded", "onnect to*returned 101(Network is unreachable)"}},
	{role: cause, summary: "Link-local address for bootstrap", costs: "The peer announced a link-local IPv6 address, which cannot be connected to from elsewhere.", more: reached,
		instead: "Give the interface an IPv4 address, or set NCCL_SOCKET_FAMILY=AF_INET. " + bootstrapAt,
		forms:   []string{"onnect to*fe80*failed : Invalid argument", "onnect to*fe80*returned 22(Invalid argument)"}},
	{role: symptom, summary: "The peer cannot be reached", costs: "The connection was refused or timed out. NCCL before 2.24 tries again with the same socket, which then gives this error instead.", more: reached,
		instead: "Check that a rank listens at that address, and that both hosts use interfaces of one network (NCCL_SOCKET_IFNAME). " + openPorts,
		forms:   []string{"onnect to*failed : Software caused connection abort", "onnect to*returned 103("}},
	{role: symptom, summary: "The connection was aborted", costs: "The peer closed the connection while it was being made, or this process was ending.", more: reached, instead: onePeer,
		forms: []string{"onnect to*failed : Connection reset by peer", "onnect to*returned 104(Connection reset by peer)", "connect returned Connection reset by peer, exceeded", "connect to*returned Connection reset by peer, exceeded"}},
	{role: cause, summary: "This host forbids the connection", costs: "The system refuses to let this process connect to the peer: an eBPF rule of the container network, SELinux, AppArmor, seccomp or a prohibit route.", more: reached, instead: "Compare with the host's network (docker: --network=host), and look into the rules and the kernel's audit log. ip route get ADDRESS shows a prohibit route.",
		forms: []string{"onnect to*failed : Operation not permitted", "onnect to*failed : Permission denied"}},
	{role: cause, summary: "No local address or port for a connection", costs: "This host has no address from which it can reach the peer's, or all of its ephemeral ports are in use.", more: reached, instead: "Check that the interface in NCCL_SOCKET_IFNAME has an address of the peer's family, and ss -s for many open connections (net.ipv4.ip_local_port_range).",
		forms: []string{"onnect to*failed : Cannot assign requested address", "onnect to*returned 99("}},
	{role: symptom, vague: true, summary: "A connection could not be made", costs: "The connection attempt to the peer ended without an answer.", more: reached, instead: openPorts,
		forms: []string{"socketPollConnect poll() returned" /* 2.23.4–2.26.6 */, "socketPollConnect poll() failed", "ocketPollConnect to*failed with error" /* 2.27.3– */, "onnect to*exceeded error retry count", "connect returned*exceeded error retry count", "socketPollConnect: Connect to*returned"}},
	{role: symptom, summary: "A connection could not be made", costs: "The system's own words for the reason are at the end of the line.", more: reached, instead: openPorts, forms: []string{"NCCL WARN*onnect to*failed : "}},

	{role: symptom, summary: "The peer fell silent", costs: "TCP got no answer over a connection that had worked: the peer's host or pod is gone (crash, reboot, eviction, sleep), or the network between lost it: a link, or a firewall or NAT that forgets connections.", more: reached,
		instead: "See whether that host or pod still runs, and read its log and dmesg. Then check the path: `fabricform verify -only link,ping,tcp`.", forms: []string{"Call to recv from*failed : Connection timed out", "Call to send to*failed : Connection timed out"}},
	{role: effect, summary: "A peer closed the connection", costs: "A rank on the peer has ended or is ending. Before 2.27.3 a port scan of the bootstrap port does the same.", instead: onePeer, more: explainClosed,
		forms: []string{"Connection closed by remote peer" /* all */, "failed : Connection reset by peer", "failed : Broken pipe", "Call to recv from*failed : Connection refused" /* 2.10.3– */, "Socket recv failed while polling for opId", "NET/Socket : socket progress error"}},
	{role: cause, summary: "The network to a peer was lost", costs: "An open connection broke, because this host no longer has a way to the peer: an interface, cable, route or address has gone.", more: reached, instead: "Check the interface, its address and the route to the peer, and dmesg for a link that went down.",
		forms: []string{"Call to recv*failed : No route to host", "Call to send*failed : No route to host", "Call to recv*failed : Network is unreachable", "Call to send*failed : Network is unreachable", "Call to recv*failed : Network is down", "Call to send*failed : Network is down", "Call to recv*failed : Host is down", "Call to send*failed : Host is down"}},
	{role: symptom, summary: "A connection broke", costs: "The system's own words for the reason are at the end of the line.", more: reached, instead: onePeer, forms: []string{"NCCL WARN*Call to recv*failed : ", "NCCL WARN*Call to send*failed : "}},
	{role: effect, vague: true, summary: "NCCL's clean-up failed", costs: "NCCL took a communicator down after a failure or at the end, and the system refused to release shared memory.", instead: "Look for an earlier error of this process. If the program had finished, ignore it.", forms: []string{"munmap of shared memory", "unlink shared memory"}},
	{role: symptom, summary: "A stranger speaks to NCCL's port", costs: "The proxy thread received a command number that this version of NCCL does not have. localRank -1 means that the sender had not said which rank it is.", instead: "See that all ranks load one version of NCCL (the lines NCCL version of all ranks; a container or an environment of Python may bring a second one), and that nothing else connects to NCCL's ports: a port scanner, a health check, a proxy, or another job with the same ports.", forms: []string{"[Service thread] Unknown command*localRank -1" /* 2.14.3– */}},
	{role: effect, vague: true, summary: "NCCL's proxy thread failed", costs: "The proxy thread of a rank reports an error that it met, or one of another rank.", more: explainProxy, instead: "Look for the first line with NCCL WARN of every rank. If the program had finished, its ranks ended without destroying their communicators (torch.distributed.destroy_process_group), and it does not matter.",
		forms: []string{"[Service thread]", "[Proxy ", "Mismatched response size for opId", "t find opId", "match any expected response", "ProxyConnect: re", "NCCL WARN ... operation=*, res=", "Proxy Call to rank", "ncclProxyCall", "ncclProxyClient*call to", "proxyDestroy failed", "Could not find pool of op", "Comm*is in abort state", "ncclAsyncJobComplete: job", "commReclaim: ", "ncclCommSetAsyncError", "in abort, error",
			"commDestroySync: comm", "ncclProxyStop: comm", "Legacy IPC cleanup callback failed", "rank*deregister*failed", "hostStreamPlanCallback() failed", "deregister NET buffer handle", "[Rem Allocator]" /* 2.8.3–2.11.4 */, "Failure in host setup" /* 2.9.6–2.12.12 */}},

	{role: cause, summary: "No interface for bootstrap", costs: "NCCL_SOCKET_IFNAME matches no interface that is up and has an address; without it, this host has no such interface.",
		instead: "Name an interface that ip -br address lists where the rank runs (in its container or pod), or remove the variable.",
		forms:   []string{"no socket interface found", "NET/Socket : no interface found", "NET/FastSocket : no interface found", "NET/IB : No IP interface found", "No usable listening interface found", "Socket creation failed : Address family not supported"}},
	{role: cause, summary: "An address was never filled in", costs: "NCCL was given an address without an interface behind it: NCCL_SOCKET_IFNAME matches no interface on a host, or the ranks have identifiers of different versions or starts, or one uses a network plugin and the other does not, or two ranks both send first and receive later, outside of a group.", more: otherNetwork,
		instead: "Name an interface that each host has, with = in front (ip -br address lists them), and install one version of NCCL everywhere.", forms: []string{"is neither AF_INET(" /* 2.8.3– */}},
	{role: cause, summary: "NCCL_OOB_NET_IFNAME matches nothing", costs: "No device has that name.", instead: "Correct the name: with NCCL_OOB_NET_ENABLE and NCCL_NET=IB it is that of an RDMA device, with sockets that of an interface.",
		forms: []string{"verify NCCL_OOB_NET_IFNAME" /* 2.24.3– */}},
	{role: hint, summary: "NCCL_OOB_NET_IFNAME matches nothing", costs: "No device has that name. NCCL 2.23.4 ignores the variable and takes its first device.", instead: "Correct the name, or remove the variable.", forms: []string{"no device found matching NCCL_OOB_NET_IFNAME" /* 2.23.4 */}},
	{role: cause, summary: "No interface in the peer's subnet", costs: "NCCL_COMM_ID names an address for which no interface of this host has a subnet.", instead: bootstrapAt, more: ownNetwork, forms: []string{"No interface found in the same subnet as remote address"}},
	{role: cause, summary: "NCCL_COMM_ID is not an address", costs: "NCCL expects HOST:PORT.", instead: "Write <ipv4>:<port>, [<ipv6>]:<port> or <hostname>:<port>.", forms: []string{"Invalid NCCL_COMM_ID", "Net : No valid <IPv4_or_hostname>:<port> pair found", "Net : No valid [IPv6]:port pair found"}},

	{role: cause, summary: "An address is empty", costs: "NCCL_COMM_ID (or NCCL_RAS_ADDR) is set, and empty.", instead: "Remove it, or write <ipv4>:<port>, [<ipv6>]:<port> or <hostname>:<port>.", forms: []string{"Net : string is null"}},

	// The magic is that of the communicator. Up to 2.26.6 it is a WARN, then INFO without a number. The connection is dropped, and
	// NCCL waits on.
	{role: hint, summary: "Another program spoke to NCCL's port", costs: "NCCL dropped the connection and waited on: it came from a port scanner, or from a rank of another job or of an earlier start. If it came to the port of NCCL's proxy, the job can hang from then on (NVIDIA/nccl#1808).", info: true, more: explainWebClient,
		instead: "If ranks are missing, end processes that earlier starts have left, and use another port for each job. If the job hangs, find the program behind that address, and keep it away from the host's ephemeral ports. Otherwise ignore it.",
		forms:   []string{"socketFinalizeAccept: wrong magic" /* 2.16.2–2.26.6 */, "didn't receive a valid magic from" /* 2.27.3– */, "socket magic mismatch", "closed before magic handshake", "handshake receive from*failed, discarding" /* 2.30.7 */}},
	{role: cause, summary: "A connection came to the wrong socket", costs: "A connection came to a socket of another purpose: ranks of several starts or of different versions of NCCL meet at one port, or a host has two interfaces in one subnet.",
		instead: "End processes that earlier starts have left, install one version of NCCL everywhere, and set NCCL_SOCKET_IFNAME to = followed by one interface.", forms: []string{"socketFinalizeAccept: wrong type", "socketFinalizeAccept from*: wrong type"}},
	{role: cause, summary: "Ranks do not agree at bootstrap", costs: "A rank sent a message of another size: different versions of NCCL, another program at this port, or ranks that make their communicators in another order.", more: foreign,
		instead: "Install one version of NCCL everywhere, and make communicators in the same order on all ranks.", forms: []string{"Message truncated : received" /* 2.4.8– */}},
	{role: cause, summary: "Two ranks with one number", costs: "The same rank came twice: the launcher gives two processes one rank, or processes of an earlier start still run.",
		instead: "Check RANK and WORLD_SIZE of every process, and end processes that earlier starts have left.", forms: []string{"ranks has already checked in"}},
	{role: cause, summary: "Ranks have different world sizes", costs: "A rank came to its communicator's meeting point with another number of ranks, or with a number outside it: the launcher gives the ranks different world sizes, or processes of an earlier start still run.",
		instead: "Check RANK and WORLD_SIZE of every process, and end processes that earlier starts have left.", forms: []string{"Bootstrap Root : mismatch in", "Bootstrap Root : localId" /* 2.29.2– */}},
	{role: cause, summary: "Ranks do not agree on a size", costs: "The peer sent more than was expected: the ranks call different collectives, or with different sizes, NCCL_ALGO or NCCL_PROTO.", instead: disagree, forms: []string{"message truncated :", "receiving*bytes instead of"}},

	{role: remark, summary: "The limit of open files is low", costs: "The program could not raise its limit. It matters only if it opens so many files and sockets.", instead: "With many ranks on a host raise it: ulimit -n 1048576, or LimitNOFILE of the service.", forms: []string{"This can cause fd limit errors like"}},
	{role: cause, summary: "Too many open files", costs: "The process has reached its limit of open files; NCCL opens sockets and shared memory for every peer and channel.", instead: "Raise the limit in the job: ulimit -n 65536, or LimitNOFILE of its service.", forms: []string{"Too many open files", "received 0 items of ancdata" /* PyTorch passes files between processes */}},
	{role: cause, summary: "Too many threads", costs: "The system refuses to start another thread.", instead: "Raise ulimit -u, and the limit of processes of the container (docker: --pids-limit) or of the cgroup.",
		forms: []string{"BlockingIOError: [Errno 11]", "what():  Resource temporarily unavailable", "pthread_create failed", "Thread creation failed", "can't start new thread"}},
	{role: cause, summary: "An address is not this host's", costs: "The process cannot listen on that address, because no interface has it.", instead: "Correct the address or the interface's name.", more: ownNetwork, forms: []string{"Call to bind failed*Cannot assign requested address", "failed to bind*Cannot assign requested address"}},
	{role: hint, summary: rasTrouble, costs: "RAS cannot listen at its address (port 28028, or NCCL_RAS_ADDR): another program, or another user's job on this host, has it. Collectives do not need RAS.", instead: "Ignore it, or give each job its own NCCL_RAS_ADDR. NCCL_RAS_ENABLE=0 switches RAS off.", forms: []string{"ras/client_support.cc:*Call to" /* 2.24.3– */}},
	// misc/socket.cc: NCCL binds to port 0 unless NCCL_COMM_ID names one; NVIDIA/nccl#1882.
	{role: cause, summary: "NCCL finds no free TCP port", costs: "NCCL lets the system choose a port, and it has none: processes of an earlier start hold theirs, or all are in use: at a large scale every rank opens sockets to many others, and with NCCL_PXN_DISABLE=1 to many more. With NCCL_COMM_ID, another process may have its port.",
		instead: "End what an earlier start has left (ps, ss -tnp). With many ranks widen net.ipv4.ip_local_port_range on every host (ss -s counts the connections), and remove NCCL_PXN_DISABLE=1. With NCCL_COMM_ID, use another port.", forms: []string{"NCCL WARN Call to bind failed*Address already in use", "NCCL WARN Call to listen failed*Address already in use"}},
	{role: cause, summary: "The port is taken", costs: "Another process listens on that port: one that an earlier start has left, another job's, or a second launcher of this job on the same host.", instead: "ss -ltnp shows which process it is. End it if it is left over, start one torchrun (or accelerate launch) for each host, and give jobs ports of their own (MASTER_PORT, --master-port).",
		forms: []string{"Address already in use", "EADDRINUSE", "ddress in Use"}},
	{role: effect, vague: true, summary: "The socket was closed", costs: "This process closed it while a thread waited there: the process was ending, or had given up.", instead: "Look for an earlier error of this process, and of the other ranks.", forms: []string{"Accept failed: Bad file descriptor"}},
	{role: symptom, summary: "The system refuses a socket", costs: "The system's own words for the reason are at the end of the line.", instead: "Check the limit of open files (ulimit -n), the family that NCCL_SOCKET_FAMILY asks for, and the interface in NCCL_SOCKET_IFNAME.",
		forms: []string{"Socket creation failed", "Call to bind failed", "Accept failed: ", "ocketTryAccept: exceeded error retry count", "socketTryAccept: get errno" /* 2.16.2–2.17.1 */, "Unsupported address family type", "unsupported IP family"}},
}

// addressed finds an address in "10.0.0.2<4321>" or in "fe80::1%eth0<4321>", as ncclSocketToString prints it.
var addressed = pattern{text: `([0-9]+\.[0-9]+\.[0-9]+\.[0-9]+|[0-9a-fA-F]*:[0-9a-fA-F:.]+)(%[\w.-]+)?<[0-9]+>`}

// reached says more where the line shows that the peer announced an address that other hosts cannot reach.
func reached(l *logged, m string) (summary, costs, instead string) {
	found := addressed.re().FindStringSubmatch(m)
	if found == nil {
		return "", "", ""
	}
	a, err := netip.ParseAddr(found[1])
	switch a = a.Unmap(); {
	case err != nil, !a.IsLoopback() && len(l.order) == 1 && l.hosts[l.order[0]].address == a: // the rank is in the same container
	case a.IsLoopback():
		return "The peer announced its loopback address", fmt.Sprintf("%s is every host's own: the peer uses lo for bootstrap. On one host it means that the other rank has ended.", a), "With several hosts: set NCCL_SOCKET_IFNAME on every host to = followed by an interface that reaches all hosts. With one host: read the other rank's log."
	case inDocker(a):
		return "The peer announced a container bridge's address", fmt.Sprintf("%s is in Docker's default network, which other hosts usually do not reach. If the ranks are in one container or on one host, the other rank has ended or has not started.", a), "With several hosts run the containers with --network=host. Outside of containers: " + bootstrapAt + " Otherwise read the other rank's log."
	case bridged(a):
		return "", fmt.Sprintf("%s may be an address of a network that Docker made (docker network create, compose), as ip addr shows by a name br-…: other hosts do not reach it. Otherwise the other rank has exited or has not started, or a firewall is between.", a), "If it is Docker's: run the containers with --network=host, or set NCCL_SOCKET_IFNAME on every host to = followed by an interface that reaches all hosts. Otherwise read the other ranks' logs, and open the hosts' TCP ports."
	case a.Is4() && a.IsLinkLocalUnicast():
		if a == netip.AddrFrom4([4]byte{169, 254, 20, 10}) {
			return "Link-local address for bootstrap", fmt.Sprintf("The peer announced %s, which Kubernetes' cache for DNS has on every host (interface nodelocaldns): other hosts do not reach it.", a), "Set NCCL_SOCKET_IFNAME on every host to = followed by an interface that reaches all hosts, or to ^nodelocaldns,docker,lo."
		}
		return "Link-local address for bootstrap", fmt.Sprintf("The peer announced %s, which an interface has that got no address (from DHCP), or one of a container or a BMC: other hosts do not reach it.", a), "Set NCCL_SOCKET_IFNAME on every host to = followed by an interface that reaches all hosts."
	case a.Is6() && a.IsLinkLocalUnicast():
		return "Link-local address for bootstrap", fmt.Sprintf("The peer announced %s, which only its own link reaches.", a), "Give the interface an IPv4 address, or set NCCL_SOCKET_FAMILY=AF_INET. " + bootstrapAt
	}
	if l.fileAt > 0 && strings.Contains(m, "refused") {
		return "", fmt.Sprintf("By line %d the ranks meet by a file (init_method=file://). A file that an earlier start has left holds that start's address, where nobody listens now. Otherwise the other rank has exited or has not started, or a firewall rejects the port.", l.fileAt), "Delete that file before each start, or let the ranks meet over TCP (torchrun, env://). Otherwise read the other ranks' logs."
	}
	return "", "", ""
}

// otherNetwork says more of an address that begins with the bytes of fe80::, in the order of a little-endian machine: a plugin's
// handle, such as EFA's, begins with a GID.
func otherNetwork(_ *logged, m string) (summary, costs, instead string) {
	if strings.Contains(m, "with family 33022 ") {
		return "The ranks use different networks", "The peer's address is a GID, which a network plugin such as aws-ofi-nccl announces, and this rank uses sockets: the plugin did not load here.",
			"Compare the lines \"Using network\" of all ranks. Install the same plugin with its libraries on all hosts, or set NCCL_NET_PLUGIN=none on all of them."
	}
	return "", "", ""
}

// opening finds the first eight bytes of a connection, as a little-endian number: "wrong magic 74656d2f20544547 != …" up to 2.26.6, "(peer
// 0x… != expected …" from 2.30.7.
var opening = pattern{text: `(?:wrong magic |peer 0x)([0-9a-f]{16}) !=`}

// explainWebClient says more of a connection that begins with a request of HTTP.
func explainWebClient(_ *logged, m string) (summary, costs, instead string) {
	found := opening.re().FindStringSubmatch(m)
	if found == nil {
		return "", "", ""
	}
	begins, err := hex.DecodeString(found[1])
	slices.Reverse(begins)
	if text := string(begins); err == nil && (strings.HasPrefix(text, "GET /") || strings.HasPrefix(text, "HEAD /") || strings.HasPrefix(text, "POST /")) {
		return "", fmt.Sprintf("A web client, such as a monitoring agent that looks for metrics, connected to this port: it sent %q. NCCL dropped the connection. If it came to the port of NCCL's proxy, the job can hang from then on (NVIDIA/nccl#1808).", text),
			"Find that program, and keep it away from the host's ephemeral ports."
	}
	return "", "", ""
}

// foreign says more of a size that is text of another protocol: the first four bytes of an HTTP request, as a little-endian number.
func foreign(_ *logged, m string) (summary, costs, instead string) {
	_, rest, _ := strings.Cut(m, "received ")
	size, _, _ := strings.Cut(rest, " ")
	switch size {
	case "542393671", "1414745936", "1145128264": // "GET ", "POST", "HEAD"
		return "Another program spoke to NCCL's port", "The size is the beginning of an HTTP request: a web client or a scanner connected to this port.", "Find that program, such as a monitoring agent that probes open ports, and keep it away from the job's ports."
	}
	return "", "", ""
}

// inDocker reports whether an address is of Docker's default network, which gives addresses from its beginning on: those further on belong
// to other networks.
func inDocker(a netip.Addr) bool { return a.Is4() && strings.HasPrefix(a.String(), "172.17.0.") }

// bridged reports whether an address is among the first of a network that Docker makes for somebody: 172.18.0.0/16 and on. Other networks
// may have such addresses, too.
func bridged(a netip.Addr) bool {
	b := a.As16()
	return a.Is4() && b[12] == 172 && b[13] >= 18 && b[13] <= 31 && b[14] == 0 && b[15] < 32
}

// containerID is the name that Docker gives to a container without a name of its own, or a host name.
var containerID = pattern{text: `^[0-9a-f]{12}$`}

// ownNetwork says that a container does not have its host's address, if NCCL's interface is one of Docker's default network.
func ownNetwork(l *logged, _ string) (summary, costs, instead string) {
	for _, name := range l.order {
		if a := l.hosts[name].address; inDocker(a) {
			return "", fmt.Sprintf("The container has a network of its own (%s), and not its host's address.", a), "Run the containers with --network=host. NCCL_COMM_ID, if it is set, is one address for all ranks: that of the host with rank 0."
		}
	}
	return "", "", ""
}
