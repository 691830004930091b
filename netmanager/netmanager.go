// Package netmanager is the table of network managers. Each is one file and one row of All: how our
// files say what is declared in its words, how its own parser checks them, how it reads them again, and
// what it does to a NIC meanwhile. Other rooms ask the row and know no manager's name.
package netmanager

import (
	"context"
	"slices"

	"github.com/fabricform/fabricform/host"
)

// All is every network manager that files are written for. Managers read files again in this order, and
// a front comes before those that it writes for.
var All = []*Manager{netplan, networkd, networkManager, ifupdown, ifcfg}

// Manager is one network manager. A function that is nil has nothing to do.
type Manager struct {
	Name  string // as `network_manager` writes it
	Title string // as messages write it; "": Name

	// Detect says whether it runs, and adds what it configures to what was found. It is asked after those
	// that stand behind it in All, so that its claims replace theirs.
	Detect func(ctx context.Context, r host.Reader, links []host.Link, f *Found) bool
	// Yields: it leaves NICs that none of its files names to others, where others run.
	Yields bool

	// Folder is where it reads files of ours.
	Folder string
	// File is the path of our file for a NIC; one file may be for several NICs.
	File func(Link) string
	// Stem is the part of that file's name by which it is known as ours; nil: Link.Stem.
	Stem func(Link) string
	// Render writes the files for all NICs of a fabric that it keeps, of which there is at least one.
	Render func([]Link) []File
	// Holds says whether our file's text is for that NIC, too; nil: a file is for one NIC.
	Holds func(l Link, text string) bool
	// Scripts is a folder of programs that it runs when something happens; "": none.
	Scripts string
	// Script is the program of ours there, for the NICs that it configures; false: none is needed.
	Script func(fabric string, ls []Link) (File, bool)

	// Check asks its own parser about all of our files in Folder, beside what others wrote; nil: it has
	// no parser that can be asked.
	Check func(ctx context.Context, h Asker, wanted []File) error
	// Notes say what it cannot keep of a NIC that it configures.
	Notes func(Link) []string

	// Reload makes it read its files again; nil: it reads them when it is called, at boot.
	Reload []string
	// Unit is its service.
	Unit string
	// Front is a manager that writes files for others, which configure the NICs.
	Front bool
	// Made says whether a front made a file of the manager behind it.
	Made func(behind *Behind, file string) bool
	// Behind is what a front must know of it; nil: no front writes for it.
	Behind *Behind

	// Takes is the file by which it says that it configures a NIC; nil: it does not say.
	Takes func(Link) string
	// Waits says whether it leaves a NIC alone for now, whatever file it has for it.
	Waits func(Link) bool
	// Done says whether it has finished configuring a link; nil: it has once it names the file.
	Done func(context.Context, host.Reader, host.Link) bool
	// Activate has it configure a NIC by our file where it uses another one.
	Activate func(context.Context, host.Host, Link) error
	// Manage has it look after a NIC, or keep off it until the next boot; nil: it never touches a NIC that
	// no file names.
	Manage func(ctx context.Context, h host.Host, netdev string, yes bool) error
	// Fences: its files keep a manager with Manage off their NICs, from the next boot on.
	Fences bool

	// FirstFile: of all files that match a NIC, it reads the first by name.
	FirstFile bool
	// DropsForeign: when it takes a NIC over, it deletes routes and rules that it did not make and that do
	// not carry the protocol that it would give them.
	DropsForeign bool
	// NoProtocol: its files cannot say a route's protocol.
	NoProtocol bool
	// Drops are the NICs that it stops to configure, and empties, when our file changes from was to now;
	// "" is no file.
	Drops func(was, now string) []string
}

// Behind is how a manager configures NICs by files that a front made for it.
type Behind struct {
	// Renderer is its name in the front's files.
	Renderer string
	// Folder is where the front's files for it are; their names begin and end so.
	Folder, Before, After string
	// Off is the front's word for a NIC that is to stay down.
	Off string
	// KeepsAddresses: it can keep addresses on a NIC without a carrier.
	KeepsAddresses bool
	// NeedsMetric: it has metrics of its own for routes without one.
	NeedsMetric bool
	// EUI64Needs6: it takes an address generation mode only for NICs with IPv6 addresses.
	EUI64Needs6 bool
}

// Lookup returns the manager of that name; nil where there is none.
func Lookup(name string) *Manager {
	if i := slices.IndexFunc(All, func(m *Manager) bool { return m.Name == name }); i >= 0 {
		return All[i]
	}
	return nil
}

// String is the manager's name in messages.
func (m *Manager) String() string {
	if m.Title != "" {
		return m.Title
	}
	return m.Name
}

// Of are the files that lie in the manager's folder.
func (m *Manager) Of(files []File) []File { return in(files, m.Folder) }

// Reload makes managers read their files again, and with a front those that run behind it. None is
// restarted, and no link is brought down or up.
func Reload(ctx context.Context, h host.Host, read map[*Manager]bool) error {
	for _, m := range All {
		if m.Front && read[m] {
			for _, behind := range All {
				read[behind] = read[behind] || behind.Behind != nil && unitActive(ctx, h, behind.Unit)
			}
		}
	}
	for _, m := range All {
		if !read[m] || m.Reload == nil {
			continue
		}
		if err := Run(ctx, h, m.Reload...); err != nil {
			return err
		}
	}
	return nil
}
