package planner

import (
	"errors"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestOnlyWhatWasSavedIsRead: a saved plan is read by the build that wrote it. Another build, and a plan that is not as it
// was saved or does not fit together, get a sentence that says what to do (fault 28).
func TestOnlyWhatWasSavedIsRead(t *testing.T) {
	sealed := func(raw string) string { return string(seal([]byte(raw))) }
	saved := Saved{ID: "1", Build: "b1", Fabric: &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{{Name: "a"}}}, Plan: &Plan{Fabric: "f", Hosts: []HostPlan{{Name: "a"}}}}
	raw, err := saved.Encode()
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if got, err := ReadSaved(strings.NewReader(text), "b1"); err != nil || got.Plan.Fabric != "f" {
		t.Fatal(got, err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"the format before":               {"fabricform plan 2\n{}", "saved by another version of fabricform: save it again"},
		"a later format":                  {strings.Replace(text, "plan 3", "plan 9", 1), "saved by another version of fabricform: save it again"},
		"a first line that never ends":    {savedKind + strings.Repeat("3", 1<<20), "saved by another version of fabricform: save it again"},
		"another build":                   {sealed(`{"build":"b0","id":"1","fabric":{"Name":"f"},"plan":{"fabric":"f"}}`), "saved by another build of fabricform (b0): save it again"},
		"another build with other types":  {sealed(`{"build":"b0","plan":7}`), "saved by another build of fabricform (b0): save it again"},
		"cut":                             {text[:len(text)-9], "it was edited, or is incomplete"},
		"edited by hand":                  {strings.Replace(text, `"a"`, `"b"`, 1), "it was edited, or is incomplete"},
		"with another digest":             {strings.Replace(text, "plan 3 ", "plan 3 0", 1), "it was edited, or is incomplete"},
		"not JSON":                        {sealed(`{"id":`), "corrupt"},
		"of this build, but not complete": {sealed("{}"), "it is incomplete; save it again"},
		"of another fabric":               {sealed(`{"id":"1","fabric":{"Name":"f"},"plan":{"fabric":"g"}}`), `it plans fabric "g", but holds the files of "f"`},
		"of a host without a block":       {sealed(`{"id":"1","fabric":{"Name":"f"},"plan":{"fabric":"f","hosts":[{"name":"z"}]}}`), `it plans host "z", which is not declared`},
		"of another host's resource": {sealed(`{"id":"1","fabric":{"Name":"f","Hosts":[{"Name":"a"}]},"plan":{"fabric":"f","hosts":[{"name":"a","actions":[{"resource":{"addr":{"host":"z","kind":"nic","name":"r"}}}]}]}}`),
			`it plans z.nic.r on host "a"`},
		"with null for a host":          {sealed(`{"id":"1","fabric":{"Name":"f","Hosts":[null]},"plan":{"fabric":"f"}}`), "corrupt: its fabric has null in a list of blocks; save it again"},
		"with null for a link":          {sealed(`{"id":"1","fabric":{"Name":"f","Links":[null]},"plan":{"fabric":"f"}}`), "null in a list of blocks"},
		"with a link of one end":        {sealed(`{"id":"1","fabric":{"Name":"f","Links":[{"Name":"l","Endpoints":[{}]}]},"plan":{"fabric":"f"}}`), "a link that does not have two ends"},
		"with null for a network":       {sealed(`{"id":"1","fabric":{"Name":"f","Networks":[null]},"plan":{"fabric":"f"}}`), "null in a list of blocks"},
		"with null for a NIC":           {sealed(`{"id":"1","fabric":{"Name":"f","Hosts":[{"Name":"a","NICs":[null]}]},"plan":{"fabric":"f"}}`), "null in a list of blocks"},
		"with an unknown disruption":    {sealed(`{"id":"1","fabric":{"Name":"f","Hosts":[{"Name":"a"}]},"plan":{"fabric":"f","hosts":[{"name":"a","actions":[{"changes":[{"disruption":7}]}]}]}}`), "corrupt: unknown disruption 7; save it again"},
		"of files that do not pass":     {sealed(`{"id":"1","fabric":{"Name":"f","Hosts":[{"Name":"a","NICs":[{"Host":"a","Name":"r","Addresses":["127.0.0.1/8"]}]}]},"plan":{"fabric":"f"}}`), "Not a host address"},
		"that says not to check a link": {sealed(`{"id":"1","fabric":{"Name":"f","Hosts":[{"Name":"a","NICs":[{"Host":"a","Name":"r"}]}],"Links":[{"Name":"l","Invalid":true,"Endpoints":[{"Host":"a","NIC":"r"},{"Host":"a","NIC":"r"}]}]},"plan":{"fabric":"f"}}`), "a block that says not to be checked"},
		"that was refused":              {sealed(`{"id":"1","fabric":{"Name":"f","Hosts":[{"Name":"a"}]},"plan":{"fabric":"f","hosts":[{"name":"a","problems":[{"message":"no such device"}]}]}}`), "no such device"},
	} {
		if _, err := ReadSaved(strings.NewReader(c.text), "b1"); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := ReadSaved(strings.NewReader(`host "a" {}`), "b1"); !errors.Is(err, ErrNotSaved) {
		t.Error(err)
	}
}
