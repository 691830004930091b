package netns

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestALabOfNamespacesNamesTheCommandForLACP: a whole command, which the command line completes.
func TestALabOfNamespacesNamesTheCommandForLACP(t *testing.T) {
	f := &fabric.Fabric{Hosts: []*fabric.Host{{Name: "a", NICs: []*fabric.NIC{{Name: "b0", Bond: &fabric.Bond{Mode: "802.3ad"}}}}}}
	if err := canMake(nil, f); err == nil || !strings.HasSuffix(err.Error(), "use `fabricform lab up -backend vm`") {
		t.Error(err)
	}
}
