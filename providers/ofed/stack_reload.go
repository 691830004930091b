package ofed

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// Reload lists what prevents a reload of the driver, except modules that hold it.
type Reload struct {
	Users     []host.RDMAUser `json:"users,omitempty"`     // processes with an open file in /dev/infiniband
	Functions []string        `json:"functions,omitempty"` // PCI functions of the driver with virtual functions
	Forbidden bool            `json:"forbidden,omitempty"` // reloadConfig forbids openibd to unload the driver
}

// reloadConfig is the configuration file of openibd.
const reloadConfig = "/etc/infiniband/openib.conf"

func stackReload(ctx context.Context, r host.Reader) *Reload {
	s := &Reload{Forbidden: stopForbidden(host.Text(ctx, r, reloadConfig))}
	if users, err := r.RDMAUsers(ctx, ""); err == nil { // on an error, openibd finds them later
		s.Users = users
	}
	for _, driver := range []string{"mlx4_core", "mlx5_core"} {
		dir := path.Join("/sys/bus/pci/drivers", driver)
		entries, err := r.ReadDir(ctx, dir)
		if err != nil {
			continue // not loaded
		}
		for _, e := range entries { // PCI functions, and other files of the driver
			if n, err := strconv.Atoi(host.Text(ctx, r, path.Join(dir, e, "sriov_numvfs"))); err == nil && n > 0 {
				s.Functions = append(s.Functions, e)
			}
		}
	}
	slices.Sort(s.Functions)
	return s
}

// stopForbidden reports whether ALLOW_STOP forbids openibd to unload the driver. The default is yes. A shell reads
// the file, so the last line that sets it counts.
func stopForbidden(config string) bool {
	allow := "yes"
	for line := range strings.Lines(config) {
		line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), " #")
		if value, ok := strings.CutPrefix(line, "ALLOW_STOP="); ok {
			allow = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return allow != "" && allow != "yes"
}
