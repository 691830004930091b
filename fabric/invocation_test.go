package fabric

import "testing"

// TestCommandsCanBePasted: with what named the fabric, and quoted.
func TestCommandsCanBePasted(t *testing.T) {
	for _, c := range []struct {
		of    Invocation
		words []string
		want  string
	}{
		{Invocation{}, []string{"confirm"}, "fabricform confirm"},
		{Invocation{Path: "."}, []string{"confirm"}, "fabricform confirm"},
		{Invocation{Flags: []string{"-lab"}, Path: "my-fabric/"}, []string{"destroy", "-host", "gpu03"}, "fabricform destroy -host gpu03 -lab my-fabric/"},
		{Invocation{Flags: []string{"-lab=pair", "-var=mtu=9000", "-var=name=two words"}, Path: "it's here.hcl"}, []string{"plan"}, `fabricform plan -lab=pair -var=mtu=9000 '-var=name=two words' 'it'\''s here.hcl'`},
		{Invocation{Flags: []string{"-var=x=$(id)"}, Path: "-odd.hcl"}, []string{"plan"}, "fabricform plan '-var=x=$(id)' ./-odd.hcl"},
		{Invocation{Path: "a\n\x1b[2J\u202e'\\.hcl"}, []string{"plan"}, `fabricform plan $'a\x0a\x1b[2J\xe2\x80\xae\'\\.hcl'`},
	} {
		if got := c.of.Command(c.words...); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// TestMessagesOfHostsAreFilled: a host does not know how the operator named the fabric.
func TestMessagesOfHostsAreFilled(t *testing.T) {
	by := Invocation{Flags: []string{"-lab=pair", "-var=n=1"}, Path: "f.hcl"}
	for message, want := range map[string]string{
		"fix it, or run `fabricform rollback`":       "fix it, or run `fabricform rollback -lab=pair -var=n=1 f.hcl`",
		"`fabricform verify -only link,ping` checks": "`fabricform verify -only link,ping -lab=pair -var=n=1 f.hcl` checks",
		"`fabricform lab up -backend vm`":            "`fabricform lab up -backend vm -var=n=1 f.hcl`",
		"`fabricform explain nccl.conf`":             "`fabricform explain nccl.conf -var=n=1 -fabric=f.hcl`",
		"`fabricform plan f.hcl; id`, `reboot`":      "`fabricform plan f.hcl; id`, `reboot`",
	} {
		if got := by.Fill(message); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := (Invocation{}).Fill("`fabricform explain x.conf`"); got != "`fabricform explain x.conf`" {
		t.Error(got)
	}
}
