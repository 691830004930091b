package ofed

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// Reload is who is in the way of a driver's reload, beside modules that hold it.
type Reload struct {
	Users     []host.RDMAUser `json:"users,omitempty"`     // processes that have a file of /dev/infiniband open
	Functions []string        `json:"functions,omitempty"` // PCI functions of the driver that have virtual functions
	Forbidden bool            `json:"forbidden,omitempty"` // reloadConfig forbids openibd to unload the driver
}

// reloadConfig is openibd's own.
const reloadConfig = "/etc/infiniband/openib.conf"

func stackReload(ctx context.Context, r host.Reader) *Reload {
	s := &Reload{Forbidden: stopForbidden(host.Text(ctx, r, reloadConfig))}
	if users, err := r.RDMAUsers(ctx, ""); err == nil { // else openibd finds them
		s.Users = users
	}
	for _, driver := range []string{"mlx4_core", "mlx5_core"} {
		dir := path.Join("/sys/bus/pci/drivers", driver)
		entries, err := r.ReadDir(ctx, dir)
		if err != nil {
			continue // not loaded
		}
		for _, e := range entries { // its functions, and files of the driver's own
			if n, err := strconv.Atoi(host.Text(ctx, r, path.Join(dir, e, "sriov_numvfs"))); err == nil && n > 0 {
				s.Functions = append(s.Functions, e)
			}
		}
	}
	slices.Sort(s.Functions)
	return s
}

// stopForbidden reads ALLOW_STOP, which is yes where it is not there. The file is a shell's: the last line
// that sets it holds.
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
