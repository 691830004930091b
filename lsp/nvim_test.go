package lsp

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNeovim lets a real editor open an example: its client, not this package's idea of one, asks and
// understands the answers.
func TestNeovim(t *testing.T) {
	nvim, err := exec.LookPath("nvim")
	if err != nil {
		t.Skip("nvim is not installed")
	}
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile("../examples/roce-pair.hcl")
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t, map[string]string{"roce-pair.hcl": string(src)})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, nvim, "--headless", "--clean", "-n", "-c", "luafile testdata/nvim.lua")
	out := filepath.Join(dir, "out")
	cmd.Env = append(os.Environ(), "PROGRAM="+bin, "FABRIC="+filepath.Join(dir, "roce-pair.hcl"), "OUT="+out, "HOME="+dir)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"diagnostic host.a.nic.rail7.netdev: Unknown NIC. Host \"a\" has no nic block \"rail7\".",
		"completion rail0\ncompletion rail1\nhover",
		"host \"a\", address \"10.0.0.11\"",
		`formatted   nic = "机房 😀 ${host.a.nic.rail1.netdev}"`,
		`definition   nic "rail1" {`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}
