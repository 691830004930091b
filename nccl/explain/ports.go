package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// port is a port of an RDMA device, as ibstat, ibstatus and ibv_devinfo show it.
type port struct {
	line           int
	device, number string
	state          string // "active", "down", "initializing", …; "": not shown
	layer          string // "ethernet" or "infiniband"
	manager        string // LID of the subnet manager
	mtu            int    // active MTU in bytes; 0: not shown
	netdev         string // of rdma link; "": not shown
}

// portKeys are the keys below a device, as portLine writes them. Those that no case of it reads are known, and mean nothing to NCCL.
var portKeys = []string{"ca_type", "number_of_ports", "firmware_version", "hardware_version", "node_guid", "system_image_guid", "physical_state", "phys_state", "rate", "base_lid", "lmc", "capability_mask", "port_guid", "default_gid",
	"transport", "fw_ver", "sys_image_guid", "vendor_id", "vendor_part_id", "hw_ver", "board_id", "phys_port_cnt", "max_mtu", "port_lid", "port_lmc", "active_width", "active_speed"}

// portLine reads a line of ibstat, ibstatus or ibv_devinfo (with -v also its GIDs).
func (t *tables) portLine(number int, line string, fields []string) bool {
	key, value, colon := strings.Cut(strings.TrimSpace(line), ":")
	key = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(key)), " ", "_")
	value = strings.ToLower(strings.TrimSpace(value))
	name := strings.Trim(fields[len(fields)-1], "':")
	switch {
	case fields[0] == "CA" && len(fields) == 2 && strings.HasPrefix(fields[1], "'"), key == "hca_id" && len(fields) == 2:
		t.device = name
		return true
	case strings.HasPrefix(line, "Infiniband device '") && len(fields) >= 6:
		t.device = strings.Trim(fields[2], "'")
		return t.opens(number, fields[4])
	case strings.HasPrefix(key, "gid[") && len(t.ports) == 0: // only the lines of the GIDs
		return t.portGID(number, port{device: "the device", number: "1"}, key, value)
	case t.device == "" || !colon:
		return false
	case key == "port" && digits(value):
		return t.opens(number, value)
	case strings.HasPrefix(key, "port_") && digits(key[5:]) && value == "":
		return t.opens(number, key[5:])
	case slices.Contains(portKeys, key):
		return true
	case len(t.ports) == 0:
		return false
	}
	p := &t.ports[len(t.ports)-1]
	switch {
	case key == "state":
		if _, after, found := strings.Cut(value, ": "); found { // 4: ACTIVE
			value = after
		}
		p.state, _, _ = strings.Cut(strings.TrimPrefix(value, "port_"), " ") // PORT_ACTIVE (4)
	case key == "sm_lid":
		p.manager = value
	case key == "link_layer":
		p.layer = value
	case key == "active_mtu":
		bytes, _, _ := strings.Cut(value, " ")
		p.mtu, _ = strconv.Atoi(bytes)
	case strings.HasPrefix(key, "gid["):
		return t.portGID(number, *p, key, value)
	default:
		return false
	}
	return true
}

// rdmaLink reads a row of rdma link: "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0", of InfiniBand with "subnet_prefix …
// lid 3 sm_lid 1" before.
func (t *tables) rdmaLink(number int, fields []string) bool {
	device, index, slash := strings.Cut(fields[1], "/")
	state := slices.Index(fields, "state")
	if fields[0] != "link" || !slash || !digits(index) || state < 0 || state+1 >= len(fields) || len(t.ports) >= maxRows {
		return false
	}
	layer := "ethernet"
	if slices.Contains(fields, "subnet_prefix") {
		layer = "infiniband"
	}
	p := port{line: number, device: device, number: index, state: strings.ToLower(fields[state+1]), layer: layer}
	if at := slices.Index(fields, "netdev"); at > 0 && at+1 < len(fields) {
		p.netdev = fields[at+1]
	}
	t.ports = append(t.ports, p)
	return true
}

// lshca reads a row of lshca: "0000:04:00.0 | mlx5_0 | ib0 | 0 | actv | up_ip4 | IB | 200", below the names of its columns.
func (t *tables) lshca(number int, line string) bool {
	cells := strings.Split(line, "|")
	if len(cells) < 4 {
		return false
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	if cells[0] == "PCI_addr" && cells[1] == "RDMA" {
		t.columns = cells
		return true
	}
	if len(cells) != len(t.columns) || len(t.ports) >= maxRows {
		return false
	}
	p := port{line: number, device: cells[1], number: "1"}
	for i, name := range t.columns {
		switch name {
		case "LnkStat":
			p.state = strings.Replace(cells[i], "actv", "active", 1)
		case "Link":
			p.layer = map[string]string{"IB": "infiniband", "Eth": "ethernet"}[cells[i]]
		}
	}
	t.ports = append(t.ports, p)
	return true
}

func (t *tables) opens(number int, index string) bool {
	if len(t.ports) >= maxRows {
		return false
	}
	t.ports = append(t.ports, port{line: number, device: t.device, number: index})
	return true
}

// portGID reads "GID[  3]:  ::ffff:10.0.0.1, RoCE v2". libibverbs before 2019 does not print the version.
func (t *tables) portGID(number int, p port, key, value string) bool {
	index, err := strconv.Atoi(strings.Trim(key, "gid[_]"))
	address, version, _ := strings.Cut(value, ", roce ")
	gid, err2 := netip.ParseAddr(address)
	if err != nil || err2 != nil || index < 0 || len(t.gids) >= maxRows {
		return false
	}
	if p.layer != "infiniband" && (version == "v1" || version == "v2" || version == "") {
		t.gids = append(t.gids, gidRow{line: number, device: p.device, port: p.number, index: index, gid: gid.Unmap(), version: version})
	}
	return true
}

// hexOrNumber returns a LID as programs print it (3, 0x3), and 0 for none.
func hexOrNumber(lid string) int64 {
	n, err := strconv.ParseInt(lid, 0, 64)
	if err != nil {
		return 0
	}
	return n
}

// judgePorts reports ports that NCCL cannot use. hca is the list that selects devices, if there is one.
func (t *tables) judgePorts(r *reading, hca setting, selects func(device, port string) bool) {
	asked := hca.value != "" && !hca.dynamic && !env.ParseList(hca.value).Exclude
	layers, active, shown, down := map[string]bool{}, 0, 0, (*port)(nil)
	for i, p := range t.ports {
		if p.state == "" || !selects(p.device, p.number) {
			continue
		}
		shown++
		where := fmt.Sprintf("Port %s of %s", shorten(p.number), shorten(p.device))
		switch {
		case p.state == "active":
			active++
			layers[p.layer] = true
			if p.layer == "ethernet" && p.mtu > 0 && p.mtu < 4096 {
				r.say(p.line, env.Note, "Small RDMA MTU", fmt.Sprintf("%s has an RDMA MTU of %d.", where, p.mtu), "The same data needs more packets and headers.", "Set mtu = 9000 on both ends and on the switches between them.")
			}
		case p.layer == "infiniband" && strings.HasPrefix(p.state, "init") && hexOrNumber(p.manager) != 0:
			r.say(p.line, env.Error, "The subnet manager has not set up the port", fmt.Sprintf("%s is not active, although a subnet manager is there (LID %s).", where, shorten(p.manager)), "NCCL leaves out a port that is not active.", "A virtual function needs GUIDs (ip link set PF vf N node_guid … port_guid …, state auto) and a subnet manager that serves virtual ports (opensm: virt_enabled 2); ibv_devinfo shows a node GUID of zeros until then. For a whole port read the subnet manager's log.")
		case p.layer == "infiniband" && strings.HasPrefix(p.state, "init"):
			r.say(p.line, env.Error, "No subnet manager", where+" has a link, but no subnet manager has set it up.", "NCCL leaves out a port that is not active.", "Start a subnet manager: on the switch, or opensm on one host.")
		case asked:
			r.add(p.line, env.Finding{Severity: env.Error, Name: hca.name, Summary: "Device that is down", Wrong: fmt.Sprintf("%s = %q selects it, but %s is %s.", hca.name, shorten(hca.value), where, shorten(p.state)), Costs: "NCCL silently leaves out a port that is not active.", Instead: "Bring the link up, or remove the device from the list."})
		case down == nil:
			down = &t.ports[i]
		}
	}
	virtual := ""
	if slices.ContainsFunc(t.ports, func(p port) bool { return p.layer == "infiniband" && p.state == "down" }) {
		virtual = " A virtual function of InfiniBand stays down until it has GUIDs (ip link set PF vf N port_guid …, state auto), and the subnet manager serves virtual ports (opensm: virt_enabled 2)."
	}
	if down != nil && active > 0 && slices.ContainsFunc(r.out, func(f Finding) bool { return f.Summary == packetsLost && f.Severity == env.Error }) {
		r.say(down.line, env.Warning, "A port is down", fmt.Sprintf("Port %s of %s is %s, and others are active.", shorten(down.number), shorten(down.device), shorten(down.state)), "NCCL leaves it out. A program that takes the ports by their numbers (TensorPipe, -d of perftest) may wait for answers there.", "Name the active device to the program (UCX_NET_DEVICES, -d), or bring the port's link up."+virtual)
	} else if down != nil && active > 0 {
		r.say(down.line, env.Note, "A port is down", fmt.Sprintf("Port %s of %s is %s, and others are active.", shorten(down.number), shorten(down.device), shorten(down.state)), "NCCL leaves it out: a host with fewer ports than the others is slower, or does not fit to them.", "If the port has a cable, bring its link up."+virtual)
	}
	switch {
	case shown > 0 && active == 0:
		r.say(t.ports[0].line, env.Warning, "No RDMA port is active", "None of the ports that are shown is active.", "NCCL finds no RDMA device, and uses sockets.", "Bring a link up: check cable, transceiver and switch port, and that the interface is up."+virtual)
	case layers["infiniband"] && layers["ethernet"] && !asked:
		r.say(t.ports[0].line, env.Warning, "InfiniBand and RoCE are mixed", "The host has active ports of both kinds.", "NCCL may connect a port of one kind with one of the other: it hangs or fails.", onelink)
	}
}
