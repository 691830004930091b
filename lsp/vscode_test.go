package lsp

import (
	"archive/zip"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestVSCodeFiles: the files of the extension are JSON, and name files that exist.
func TestVSCodeFiles(t *testing.T) {
	read := func(name string, into any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("vscode", name))
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(name, err)
		}
	}
	var extension struct {
		Main, License string
		Contributes   struct {
			Languages []struct{ ID, Configuration string }
			Grammars  []struct{ Language, ScopeName, Path string }
		}
	}
	read("package.json", &extension)
	language, grammar := extension.Contributes.Languages[0], extension.Contributes.Grammars[0]
	var colours struct{ ScopeName string }
	read(grammar.Path, &colours)
	read(language.Configuration, &map[string]any{})
	main, err := os.ReadFile(filepath.Join("vscode", extension.Main))
	if err != nil || !strings.Contains(string(main), `language: "`+language.ID+`"`) {
		t.Error(err)
	}
	if extension.License != "Apache-2.0" || grammar.Language != language.ID || colours.ScopeName != grammar.ScopeName {
		t.Errorf("%+v %+v", extension, colours)
	}
}

// TestVSCodePackage packs the extension with VS Code's own program, and colours an example with VS Code's own library.
func TestVSCodePackage(t *testing.T) {
	if os.Getenv("FABRICFORM_VSCODE") == "" {
		t.Skip("set FABRICFORM_VSCODE to download from npm")
	}
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		return string(out)
	}
	pack := filepath.Join(dir, "fabricform.vsix")
	run("node", "--check", "vscode/extension.js")
	run("vscode/pack", pack)
	z, err := zip.OpenReader(pack)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	for _, want := range []string{"extension/extension.js", "extension/syntaxes/fabricform.tmLanguage.json", "extension/LICENSE.txt", "extension/node_modules/vscode-languageclient/package.json"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in the package", want)
		}
	}

	run("npm", "install", "--prefix", dir, "--silent", "--no-audit", "--no-fund", "vscode-textmate@9.2.0", "vscode-oniguruma@2.0.1")
	const grammar = "vscode/syntaxes/fabricform.tmLanguage.json"
	file := filepath.Join(dir, "f.hcl")
	if err := os.WriteFile(file, []byte("host \"gpu\" { # 网络\n  for_each = { for k, v in local.hosts : k => upper(v.ip) if v.up == true }\n  nic \"r\" {\n    netdev = \"机房 ${self.value.dev} $${x}\"\n    gid    = { version = 2 }\n  }\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run("node", "testdata/tokens.js", grammar, file)
	for _, want := range []string{
		"host entity.name.type\n", "\"gpu\" entity.name.label\n", "# 网络 comment.line\n", "for_each variable.other.property\n", "for keyword.control\n",
		"local variable.language\n", "=> keyword.operator\n", "upper entity.name.function\n", "== keyword.operator\n", "true constant.language\n",
		"机房 string.quoted.double\n", "${ punctuation.section.embedded\n", "self variable.language\n", "$${ constant.character.escape\n",
		"gid variable.other.property\n", "version variable.other.property\n", "2 constant.numeric\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	examples, err := filepath.Glob("../examples/*.hcl")
	if err != nil || len(examples) == 0 {
		t.Fatal(err)
	}
	for _, path := range examples {
		lines := strings.Split(strings.TrimSpace(run("node", "testdata/tokens.js", grammar, path)), "\n")
		if last := lines[len(lines)-1]; last != "} source" {
			t.Errorf("%s ends inside of something: %s", path, last)
		}
	}
}
