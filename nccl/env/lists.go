package env

import (
	"fmt"
	"strings"
)

// maxEntries are how many elements NCCL takes of a list (MAX_IB_DEVS and MAX_IFS).
var maxEntries = map[Type]int{Devices: 32, Interfaces: 16, List: 32}

// list checks NCCL_IB_HCA, NCCL_SOCKET_IFNAME and their kin.
func (c *check) list() {
	l := ParseList(c.value)
	said := fmt.Sprintf("%s = %q", c.v.Name, c.value)
	switch {
	case strings.ContainsAny(c.value, " \t"):
		c.add(Error, "Space in an NCCL list", said+": NCCL does not cut blanks off.", "A name with a blank in it matches nothing, so that this element is lost without a word.", "Separate by commas alone.")
		for _, e := range l.Entries {
			c.kind(said, strings.TrimSpace(e.Name))
		}
		return
	case c.v.Type == Interfaces && len(c.value) == 1:
		c.add(Error, "Value that NCCL ignores", said+": NCCL ignores a value of one character.", "It chooses an interface by itself.", "Write = before the name.")
		return
	case len(l.Entries) == 0:
		c.add(Error, "Empty list", said+" names nothing.", "", "Name a device, or leave it out.")
		return
	case len(l.Entries) > maxEntries[c.v.Type]:
		c.add(Error, "List too long", fmt.Sprintf("%s has %d elements; NCCL takes %d.", c.v.Name, len(l.Entries), maxEntries[c.v.Type]), "The others are lost without a word.", "")
	}
	prefix := ""
	for _, e := range l.Entries {
		if bare := strings.TrimLeft(e.Name, "^="); bare != e.Name {
			c.add(Error, "Sign inside an NCCL list", fmt.Sprintf("%s: ^ and then = count at the very beginning only; here they belong to the name %q.", said, e.Name), "That element matches nothing.", fmt.Sprintf("Write %q.", correct(l)))
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
			longer = prefix + ".5" // a VLAN on it
		}
		c.add(Warning, "Matched by its beginning", fmt.Sprintf("%s: without = a name stands for all that begin so: %s also means %s.", said, prefix, longer), "A device that is added later is used without anybody's decision.", fmt.Sprintf("Write %q.", correct(l)))
	}
}

// correct is the list as it was likely meant: exact, with its signs in front.
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

// kind finds names of the other world: interfaces among RDMA devices, and the reverse.
func (c *check) kind(said, name string) {
	switch {
	case !c.wrongKind(name):
	case c.v.Type == Interfaces:
		c.add(Error, "RDMA device where an interface belongs", fmt.Sprintf("%s: %s is an RDMA device.", said, name), "NCCL finds no interface, and does not start.", "Name the interface.")
	default:
		c.add(Error, "Interface where an RDMA device belongs", fmt.Sprintf("%s: %s is an interface.", said, name), "NCCL finds no device, and falls back to sockets without a word.", "Leave "+c.v.Name+" out: it is derived from the NICs.")
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

// looksLikeNetdev knows names that no RDMA device has.
func looksLikeNetdev(name string) bool {
	for _, p := range []string{"eth", "eno", "ens", "enp", "enP", "bond", "docker", "xgbe", "wlan", "lo"} {
		if rest, ok := strings.CutPrefix(name, p); ok && (rest == "" || rest[0] >= '0' && rest[0] <= '9') {
			return true
		}
	}
	return false
}
