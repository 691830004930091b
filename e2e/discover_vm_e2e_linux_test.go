package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDiscoverInVirtualMachines: four cables of two machines with kernels and NICs of their own are found, one of them exchanged. How long that takes
// is a figure.
func TestDiscoverInVirtualMachines(t *testing.T) {
	e2e(t)
	text := "fabric \"four\" {}\n"
	for i, host := range []string{"a", "b"} {
		text += fmt.Sprintf("host %q {\n  address = \"10.0.0.1%d\"\n", host, i+1)
		for n := range 4 {
			text += fmt.Sprintf("  nic \"rail%d\" { netdev = \"eth%d\" }\n", n, n+1)
		}
		text += "}\n"
	}
	for a, b := range []int{0, 1, 3, 2} {
		text += fmt.Sprintf("link \"cable%d\" { endpoints = [host.a.nic.rail%d, host.b.nic.rail%d] }\n", a, a, b)
	}
	fabric := filepath.Join(t.TempDir(), "fabric.hcl")
	if err := os.WriteFile(fabric, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	state := vmLabFor(t, fabric)
	for _, host := range []string{"a", "b"} {
		inside(t, state, fabric, host, "sh", "-ec", "for n in 1 2 3 4; do ip link set eth$n up; done; until [ $(cat /sys/class/net/eth[1234]/carrier | grep -c 1) = 4 ]; do sleep 0.1; done")
	}
	began := time.Now()
	a := try(t, state, "discover", "-lab", "-listen=1s", fabric)
	t.Logf("figure: 4 cables of virtual machines found in %.1f s, with the logins and 1 s of listening", time.Since(began).Seconds())
	a.want(t, 0, "Direct cables\n  ✓ a:eth1 – b:eth1\n  ✓ a:eth2 – b:eth2\n  ✓ a:eth3 – b:eth4\n  ✓ a:eth4 – b:eth3\n")
	if strings.Contains(a.out, "Nothing heard") || strings.Contains(a.out, "Unclear") {
		t.Error("more than the cables was found")
	}
}
