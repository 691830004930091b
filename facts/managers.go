package facts

import (
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// The network managers, as `network_manager` names them.
const (
	Netplan        = "netplan"
	NetworkManager = "networkmanager"
	Networkd       = "systemd-networkd"
	Ifupdown       = "ifupdown"
)

// Managers is who configures the host's links at boot.
type Managers struct {
	// Active are those that would configure a link of ours, sorted. Netplan is a front: with it, the
	// manager behind it is among them, too.
	Active []string `json:"active,omitempty"`
	// Behind is the manager that netplan hands new links to.
	Behind string `json:"behind,omitempty"`
	// Claims are the links that somebody configured, by name.
	Claims map[string]Claim `json:"claims,omitempty"`
	// InCharge are the links that NetworkManager looks after, whether or not it has a profile for them:
	// it makes one of its own for those without.
	InCharge []string `json:"in_charge,omitempty"`
	// Sourced says that ifupdown reads /etc/network/interfaces.d.
	Sourced bool `json:"sourced,omitempty"`
}

// Claim is who configured a link, and by which file.
type Claim struct {
	Manager string `json:"manager"`
	File    string `json:"file"`
	Exact   bool   `json:"exact,omitempty"` // the file is about this link, not about all of a pattern
}

// UnitActive says whether a service of systemd runs. It asks the control groups, which systemd makes for each service that runs and removes
// after it (systemd.resource-control(5)); there are two places, by the kernel's version of them.
func UnitActive(r host.Reader, unit string) bool {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/systemd"} {
		if _, err := r.ReadDir(root + "/system.slice/" + unit); err == nil {
			return true
		}
	}
	return false
}

// ReadManagers asks each manager's own files of its state. A namespace lab has none: whatever it sees
// there belongs to the machine that carries it.
func ReadManagers(r host.Reader, s *Snapshot) *Managers {
	m := &Managers{Claims: map[string]Claim{}}
	if s.System.Lab {
		return m
	}
	networkd, nm := UnitActive(r, "systemd-networkd.service"), UnitActive(r, "NetworkManager.service")
	m.ifupdown(r)
	if nm {
		m.Active = append(m.Active, NetworkManager)
		m.networkManager(r, s)
	}
	if networkd {
		m.Active = append(m.Active, Networkd)
		m.networkd(r, s)
	}
	m.netplan(r, nm && !networkd)
	// On desktops ifupdown is there for loopback alone, and leaves the rest to others.
	if _, err := r.ReadFile("/run/network/ifstate"); err == nil && (len(m.Active) == 0 || m.claimsBy(Ifupdown)) {
		m.Active = append(m.Active, Ifupdown)
	}
	slices.Sort(m.Active)
	return m
}

func (m *Managers) claimsBy(manager string) bool {
	for _, c := range m.Claims {
		if c.Manager == manager {
			return true
		}
	}
	return false
}

// netplan looks for netplan's files, which any of three folders may hold (netplan-generate(8)).
func (m *Managers) netplan(r host.Reader, onlyNM bool) {
	renderer := ""
	found := false
	for _, dir := range []string{"/lib/netplan", "/etc/netplan", "/run/netplan"} {
		for _, name := range filesIn(r, dir, ".yaml") {
			found = true
			if v := globalRenderer(text(r, path.Join(dir, name))); v != "" {
				renderer = v
			}
		}
	}
	if !found {
		return
	}
	m.Active = append(m.Active, Netplan)
	m.Behind = Networkd
	if renderer == "NetworkManager" || renderer == "" && onlyNM {
		m.Behind = NetworkManager
	}
}

// globalRenderer is the renderer of all links of a netplan file: the key that stands right below
// `network`, whose lines are the least indented after it. Ubuntu's installers write it so; where it
// is written otherwise, the active manager decides.
func globalRenderer(yaml string) string {
	depth := -1
	for line := range strings.Lines(yaml) {
		text := strings.TrimSpace(line)
		if text == "" || strings.HasPrefix(text, "#") || text == "network:" {
			continue
		}
		in := len(line) - len(strings.TrimLeft(line, " "))
		if depth < 0 {
			depth = in
		}
		if v, is := strings.CutPrefix(text, "renderer:"); is && in == depth {
			return strings.Trim(strings.TrimSpace(v), `"'`)
		}
	}
	return ""
}

// filesIn are a folder's files with that ending, sorted.
func filesIn(r host.Reader, dir, ending string) []string {
	names, err := r.ReadDir(dir)
	if err != nil {
		return nil // most managers are not there
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ending) || strings.HasPrefix(n, ".") })
}
