package apply

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/providers/ofed"
	"github.com/fabricform/fabricform/resource"
)

// TestBundlesGoAsDeclared: to whom one is installed, by the relay of its block, and with the declared hash only.
func TestBundlesGoAsDeclared(t *testing.T) {
	dir := t.TempDir()
	const name, sum = "doca-host_3.1.0-091000-25.07-ubuntu2204_amd64.deb", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // of "x"
	block := func(host, more string) string {
		return "host \"" + host + "\" {\n  ofed {\n    stack  = \"doca_ofed\"\n    bundle = \"" + name + "\"\n    sha256 = \"" + sum + "\"\n" + more + "  }\n}\n"
	}
	for file, text := range map[string]string{name: "x", "f.hcl": block("a", "") + block("b", "    relay  = \"a\"\n") + block("c", "") + "host \"d\" {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, _, diags := config.Load(dir, config.Options{Version: "dev"})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	does := func(host, attribute string) planner.HostPlan {
		return planner.HostPlan{Name: host, Actions: []planner.Action{{Resource: ofed.Desired(nil, f.Host(host))[0], Changes: []resource.Change{{Attribute: attribute}}}}}
	}
	p := &planner.Plan{Hosts: []planner.HostPlan{does("a", "stack"), does("b", "stack"), does("c", "reboot"), {Name: "d"}}}
	hashed := 0
	got, err := bundlesOf(p, func(string) { hashed++ })
	if err != nil || len(got) != 2 || hashed != 1 {
		t.Fatalf("%+v, %v, and %d hashed", got, err, hashed)
	}
	for host, relay := range map[string]string{"a": "", "b": "a"} {
		if b := got[host]; b.Relay != relay || b.Name != name || b.SHA256 != sum || b.Size != 1 {
			t.Errorf("%s: %+v", host, b)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte("y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bundlesOf(p, func(string) {}); err == nil || !strings.Contains(err.Error(), "the ofed block of host a declares "+sum) {
		t.Error(err)
	}
}
