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

// TestNeovim lets a real editor open an example, with the settings that docs/editors.md shows: its client, not this package's
// idea of one, asks and understands the answers.
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
	page, err := os.ReadFile("../docs/editors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, settings, _ := strings.Cut(string(page), "```lua\n")
	settings, _, found := strings.Cut(settings, "```")
	if !found {
		t.Fatal("docs/editors.md has no settings for Neovim")
	}
	dir := folder(t, map[string]string{"init.lua": settings})
	path := filepath.Join(dir, "fabrics", "roce-pair.hcl")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, src, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, nvim, "--headless", "--clean", "-u", filepath.Join(dir, "init.lua"), "-n", "-c", "luafile testdata/nvim.lua")
	out := filepath.Join(dir, "out")
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+string(os.PathListSeparator)+os.Getenv("PATH"), "FABRIC="+path, "OUT="+out, "HOME="+dir)
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
		`fixed   nic = "机房 😀 ${host.a.nic.rail1.netdev}"`,
		`renamed   nic = "机房 😀 ${host.gpu0.nic.rail1.netdev}"`,
		`renamed host "gpu0" {`,
		"symbol gpu0\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}
