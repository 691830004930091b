// Package netmanager is the table of network managers. Each is one file and one row of All, which says how to write
// its files, how to check them with its own parser, how to reload them, and how a reload affects a NIC. Other
// packages use the row and do not depend on the name of a manager.
package netmanager

import (
	"context"
	"slices"

	"github.com/fabricform/fabricform/host"
)

// All lists the supported network managers. They reload in this order, and a front comes before the managers that it
// writes files for.
var All = []*Manager{netplan, networkd, networkManager, ifupdown, ifcfg}

// Manager is one network manager. A nil function means that there is nothing to do.
type Manager struct {
	Name  string // as `network_manager` writes it
	Title string // as messages write it; "": Name

	// Detect reports whether the manager is running, and adds its claims to Found. Later rows of All run first, so that
	// the claims of a front replace those of the managers behind it.
	Detect func(ctx context.Context, r host.Reader, links []host.Link, f *Found) bool
	// Yields says that the manager leaves NICs without a file of its own to other running managers.
	Yields bool

	// Folder is the folder from which the manager reads our files.
	Folder string
	// File returns the path of our file for a NIC; several NICs may share a file.
	File func(Link) string
	// Stem returns the part of the file name that identifies the file as ours; nil for Link.Stem.
	Stem func(Link) string
	// Render returns the files for all NICs of a fabric that the manager configures. There is at least one NIC.
	Render func([]Link) []File
	// Holds reports whether the text of our file includes that NIC; nil if each NIC has its own file.
	Holds func(l Link, text string) bool
	// Scripts is a folder of programs that the manager runs on events; "" if there is none.
	Scripts string
	// Script returns our program in that folder, for the NICs that the manager configures; false if none is needed.
	Script func(fabric string, ls []Link) (File, bool)

	// VLANsBelow says that the file of a NIC names the VLANs on it, so that a VLAN needs our file for the NIC below it.
	VLANsBelow bool

	// MapsLost says that the manager has no setting for a VLAN's map of priorities, or that some of its releases ignore a part of it: a udev rule
	// sets the map.
	MapsLost bool

	// Stanzas returns the first and the last lines of all that a file says of links, by the names that it has for them; nil if the manager
	// has a file for each link.
	Stanzas func(text string, names []string) [][2]int

	// Check runs the manager's parser on all our files in Folder together with the files of others; nil if there is no
	// such parser.
	Check func(ctx context.Context, h Asker, wanted []File) error
	// Notes describes the settings of a NIC that the manager cannot persist.
	Notes func(Link) []string

	// Reload is the command that makes the manager read its files again; nil if it reads them only when it is called,
	// at boot.
	Reload []string
	// Restarts reports whether the manager must be restarted to read that file of ours, because it makes devices that exist already; nil if a
	// reload always does.
	Restarts func(path, text string) bool
	// Load makes the manager read only the files that follow, and forget those that are gone; nil if it cannot.
	Load []string
	// Profiles returns the profiles in our file that the manager, or the one behind it, keeps in memory when the file is gone, until it reads its
	// files again; nil if it has none.
	Profiles func(path, text string) []Profile
	// Unit is the manager's systemd service.
	Unit string
	// Front says that the manager writes files for other managers, which configure the NICs.
	Front bool
	// Made reports whether the front generated that file of the manager behind it.
	Made func(behind *Behind, file string) bool
	// Behind describes the manager to a front; nil if no front writes files for it.
	Behind *Behind

	// Reports returns the file that the manager should report for a NIC; nil if it does not report files.
	Reports func(Link) string
	// Waits reports whether the manager does not configure a NIC yet, whatever its files say.
	Waits func(Link) bool
	// Done reports whether the manager has finished configuring a link; nil if it has finished when it reports the
	// file.
	Done func(context.Context, host.Reader, host.Link) bool
	// Activate makes the manager configure a NIC by our file if it uses another one.
	Activate func(context.Context, host.Host, Link) error
	// Manage makes the manager manage a NIC, or release it until the next boot; nil if it never touches a NIC without a
	// file.
	Manage func(ctx context.Context, h host.Host, netdev string, yes bool) error
	// Remakes says that a bond or VLAN exists as long as the manager has files for it: if somebody removes the device, the manager makes it
	// again with its members, and when the files are gone, it removes the device.
	Remakes bool
	// Excludes says that from the next boot on, the manager's files exclude their NICs from a manager with Manage.
	Excludes bool

	// FirstFile says that the manager reads only the first file, by name, that matches a NIC.
	FirstFile bool
	// DropsForeign says that when the manager takes over a NIC, it deletes routes and rules that it did not add, unless
	// they have the protocol that it would give them.
	DropsForeign bool
	// NoProtocol says that the manager's files cannot set the protocol of a route.
	NoProtocol bool
	// Drops returns the NICs whose configuration the manager removes when our file changes from was to now; "" means no
	// file.
	Drops func(was, now string) []string
}

// Profile is what our file has of one link for a manager that knows its links by profiles.
type Profile struct {
	Netdev    string
	File      string // from which the manager reads the profile; a front generated it
	UUID      string // "" if the manager gives it one
	Addresses []string
	LinkLocal string // see Link.LinkLocal
	Device    string // the kind of the device that the manager makes by the profile; "" for a NIC
	Port      bool   // it makes the link a member of a bond
}

// Behind says how a manager configures NICs by files that a front generated.
type Behind struct {
	// Renderer is the manager's name in the front's files.
	Renderer string
	// Folder holds the files that the front generates; Before and After are the prefix and suffix of their names.
	Folder, Before, After string
	// Off is the front's value for a NIC that must stay down.
	Off string
	// KeepsAddresses says that the manager can keep addresses on a NIC without a carrier.
	KeepsAddresses bool
	// NeedsMetric says that the manager's default metrics differ from the kernel's.
	NeedsMetric bool
	// Passes says that the front writes keys that it does not know into the manager's files as they are.
	Passes bool
	// EUI64Needs6 says that the manager accepts an address generation mode only for NICs with IPv6 addresses.
	EUI64Needs6 bool
}

// Lookup returns the manager of that name; nil if there is none.
func Lookup(name string) *Manager {
	if i := slices.IndexFunc(All, func(m *Manager) bool { return m.Name == name }); i >= 0 {
		return All[i]
	}
	return nil
}

// Remakes reports whether a manager runs that makes devices again.
func Remakes(ctx context.Context, r host.Reader) bool {
	return slices.ContainsFunc(All, func(m *Manager) bool { return m.Remakes && unitActive(ctx, r, m.Unit) })
}

// String returns the manager's name in messages.
func (m *Manager) String() string {
	if m.Title != "" {
		return m.Title
	}
	return m.Name
}

// Of returns the files in the manager's folder.
func (m *Manager) Of(files []File) []File { return in(files, m.Folder) }

// Reload makes managers read their files again, including the managers behind a front, and takes no link down or up. It restarts those of
// restart that have files of devices, and the others not. Those of load read only the files there.
func Reload(ctx context.Context, h host.Host, read, restart map[*Manager]bool, load map[*Manager][]string) error {
	for _, m := range All {
		if m.Front && read[m] {
			for _, behind := range All {
				active := behind.Behind != nil && unitActive(ctx, h, behind.Unit)
				read[behind] = read[behind] || active
				if restart[m] && active && behind.Restarts != nil {
					restart[behind] = true
				}
			}
		}
	}
	for _, m := range All {
		command := m.Reload
		if restart[m] && !m.Front {
			command = []string{"systemctl", "restart", m.Unit}
		}
		if files, only := load[m]; only {
			command = append(slices.Clone(m.Load), files...)
			if len(files) == 0 {
				continue
			}
		}
		if !read[m] || command == nil {
			continue
		}
		if err := Run(ctx, h, command...); err != nil {
			return err
		}
	}
	return nil
}
