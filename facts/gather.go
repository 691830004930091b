package facts

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/process"
)

// tableLocal is the kernel's own table of local and broadcast addresses (RT_TABLE_LOCAL). It follows from the
// addresses, so snapshots leave it out.
const tableLocal = 255

// Gather reads the common facts of a snapshot. by is the operator's connection.
func Gather(ctx context.Context, r host.Reader, by Connection) (*Snapshot, error) {
	s := &Snapshot{Sysctls: map[string]string{}}
	var err error
	if s.Links, err = r.Links(ctx); err != nil {
		return nil, err
	}
	if s.Addrs, err = r.Addrs(ctx); err != nil {
		return nil, err
	}
	routes, err := r.Routes(ctx)
	if err != nil {
		return nil, err
	}
	for _, route := range routes {
		if route.Table != tableLocal && !route.Dst.Addr().IsMulticast() {
			s.Routes = append(s.Routes, route)
		}
	}
	if s.Rules, err = r.Rules(ctx); err != nil {
		return nil, err
	}
	s.System = system(ctx, r)
	if s.RDMA, err = rdma(ctx, r); err != nil {
		return nil, err
	}
	s.Management = management(ctx, r, s, by)
	return s, nil
}

// ReadSysctls reads sysctls by their paths below /proc/sys. Keys that the host does not have stay absent.
func (s *Snapshot) ReadSysctls(ctx context.Context, r host.Reader, paths ...string) {
	for _, path := range paths {
		v, err := r.Sysctl(ctx, path)
		// A key may be missing, write-only, or unset (stable_secret answers EIO). The provider reports a key that it
		// needs.
		if err == nil {
			s.Sysctls[path] = v
		}
	}
}

// LinkSysctl returns the path below /proc/sys of a per-interface key: "ipv4.conf.arp_ignore" on eth0 is
// net/ipv4/conf/eth0/arp_ignore. Interface names may hold dots, so only dots of the key become slashes.
func LinkSysctl(key, netdev string) string {
	parts := strings.Split(key, ".")
	last := len(parts) - 1
	return "net/" + strings.Join(parts[:last], "/") + "/" + netdev + "/" + parts[last]
}

func system(ctx context.Context, r host.Reader) System {
	s := System{Arch: runtime.GOARCH, Lab: inLab(r), OS: osName(host.Text(ctx, r, "/etc/os-release"))}
	s.Hostname = host.Text(ctx, r, "/proc/sys/kernel/hostname")
	s.Kernel = host.Text(ctx, r, "/proc/sys/kernel/osrelease")
	s.BootID = host.Text(ctx, r, "/proc/sys/kernel/random/boot_id")
	s.Congestion = host.Text(ctx, r, "/proc/sys/net/ipv4/tcp_congestion_control")
	return s
}

// inLab asks a reader that knows whether its machine is a lab's, and otherwise looks at this program's namespaces.
func inLab(r host.Reader) bool {
	if m, ok := r.(interface{ InLab() bool }); ok {
		return m.InLab()
	}
	return process.InLab()
}

func osName(release string) string {
	for line := range strings.Lines(release) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// String describes the host on one line.
func (s System) String() string {
	return fmt.Sprintf("%s (%s, kernel %s, %s)", s.Hostname, s.OS, s.Kernel, s.Arch)
}
