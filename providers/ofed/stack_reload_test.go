package ofed

import (
	"context"
	"reflect"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// rdmaUsed is a tree with a process that has an RDMA device open, and counts who asks.
type rdmaUsed struct {
	tree
	asked *int
}

func (r rdmaUsed) RDMAUsers(context.Context, string) ([]host.RDMAUser, error) {
	*r.asked++
	return []host.RDMAUser{{Name: "opensm", PID: 812, File: "/dev/infiniband/umad0"}}, nil
}

func TestWhoIsInTheWayOfAReloadIsReadWhereItMatters(t *testing.T) {
	loaded := map[string]string{"/sys/module/mlx5_core/srcversion": "ABC\n", reloadConfig: "# ALLOW_STOP=yes\nONBOOT=yes\nALLOW_STOP=\"no\"\n",
		"/sys/bus/pci/drivers/mlx5_core/bind": "", "/sys/bus/pci/drivers/mlx5_core/0000:17:00.1/sriov_numvfs": "4\n", "/sys/bus/pci/drivers/mlx5_core/0000:17:00.0/sriov_numvfs": "0\n",
		"/sys/bus/pci/drivers/mlx4_core/0000:03:00.0/sriov_numvfs": "1\n", "/sys/bus/pci/drivers/mlx5_core/0000:17:00.2/vendor": "0x15b3\n"}
	all := &Reload{Users: []host.RDMAUser{{Name: "opensm", PID: 812, File: "/dev/infiniband/umad0"}}, Functions: []string{"0000:03:00.0", "0000:17:00.1"}, Forbidden: true}
	for name, c := range map[string]struct {
		files map[string]string
		needs needs
		want  *Reload
	}{
		"asked for":           {loaded, needs{Full: true, Vendor: MLNXOFED, Reload: true}, all},
		"no reload":           {loaded, needs{Full: true, Vendor: MLNXOFED}, nil},
		"no driver is loaded": {nil, needs{Full: true, Vendor: MLNXOFED, Reload: true}, nil},
		"nobody else": {map[string]string{"/sys/module/ib_core/srcversion": ""}, needs{Reload: true},
			&Reload{Users: all.Users}},
	} {
		asked := 0
		got := readStack(t.Context(), rdmaUsed{files(t, c.files), &asked}, facts.System{}, &c.needs).Reload
		if !reflect.DeepEqual(got, c.want) || (asked > 0) != (c.want != nil) {
			t.Errorf("%s: %+v, asked %d times", name, got, asked)
		}
	}
}

func TestOpenibdMayBeForbiddenToUnload(t *testing.T) {
	for config, forbidden := range map[string]bool{"": false, "ALLOW_STOP=yes\n": false, "ALLOW_STOP='yes' # as it was": false, "ALLOW_STOP=": false, "ALLOW_STOP=no\n": true, "export ALLOW_STOP=no": true,
		"ALLOW_STOP=no\nALLOW_STOP=yes": false, "#ALLOW_STOP=no": false, "ALLOW_STOP=YES": true, "DISALLOW_STOP=no": false} {
		if got := stopForbidden(config); got != forbidden {
			t.Errorf("%q: %v", config, got)
		}
	}
}
