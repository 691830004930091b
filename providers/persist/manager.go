package persist

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/netmanager"
)

// managerOf finds the manager of a NIC: the one that configures it now, or else the only active one. If there is none,
// the NIC is not persisted, which is not an error.
func managerOf(m netmanager.Found, declared string, l netmanager.Link) (netmanager.Link, error) {
	if len(m.Active) == 0 {
		return l, nil
	}
	if declared != "" && !slices.Contains(m.Active, declared) && !slices.Contains(m.Idle, declared) {
		return l, fmt.Errorf("network_manager %q is not active here; found: %s", declared, foundManagers(m))
	}
	claim, claimed := m.Claims[l.Link.Name]
	is := declared
	if is == "" && claimed && slices.Contains(m.Active, claim.Manager) {
		is = claim.Manager
	}
	if is == "" {
		candidates := slices.Clone(m.Active)
		if slices.ContainsFunc(candidates, func(name string) bool { return netmanager.Lookup(name).Front }) {
			candidates = slices.DeleteFunc(candidates, func(name string) bool { return name == m.Behind })
		}
		if len(candidates) > 1 {
			return l,
				fmt.Errorf("nic %s: several network managers are active, and none configures %s yet: %s; "+
					"choose one with `network_manager` on the host",
					l.Name, l.Link.Name, foundManagers(m))
		}
		is = candidates[0]
	}
	l.Manager = netmanager.Lookup(is)
	if l.Manager.Front {
		l.Behind = netmanager.Lookup(m.Behind)
	}
	if why := m.Deaf[is]; why != "" {
		return l, fmt.Errorf("nic %s: %s", l.Name, why)
	}
	return l, nil
}

// conflict returns an error if another file about the NIC would override ours. A file with a pattern conflicts only
// if its name sorts before ours.
func conflict(m netmanager.Found, l netmanager.Link) error {
	claim, claimed := m.Claims[l.Link.Name]
	if !claimed || l.Manager == nil {
		return nil
	}
	name, own := path.Base(claim.File), l.Stem()
	if by := netmanager.Lookup(claim.Manager); by.Stem != nil {
		own = by.Stem(l)
	}
	switch {
	case strings.Contains(name, own):
		return nil
	case strings.Contains(name, "fabricform-"):
		return fmt.Errorf("nic %s: %s of another fabric configures %s already; "+
			"remove the NIC from that fabric, or set `persist = false` here", l.Name, claim.File, l.Link.Name)
	case claim.Exact && !l.Whole():
		return nil // that file continues to configure the NIC
	case claim.Exact:
		return fmt.Errorf("nic %s: %s configures %s already (%s): remove the NIC from it, or set `persist = false` here", l.Name,
			claim.File, l.Link.Name, claim.Manager)
	case l.By().FirstFile && name < path.Base(l.Manager.Reports(l)) && l.Whole():
		return fmt.Errorf("nic %s: %s matches %s and comes before our file %s, which would never be read: "+
			"rename the first file to sort later, or exclude the NIC from its pattern",
			l.Name, claim.File, l.Link.Name, path.Base(l.Manager.Reports(l)))
	}
	return nil
}

// foundManagers lists the active managers and the files that configure links.
func foundManagers(m netmanager.Found) string {
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
