//go:build linux

package checkpoint

import (
	"testing"

	"github.com/fabricform/fabricform/resource"
)

// TestAMemberThatTheApplyTookAwayIsItsOwn: a bond is the transaction's by an atom that it had before, too. A revert puts the member back, and
// that overwrites nobody's change.
func TestAMemberThatTheApplyTookAwayIsItsOwn(t *testing.T) {
	bond := func(members ...string) map[string]*resource.Item {
		i := &resource.Item{Key: "bond b0"}
		for _, m := range members {
			i.State += m
			i.Others = append(i.Others, resource.NewAtom("bond", "b0", "member["+m+"]"))
		}
		return map[string]*resource.Item{i.Key: i}
	}
	for atom, foreign := range map[string]bool{"member[eth2]": false, "member[eth9]": true} {
		m := merge{backup: &Backup{Path: &ManagementPath{}, Atoms: []resource.Atom{resource.NewAtom("bond", "b0", atom)}}, before: bond("eth1", "eth2"), now: bond("eth1")}
		if got := m.foreign("bond b0"); got != foreign {
			t.Errorf("%s: foreign is %v", atom, got)
		}
	}
}
