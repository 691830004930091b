package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
)

// tables are the tables of other programs that a file holds.
type tables struct {
	topology  []string       // lines of nvidia-smi topo -m
	gids      []gidRow       // of show_gids
	headings  int            // of show_gids: each begins a table
	noGID     int            // line in which show_gids says that it found none
	listed    int            // the latest heading of ibv_devices that no device has followed
	devices   []device       // of ibdev2netdev
	rules     map[string]int // of ip rule: table -> line
	asked     bool           // setpci asks for bridges' registers of access control, whose values follow
	validates int            // line of lspci with access control that does not redirect
	redirect  int            // first line of lspci with access control that redirects
	links     []link         // of ifconfig and ip
	ports     []port         // of ibstat, ibstatus and ibv_devinfo
	device    string         // the device whose ports follow
	columns   []string       // of lshca
	buses     buses
	lost      counted // packets
	weak      counted // errors of links
	test      testRun
	node      bool           // what follows may be resources of a node
	offers    map[string]int // resource of a device plugin -> line that shows 0 of it; 0: there are more
	parts     bool           // the node offers parts of GPUs (MIG)
	xml       xmlTopology    // of NCCL_TOPO_DUMP_FILE
	classes   *classMap      // of mlnx_qos and dcb
	peers     peers          // of p2pBandwidthLatencyTest
}

// gidRow is a row of show_gids (mlnx-tools): DEV PORT INDEX GID [IPv4] VER DEV.
type gidRow struct {
	line, table  int
	device, port string
	index        int
	gid          netip.Addr
	version      string // v1 or v2; "": not shown
	netdev       string
}

// device is a row of ibdev2netdev: mlx5_0 port 1 ==> eth0 (Up).
type device struct {
	line                       int
	name, port, netdev, status string
}

// described is a row of ibdev2netdev -v: 0000:18:00.0 mlx5_0 (MT4123 - part) name fw 20.1 port 1 (ACTIVE) ==> eth0 (Up).
var described = pattern{text: `(\w+) \(MT.* port (\d+) \(\w+ *\) ==> (\S+) \((\w+)\)`}

// describedDevice reads such a row.
func (t *tables) describedDevice(number int, line string) bool {
	at := described.re().FindStringSubmatch(line)
	if at != nil {
		t.devices = append(t.devices, device{number, at[1], at[2], at[3], at[4]})
	}
	return at != nil
}

// maxPins limits the indexes of GIDs that are judged.
const maxPins = 8

// Bits of the control register of access control services (PCI_ACS_RR and PCI_ACS_CR in linux/pci_regs.h).
const (
	requestRedirect    = 0x04
	completionRedirect = 0x08
)

// maxRows limits the rows of each table.
const maxRows = 1 << 14

// line reads a row of a table. It returns other for any other line.
func (t *tables) line(number int, line string) class {
	fields := strings.Fields(line)
	if t.counter(number, line) || t.buses.line(number, line) {
		return rowLine
	}
	if len(fields) == 1 && fields[0] == "n_gids_found=0" {
		t.noGID = number
		return rowLine
	}
	t.resource(number, line)
	if t.asked = t.asked || strings.Contains(line, "setpci") && (strings.Contains(line, "f2a.w") || strings.Contains(line, "ECAP_ACS")) && !strings.Contains(line, ".w="); t.asked && len(fields) == 1 && len(line) == 4 {
		if control, err := strconv.ParseUint(line, 16, 16); err == nil {
			if control&(requestRedirect|completionRedirect) != 0 && t.redirect == 0 {
				t.redirect = number
			}
			return rowLine
		}
	}
	if len(fields) < 2 {
		return other
	}
	if len(fields) == 2 && nodeGUID.re().MatchString(fields[1]) {
		t.listed = 0
	}
	switch {
	case t.listed > 0 && fields[0] == "------" && fields[1] == "----------------":
	case strings.Join(fields, " ") == "device node GUID":
		t.listed = number
	case len(fields) >= 6 && len(t.gids) < maxRows && t.gidRow(number, fields):
	case len(t.devices) < maxRows && strings.Contains(line, ") ==> ") && t.describedDevice(number, line):
	case len(fields) >= 5 && fields[1] == "port" && fields[3] == "==>" && len(t.devices) < maxRows:
		t.devices = append(t.devices, device{number, fields[0], fields[2], fields[4], strings.Trim(strings.Join(fields[5:], " "), "()")})
	case fields[0] == "ACSCtl:" && (strings.Contains(line, "ReqRedir+") || strings.Contains(line, "SrcValid+")):
		if t.redirect == 0 && strings.Contains(line, "ReqRedir+") {
			t.redirect = number
		}
		if t.validates == 0 && strings.Contains(line, "SrcValid+") {
			t.validates = number
		}
	case t.rule(number, fields), t.lshca(number, line), t.rdmaLink(number, fields), t.portLine(number, line, fields), t.xml.line(number, fields), t.classes.row(number, line, fields):
	case fields[0] == "DEV" && fields[1] == "PORT":
		t.headings++
	case strings.HasPrefix(fields[0], "---") && fields[1][0] == '-' && len(t.gids) == 0 && len(fields) >= 6:
	case t.topologyRow(line, fields), t.test.line(number, line, fields):
	default:
		t.peers.row(number, line, fields)
		t.linkRow(number, line, fields) // says nothing of NCCL by itself
		return other
	}
	return rowLine
}

// offered is a resource of a device plugin, as kubectl describe node lists it, or JSON.
var offered = pattern{text: `^\s*"?((?:rdma|[\w-]+(?:\.[\w-]+)+)/[\w.-]+)"?: +"?(\d+)"?,?\s*$`}

// resource notes what a node has to give of a device plugin's resource. A name that another place has more of is not noted.
func (t *tables) resource(number int, line string) {
	if t.node = t.node || strings.Contains(line, "llocatable"); !t.node {
		return
	}
	at := offered.re().FindStringSubmatch(line)
	if at == nil || len(t.offers) >= maxRows {
		return
	}
	t.parts = t.parts || strings.HasPrefix(at[1], "nvidia.com/mig-") && at[2] != "0"
	switch old, again := t.offers[at[1]]; {
	case strings.Trim(at[2], "0") != "":
		t.offers[at[1]] = 0
	case !again || old > 0:
		t.offers[at[1]] = number
	}
}

func (t *tables) gidRow(number int, fields []string) bool {
	index, err := strconv.Atoi(fields[2])
	gid, err2 := netip.ParseAddr(fields[3])
	v := slices.IndexFunc(fields, func(f string) bool { return f == "v1" || f == "v2" })
	if err != nil || err2 != nil || strings.Count(fields[3], ":") != 7 || !digits(fields[1]) || v < 4 || index < 0 {
		return false
	}
	row := gidRow{line: number, table: t.headings, device: fields[0], port: fields[1], index: index, gid: gid.Unmap(), version: fields[v]}
	if v+1 < len(fields) {
		row.netdev = fields[v+1]
	}
	t.gids = append(t.gids, row)
	return true
}

// rule reads "10000: from 10.0.0.1 lookup 100".
func (t *tables) rule(number int, fields []string) bool {
	prio, colon := strings.CutSuffix(fields[0], ":")
	at := slices.Index(fields, "lookup")
	if !colon || !digits(prio) || fields[1] != "from" || at < 0 || at+1 >= len(fields) || len(t.rules) >= maxRows {
		return false
	}
	if t.rules == nil {
		t.rules = map[string]int{}
	}
	t.rules[fields[at+1]] = number
	return true
}

// nodeGUID is the second word of a row of ibv_devices.
var nodeGUID = pattern{text: `^[0-9a-f]{16}$`}

// gaps are spaces for a tab.
var gaps = pattern{text: `(^|\S) {2,}`}

func (t *tables) topologyRow(line string, fields []string) bool {
	heading := strings.HasSuffix(fields[0], "GPU0") && slices.ContainsFunc([]string{"GPU1", "NIC0", "mlx5_", "roce", "ib", "CPU", "X"}, func(p string) bool { return strings.HasPrefix(fields[1], p) })
	row := len(t.topology) > 0 && (strings.HasPrefix(fields[0], "GPU") || strings.HasPrefix(fields[0], "NIC") || strings.HasPrefix(fields[0], "mlx5_"))
	if !heading && !row || len(t.topology) > maxFindings {
		return false
	}
	if strings.Contains(line, "\t") {
		line = gaps.re().ReplaceAllString(line, "$1\t") // some of its tabs have become spaces
	} else if !strings.Contains(fields[0], ":") { // all of them
		line = strings.Join(fields, "\t")
		if len(t.topology) == 0 {
			line = "\t" + line
		}
	}
	t.topology = append(t.topology, line)
	return true
}

// finish judges the tables, and the settings that they decide over.
func (t *tables) finish(r *reading, all []setting) {
	if len(t.topology) > 0 {
		r.topology(strings.Join(t.topology, "\n"))
	}
	if t.redirect > 0 {
		r.say(t.redirect, env.Warning, "PCI access control redirects", "A bridge has redirection on (ReqRedir+ of lspci, bits 2 and 3 of its register): it sends requests between devices through the root complex.", "GPUs below it that reach each other directly hang or are slow, and GPUDirect between a GPU and a NIC is slow, or fails with status 4.", "On bare metal, disable ACS of these bridges in the firmware or with setpci; a virtual machine needs it.")
	}
	if t.redirect == 0 && t.validates > 0 {
		r.say(t.validates, env.Note, "PCI access control is on", "lspci shows SrcValid+ and no ReqRedir+: a bridge checks who asks, and redirects nothing.", "By itself that does not keep GPUs from each other. Control that the firmware turns on in full makes them hang or slow.", "If GPUs hang while they reach each other directly (NCCL_P2P_DISABLE=1 helps), disable ACS of these bridges in the firmware or with setpci.")
	}
	t.peers.finish(r)
	hca, hasHCA := find(all, "NCCL_IB_HCA")
	list := firstOf(hca.value)
	selects := func(name, port string) bool {
		n, err := strconv.Atoi(port)
		return err == nil && (!hasHCA || hca.dynamic || hca.value == "" || list.Selects(name, n))
	}
	choice, known := selection(all)
	if t.noGID > 0 && len(t.gids) == 0 {
		r.say(t.noGID, env.Error, "No GID", "show_gids finds no GID.", "RDMA over RoCE needs an address of the NIC's own interface in this network namespace: a pod on its cluster's network alone (Calico, Flannel) has none, even if it sees the device.", "Give the container the NIC's interface with an address (a virtual function by SR-IOV, host-device or macvlan), or the host's network (hostNetwork: true, --network=host). On a host, bring the interface up with an address.")
	}
	if t.listed > 0 {
		r.say(t.listed, env.Error, "The program finds no RDMA device", "ibv_devices lists no device.", "The kernel has none (no driver of a NIC is loaded, or no Soft-RoCE or siw link was made), the container does not have /dev/infiniband, or a provider is missing.",
			"Compare it with rdma link, which shows the kernel's devices. If that has none, load the NIC's driver, or make a software device: rdma link add rxe0 type rxe netdev NIC. If it has one: "+providers)
	}
	for _, name := range slices.Sorted(maps.Keys(t.offers)) {
		if at := t.offers[name]; at > 0 && (name != "nvidia.com/gpu" || !t.parts) {
			r.say(at, env.Error, "A device plugin offers nothing", fmt.Sprintf("The node has 0 of %s to give.", shorten(name)), "Pods that ask for it stay Pending, or are refused (UnexpectedAdmissionError). The plugin does not run on this node, its selectors match no device, or its devices are not healthy.",
				"Read the log of the plugin's pod on this node, and compare its configuration with the node's devices (rdma link, nvidia-smi). kubelet knows a plugin no longer after kubelet's own restart unless the plugin registers again: restart the plugin.")
		}
	}
	pin, pinned := find(all, "NCCL_IB_GID_INDEX")
	if known && !pinned {
		t.judgeUnpinned(r, choice, selects)
	}
	judged := map[string]bool{}
	for _, s := range all {
		if ucx := s.name == "UCX_IB_GID_INDEX"; (ucx || s == pin) && !judged[s.name+s.value] && len(judged) < maxPins && !s.dynamic && env.ParseNumber(s.value).Digits {
			judged[s.name+s.value] = true
			t.judgePinned(r, s, choice, selects)
		}
	}
	t.interfaces(r, all, hca, selects)
	t.named(r, hca, list)
	t.judgePorts(r, hca, selects)
	t.xml.judge(r)
	t.judgeCounters(r)
	t.classes.judge(r, all)
	t.buses.judge(r)
	t.test.judge(r)
}

// selection returns the settings that decide which GID NCCL chooses. known is false if a shell computes one of them.
func selection(all []setting) (s nccl.GIDSelection, known bool) {
	known = true
	s = s.With(func(name string) string {
		v, _ := find(all, name)
		known = known && !v.dynamic
		return v.value
	})
	return s, known
}

// firstOf returns a list of NCCL with as many elements as NCCL reads of the longest one.
func firstOf(value string) env.NameList {
	l := env.ParseList(value)
	l.Entries = l.Entries[:min(len(l.Entries), 32)]
	return l
}

// tablesOf returns the rows by device and port. At a heading, and where the index does not grow, another host's table begins.
func (t *tables) tablesOf() (out [][]gidRow) {
	open := map[string]int{}
	for _, row := range t.gids {
		key := row.device + ":" + row.port
		at, there := open[key]
		if !there || out[at][len(out[at])-1].index >= row.index || out[at][0].table != row.table {
			at = len(out)
			open[key] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], row)
	}
	return out
}

// judgePinned judges NCCL_IB_GID_INDEX and UCX_IB_GID_INDEX by the tables. UCX works with RoCE v1 and link-local GIDs within one network.
func (t *tables) judgePinned(r *reading, pin setting, choice nccl.GIDSelection, selects func(device, port string) bool) {
	index, ucx := int(env.ParseNumber(pin.value).Value), pin.name != "NCCL_IB_GID_INDEX"
	if ucx {
		selects = func(string, string) bool { return true }
	}
	said := fmt.Sprintf("%s = %d (line %d): ", pin.name, index, pin.line)
	bad := func(line int, summary, wrong, costs, instead string) {
		r.add(line, env.Finding{Severity: env.Error, Name: pin.name, Summary: summary, Wrong: said + wrong, Costs: costs, Instead: instead})
	}
	var same []gidRow // of that index
	for _, rows := range t.tablesOf() {
		first := rows[0]
		if index < 0 || !selects(first.device, first.port) || !isRoCE(rows) {
			continue
		}
		instead := "Remove it, so that UCX chooses a GID on each host, or give each host its own index: RoCE v2 with an IPv4 address."
		if !ucx {
			instead = better(rows, choice)
		}
		at := slices.IndexFunc(rows, func(row gidRow) bool { return row.index == index })
		switch {
		case at < 0:
			bad(first.line, "Empty GID", fmt.Sprintf("the table of %s has no GID with that index.", first.device), "Connections of that device fail.", instead)
		case rows[at].gid.IsLinkLocalUnicast() && !ucx:
			bad(rows[at].line, "Link-local GID", fmt.Sprintf("it is %s on %s.", rows[at].gid, first.device), "Routers do not forward it, and peers in another network cannot be reached.", instead)
		case rows[at].version == "v1" && !ucx:
			bad(rows[at].line, "RoCE v1 GID", fmt.Sprintf("it is RoCE v1 on %s.", first.device), "Routers do not forward RoCE v1, and most switches cannot prioritize it. A peer with RoCE v2 does not answer.", instead)
		case len(same) > 0 && same[0].kind() != rows[at].kind():
			bad(rows[at].line, "One index, different GIDs", fmt.Sprintf("it is %s in line %d, and %s in line %d.", same[0].kind(), same[0].line, rows[at].kind(), rows[at].line), "The two ends of a connection do not fit together.", instead)
		default:
			same = append(same, rows[at])
		}
	}
}

// kind describes a GID by what must be equal at both ends.
func (g gidRow) kind() string {
	kind := "an IPv6 GID"
	switch {
	case g.gid.IsLinkLocalUnicast():
		kind = "a link-local GID"
	case g.gid.Is4():
		kind = "an IPv4 GID"
	}
	if g.version != "" {
		kind += " (RoCE " + g.version + ")"
	}
	return kind
}

// isRoCE reports whether a table is of RoCE. Without versions, IPv4 addresses show it.
func isRoCE(rows []gidRow) bool {
	return slices.ContainsFunc(rows, func(row gidRow) bool { return row.version != "" || row.gid.Is4() })
}

// better names the GID that NCCL would choose of its own.
func better(rows []gidRow, choice nccl.GIDSelection) string {
	if row, wrong := chosen(rows, choice); wrong == "" {
		return fmt.Sprintf("Remove it: NCCL 2.21 and later choose index %d (%s), by address.", row.index, row.gid)
	}
	return "Give the NIC an IPv4 address, and remove NCCL_IB_GID_INDEX with NCCL 2.21 or later."
}

// chosen returns the row that NCCL chooses of a device's table, and the problem with it, if any. Without versions it is not known.
func chosen(rows []gidRow, choice nccl.GIDSelection) (row gidRow, wrong string) {
	if rows[0].version == "" {
		return row, "the versions are not shown"
	}
	gids := make([]facts.GID, len(rows))
	for i, row := range rows {
		gids[i] = facts.GID{Index: row.index, Addr: netip.AddrFrom16(row.gid.As16()), Version: int(row.version[1] - '0'), Netdev: row.netdev}
	}
	index, wrong := nccl.PredictGID(gids, choice)
	if at := slices.IndexFunc(rows, func(row gidRow) bool { return row.index == index }); at >= 0 {
		row = rows[at]
	}
	return row, wrong
}

// judgeUnpinned says which GIDs NCCL chooses, and reports devices of which it would choose one that does not fit.
func (t *tables) judgeUnpinned(r *reading, choice nccl.GIDSelection, selects func(device, port string) bool) {
	var fit []string
	line := 0
	differ := ""
	best := map[string]gidRow{} // device and port -> the row of its first table
	for _, rows := range t.tablesOf() {
		first := rows[0]
		if !selects(first.device, first.port) || first.version == "" {
			continue
		}
		row, wrong := chosen(rows, choice)
		if wrong != "" {
			instead := "Give the NIC an IPv4 address"
			if choice != (nccl.GIDSelection{}) {
				instead = "Correct NCCL_IB_ADDR_FAMILY, NCCL_IB_ROCE_VERSION_NUM and NCCL_IB_ADDR_RANGE such that they fit an address of the NIC"
			}
			r.say(first.line, env.Warning, "No suitable GID", fmt.Sprintf("On %s, NCCL 2.21 and later choose a GID that does not fit: %s.", first.device, wrong), "Connections of that device fail, or do not leave its link.", instead+", or leave the device out of NCCL_IB_HCA.")
			continue
		}
		// The first GIDs are another container's. libibverbs reads them here, too, but /sys does not (NVIDIA/nccl issues 1573 and 1587).
		if first.index > 0 && (!r.version.Known() || !r.version.Before(choosesGID)) {
			r.say(first.line, env.Warning, "Sparse GID table", fmt.Sprintf("The first GID of %s has index %d.", first.device, first.index), "NCCL 2.21.5 to 2.25.1 stops at a GID whose type it cannot read in /sys: read failed in ncclIbRoceGetVersionNum.", fmt.Sprintf("Upgrade to NCCL 2.26.2 or later, or set NCCL_IB_GID_INDEX=%d in this container.", row.index))
		}
		other, again := best[row.device+":"+row.port]
		if !again {
			best[row.device+":"+row.port] = row
		} else if other.index != row.index {
			differ = cmp.Or(differ, fmt.Sprintf("On %s it is %d (%s) in one table, and %d (%s) in another one.", row.device, other.index, other.gid, row.index, row.gid))
			line = row.line
		}
		if line == 0 {
			line = first.line
		}
		if len(fit) < maxFirst {
			fit = append(fit, fmt.Sprintf("%s:%s %d (%s)", row.device, row.port, row.index, row.gid))
		}
	}
	if differ != "" {
		r.say(line, env.Warning, "The index of the GID differs", differ, "No one NCCL_IB_GID_INDEX fits both: with the wrong one, or with index 0, connections fail or hang.", "Use NCCL 2.26.2 or later without NCCL_IB_GID_INDEX: it chooses by address in each container. With an older one write each container's own index to its /etc/nccl.conf, which ranks read however they are started.")
	}
	if len(fit) > 0 {
		r.say(line, env.Note, "GIDs that NCCL chooses", "NCCL 2.21 and later choose these GIDs by address: "+strings.Join(fit, ", ")+".", "Earlier versions use index 0 unless NCCL_IB_GID_INDEX is set.", "")
	}
}

// interfaces judges NCCL_SOCKET_IFNAME and NCCL_IB_HCA by ibdev2netdev.
func (t *tables) interfaces(r *reading, all []setting, hca setting, selects func(device, port string) bool) {
	ifname, ok := find(all, "NCCL_SOCKET_IFNAME")
	list := firstOf(ifname.value)
	t.judgeLinks(r, ifname, ok && !ifname.dynamic && !list.Exclude, list)
	t.withoutAddress(r)
	for _, d := range t.devices {
		if d.status == "Down" && hca.value == "" {
			r.say(d.line, env.Note, "An interface is down", fmt.Sprintf("%s, the interface of %s, is down.", d.netdev, d.name), "NCCL leaves out a RoCE port whose link is down. On InfiniBand the interface may be down although the port is active.", "If the port has a cable, look at its state (ibstat), and bring the link up. A virtual function of InfiniBand stays down until the host gives it GUIDs and a link state (ip link set PF vf N port_guid …, state auto; linkState: enable of a SriovIBNetwork).")
			break
		}
	}
	for _, d := range t.devices {
		if ok && !ifname.dynamic && !list.Exclude && list.Selects(d.netdev, -1) {
			r.add(ifname.line, env.Finding{Severity: env.Note, Name: ifname.name, Summary: "Bootstrap over a NIC with RDMA", Wrong: fmt.Sprintf("%s is the interface of %s (line %d).", d.netdev, d.name, d.line), Costs: "Bootstrap and a fallback to sockets share that NIC with RDMA or storage.", Instead: "A management interface that reaches all hosts is the better choice, if there is one."})
		}
		if d.status == "Down" && hca.value != "" && !hca.dynamic && selects(d.name, d.port) {
			r.add(d.line, env.Finding{Severity: env.Error, Name: hca.name, Summary: "Device that is down", Wrong: fmt.Sprintf("%s = %q selects %s, whose interface %s is down.", hca.name, shorten(hca.value), d.name, d.netdev), Costs: "NCCL silently leaves out a port that is not active.", Instead: "Bring the link up, or remove the device from the list."})
		}
	}
}

// named reports a list of NCCL_IB_HCA that selects no device of ibdev2netdev, ibv_devinfo and ibstat. ibdev2netdev leaves out ports of
// InfiniBand without an interface, so that only names of another form are certainly wrong.
func (t *tables) named(r *reading, hca setting, list env.NameList) {
	if hca.value == "" || hca.dynamic || list.Exclude || len(t.devices) == 0 {
		return
	}
	var have []string
	bad := env.Error
	selected := func(name string) bool {
		return slices.ContainsFunc(list.Entries, func(e env.Entry) bool {
			return name == e.Name || !list.Exact && strings.HasPrefix(name, e.Name)
		})
	}
	for _, d := range t.devices {
		form, _, _ := strings.Cut(d.name, "_")
		if slices.ContainsFunc(list.Entries, func(e env.Entry) bool { return strings.HasPrefix(e.Name, form) }) {
			bad = env.Warning
		}
		if selected(d.name) {
			return
		}
		if d.status != "Down" && !slices.Contains(have, d.name) {
			have = append(have, d.name)
		}
	}
	if slices.ContainsFunc(t.ports, func(p port) bool { return selected(p.device) }) {
		return
	}
	instead := "Name devices of the table, with = in front."
	if len(have) > 0 {
		instead = "These are up: " + some("device", have) + ". Name those for collectives, with = in front."
	}
	r.out = slices.DeleteFunc(r.out, func(f Finding) bool { return f.Name == hca.name && f.Summary == "Prefix match" }) // it would name them, too
	r.add(hca.line, env.Finding{Severity: bad, Name: hca.name, Summary: "No device of that name", Wrong: fmt.Sprintf("%s = %q selects none of the devices in line %d and below.", hca.name, shorten(hca.value), t.devices[0].line), Costs: "NCCL finds no RDMA device, and silently falls back to sockets.", Instead: instead})
}
