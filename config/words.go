package config

import (
	"net/netip"
	"reflect"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

// typeName is the type of an attribute's value, as messages and documents name it. A choice is named by its alternatives.
type typeName string

const (
	typeNIC        typeName = "a NIC"
	typeNICs       typeName = "a list of NICs"
	typeNetdev     typeName = "a NIC or an interface name"
	typeDuration   typeName = "a duration"
	typeAddress    typeName = "an address"
	typePrefix     typeName = "an address or a network"
	typeSubnets    typeName = "a network, or a list of one IPv4 and one IPv6 network"
	typePrefixes   typeName = "a list of addresses with prefix lengths"
	typeObject     typeName = "an object"
	typeExpression typeName = "an expression"
	typeBool       typeName = "true or false"
	typeNumber     typeName = "a number"
	typeMap        typeName = "a map of strings"
	typeStrings    typeName = "a list of strings"
	typeString     typeName = "a string"
)

func (a *attribute) typeName() typeName {
	t := a.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if a.one != nil && t.Kind() == reflect.String {
		return typeName(alternatives(a.one))
	}
	switch t {
	case reflect.TypeFor[fabric.NICRef]():
		return typeNIC
	case reflect.TypeFor[[]fabric.NICRef]():
		return typeNICs
	case reflect.TypeFor[fabric.HostRef]():
		return "a host"
	case reflect.TypeFor[[]fabric.HostRef]():
		return "a list of hosts"
	case reflect.TypeFor[fabric.Netdev]():
		return typeNetdev
	case reflect.TypeFor[fabric.QoSRef]():
		return "a qos block"
	case reflect.TypeFor[fabric.WorkloadRef]():
		return "a workload block"
	case reflect.TypeFor[map[int]int]():
		return "a map of whole numbers"
	case reflect.TypeFor[time.Duration]():
		return typeDuration
	case reflect.TypeFor[netip.Addr]():
		return typeAddress
	case reflect.TypeFor[netip.Prefix]():
		return typePrefix
	case reflect.TypeFor[[]netip.Prefix]():
		if a.name == "subnet" {
			return typeSubnets
		}
		return typePrefixes
	case reflect.TypeFor[fabric.Match](), reflect.TypeFor[fabric.GID]():
		return typeObject
	case reflect.TypeFor[anything]():
		return typeExpression
	}
	switch t.Kind() {
	case reflect.Bool:
		return typeBool
	case reflect.Int, reflect.Float64:
		return typeNumber
	case reflect.Map:
		return typeMap
	case reflect.Slice:
		return typeStrings
	}
	return typeString
}

// hint returns an example value, if the type name alone is not clear enough.
func (a *attribute) hint() string {
	switch a.name {
	case "endpoints":
		return " Write [host.a.nic.rail0, host.b.nic.rail0]."
	case "hosts":
		return " Write values(host.gpu) where the host block has for_each, or [host.a, host.b]."
	case "members":
		return " Write [host.a.nic.rail0, host.b.nic.rail0], or [for h in values(host.gpu) : h.nic.rail0]. If the nic block has for_each, write h.nic.rail[\"rail0\"]."
	case "hca":
		return " In the nccl block of a host, write [nic.rail0, nic.rail1]; outside a host, [for h in values(host) : h.nic.rail0]."
	case "via":
		return ` Write "192.168.88.2", or host.b.nic.rail0.ip.`
	case "src", "from":
		return ` Write "192.168.88.1", or nic.rail0.ip.`
	case "host_number":
		return " Write 1, or in a host block with for_each self.value.number: each belongs to the innermost block with for_each."
	case "nics":
		return " Write [nic.p0, nic.p1]."
	case "on":
		return " Write nic.rail0 or bond.b0."
	case "priority_map":
		return " Write { 5 = 5 }."
	case "nic":
		return " Write nic.rail0, or nic.rail[each.key] if the nic block has for_each."
	case "addresses":
		return ` Write ["192.168.88.1/30"].`
	case "match":
		return ` Write { mac = "aa:bb:cc:dd:ee:ff" }.`
	case "gid":
		return ` Write { version = 2, family = "ipv4" }.`
	case "table", "speed_gbps", "expect_gbps":
		return " Write 100."
	case "mtu":
		return " Write 9000."
	case "transport":
		return ` RDMA, also over RoCE, is "ib", and TCP is "socket".`
	case "mode":
		return ` LACP is "802.3ad", and one active member with the others in reserve is "active-backup".`
	case "qos":
		return " Write qos.lossless."
	case "workload":
		return " Write workload.llm."
	case "ets":
		return " Write { 5 = 60, 0 = 40 }."
	case "buffer":
		return " Write { 5 = 524288 }."
	case "env":
		return ` Write { NCCL_DEBUG = "INFO" }.`
	case "labels":
		return ` Write { rack = "r1" }.`
	case "sysctl":
		if a.goType == "NIC" {
			return ` Write { "ipv4.conf.arp_ignore" = 1 }.`
		}
		return ` Write { "net.ipv4.ip_forward" = 1 }.`
	case "to":
		return ` Write "10.0.0.0/8" or "default".`
	}
	return ""
}
