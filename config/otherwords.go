package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// otherWord is the cure for words of other tools: what this language says instead.
type otherWord struct {
	at    string // the blocks in which the words stand, separated by spaces; "top" for none, "" for any
	words string // separated by spaces
	why   string // a sentence before the example; "" if the example says enough
	in    string // the block of the example; "" for the block of the word
	write string // an example on one line; "" if nothing is to be written
}

// otherWords are words of Ansible, netplan, ifupdown, NetworkManager, OpenTofu and ssh. The first row that fits counts.
var otherWords = []otherWord{
	{"top fabric", "terraform tofu backend cloud encryption", "fabricform keeps no state file. Only required_version can be set.", "fabric",
		`required_version = ">= 0.1.0"`},
	{"fabric", "version min_version minimum_version tofu_version terraform_version", "", "", `required_version = ">= 0.1.0"`},
	{"top fabric", "provider providers required_providers provider_meta", "fabricform has no providers: remove this block. Each host says how it is reached.",
		"host", `ssh { user = "root" }`},
	{"top", "resource", "A block has one label, its name, and the type is its first word, as in host, link and network.", "",
		`host "a" {}`},
	{"top", "data list", "A local can read a file.", "locals", `hosts = jsondecode(file("hosts.json"))`},
	{"top", "ephemeral", "fabricform keeps no state file that could hold a secret: a sensitive variable is enough.", "variable", `sensitive = true`},
	{"top", "action handler handlers tasks task playbook", "fabricform runs no commands of yours on the hosts: remove this block.", "", ""},
	{"top", "run mock_provider mock_resource mock_data override_resource override_data override_module assert",
		"Tests need no blocks: `fabricform validate` checks the files, and `fabricform lab up` builds the fabric without hardware. Remove this block.", "", ""},
	{"top", "module component deployment stack", "All *.hcl files of the directory are one fabric, and for_each repeats a block.", "host",
		`for_each = toset(["gpu00", "gpu01"])`},
	{"top", "moved import removed check", "fabricform keeps no state file: remove this block.", "", ""},
	{"top", "local", "", "", `locals {}`},
	{"top", "var vars variables", "", "", `variable "mtu" {}`},
	{"top", "name", "The name of the fabric is the label of its block.", "", `fabric "pair25" {}`},
	{"top", "inventory all nodes servers machines node server machine", "", "", `host "a" {}`},
	{"top", "nic interface interfaces ethernet ethernets network_interface", "Declare a NIC inside its host block.", "host",
		`nic "rail0" {}`},
	{"top", "cable connection wire", "", "", `link "rail0" {}`},
	{"top", "switch subnet lan", "", "", `network "rail0" {}`},
	{"", "depends_on requires before after", "Leave it out: what a block refers to comes first.", "", ""},
	{"", "count", "Removing one instance would renumber the others, so use for_each with stable keys. For a block that may be absent, use enabled.",
		"host",
		`for_each = toset(["gpu00", "gpu01"])`},
	{"", "lifecycle provisioner triggers ignore_changes", "fabricform leaves alone what no block mentions.", "", ""},
	{"", "dynamic", "Put for_each into the block itself, without dynamic and content.", "nic", `for_each = toset(["rail0", "rail1"])`},
	{"", "description desc comment comments note notes", "Write it as a comment, which begins with #.", "", ""},
	{"", "foreach loop with_items", "", "host", `for_each = toset(["gpu00", "gpu01"])`},
	{"", "disabled disable when", "", "host", `enabled = false`},

	{"host", "ip ipv4 ipv6 ip_address ipaddr hostname host fqdn addr ansible_host mgmt management",
		"The host's address is for SSH; declare NIC addresses in nic blocks.", "", `address = "10.0.0.11"`},
	{"host", "name", "The name of a host is the label of its block.", "top", `host "a" {}`},
	{"host top nic", "user username login ansible_user remote_user ssh_user", "", "host", `ssh { user = "root" }`},
	{"host top nic", "port ssh_port ansible_port", "", "host", `ssh { port = 2222 }`},
	{"host top ssh", "key private_key ssh_key identity ssh_private_key_file key_file identityfile", "", "ssh",
		`identity_file = "~/.ssh/id_ed25519"`},
	{"host top ssh", "password passwd ansible_password", "Logins need a key or an ssh-agent.", "ssh",
		`identity_file = "~/.ssh/id_ed25519"`},
	{"host top ssh", "jump jump_host bastion bastion_host proxyjump proxy", "", "ssh", `proxy_jump = "anna@gate"`},
	{"host top ssh", "become become_user root", "", "ssh", `sudo = true`},
	{"ssh", "host hostname address ip", "Declare the address of a host in the host block.", "host", `address = "10.0.0.11"`},
	{"ssh", "username login", "", "", `user = "root"`},
	{"ssh", "timeout", "", "", `connect_timeout = "10s"`},
	{"host", "interface interfaces ethernet ethernets network_interface nics netdev device iface adapter", "", "", `nic "rail0" {}`},
	{"host", "tags groups group metadata", "", "", `labels = { rack = "r1" }`},
	{"host", "sysctls kernel_params", "", "", `sysctl = { "net.ipv4.ip_forward" = 1 }`},
	{"host", "routes static_routes gateway default_gateway gateway4 gateway6", "A route is a block with to and via.", "route",
		`via = "192.168.88.2"`},
	{"host", "rule rules ip_rule routing_policy", "A rule and the routes of its table are one block.", "", `policy_route "rail0" {}`},
	{"host", "driver drivers mlnx_ofed doca doca_ofed", "", "ofed", `stack = "inbox"`},
	{"host", "soft_roce softroce roce", "", "", `rxe "rxe0" {}`},
	{"host nic top", "vlans vlan_id vlan_raw_device", "A VLAN is a block of the host, with on and id.", "host", `vlan "storage" {}`},
	{"nic top", "vlan", "A VLAN is a block of the host, with on and id.", "host", `vlan "storage" {}`},
	{"host nic top", "bonds bonding team teams bond_mode bond_slaves slaves master", "A bond is a block of the host, with nics and mode.", "host",
		`bond "b0" {}`},
	{"nic top", "bond", "A bond is a block of the host, with nics and mode.", "host", `bond "b0" {}`},
	{"bond", "slaves members interfaces ports bond_slaves links", "", "", `nics = [nic.p0, nic.p1]`},
	{"bond", "bond_mode", "", "", `mode = "802.3ad"`},
	{"bond", "xmit_hash_policy transmit_hash_policy bond_xmit_hash_policy hash", "", "", `xmit_hash = "layer3+4"`},
	{"bond", "mii_monitor mii_monitor_interval bond_miimon monitor", "The unit is milliseconds.", "", `miimon = 100`},
	{"bond", "lacp bond_lacp_rate lacp_transmit_rate", "", "", `lacp_rate = "fast"`},
	{"bond", "primary active_slave ad_select ad_actor_system fail_over_mac arp_interval arp_ip_target arp_ip_targets updelay downdelay up_delay down_delay",
		"fabricform does not set it, and leaves it as it is: leave it out.", "", ""},
	{"vlan", "link parent dev device raw_device vlan_raw_device base_iface nic bond interface", "", "", `on = nic.rail0`},
	{"vlan", "vlan_id vid tag vlan", "", "", `id = 200`},
	{"vlan", "protocol proto type", "Each VLAN is an 802.1Q one: leave it out.", "", ""},
	{"bond vlan", "mac macaddress mac_address hwaddr hwaddress", "A bond has the MAC of its first member, and a VLAN that of what carries it: leave it out.", "", ""},
	{"vlan", "egress egress_qos_map egress_priority_map qos_map pcp", "", "", `priority_map = { 5 = 5 }`},
	{"host nic top", "bridge bridges",
		"fabricform does not make bridges. Make the bridge with the host's network manager, and declare it as a NIC.",
		"nic", `netdev = "br0"`},
	{"bond vlan", "pfc ecn dscp trust dcb ets priority tclass", "Declare the class in a qos block, and refer to it.", "", `qos = qos.lossless`},
	{"host nic link network", "pfc ecn dscp trust dcb ets priority tclass", "Declare the class in a qos block, and refer to it.", "nic", `qos = qos.lossless`},
	{"link network", "qos", "Its NICs have the class.", "nic", `qos = qos.lossless`},
	{"top", "pfc ecn dscp trust dcb class traffic_class", "", "", `qos "lossless" {}`},
	{"qos", "tc tclass traffic_class tos", "A traffic class is a DSCP times 4: NCCL_IB_TC = 160 is DSCP 40.", "", `dscp = 40`},
	{"qos", "prio sl service_level", "", "", `priority = 5`},
	{"qos", "bandwidth bw tc_bw share shares weight", "", "", `ets = { 5 = 60, 0 = 40 }`},
	{"qos", "flow_control pause_frames global_pause rx_pause tx_pause", "", "", `pause = false`},
	{"host nic top", "dns nameserver nameservers dns_servers search", "fabricform does not set name servers: leave it out.", "", ""},

	{"nic bond vlan", "ip ipv4 ipv6 ipv4_address ipv6_address ip_address ipaddr address addr inet inet6 ips cidr", "", "",
		`addresses = ["192.168.88.1/30"]`},
	{"nic bond vlan", "netmask mask prefix prefix_length prefixlen subnet_mask", "The prefix length is part of the address.", "",
		`addresses = ["192.168.88.1/30"]`},
	{"nic bond vlan", "gateway gw gateway4 gateway6 default_gateway via routes route", "A route is a block of the host, with to and via.", "route",
		`via = "192.168.88.2"`},
	{"bond vlan", "ifname iface name interface_name device_name", "", "", `netdev = "b0"`},
	{"bond", "interface device dev", "", "", `netdev = "b0"`},
	{"nic", "interface device dev ifname iface name interface_name device_name adapter set-name set_name", "", "", `netdev = "eth1"`},
	{"nic", "mac macaddress mac_address hwaddr hwaddress", "", "", `match = { mac = "aa:bb:cc:dd:ee:ff" }`},
	{"nic", "pci pci_address bus bdf", "", "", `match = { pci = "0000:27:00.0" }`},
	{"nic", "rdma rdma_device hca ibdev", "", "", `match = { rdma = "rocep39s0f0" }`},
	{"nic bond vlan", "state admin_state onboot auto enable", "", "", `up = true`},
	{"nic bond vlan", "dhcp dhcp4 dhcp6 bootproto method", "Declare the addresses, or leave the NIC out of the files.", "",
		`addresses = ["192.168.88.1/30"]`},
	{"nic bond vlan", "speed speed_gbps bandwidth", "The speed belongs to the link or network.", "link", `speed_gbps = 100`},
	{"nic bond vlan", "sysctls", "", "", `sysctl = { "ipv4.conf.arp_ignore" = 1 }`},

	{"route policy_route", "gateway gw nexthop next_hop", "", "route", `via = "192.168.88.2"`},
	{"route policy_route", "dst dest destination target network prefix", "", "", `to = "10.0.0.0/8"`},
	{"route policy_route", "dev device interface netdev ifname", "", "policy_route", `nic = nic.rail0`},
	{"policy_route", "source src", "", "", `from = "192.168.88.1"`},
	{"policy_route", "prio pref", "", "", `priority = 10100`},
	{"route", "source", "", "", `src = "192.168.88.1"`},

	{"link", "hosts nodes ends nics interfaces members between ports a b", "", "", `endpoints = [host.a.nic.rail0, host.b.nic.rail0]`},
	{"network", "hosts nodes endpoints nics interfaces ports", "", "", `members = [host.a.nic.rail0, host.b.nic.rail0]`},
	{"link network", "speed bandwidth rate", "", "", `speed_gbps = 100`},
	{"link network", "latency delay round_trip", "", "", `rtt = "20ms"`},
	{"link network", "length length_km km", "", "", `distance_km = 100`},
	{"link network", "vlan vlan_id", "A VLAN is a block of each of the hosts, and then an end or a member as host.a.vlan.storage.", "host", `vlan "storage" {}`},
	{"link network", "cidr cidr_block subnets prefix address_space addresses", "", "", `subnet = "10.1.0.0/24"`},
	{"nccl", "environment vars variables", "", "", `env = { NCCL_DEBUG = "INFO" }`},
	{"nccl", "interface interfaces ifname netdev socket_interface socket_interfaces bootstrap bootstrap_interface", "", "", `socket_ifname = "eth0"`},
	{"nccl", "ib_disable disable_ib ib", "", "", `transport = "socket"`},
	{"nccl", "devices nics", "", "", `hca = [nic.rail0]`},
	{"login_mesh", "members nodes machines between", "", "", `hosts = [host.a, host.b]`},
	{"login_mesh", "username login account", "", "", `user = "mpi"`},
	{"slurm", "node nodename node_name nodelist", "The node of a host is its address.", "host", `address = "gpu01"`},
	{"variable", "value", "", "", `default = 9000`},
	{"variable", "nullable ephemeral", "Leave it out.", "", ""},
}

// place is the name of a block in the table.
func (b *block) place() string {
	if b.name == "" {
		return "top"
	}
	return b.name
}

// otherWordOf returns the row of another tool's word in a block; nil if the word is not in the table.
func otherWordOf(name string, in *block) *otherWord {
	i := slices.IndexFunc(otherWords, func(w otherWord) bool {
		return (w.at == "" || slices.Contains(strings.Fields(w.at), in.place())) && slices.Contains(strings.Fields(w.words), strings.ToLower(name))
	})
	if i < 0 {
		return nil
	}
	return &otherWords[i]
}

// borrowed returns what to write instead of another tool's word in a block; "" if the word is not in the table.
func borrowed(name string, in *block) string {
	if w := otherWordOf(name, in); w != nil {
		return " " + strings.TrimSpace(w.why+" "+w.cure(in.place()))
	}
	if strings.HasPrefix(name, "NCCL_") {
		return fmt.Sprintf(" NCCL's variables are a map. In an nccl block, write env = { %s = … }.", name)
	}
	return ""
}

// withOwnValue returns a cure with the value that was written in the place of the example's, where only the name is another one and both
// values have the same form. What is written under other names for endpoints, members and nics is often hosts or devices, and a version is
// often that of another program.
func (l *loader) withOwnValue(cure, name string, in *block, value hclsyntax.Expression) string {
	w := otherWordOf(name, in)
	if w == nil || w.why != "" || w.in != "" && w.in != in.place() {
		return cure
	}
	attr, example, renamed := strings.Cut(w.write, " = ")
	own := l.source(value.Range())
	if !renamed || own == "" || slices.Contains([]string{"endpoints", "members", "nics", "hosts", "required_version"}, attr) {
		return cure
	}
	e, diags := hclsyntax.ParseExpression([]byte(example), "", hcl.InitialPos)
	switch form := formOf(e); {
	case diags.HasErrors() || form == "":
		return cure
	case form == formOf(value):
	case form == "list" && formOf(value) == "text" && strings.Contains(own, "/"): // an address with its prefix length
		own = "[" + own + "]"
	default:
		return cure
	}
	return strings.Replace(cure, w.write, attr+" = "+own, 1)
}

// formOf names the form of a value: a text, a number, a list or a reference; "" for another one.
func formOf(e hclsyntax.Expression) string {
	switch e := e.(type) {
	case *hclsyntax.TemplateExpr:
		return "text"
	case *hclsyntax.LiteralValueExpr:
		return e.Val.Type().FriendlyName()
	case *hclsyntax.TupleConsExpr:
		return "list"
	case *hclsyntax.ScopeTraversalExpr, *hclsyntax.IndexExpr:
		return "reference"
	}
	return ""
}

// source returns a short text of a file that is on one line; "" for another one.
func (l *loader) source(r hcl.Range) string {
	file := l.files[r.Filename]
	if file == nil || r.Start.Line != r.End.Line || !r.CanSliceBytes(file.Bytes) || r.End.Byte-r.Start.Byte > 60 {
		return ""
	}
	return string(r.SliceBytes(file.Bytes))
}

// cure says what to write.
func (w otherWord) cure(at string) string {
	switch {
	case w.write == "":
		return ""
	case w.in == "" || w.in == "top" || w.in == at:
		return "Write " + w.write + "."
	}
	return "In " + article(w.in) + " block, write " + w.write + "."
}
