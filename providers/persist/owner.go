package persist

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
)

// Ifcfg is a manager that files may name and this build does not write for.
const Ifcfg = "ifcfg"

// owner finds who keeps a NIC: whoever configures it now; else the one manager that is active. "" is
// nobody, and no error: the NIC is then not kept.
func owner(m *facts.Managers, declared string, l link) (string, error) {
	if declared == Ifcfg {
		return "", fmt.Errorf("network_manager %q: this build does not write its files; set `persist = false` on the host's NICs", declared)
	}
	if m == nil || len(m.Active) == 0 {
		return "", nil
	}
	if declared != "" && !slices.Contains(m.Active, declared) {
		return "", fmt.Errorf("network_manager %q: it is not active here; found: %s", declared, foundManagers(m))
	}
	claim, claimed := m.Claims[l.Link.Name]
	is := declared
	if is == "" && claimed && slices.Contains(m.Active, claim.Manager) {
		is = claim.Manager
	}
	if is == "" {
		candidates := slices.Clone(m.Active)
		if slices.Contains(candidates, facts.Netplan) {
			candidates = slices.DeleteFunc(candidates, func(name string) bool { return name == m.Behind })
		}
		if len(candidates) > 1 {
			return "", fmt.Errorf("nic %s: several network managers are active, and none configures %s yet: %s; say which one is to, with `network_manager` on the host",
				l.Name, l.Link.Name, foundManagers(m))
		}
		is = candidates[0]
	}
	if is == facts.Ifupdown && !m.Sourced {
		return "", fmt.Errorf("nic %s: /etc/network/interfaces does not read interfaces.d, where its file belongs: add `source /etc/network/interfaces.d/*` there", l.Name)
	}
	if claimed {
		return is, conflict(is, claim, l)
	}
	return is, nil
}

// conflict is what somebody else's file about the NIC would do to ours. A file for all NICs of a
// pattern is not one, because ours is found first, unless its name comes before ours.
func conflict(is string, claim facts.Claim, l link) error {
	name, own := path.Base(claim.File), l.file()
	if claim.Manager == facts.Ifupdown {
		own = path.Base(ifupdownPath(l))
	}
	l.owner = is
	switch {
	case strings.Contains(name, own):
		return nil
	case strings.Contains(name, "fabricform-"):
		return fmt.Errorf("nic %s: %s, of another fabric, configures %s already", l.Name, claim.File, l.Link.Name)
	case claim.Exact && !l.addressed():
		return nil // that file stays the one that configures the NIC
	case claim.Exact:
		return fmt.Errorf("nic %s: %s configures %s already (%s): take the NIC out of it, or set `persist = false` here", l.Name, claim.File, l.Link.Name, claim.Manager)
	case l.byNetworkd() && name < path.Base(l.taken()) && l.addressed():
		return fmt.Errorf("nic %s: %s matches %s and comes before our file %s, which would never be read: rename it to come later, or leave the NIC out of its pattern",
			l.Name, claim.File, l.Link.Name, path.Base(l.taken()))
	}
	return nil
}

// foundManagers says what was found where.
func foundManagers(m *facts.Managers) string {
	var out []string
	for _, name := range m.Active {
		var by []string
		for netdev, c := range m.Claims {
			if c.Manager == name {
				by = append(by, netdev+" by "+c.File)
			}
		}
		slices.Sort(by)
		text := name
		if len(by) > 0 {
			text += " (configures " + strings.Join(by, ", ") + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// addressed says whether the manager's whole configuration of the NIC is ours to write: where
// addresses are not declared, somebody else gives them.
func (l link) addressed() bool { return l.AddressesSet }

// taken is the file by which the manager should configure the NIC, as it tells; "" for ifupdown, which
// reads files when it is told to configure, at boot.
func (l link) taken() string {
	switch {
	case l.owner == facts.Networkd:
		return networkdPath(l)
	case l.owner == facts.NetworkManager:
		return keyfilePath(l)
	case l.owner == facts.Netplan && l.behind == facts.NetworkManager:
		return "/run/NetworkManager/system-connections/" + l.profile() + ".nmconnection"
	case l.owner == facts.Netplan:
		return "/run/systemd/network/10-netplan-" + netplanID(l) + ".network"
	}
	return ""
}

// byNetworkd says whether networkd configures the NIC, told by netplan or not.
func (l link) byNetworkd() bool {
	return l.owner == facts.Networkd || l.owner == facts.Netplan && l.behind != facts.NetworkManager
}

// profile is the id of NetworkManager's profile.
func (l link) profile() string {
	if l.owner == facts.Netplan {
		return "netplan-" + netplanID(l)
	}
	return l.id()
}
