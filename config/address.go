package config

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// networks are the attributes that take a network rather than an address. Host bits in one are a
// mistake that the kernel reports only when the route is added ("Invalid prefix for given prefix length").
var networks = map[string]bool{"to": true, "from": true, "subnet": true}

// decodeAddress decodes an address, a network, or an address with its prefix length (`addresses`).
func decodeAddress(a *attribute, v cty.Value, into reflect.Value) *wrong {
	s, ok := text(v)
	if !ok || v.Type() != cty.String {
		return typeWrong(a, v)
	}
	addr, addrErr := netip.ParseAddr(s)
	if addrErr == nil && (addr.Zone() != "" || addr.Is4In6()) {
		return &wrong{"Not an address", fmt.Sprintf("%s must be a plain address, without a zone and not IPv4-mapped.", a.name), nil}
	}
	if into.Type() == reflect.TypeFor[netip.Addr]() {
		if addrErr != nil {
			return &wrong{"Not an address", fmt.Sprintf("%s: %q is not an address such as 10.0.0.1.%s", a.name, s, addressCure(a, s)), nil}
		}
		into.Set(reflect.ValueOf(addr))
		return nil
	}
	if s == "default" && a.name == "to" {
		return nil // the family is known once the rest of the route is decoded: see destination
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil && addrErr == nil && (a.name == "from" || a.name == "to"):
		p = netip.PrefixFrom(addr, addr.BitLen())
	case err != nil && addrErr == nil:
		return &wrong{"Prefix length missing", fmt.Sprintf("%s: add the prefix length of the subnet to %q, such as %q.",
			a.name, s, s+suffix(addr)), nil}
	case err != nil:
		return &wrong{"Not an address", fmt.Sprintf("%s: %q is not an address with a prefix length, such as 192.168.88.1/30.%s",
			a.name, s, addressCure(a, s)), nil}
	case p.Addr().Is4In6():
		return &wrong{"Not an address", a.name + " must be a plain IPv4 or IPv6 prefix, not an IPv4-mapped one.", nil}
	case networks[a.name] && p != p.Masked():
		return &wrong{"Host bits set in a network", fmt.Sprintf("%s: %s is an address, not a network. Did you mean %q?",
			a.name, s, p.Masked()), &replacement{s, p.Masked().String()}}
	}
	into.Set(reflect.ValueOf(p))
	return nil
}

func suffix(a netip.Addr) string {
	if a.Is4() {
		return "/30"
	}
	return "/64"
}

// addressCure says what to write instead of a text that is not an address, or "".
func addressCure(a *attribute, s string) string {
	addr, rest, _ := strings.Cut(strings.ReplaceAll(s, " ", "/"), "/")
	mask, maskErr := netip.ParseAddr(rest)
	p, prefixErr := netip.ParsePrefix(strings.ReplaceAll(s, " ", ""))
	switch ip, err := netip.ParseAddr(addr); {
	case a.name == "to" && (s == "all" || s == "any" || s == "0/0"):
		return ` Write "default".`
	case prefixErr == nil && a.typ == reflect.TypeFor[netip.Addr]():
		return fmt.Sprintf(" Write it without its prefix length, %q, or use the ip of a NIC.", p.Addr())
	case prefixErr == nil:
		return " Remove the spaces."
	case err == nil && ip.Is4() && maskErr == nil && mask.Is4():
		b := mask.As4()
		if ones, bits := net.IPMask(b[:]).Size(); bits > 0 {
			return fmt.Sprintf(" Write the prefix length instead of the netmask: %q.", netip.PrefixFrom(ip, ones))
		}
	case err == nil && rest != "":
		return fmt.Sprintf(" The prefix length is a number from 0 to %d.", ip.BitLen())
	case !strings.ContainsAny(s, ".:/") && s != "":
		return " Names of hosts are not resolved here: write the address, or use the ip of a NIC."
	}
	return padded(s)
}

// padded returns a hint about leading zeros: C libraries read such a number as octal, Go rejects it.
func padded(s string) string {
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == '.' || r == '/' }) {
		if len(part) > 1 && part[0] == '0' && strings.Trim(part, "0123456789") == "" && !strings.Contains(s, ":") {
			return fmt.Sprintf(" Remove the leading zeros: some programs read %q as octal.", part)
		}
	}
	return ""
}
