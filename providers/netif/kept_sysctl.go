package netif

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// linkSysctls are the folders of a link's own keys. The kernel throws IPv6's away when the MTU falls
// below 1280, and makes them anew with its defaults.
var linkSysctls = []string{"net/ipv4/conf", "net/ipv4/neigh", "net/ipv6/conf", "net/ipv6/neigh"}

// otherUnits are keys that say what another one says, in a coarser unit (net/core/neighbour.c), and
// one that nobody can write.
var otherUnits = []string{"base_reachable_time", "retrans_time", "unres_qlen", "mc_forwarding"}

// readSysctls reads the named keys and all of the links'. A key that cannot be read, because it was
// never set (stable_secret), is left out.
func readSysctls(ctx context.Context, r host.Reader, at reached) ([]keptSysctl, error) {
	paths := slices.Clone(at.sysctls)
	for _, l := range at.links {
		for _, dir := range linkSysctls {
			keys, err := r.ReadDir(ctx, path.Join("/proc/sys", dir, l.Name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // IPv6 is off, or the MTU is below 1280
			}
			if err != nil {
				return nil, fmt.Errorf("list the sysctls of %s: %w", l.Name, err)
			}
			for _, key := range keys {
				if !slices.Contains(otherUnits, key) {
					paths = append(paths, path.Join(dir, l.Name, key))
				}
			}
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		if d := turn(a) - turn(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var out []keptSysctl
	for _, p := range slices.Compact(paths) {
		if v, err := r.Sysctl(ctx, p); err == nil {
			out = append(out, keptSysctl{p, v})
		}
	}
	return out, nil
}

// turn orders writes: what is copied to others before them, and IPv6's switch, which takes all of
// it along, before what it would take.
func turn(p string) int {
	switch {
	case p == "net/ipv4/ip_forward":
		return 0
	case strings.Contains(p, "/conf/all/"):
		return 1
	case strings.HasSuffix(p, "/disable_ipv6"):
		return 2
	case strings.HasSuffix(p, "/forwarding"): // resets redirects and the like
		return 3
	}
	return 4
}

// sysctlDiffers tells the live value; ok is false where it is as it was. An absent key differs.
func sysctlDiffers(ctx context.Context, r host.Reader, s keptSysctl) (now string, differs bool) {
	now, err := r.Sysctl(ctx, s.Path)
	if err != nil {
		return "absent", true
	}
	return now, !sameSysctl(now, s.Value)
}
