package netmanager

import (
	"context"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// Part is the part of a snapshot that says who configures the host's links.
const Part = facts.Part[Found]("network managers")

// Found says which managers configure the host's links at boot.
type Found struct {
	// Active lists the managers that would configure a link of ours, sorted. With a front, it includes the manager
	// behind it.
	Active []string `json:"active,omitempty"`
	// Idle lists managers that run but leave all links to others. Each can be chosen with network_manager.
	Idle []string `json:"idle,omitempty"`
	// Behind is the manager that configures new links of a front.
	Behind string `json:"behind,omitempty"`
	// Claims holds the links that a file configures, by name.
	Claims map[string]Claim `json:"claims,omitempty"`
	// InCharge lists the links that a manager manages, with or without a file.
	InCharge []string `json:"in_charge,omitempty"`
	// Orphans has the UUIDs of profiles by which a manager configures links, by link, although their files are gone: it has not read its files since.
	Orphans map[string]string `json:"orphans,omitempty"`
	// Deaf says for each manager why it would not read a file of ours.
	Deaf map[string]string `json:"deaf,omitempty"`

	renderer string // the renderer that a front's files name; "" if they name none
}

// Claim names the manager that configures a link, and its file.
type Claim struct {
	Manager string `json:"manager"`
	File    string `json:"file"`
	Exact   bool   `json:"exact,omitempty"` // the file names this link, rather than matching a pattern
}

// Gather reads the state files of each manager. It finds no managers in a namespace lab, because everything there
// belongs to the machine of the lab.
func Gather(ctx context.Context, r host.Reader, snap *facts.Snapshot) {
	if Part.Check(snap) == nil {
		return // another kind has read them
	}
	f := Found{Claims: map[string]Claim{}}
	if !snap.System.Lab {
		f.detect(ctx, r, snap.Links)
	}
	Part.Put(snap, f)
}

func (f *Found) detect(ctx context.Context, r host.Reader, links []host.Link) {
	var yield []*Manager
	front := false
	for _, m := range slices.Backward(All) {
		switch runs := m.Detect(ctx, r, links, f); {
		case runs && m.Yields:
			yield = append(yield, m)
		case runs:
			f.Active = append(f.Active, m.Name)
			front = front || m.Front
		}
	}
	f.assignToFronts()
	if front {
		f.Behind = f.behind()
	}
	for _, m := range yield {
		if len(f.Active) == 0 || f.claims(m.Name) {
			f.Active = append(f.Active, m.Name)
		} else {
			f.Idle = append(f.Idle, m.Name)
		}
	}
	slices.Sort(f.Active)
	slices.Sort(f.Idle)
}

// assignToFronts moves the claims of files that a front generated from the manager behind it to the front.
func (f *Found) assignToFronts() {
	for netdev, c := range f.Claims {
		for _, m := range All {
			if by := Lookup(c.Manager); m.Front && by.Behind != nil && m.Made(by.Behind, c.File) {
				c.Manager = m.Name
				f.Claims[netdev] = c
			}
		}
	}
}

// behind returns the manager that the front's files name, or else the one that runs.
func (f *Found) behind() string {
	var can []string
	for _, m := range All {
		if m.Behind == nil {
			continue
		}
		if m.Behind.Renderer == f.renderer {
			return m.Name
		}
		can = append(can, m.Name)
	}
	for _, name := range can {
		if slices.Contains(f.Active, name) {
			return name
		}
	}
	return can[0]
}

func (f *Found) claims(manager string) bool {
	for _, c := range f.Claims {
		if c.Manager == manager {
			return true
		}
	}
	return false
}

func (f *Found) orphan(netdev, id string) {
	if f.Orphans == nil {
		f.Orphans = map[string]string{}
	}
	f.Orphans[netdev] = id
}

func (f *Found) deaf(manager, why string) {
	if f.Deaf == nil {
		f.Deaf = map[string]string{}
	}
	f.Deaf[manager] = why
}

// unitActive reports whether a systemd service is running. systemd has a control group for each running service and
// removes it afterwards (systemd.resource-control(5)). Its place depends on the version of control groups.
func unitActive(ctx context.Context, r host.Reader, unit string) bool {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/systemd"} {
		if _, err := r.ReadDir(ctx, root+"/system.slice/"+unit); err == nil {
			return true
		}
	}
	return false
}

// filesIn returns the names of a folder's files that end in ending, sorted.
func filesIn(ctx context.Context, r host.Reader, dir, ending string) []string {
	names, err := r.ReadDir(ctx, dir)
	if err != nil {
		return nil // most managers are not installed
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ending) || strings.HasPrefix(n, ".") })
}
