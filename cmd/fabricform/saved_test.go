package main

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/view"
)

// TestWhatIsSavedIsWhatIsRead: the fabric of every example comes back whole, and passes the checks of its files.
func TestWhatIsSavedIsWhatIsRead(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.hcl")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	read := 0
	for _, path := range files {
		f, _, diags := config.Load(path, config.Options{Version: thisBuild().version})
		if diags.HasErrors() {
			continue // it needs variables
		}
		text, err := (&planner.Saved{ID: "1", Build: "b", Fabric: f, Plan: &planner.Plan{Fabric: f.Name}}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		saved, err := planner.ReadSaved(bytes.NewReader(text), "b")
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if d := cmp.Diff(f, saved.Fabric, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(fabric.Block{}, "AttrPos"), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); d != "" {
			t.Errorf("%s: %s", path, d)
		}
		read++
	}
	if read < 5 {
		t.Errorf("%d examples were saved and read", read)
	}
}

// TestASavedPlanIsShown: as plan printed it, with when and for whom it was made, in all three forms.
func TestASavedPlanIsShown(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // no lab is up
	build, err := buildID()
	if err != nil {
		t.Fatal(err)
	}
	mtu := planner.Action{Op: planner.Update, Resource: resource.Resource{Addr: resource.Addr{Host: "a", Kind: "nic", Name: "rail0"}}, Changes: []resource.Change{{Attribute: "mtu", From: "1500", To: "9000"}}}
	saved := planner.Saved{ID: "1", Build: build, Created: time.Now(), User: "anna@desk", Source: "commit 1234", Lab: "pair", Fabric: &fabric.Fabric{Name: "pair", Hosts: []*fabric.Host{{Name: "a"}, {Name: "b"}}},
		Plan: &planner.Plan{Fabric: "pair", Invocation: fabric.Invocation{Flags: []string{"-lab", "-var=n=1"}, Path: "/fabrics/pair.hcl"}, Hosts: []planner.HostPlan{{Name: "a", Actions: []planner.Action{mtu}}}}}
	text, err := saved.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path, edited := filepath.Join(t.TempDir(), "tonight.plan"), filepath.Join(t.TempDir(), "edited.plan")
	for name, text := range map[string][]byte{path: text, edited: bytes.Replace(text, []byte("9000"), []byte("4200"), 1)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, wants := range map[string][]string{
		"show " + path:                          {"mtu", "1500 → 9000", "Saved by anna@desk at ", `for lab "pair", from commit 1234.`, "Not chosen, so not changed: b."},
		"show -markdown " + path:                {"### 📋 fabricform: 1 change on 1 host of `pair`", "Saved by anna"},
		"show -json " + path:                    {`"type":"host_plan"`, `"to":"9000"`, `"type":"plan"`},
		"show " + edited:                        {"it was edited, or is incomplete"},
		"apply " + edited:                       {"it was edited, or is incomplete"},
		"show -host b " + path:                  {"is a saved plan: its hosts and its values are fixed"},
		"apply -exclude b " + path:              {"is a saved plan: its hosts and its values are fixed"},
		"apply -var x=1 -auto-approve " + path:  {"is a saved plan: its hosts and its values are fixed"},
		"apply -auto-approve " + path:           {`made for lab "pair", not for the declared hosts: run it with -lab=pair`},
		"apply -auto-approve -lab=pair " + path: {"build it with `fabricform lab up -var=n=1 /fabrics/pair.hcl`"},
		"apply -lab=other " + path:              {`made for lab "pair", not for lab "other": run it with -lab=pair`},
		"apply -report no/such/folder.md x.hcl": {"-report no/such/folder.md: no/such: "},
		"destroy -report . x.hcl":               {"-report .: it is a folder; name a file in it"},
		"verify -report no/such/f x.hcl":        {"-report no/such/f: no/such: "},
		"show -markdown ../../examples":         {"-markdown prints a saved plan: name its file"},
	} {
		var out bytes.Buffer
		root := rootCommand(&app{out: view.New(&out), err: view.New(io.Discard)})
		root.SetArgs(longFlags(strings.Fields(line)))
		if err := root.Execute(); err != nil {
			out.WriteString(err.Error())
		}
		for _, want := range wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is missing in\n%s", line, want, out.String())
			}
		}
	}
}

// TestASavedPlanTakesSensitiveValuesAlone: the hint names them, and any other value is refused, as for a plan without them.
func TestASavedPlanTakesSensitiveValuesAlone(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // no lab is up
	build, err := buildID()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	from, path := filepath.Join(dir, "f.hcl"), filepath.Join(dir, "p.plan")
	const text = `fabric "f" {
}
nccl {
  env = { NCCL_DEBUG_FILE = "/tmp/${var.token}" }
}
variable "token" {
  type      = string
  sensitive = true
}
variable "mtu" {
  type    = number
  default = 9000
}
host "a" {
  address = "192.0.2.1"
}
`
	if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	app := func() *app { return &app{out: view.New(io.Discard), err: view.New(os.Stderr)} }
	a := app()
	a.lab, a.inputs = ownLab, []config.Input{{Var: "token=hunter2"}, {Var: "mtu=1400"}}
	f, err := a.load(from)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := a.ofPlan(f, "P"), "`fabricform apply -lab -var=token=… P`"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	in := func(name, text string) config.Input {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Input{File: at}
	}
	token := config.Input{Var: "token=hunter2"}
	planned := a.invocation(f, from)
	planned.Flags = append(planned.Flags, "-var-file="+in("planned.fabricvars", "mtu = 1400\n").File)
	saved := planner.Saved{ID: "1", Build: build, Created: time.Now(), Source: "s", Fabric: f, Plan: &planner.Plan{Fabric: "f", Invocation: planned}}
	for _, c := range []struct {
		given []config.Input
		wants []string // nil: accepted
	}{
		{[]config.Input{token}, nil},
		{[]config.Input{in("token.fabricvars", "token = \"hunter2\"\n")}, nil},
		{[]config.Input{token, {Var: "mtu=1400"}}, []string{"-var mtu: A saved plan has the value of mtu", "leave it out here", "nothing was changed"}},
		{[]config.Input{token, in("mtu.fabricvars", "mtu = 4200\n")}, []string{"mtu.fabricvars line 1", "A saved plan has the value of mtu", "nothing was changed"}},
		{[]config.Input{{Var: "token=other"}}, []string{"the sensitive value of nccl.env.NCCL_DEBUG_FILE is not the one that was planned. Give the variable token as it was planned",
			"looked for in " + from + ", fabricform.fabricvars and the *.auto.fabricvars files beside it, " + filepath.Join(dir, "planned.fabricvars") + ", -var, -var-file and the environment"}},
		{nil, []string{"Set it with -var token=…", path + " has no sensitive values; they are taken from " + from + ", fabricform.fabricvars and the *.auto.fabricvars files beside it, "}},
		{[]config.Input{token, {File: filepath.Join(dir, "none")}}, []string{"none: no such file", "nothing was changed"}},
	} {
		var said bytes.Buffer
		a := app()
		a.inputs, a.err = c.given, view.New(&said)
		err := a.fillSecrets(&saved, path)
		if err != nil {
			said.WriteString(err.Error())
		}
		if (err == nil) != (c.wants == nil) {
			t.Errorf("%v: %v", c.given, err)
		}
		for _, want := range c.wants {
			if !strings.Contains(strings.Join(strings.Fields(said.String()), " "), want) {
				t.Errorf("%v: %q is missing in %s", c.given, want, said.String())
			}
		}
	}
	root := rootCommand(app())
	root.SetArgs(longFlags([]string{"plan", "-var=token=…", from}))
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "write the sensitive value in the place of …") {
		t.Error(err)
	}
}
