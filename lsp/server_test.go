package lsp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/config"
)

// TestConversation is an editor's whole session with the program that people install.
func TestConversation(t *testing.T) {
	c, cmd := process(t)
	var can struct{ Capabilities map[string]any }
	if fault := c.call("initialize", object{"processId": nil, "rootUri": nil, "capabilities": object{}}, &can); fault != nil || can.Capabilities["hoverProvider"] != true {
		t.Fatal(fault, can)
	}
	c.notify("initialized", object{})
	dir := folder(t, map[string]string{"hosts.hcl": hostsText})
	links := c.open(filepath.Join(dir, "links.hcl"), linkText)
	if p := c.problems(links, 1); len(p) != 0 {
		t.Fatal(p)
	}
	const broken = "# 一条链路\nlink \"l\" {\n  endpoints = [host.a.nic.r, /* 另一端 */ host.b.nic.x]\n  subnet    = \"10.0.0.0/30\"\n  role = \"\n}\n"
	c.change(links, 2, broken)
	if p := c.problems(links, 2); len(p) == 0 || p[0].Range.Start.Line != 4 {
		t.Fatal(p)
	}
	c.change(links, 3, strings.Replace(broken, "  role = \"\n", "", 1))
	if p := c.problems(links, 3); len(p) != 1 || p[0].Range != (textRange{position{2, 39}, position{2, 51}}) || !strings.Contains(p[0].Message, `no nic block "x"`) {
		t.Fatal(p)
	}
	c.change(links, 4, broken)
	var list completionList
	if fault := c.call("textDocument/completion", place(links, 4, 10), &list); fault != nil || !slices.Equal(labels(list.Items), []string{"training", "inference", "checkpoint", "storage"}) {
		t.Fatal(fault, list)
	}
	if fault := c.call("textDocument/completion", place(links, 2, 50), &list); fault != nil || !slices.Equal(labels(list.Items), []string{"r"}) {
		t.Fatal(fault, list)
	}
	var h hover
	if fault := c.call("textDocument/hover", place(links, 2, 4), &h); fault != nil || !strings.Contains(h.Contents.Value, "The two NICs") || h.Range.End.Character != 11 {
		t.Fatal(fault, h)
	}
	var at location
	if fault := c.call("textDocument/definition", place(links, 2, 44), &at); fault != nil || at != (location{pathURI(filepath.Join(dir, "hosts.hcl")), textRange{position{5, 6}, position{5, 7}}}) {
		t.Fatal(fault, at)
	}
	c.change(links, 5, "link \"l\" {\nmtu=1 # 字\n}\n")
	var edits []textEdit
	if fault := c.call("textDocument/formatting", object{"textDocument": object{"uri": links}, "options": object{}}, &edits); fault != nil || len(edits) != 1 ||
		edits[0] != (textEdit{textRange{position{0, 0}, position{3, 0}}, "link \"l\" {\n  mtu = 1 # 字\n}\n"}) {
		t.Fatal(fault, edits)
	}
	if fault := c.call("shutdown", nil, nil); fault != nil {
		t.Fatal(fault)
	}
	c.notify("exit", nil)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestEndWithoutGoodbye: an editor that is gone ends the program, with an error; a signal without one.
func TestEndWithoutGoodbye(t *testing.T) {
	c, cmd := process(t)
	c.start()
	c.w.Close()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Fatal(err)
	}
	c, cmd = process(t)
	c.start()
	c.call("textDocument/hover", object{}, nil)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c.r); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestFilesThatBecameClean: a file's problems vanish with their cause, which may be in another file,
// and with the last document of the directory.
func TestFilesThatBecameClean(t *testing.T) {
	c := inProcess(t)
	c.start()
	dir := folder(t, map[string]string{"links.hcl": linkText})
	hosts, links := c.open(filepath.Join(dir, "hosts.hcl"), ""), pathURI(filepath.Join(dir, "links.hcl"))
	for len(c.told[links].Diagnostics) == 0 {
		c.next()
	}
	c.change(hosts, 2, hostsText)
	c.problems(hosts, 2)
	for len(c.told[links].Diagnostics) != 0 {
		c.next()
	}
	c.change(hosts, 3, "host \"a\" {\n")
	c.problems(hosts, 3)
	c.notify("textDocument/didClose", object{"textDocument": object{"uri": hosts}})
	for c.told[hosts].Version != nil || len(c.told[hosts].Diagnostics) != 0 {
		c.next()
	}
}

// TestComputedNames: keys that only evaluation knows are offered from the last check without errors.
func TestComputedNames(t *testing.T) {
	c := inProcess(t)
	c.start()
	const text = "host \"g\" {\n  for_each = { for i in range(2) : format(\"gpu%02d\", i) => i }\n}\n"
	uri := c.open(filepath.Join(t.TempDir(), "f.hcl"), text)
	if p := c.problems(uri, 1); len(p) != 0 {
		t.Fatal(p)
	}
	c.change(uri, 2, text+"locals {\n  a = host.g[\"\n}\n")
	var list completionList
	if fault := c.call("textDocument/completion", place(uri, 4, 14), &list); fault != nil || !slices.Equal(labels(list.Items), []string{"gpu00", "gpu01"}) {
		t.Fatal(fault, list)
	}
}

// TestSaving looks again: another program may have changed the other files.
func TestSaving(t *testing.T) {
	c := inProcess(t)
	c.start()
	dir := folder(t, map[string]string{"hosts.hcl": hostsText})
	links := c.open(filepath.Join(dir, "links.hcl"), linkText)
	c.problems(links, 1)
	if err := os.WriteFile(filepath.Join(dir, "hosts.hcl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.notify("textDocument/didSave", object{"textDocument": object{"uri": links}})
	for len(c.told[links].Diagnostics) == 0 {
		c.next()
	}
	var at *location
	if c.call("textDocument/definition", place(links, 1, 21), &at); at != nil {
		t.Fatal(at)
	}
}

// TestOtherTexts: what is no file, JSON, or not a fabric's is not an error.
func TestOtherTexts(t *testing.T) {
	c := inProcess(t)
	c.start()
	c.notify("textDocument/didOpen", object{"textDocument": object{"uri": "untitled:Untitled-1", "version": 1, "text": "nccl {\n  \n}"}})
	var list *completionList
	if c.call("textDocument/completion", place("untitled:Untitled-1", 1, 2), &list); len(list.Items) == 0 {
		t.Fatal(list)
	}
	for _, name := range []string{"f.hcl.json", "prod.auto.fabricvars"} {
		uri := c.open(filepath.Join(t.TempDir(), name), "{}")
		list = &completionList{}
		if fault := c.call("textDocument/completion", place(uri, 0, 1), &list); fault != nil || list != nil {
			t.Fatal(name, fault, list)
		}
	}
	var edits []textEdit
	if c.call("textDocument/formatting", place("untitled:Untitled-1", 0, 0), &edits); len(edits) != 1 {
		t.Fatal(edits)
	}
}

// TestOrderOfCalls: what comes at the wrong point, or is no call, gets the protocol's error.
func TestOrderOfCalls(t *testing.T) {
	c := inProcess(t)
	fault := func(want int, method string, params any) {
		t.Helper()
		got := c.call(method, params, nil)
		if got == nil || got.Code != want {
			t.Errorf("%s: %v, want %d", method, got, want)
		}
	}
	fault(codeNotInitialized, "textDocument/hover", object{})
	fault(codeInvalidParams, "initialize", 7)
	c.start()
	fault(codeInvalidRequest, "initialize", object{})
	fault(codeNoMethod, "textDocument/moniker", object{})
	fault(codeInvalidParams, "textDocument/hover", "x")
	fault(codeInvalidParams, "textDocument/hover", place("file:///not/open.hcl", 0, 0))
	c.notify("$/cancelRequest", object{"id": 1})
	c.notify("textDocument/didChange", object{})
	if _, err := c.w.Write([]byte("Content-Length: 2\r\n\r\n{]Content-Length: 2\r\n\r\n{}")); err != nil {
		t.Fatal(err)
	}
	if m := c.next(); m.Error == nil || m.Error.Code != codeParse {
		t.Error(m)
	}
	if f := c.call("shutdown", nil, nil); f != nil {
		t.Error(f)
	}
	fault(codeInvalidRequest, "shutdown", nil)
}

// FuzzMessages: no message, and no text at no place, makes the server panic or lose the stream.
func FuzzMessages(f *testing.F) {
	for _, m := range []string{
		`{"id":1,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///f/f.hcl"},"position":{"line":-1,"character":9e9}}}`,
		`{"id":{},"method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///f/f.hcl"},"contentChanges":[{"text":"\ud800"}]}}`,
		`[{"id":1}]`, `{"id":null,"method":"initialize"}`, `null`, `7`, `{"method":"exit"}`,
	} {
		f.Add([]byte(m))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var out bytes.Buffer
		s := newServer(&out, config.Options{})
		s.initialized = true
		open(t, s, "file:///f/f.hcl", fabricText)
		_, _ = s.receive(body) // its error ends the conversation, which is allowed
		readable(t, &out)
	})
}

// FuzzText: whatever stands in a document, all is answered at each place.
func FuzzText(f *testing.F) {
	seeds, err := filepath.Glob("../config/testdata/diagnostics/*.hcl")
	if err != nil || len(seeds) < 10 {
		f.Fatal(seeds, err)
	}
	for _, path := range seeds {
		if strings.Contains(path, "bomb") {
			continue // config bounds what these cost, at more than a fuzzer has time for
		}
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src[:min(len(src), 2000)]), 3, 17)
	}
	f.Add("host \"a\" {\n  nic \"r\" {\n    gid = { family = \"", 2, 22)
	f.Add("a = \"${host.n[\"😀\"].nic.\r机", 0, 20)
	f.Fuzz(func(t *testing.T, src string, line, character int) {
		var out bytes.Buffer
		s := newServer(&out, config.Options{})
		s.initialized = true
		const uri = "file:///nowhere/at/all/f.hcl"
		open(t, s, uri, src)
		j, _ := s.docs.job("/nowhere/at/all")
		s.checks.found["/nowhere/at/all"] = look(j, s.options)
		for _, method := range []string{"completion", "hover", "definition", "formatting", "codeAction", "documentSymbol",
			"references", "prepareRename", "rename", "signatureHelp"} {
			body, err := json.Marshal(object{"id": 1, "method": "textDocument/" + method, "params": everywhere(uri, line, character)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.receive(body); err != nil {
				t.Fatal(err)
			}
		}
		readable(t, &out)
		for _, problems := range s.checks.found["/nowhere/at/all"].problems {
			for _, p := range problems {
				if p.Range.Start.Line < 0 || p.Range.Start.Character < 0 {
					t.Fatal(p)
				}
			}
		}
	})
}

// everywhere is a place of a document, with a range of all of it.
func everywhere(uri string, line, character int) object {
	p := place(uri, line, character)
	p["range"] = textRange{position{}, position{1 << 20, 0}}
	p["newName"] = "x.y"
	return p
}

func open(t *testing.T, s *server, uri, text string) {
	t.Helper()
	body, err := json.Marshal(object{"method": "textDocument/didOpen", "params": object{"textDocument": object{"uri": uri, "version": 1, "text": text}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.receive(body); err != nil {
		t.Fatal(err)
	}
}

func readable(t *testing.T, out *bytes.Buffer) {
	t.Helper()
	for r := bufio.NewReader(out); ; {
		body, err := readFrame(r)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || !json.Valid(body) {
			t.Fatalf("%s: %v", body, err)
		}
	}
}

// TestContextEnds: a signal ends the conversation.
func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, w := io.Pipe()
	defer w.Close()
	if err := Serve(ctx, in, io.Discard, config.Options{}); err != nil {
		t.Fatal(err)
	}
}
