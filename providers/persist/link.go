package persist

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// link is a kept NIC as it is on the host, and who keeps it.
type link struct {
	NIC
	Link   host.Link
	fabric string
	owner  string // the manager's name in package facts
	behind string // the manager behind netplan
	charge bool   // NetworkManager looks after it now
	// addrGen is ipv6.conf.addr_gen_mode where the spec leaves it alone: managers set it whether told
	// or not, so that leaving it alone means to say what it is.
	addrGen string
}

// plainName is what a file's or a unit's name may be made of. The kernel lets nearly any byte into
// an interface's name (dev_valid_name in net/core/dev.c).
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// links finds the spec's NICs and their owners.
func links(snap *facts.Snapshot, s Spec) ([]link, error) {
	var out []link
	for _, n := range s.NICs {
		found, err := snap.Find(n.Select)
		if err != nil {
			return nil, err
		}
		if !plainName.MatchString(found.Name) {
			return nil, fmt.Errorf("nic %s: the name %q of its device cannot stand in files of network managers", n.Name, found.Name)
		}
		l := link{NIC: n, Link: *found, fabric: s.Fabric, addrGen: snap.Sysctls[facts.LinkSysctl(addrGenMode, found.Name)]}
		l.charge = snap.Managers != nil && slices.Contains(snap.Managers.InCharge, found.Name)
		if l.owner, err = owner(snap.Managers, s.Manager, l); err != nil {
			return nil, err
		}
		if l.owner == facts.Netplan {
			l.behind = snap.Managers.Behind
		}
		out = append(out, l)
	}
	return out, nil
}

// mac is the address that tells the card from others: the permanent one, which neither a bond nor a
// hand changes; software devices have none.
func (l link) mac() string {
	if l.Link.PermMAC != "" {
		return l.Link.PermMAC
	}
	return l.Link.MAC
}

// file is the stem of the names of the link's files.
func (l link) file() string { return base(l.fabric) + "-" + l.Link.Name }

// id is what people see in the manager's own listings.
func (l link) id() string { return l.file() }

// acceptRA is whether router advertisements are taken.
func (l link) acceptRA() bool { return l.AcceptRA != nil && *l.AcceptRA }

const addrGenMode = "ipv6.conf.addr_gen_mode"

// linkLocal is the wanted mode of ipv6.conf.addr_gen_mode: eui64, none, stable-privacy or random
// (IN6_ADDR_GEN_MODE_* in the kernel's include/uapi/linux/if_link.h).
func (l link) linkLocal() string {
	mode := l.WantedSysctls()[addrGenMode]
	if mode == "" {
		mode = l.addrGen
	}
	switch mode {
	case "1":
		return "none"
	case "2":
		return "stable-privacy"
	case "3":
		return "random"
	}
	return "eui64"
}
