package lsp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
)

// ask calls a method of a server that has documents open.
func ask(t *testing.T, s *server, method string, params object, into any) *callError {
	t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	result, fault := s.call(message{ID: json.RawMessage("1"), Method: "textDocument/" + method, Params: text})
	if text, err = json.Marshal(result); err == nil && fault == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fault
}

// editing is a server with open files, by name, in one directory.
func editing(t *testing.T, files map[string]string) (*server, func(name string) string) {
	t.Helper()
	s := newServer(nil, config.Options{})
	s.initialized = true
	dir := t.TempDir()
	uri := func(name string) string { return pathURI(filepath.Join(dir, name)) }
	for name, text := range files {
		open(t, s, uri(name), text)
	}
	return s, uri
}

// renamed returns the texts after a rename.
func renamed(t *testing.T, s *server, files map[string]string, uri func(string) string, name string, at position, to string) (map[string]string, *callError) {
	t.Helper()
	var edit workspaceEdit
	fault := ask(t, s, "rename", object{"textDocument": object{"uri": uri(name)}, "position": at, "newName": to}, &edit)
	out := map[string]string{}
	for name, text := range files {
		at := newText([]byte(text))
		edits := edit.Changes[uri(name)]
		slices.Reverse(edits)
		for _, e := range edits {
			text = text[:at.offset(e.Range.Start)] + e.NewText + text[at.offset(e.Range.End):]
		}
		out[name] = text
	}
	return out, fault
}

const splitLinks = `link "l" {
  endpoints = [host.a.nic["rail0"], host["b"].nic.rail0]
  subnet    = local.nets.rail0 # host.a stays in a comment
}
locals {
  nets = { rail0 = "10.0.0.0/30", a = "host.a" }
  all  = [for a in values(host.g) : a.nic.rail.netdev]
  some = { for k, h in host.g : k => h.nic["rail"].mtu }
  text = "${host.a.nic.rail0.netdev} host.a 机 ${host["a"].name}"
  even = values(host.g)[*].nic.rail.name
}
`

const splitHosts = `host "a" {
  address = "10.0.0.1"
  nic "rail0" {
    netdev = "e0"
  }
  route "r" {
    to  = "10.9.0.0/16"
    nic = nic.rail0
  }
}
host "b" {
  address = "10.0.0.2"
  nic "rail0" {
    netdev = "e0"
  }
}
host "g" {
  for_each = { g1 = "10.0.0.3", g2 = "10.0.0.4" }
  address  = each.value
  nic "rail" {
    netdev = "e0"
  }
}
`

// TestRename renames names over two files, and takes no other word for them.
func TestRename(t *testing.T) {
	files := map[string]string{"links.hcl": splitLinks, "hosts.hcl": splitHosts}
	s, uri := editing(t, files)
	for _, c := range []struct {
		file string
		at   position
		to   string
		want map[string]string // what becomes of which text
	}{
		{"hosts.hcl", position{0, 6}, "gpu0", map[string]string{`host "a"`: `host "gpu0"`, "[host.a.nic[": "[host.gpu0.nic[", "${host.a.nic": "${host.gpu0.nic", `host["a"].name`: `host["gpu0"].name`}},
		{"links.hcl", position{1, 21}, "gpu.0", map[string]string{`host "a"`: `host "gpu.0"`, "[host.a.nic[": `[host["gpu.0"].nic[`, "${host.a.nic": `${host["gpu.0"].nic`, `host["a"].name`: `host["gpu.0"].name`}},
		{"links.hcl", position{1, 28}, "r0", map[string]string{"\"10.0.0.1\"\n  nic \"rail0\"": "\"10.0.0.1\"\n  nic \"r0\"", `host.a.nic["rail0"]`: `host.a.nic["r0"]`, "host.a.nic.rail0": "host.a.nic.r0", "nic = nic.rail0": "nic = nic.r0"}},
		{"hosts.hcl", position{19, 8}, "r", map[string]string{"nic \"rail\"": "nic \"r\"", "a.nic.rail.netdev": "a.nic.r.netdev", `h.nic["rail"]`: `h.nic["r"]`, "nic.rail.name": "nic.r.name"}},
		{"links.hcl", position{2, 22}, "subnets", map[string]string{"local.nets": "local.subnets", "nets = {": "subnets = {"}},
		{"links.hcl", position{0, 7}, "cable", map[string]string{`link "l"`: `link "cable"`}},
		{"hosts.hcl", position{5, 9}, "x", map[string]string{`route "r"`: `route "x"`}},
	} {
		got, fault := renamed(t, s, files, uri, c.file, c.at, c.to)
		if fault != nil {
			t.Errorf("%s: %s", c.to, fault.Message)
			continue
		}
		var pairs []string
		for old, new := range c.want {
			if !strings.Contains(splitLinks+splitHosts, old) {
				t.Fatal(old)
			}
			pairs = append(pairs, old, new)
		}
		want := strings.NewReplacer(pairs...)
		if links, hosts := want.Replace(splitLinks), want.Replace(splitHosts); links != got["links.hcl"] || hosts != got["hosts.hcl"] {
			t.Errorf("%s:\n%s\n%s", c.to, got["links.hcl"], got["hosts.hcl"])
		}
	}
	var where []location
	if ask(t, s, "references", object{"textDocument": object{"uri": uri("hosts.hcl")}, "position": position{0, 6}, "context": object{"includeDeclaration": false}}, &where); len(where) != 3 {
		t.Errorf("%+v", where)
	}
	var can *renameable
	if ask(t, s, "prepareRename", place(uri("links.hcl"), 1, 28), &can); can == nil || can.Placeholder != "rail0" || can.Range != (textRange{position{1, 27}, position{1, 32}}) {
		t.Errorf("%+v", can)
	}
}

// TestRenameRefuses what is no declared name, what cannot be a name, and what would change more than the name.
func TestRenameRefuses(t *testing.T) {
	files := map[string]string{"links.hcl": splitLinks, "hosts.hcl": splitHosts, "more.hcl": `host "c" {
  nic "rail0" {
    netdev = "e0"
  }
}
locals {
  one    = [for h in [host.a, host.c] : h.nic["rail${0}"].netdev]
}
fabric "f" {
}
output "domain" {
  value = "${host.b.name}.lab"
}
`}
	s, uri := editing(t, files)
	for _, c := range []struct {
		file string
		at   position
		to   string
		want string
	}{
		{"hosts.hcl", position{0, 1}, "x", "not a name that the files"},
		{"hosts.hcl", position{1, 14}, "x", "not a name that the files"},
		{"hosts.hcl", position{1, 3}, "x", "not a name that the files"},
		{"links.hcl", position{5, 12}, "x", "not a name that the files"},
		{"links.hcl", position{6, 14}, "x", "not a name that the files"},
		{"links.hcl", position{9, 37}, "x", "not a name that the files"},
		{"hosts.hcl", position{0, 6}, "b", "Another host is named"},
		{"hosts.hcl", position{0, 6}, "", "not a name for a block"},
		{"hosts.hcl", position{0, 6}, "x\"; rm", "not a name for a block"},
		{"links.hcl", position{5, 3}, "a.b", "not a name for a local"},
		{"more.hcl", position{1, 8}, "r", "would have an error"},
		{"more.hcl", position{8, 8}, "z", "would not own it"},
		{"hosts.hcl", position{10, 6}, "z", "differ in Outputs.domain.Value"},
	} {
		if _, fault := renamed(t, s, files, uri, c.file, c.at, c.to); fault == nil || !strings.Contains(fault.Message, c.want) {
			t.Errorf("%s %v to %s: %+v, want %s", c.file, c.at, c.to, fault, c.want)
		}
	}
}

// TestRenamedFabricsMeanTheSame renames every name of every example: the fabric is as valid as before and is the same apart from
// the name, and renaming it back gives the text of before.
func TestRenamedFabricsMeanTheSame(t *testing.T) {
	paths, err := filepath.Glob("../examples/*.hcl")
	if err != nil || len(paths) < 6 {
		t.Fatal(paths, err)
	}
	done, refused := 0, map[string]string{}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f := newFile("", "", src)
		for _, d := range f.declarations() {
			if d.kind == "fabric" {
				continue // TestRenameRefuses
			}
			files := map[string]string{"f.hcl": string(src)}
			s, uri := editing(t, files)
			got, fault := renamed(t, s, files, uri, "f.hcl", f.text.position(d.at.start), "renamed9")
			if fault != nil {
				refused[filepath.Base(path)+" "+d.kind+" "+d.name] = fault.Message
				continue
			}
			done++
			load := func(text string) *modelOf {
				o := config.Options{Editing: true, Overlay: map[string][]byte{path: []byte(text)}}
				fabric, _, diags := config.Load(path, o)
				if diags.HasErrors() {
					t.Fatalf("%s: %s %s: %v", path, d.kind, d.name, diags)
				}
				return &modelOf{fabric}
			}
			if before, after := load(string(src)), load(got["f.hcl"]); before.text(t, d.name) != after.text(t, d.name) {
				t.Errorf("%s: %s %s: the model differs", path, d.kind, d.name)
			}
			s, uri = editing(t, got)
			if back, fault := renamed(t, s, got, uri, "f.hcl", f.text.position(d.at.start), d.name); fault != nil || back["f.hcl"] != string(src) {
				t.Errorf("%s: %s %s: renaming back: %+v\n%s", path, d.kind, d.name, fault, back["f.hcl"])
			}
		}
	}
	for what, why := range refused {
		t.Logf("%s: %s", what, why)
	}
	if done < 30 || len(refused) > done/4 {
		t.Errorf("%d renamed, %d refused", done, len(refused))
	}
}

// declarations are all names of a file.
func (f *file) declarations() (out []declaration) {
	f.root.walk(func(b *body) {
		for _, k := range b.blocks {
			if d, is := k.declares(f); is {
				out = append(out, d)
			}
		}
		if b.block != nil && b.block.typ == "locals" {
			for _, a := range b.attrs {
				out = append(out, declaration{f, a.nameSpan, a.name, "local"})
			}
		}
	})
	return out
}

type modelOf struct{ *fabric.Fabric }

// text is the model as JSON without places, in which the old and the new name are the same and lists are sorted.
func (m *modelOf) text(t *testing.T, old string) string {
	t.Helper()
	raw, err := json.Marshal(m.Fabric)
	if err != nil {
		t.Fatal(err)
	}
	raw = regexp.MustCompile(`"(Pos)":\{[^}]*\}`).ReplaceAll(raw, []byte(`"Pos":0`))
	words := strings.FieldsFunc(strings.ReplaceAll(string(raw), "renamed9", old), func(r rune) bool { return strings.ContainsRune("{}[],", r) })
	slices.Sort(words)
	return strings.Join(words, "\n")
}
