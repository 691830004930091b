package config

import (
	"net/netip"
	"reflect"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

// typeName describes the type of an attribute for messages and documentation.
func (a *attribute) typeName() string {
	t := a.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if a.one != nil && t.Kind() == reflect.String {
		return alternatives(a.one)
	}
	switch t {
	case reflect.TypeFor[fabric.NICRef]():
		return "a NIC"
	case reflect.TypeFor[[]fabric.NICRef]():
		return "a list of NICs"
	case reflect.TypeFor[fabric.Netdev]():
		return "a NIC or an interface name"
	case reflect.TypeFor[time.Duration]():
		return "a duration"
	case reflect.TypeFor[netip.Addr]():
		return "an address"
	case reflect.TypeFor[netip.Prefix]():
		return "an address or a network"
	case reflect.TypeFor[[]netip.Prefix]():
		if a.name == "subnet" {
			return "a network, or a list of one IPv4 and one IPv6 network"
		}
		return "a list of addresses with prefix lengths"
	case reflect.TypeFor[fabric.Match](), reflect.TypeFor[fabric.GID]():
		return "an object"
	case reflect.TypeFor[anything]():
		return "an expression"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Float64:
		return "a number"
	case reflect.Map:
		return "a map of strings"
	case reflect.Slice:
		return "a list of strings"
	}
	return "a string"
}

// hint returns an example value, if the type name alone is not clear enough.
func (a *attribute) hint() string {
	switch a.name {
	case "endpoints":
		return " Write [host.a.nic.rail0, host.b.nic.rail0]."
	case "members":
		return " Write [host.a.nic.rail0, host.b.nic.rail0], or [for h in values(host.gpu) : h.nic.rail0]."
	case "hca":
		return " Write [nic.rail0, nic.rail1]."
	case "nic":
		return " Write nic.rail0."
	case "addresses":
		return ` Write ["192.168.88.1/30"].`
	case "match":
		return ` Write { mac = "aa:bb:cc:dd:ee:ff" }.`
	case "gid":
		return ` Write { version = 2, family = "ipv4" }.`
	case "table":
		return " Write 100."
	case "to":
		return ` Write "10.0.0.0/8" or "default".`
	}
	return ""
}
