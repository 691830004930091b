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
	"github.com/fabricform/fabricform/resource"
)

// linkSysctls are the folders of the per-link keys. The kernel deletes those of IPv6 when the MTU falls below
// 1280, and later creates them again with its defaults.
var linkSysctls = []string{"net/ipv4/conf", "net/ipv4/neigh", "net/ipv6/conf", "net/ipv6/neigh"}

// otherUnits are keys that repeat another key in a coarser unit (net/core/neighbour.c), and one that is read-only.
var otherUnits = []string{"base_reachable_time", "retrans_time", "unres_qlen", "mc_forwarding"}

// readSysctls reads the named keys and all keys of the links. It skips keys that cannot be read because they
// were never set (stable_secret).
func readSysctls(ctx context.Context, r host.Reader, at reached) ([]backupSysctl, error) {
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
	var out []backupSysctl
	for _, p := range slices.Compact(paths) {
		if v, err := r.Sysctl(ctx, p); err == nil {
			out = append(out, backupSysctl{p, v})
		}
	}
	return out, nil
}

// asNew reports whether a key of a bond or VLAN that the atoms remove has the value of a new device: it has this value again when the device is
// made again.
func asNew(ctx context.Context, r host.Reader, s backupSysctl, atoms []resource.Atom) bool {
	parts := strings.Split(s.Path, "/")
	if len(parts) != 5 || !slices.ContainsFunc([]string{KindBond, KindVLAN}, func(kind string) bool {
		return slices.Contains(atoms, deviceAtom(kind, parts[3], attrDevice, ""))
	}) {
		return false
	}
	parts[3] = "default"
	value, err := r.Sysctl(ctx, strings.Join(parts, "/"))
	return err == nil && sameSysctl(value, s.Value)
}

// turn orders writes: keys that the kernel copies to other keys come before those, and disable_ipv6, which
// removes everything of IPv6, comes before the other IPv6 keys.
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

// sysctlDiffers returns the live value and whether it differs from the one in the backup. An absent key differs.
func sysctlDiffers(ctx context.Context, r host.Reader, s backupSysctl) (now string, differs bool) {
	now, err := r.Sysctl(ctx, s.Path)
	if err != nil {
		return "absent", true
	}
	return now, !sameSysctl(now, s.Value)
}
