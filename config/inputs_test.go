package config

import (
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestCommandsInMessagesHideSensitiveVariables: also one whose name was given with spaces around it.
func TestCommandsInMessagesHideSensitiveVariables(t *testing.T) {
	inputs := []Input{{Var: "psk = hunter2"}, {Var: "psk=hunter2"}, {Var: "mtu=9000"}, {File: "site.fabricvars"}}
	i := fabric.Invocation{Flags: Flags(inputs, []string{"psk"}), Path: "f.hcl"}
	if got := inputsOf(i.Flags); len(got) != 2 {
		t.Errorf("a placeholder counts as a value: %+v", got)
	}
	if got, want := i.Hint("plan"), "`fabricform plan -var=psk=… -var=mtu=9000 -var-file=site.fabricvars f.hcl`"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
