package netif

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// SysctlStatus is a found sysctl.
type SysctlStatus struct{ Value string }

type sysctl struct{}

// Path returns the path of the key below /proc/sys: net/ipv4/ip_forward for "net.ipv4.ip_forward". The first separator
// decides, as in sysctl(8), so that interface names may have dots: net/ipv4/conf/eth0.100/arp_ignore is a path already,
// and net.ipv4.conf.eth0/100.arp_ignore is its other form.
func (s SysctlSpec) Path() string {
	if i := strings.IndexAny(s.Key, "./"); i >= 0 && s.Key[i] == '/' {
		return s.Key
	}
	return sysctlName(s.Key)
}

// sysctlName returns the name that sysctl(8) prints for a path below /proc/sys: net.ipv4.ip_forward. A dot in the name
// of an interface becomes a slash, so that names are unique: net.ipv4.conf.eth0/100.arp_ignore.
func sysctlName(path string) string { return strings.NewReplacer("/", ".", ".", "/").Replace(path) }

// Gather reads the keys.
func (sysctl) Gather(ctx context.Context, r host.Reader, look resource.Look[SysctlSpec]) error {
	for _, want := range look.Wants {
		look.Snapshot.ReadSysctls(ctx, r, want.Path())
	}
	for _, a := range look.Atoms {
		look.Snapshot.ReadSysctls(ctx, r, a.Thing())
	}
	return nil
}

// Observe reads the key. It returns an error if the host lacks it.
func (sysctl) Observe(snap *facts.Snapshot, want SysctlSpec) (*SysctlStatus, error) {
	if path.Clean(want.Path()) != want.Path() {
		return nil, fmt.Errorf("sysctl %q: write the key as %s", want.Key, path.Clean(want.Path()))
	}
	v, ok := snap.Sysctls[want.Path()]
	if !ok {
		return nil, fmt.Errorf("sysctl %q: the host has no /proc/sys/%s: check the key, and whether its kernel module is loaded",
			want.Key, want.Path())
	}
	return &SysctlStatus{Value: v}, nil
}

// Diff compares the values without regard to white space.
func (sysctl) Diff(want SysctlSpec, got *SysctlStatus) []resource.Change {
	if got == nil || sameSysctl(got.Value, want.Value) {
		return nil
	}
	return []resource.Change{{Attribute: "value", From: got.Value, To: want.Value, Atom: resource.NewAtom(KindSysctl, want.Path())}}
}

// Present returns the value.
func (sysctl) Present(want SysctlSpec, got *SysctlStatus) map[resource.Atom]string {
	return map[resource.Atom]string{resource.NewAtom(KindSysctl, want.Path()): got.Value}
}

// Apply writes the key.
func (sysctl) Apply(_ context.Context, h host.Host, want SysctlSpec, changes []resource.Change) error {
	for range changes {
		if err := h.SetSysctl(want.Path(), want.Value); err != nil {
			return err
		}
	}
	return nil
}

// Touches refuses the keys that can interrupt a connection: disabling IPv6, and a reverse path filter on the
// management path.
func (sysctl) Touches(snap *facts.Snapshot, want SysctlSpec, _ []resource.Change) string {
	m := snap.Management
	if m.Unknown != "" && strings.HasPrefix(want.Path(), "net/") {
		return unknownPath(snap)
	}
	if !m.Client.IsValid() {
		return ""
	}
	parts := strings.Split(want.Path(), "/")
	if len(parts) != 5 || parts[0] != "net" || parts[2] != "conf" {
		return ""
	}
	risky := parts[4] == "disable_ipv6" && m.Client.Is6() || parts[4] == "rp_filter" || parts[4] == "arp_ignore"
	if onManagement(snap, parts[3]) || parts[3] == "all" && risky && parts[4] != "arp_ignore" {
		return fmt.Sprintf("%s affects the device that carries your %s (%s)", sysctlName(want.Path()), m.Connection(),
			strings.Join(m.Devices, ", "))
	}
	return ""
}
