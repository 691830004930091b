package env

import (
	"fmt"
	"strings"
)

// maxEntries is the number of elements that NCCL reads of a list (MAX_IB_DEVS and MAX_IFS).
var maxEntries = map[Type]int{Devices: 32, Interfaces: 16, List: 32}

// list checks NCCL_IB_HCA, NCCL_SOCKET_IFNAME and similar variables.
func (c *check) list() {
	l := ParseList(c.value)
	said := fmt.Sprintf("%s = %q", c.v.Name, c.value)
	switch {
	case strings.ContainsAny(c.value, " \t"):
		c.add(Error, "Space in an NCCL list", said+": NCCL does not trim spaces.", "A name with a space matches nothing, so NCCL silently ignores this element.", "Separate names only by commas.")
		for _, e := range l.Entries {
			c.kind(said, strings.TrimSpace(e.Name))
		}
		return
	case c.v.Type == Interfaces && len(c.value) == 1:
		c.add(Error, "Value that NCCL ignores", said+": NCCL ignores a value of one character.", "It chooses an interface automatically.", "Write = before the name.")
		return
	case len(l.Entries) == 0:
		c.add(Error, "Empty list", said+" names no device.", "", "Name a device, or remove the variable.")
		return
	case len(l.Entries) > maxEntries[c.v.Type]:
		c.add(Error, "List too long", fmt.Sprintf("%s has %d elements, but NCCL reads only %d.", c.v.Name, len(l.Entries), maxEntries[c.v.Type]), "It silently ignores the rest.", "Shorten the list.")
	}
	prefix := ""
	for _, e := range l.Entries {
		if bare := strings.TrimLeft(e.Name, "^="); bare != e.Name {
			c.add(Error, "Prefix inside an NCCL list", fmt.Sprintf("%s: the prefixes ^ and = (in this order) work only at the very beginning; here they become part of the name %q.", said, e.Name), "That element matches nothing.", fmt.Sprintf("Write %q.", correct(l)))
			return
		}
		c.kind(said, e.Name)
		if !l.Exact && !l.Exclude && prefix == "" && !c.wrongKind(e.Name) {
			prefix = e.Name
		}
	}
	if prefix != "" {
		longer := prefix + "0"
		if strings.HasSuffix(prefix, "np0") || strings.HasSuffix(prefix, "np1") {
			longer = prefix + ".5" // a VLAN on that interface
		}
		c.add(Warning, "Prefix match", fmt.Sprintf("%s: without =, a name matches all names that begin with it: %s also matches %s.", said, prefix, longer), "NCCL would use a device that is added later.", fmt.Sprintf("Write %q.", correct(l)))
	}
}

// correct returns the list as it was probably meant: exact, with the prefixes at the beginning.
func correct(l NameList) string {
	var b strings.Builder
	if l.Exclude {
		b.WriteByte('^')
	}
	b.WriteByte('=')
	for i, e := range l.Entries {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.TrimLeft(e.Name, "^="))
		for _, n := range []int{e.Port, e.Rail, e.Plane} {
			if n >= 0 {
				fmt.Fprintf(&b, ":%d", n)
			}
		}
	}
	return b.String()
}

// kind reports an interface in a list of RDMA devices, or an RDMA device in a list of interfaces.
func (c *check) kind(said, name string) {
	switch {
	case !c.wrongKind(name):
	case c.v.Type == Interfaces:
		c.add(Error, "RDMA device instead of an interface", fmt.Sprintf("%s: %s is an RDMA device.", said, name), "NCCL finds no interface and does not start.", "Name the interface.")
	default:
		c.add(Error, "Interface instead of an RDMA device", fmt.Sprintf("%s: %s is an interface.", said, name), "NCCL finds no device and silently falls back to sockets.", "Remove "+c.v.Name+": it is derived from the NICs.")
	}
}

func (c *check) wrongKind(name string) bool {
	switch c.v.Type {
	case Interfaces:
		return LooksLikeDevice(name) && !c.isNetdev(name) && !strings.HasPrefix(name, "ib")
	case Devices:
		return c.isNetdev(name) || looksLikeNetdev(name)
	}
	return false
}

// looksLikeNetdev reports whether a name is one that interfaces have and RDMA devices do not.
func looksLikeNetdev(name string) bool {
	for _, p := range []string{"eth", "eno", "ens", "enp", "enP", "bond", "docker", "xgbe", "wlan", "lo"} {
		if rest, ok := strings.CutPrefix(name, p); ok && (rest == "" || rest[0] >= '0' && rest[0] <= '9') {
			return true
		}
	}
	return false
}
