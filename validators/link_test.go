package validators

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host"
)

// TestDifferentMTUsThatNobodyDeclared: an apply would not change them, so the cure is to declare one.
func TestDifferentMTUsThatNobodyDeclared(t *testing.T) {
	for declared, want := range map[int]bool{0: true, 9000: false} {
		end := func(name string, mtu int) side {
			return side{host: name, nic: "rail0", spec: &fabric.NIC{MTU: declared}, link: &host.Link{MTU: mtu}}
		}
		tr := &trial{run: &run{}, path: fabric.Path{Name: "l"}, ends: [2]side{end("a", 9000), end("b", 1500)}}
		if got := tr.mtus(); got.Verdict != Fail || strings.HasPrefix(got.Cure, "the files declare no MTU for these ports: set mtu in their link or network, then run ") != want {
			t.Errorf("declared %d: %+v", declared, got)
		}
	}
}
