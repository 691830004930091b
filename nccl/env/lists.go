package env

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxEntries is the number of elements that NCCL reads of a list (MAX_IB_DEVS and MAX_IFS).
var maxEntries = map[Type]int{Devices: 32, Interfaces: 16, List: 32}

// list checks NCCL_IB_HCA, NCCL_SOCKET_IFNAME and similar variables.
func (c *check) list() {
	l := ParseList(c.value)
	said := fmt.Sprintf("%s = %q", c.v.Name, c.value)
	switch {
	case strings.ContainsAny(c.value, " \t"):
		c.add(Error, "Space in an NCCL list", said+": NCCL does not trim spaces.",
			"A name with a space matches nothing, so NCCL silently ignores this element.", "Separate names only by commas.")
		for _, e := range l.Entries {
			c.kind(said, strings.TrimSpace(e.Name))
		}
		return
	case c.v.Type == Interfaces && len(c.value) == 1:
		c.add(Error, "Value that NCCL ignores", said+": NCCL ignores a value of one character.", "It chooses an interface automatically.",
			"Write = before the name.")
		return
	case len(l.Entries) == 0:
		c.add(Error, "Empty list", said+" names no device.", "", "Name a device, or remove the variable.")
		return
	case len(l.Entries) > maxEntries[c.v.Type]:
		c.add(Error, "List too long", fmt.Sprintf("%s has %d elements, but NCCL reads only %d.", c.v.Name, len(l.Entries),
			maxEntries[c.v.Type]), "It silently ignores the rest.", "Shorten the list.")
	}
	prefix := ""
	for _, e := range l.Entries {
		if bare := strings.TrimLeft(e.Name, "^="); bare != e.Name {
			c.add(Error, "Prefix inside an NCCL list",
				fmt.Sprintf("%s: the prefixes ^ and = (in this order) work only at the very beginning; here they become part of the "+
					"name %q.", said, e.Name), "That element matches nothing.", fmt.Sprintf("Write %q.", correct(l)))
			return
		}
		if c.noName(said, e) {
			return
		}
		c.kind(said, e.Name)
		switch {
		case c.wrongKind(e.Name):
		case l.Exact && slices.Contains(families, e.Name):
			bad, summary, wrong := Error, "No device has this name", "no device is called"
			if c.v.Type == Interfaces { // an administrator may have named one so
				bad, summary, wrong = Warning, "Probably no interface has this name", "hardly an interface is called"
			}
			c.add(bad, summary, fmt.Sprintf("%s: with =, names are compared as a whole, and %s %s.", said, wrong, e.Name),
				"That element selects nothing.", fmt.Sprintf("Write %s without =, which selects all that begin with it, or whole names.",
					e.Name))
		case !l.Exact && !l.Exclude && (prefix == "" || longer(c.v.Type, prefix) == ""):
			prefix = e.Name
		}
	}
	if c.v.Type == Interfaces && l.Exclude && !slices.ContainsFunc(l.Entries, func(e Entry) bool { return e.Name == "lo" || !l.Exact && strings.HasPrefix("lo", e.Name) }) {
		// ncclFindInterfaces (src/misc/socket.cc, v2.27.3-1) leaves docker and lo out by itself only without the variable.
		c.add(Warning, "lo is not excluded", said+": a list with ^ replaces NCCL's own, which leaves lo and docker out.",
			"NCCL may choose lo, the first interface of most hosts: ranks on other hosts cannot connect to it.", fmt.Sprintf("Write %q.", c.value+",lo"))
	}
	switch also := longer(c.v.Type, prefix); {
	case prefix == "":
	case also != "":
		bad := Warning
		if c.v.Type == Interfaces && !c.Declared { // hosts have few of them, and mostly none that begins so
			bad = Note
		}
		c.add(bad, "Prefix match", fmt.Sprintf("%s: without =, a name matches all names that begin with it: %s also matches %s.", said,
			prefix, also), "NCCL would use a device that is added later.", fmt.Sprintf("Write %q.", correct(l)))
	default:
		c.add(Note, "Prefix match", fmt.Sprintf("%s: without =, a name selects all names that begin with it.", said),
			"That is right if all of them are meant.", "Otherwise write = and the whole names.")
	}
}

// noName reports an element with a character that no device or interface has in its name.
func (c *check) noName(said string, e Entry) bool {
	name, rest, cut := strings.Cut(e.Name, "/")
	other := strings.ContainsAny(e.Name, ";|\"'")
	if !cut && !other || c.v.Type == List || LooksLikeAddress(e.Name) {
		return false
	}
	instead := "Separate names by commas alone, and write no quotes into the value."
	if cut {
		instead = fmt.Sprintf("Write the port after a colon: %s:%s. Separate names by commas alone.", name, rest)
	}
	c.add(Error, "Not a name", fmt.Sprintf("%s: no device is called %s.", said, e.Name), "That element matches nothing.", instead)
	return true
}

// families are the names of drivers and kinds without a number, which no device and no interface has.
var families = []string{"mlx4", "mlx4_", "mlx5", "mlx5_", "mlx5_bond", "rocep", "bnxt_re", "irdma", "eth", "eno", "ens", "enp", "ib",
	"bond", "mthca"}

// longer returns a name that begins with a whole name; "": there is none, or the name is the beginning of several on purpose.
// Numbers have no
// leading zeros, so that nothing but mlx5_0 begins with mlx5_0.
func longer(t Type, name string) string {
	if name == "" || name[len(name)-1] < '0' || name[len(name)-1] > '9' || slices.Contains(families, name) {
		return ""
	}
	number := strings.TrimLeft(name[len(strings.TrimRight(name, "0123456789")):], "0")
	switch {
	case number != "" && !strings.HasSuffix(name, "np1"):
		return name + "0"
	case t == Interfaces:
		return name + ".5" // a VLAN on that interface
	}
	return ""
}

// correct returns the list as it was probably meant: exact, with the prefixes at the beginning.
func correct(l NameList) string {
	var b strings.Builder
	if l.Exclude {
		b.WriteByte('^')
	}
	b.WriteByte('=')
	entries := l.Entries
	if meant := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return strings.HasPrefix(e.Name, "^") }); !l.Exclude && len(meant) > 0 {
		entries = meant // "a,^b": a list of names is exact already
	}
	for i, e := range entries {
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
	case LooksLikeAddress(name):
		c.add(Error, "Address instead of a name", fmt.Sprintf("%s: %s is an address, or the beginning of one.", said, name),
			"NCCL compares names, so that this selects nothing.", "Name the interface or the device (ip -br addr, ibdev2netdev).")
	case c.v.Type == Interfaces:
		c.add(Error, "RDMA device instead of an interface", fmt.Sprintf("%s: %s is an RDMA device.", said, name),
			"NCCL finds no interface and does not start.", "Name the interface.")
	default:
		c.add(Error, "Interface instead of an RDMA device", fmt.Sprintf("%s: %s is an interface.", said, name),
			"NCCL finds no device and silently falls back to sockets.", "Remove "+c.v.Name+": it is derived from the NICs.")
	}
}

// address is an IPv4 address, the beginning of one as far as its second dot, or a network.
var address = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{1,3}\.\d{1,3}(\.\d{0,3}){1,2}(/\d+)?$`) })

// LooksLikeAddress reports whether a text in place of a name is an IPv4 address, or the beginning of one.
func LooksLikeAddress(name string) bool { return address().MatchString(name) }

func (c *check) wrongKind(name string) bool {
	if LooksLikeAddress(name) {
		return c.v.Type == Interfaces || c.v.Type == Devices
	}
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
