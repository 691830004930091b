package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fabricform/fabricform/config"
)

// client is an editor, as far as the server can tell.
type client struct {
	t    *testing.T
	w    io.WriteCloser
	r    *bufio.Reader
	fw   frameWriter
	id   int
	told map[string]publishParams // the last of each URI
}

// inProcess serves a client from this process; its end is the test's.
func inProcess(t *testing.T) *client {
	t.Helper()
	in, w := io.Pipe()
	r, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Serve(t.Context(), in, out, config.Options{})
		out.CloseWithError(io.EOF)
		ended <- err
	}()
	t.Cleanup(func() {
		w.Close()
		r.Close()
		<-ended
	})
	return newClient(t, w, r)
}

// programDir is where program builds; it goes with the tests.
var programDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fabricform-lsp")
	if err != nil {
		panic(err) // no test could run
	}
	programDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// program builds fabricform once.
var program = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(programDir, "fabricform")
	cmd := exec.Command("go", "build", "-o", bin, "../cmd/fabricform")
	cmd.Stderr = os.Stderr
	return bin, cmd.Run()
})

// process starts the built server, as an editor does.
func process(t *testing.T) (*client, *exec.Cmd) {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, bin, "lsp", "--stdio")
	cmd.Stderr = os.Stderr
	w, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return newClient(t, w, r), cmd
}

func newClient(t *testing.T, w io.WriteCloser, r io.Reader) *client {
	return &client{t: t, w: w, r: bufio.NewReader(r), fw: frameWriter{w: w}, told: map[string]publishParams{}}
}

type object = map[string]any

func (c *client) notify(method string, params any) {
	c.t.Helper()
	if err := c.fw.write(object{"jsonrpc": "2.0", "method": method, "params": params}); err != nil {
		c.t.Fatal(err)
	}
}

// next reads a message, and keeps what it tells of files.
func (c *client) next() message {
	c.t.Helper()
	body, err := readFrame(c.r)
	if err != nil {
		c.t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		c.t.Fatal(err)
	}
	if m.Method == "textDocument/publishDiagnostics" {
		var p publishParams
		if err := json.Unmarshal(m.Params, &p); err != nil {
			c.t.Fatal(err)
		}
		c.told[p.URI] = p
	}
	return m
}

// call waits for the answer, and fills into from its result.
func (c *client) call(method string, params, into any) *callError {
	c.t.Helper()
	c.id++
	if err := c.fw.write(object{"jsonrpc": "2.0", "id": c.id, "method": method, "params": params}); err != nil {
		c.t.Fatal(err)
	}
	want, err := json.Marshal(c.id)
	if err != nil {
		c.t.Fatal(err)
	}
	for {
		m := c.next()
		if string(m.ID) != string(want) {
			continue
		}
		if m.Error == nil && into != nil {
			if err := json.Unmarshal(m.Result, into); err != nil {
				c.t.Fatal(err)
			}
		}
		return m.Error
	}
}

func (c *client) start() {
	c.t.Helper()
	if fault := c.call("initialize", object{"capabilities": object{}}, nil); fault != nil {
		c.t.Fatal(fault)
	}
	c.notify("initialized", object{})
}

func (c *client) open(path, text string) (uri string) {
	c.t.Helper()
	uri = pathURI(path)
	c.notify("textDocument/didOpen", object{"textDocument": object{"uri": uri, "languageId": "hcl", "version": 1, "text": text}})
	return uri
}

func (c *client) change(uri string, version int, text string) {
	c.t.Helper()
	c.notify("textDocument/didChange", object{"textDocument": object{"uri": uri, "version": version}, "contentChanges": []object{{"text": text}}})
}

// problems waits until a version of a file has been checked.
func (c *client) problems(uri string, version int) []diagnostic {
	c.t.Helper()
	for {
		if p := c.told[uri]; p.Version != nil && *p.Version == version {
			return p.Diagnostics
		}
		c.next()
	}
}

// place is the parameters for a place of a document.
func place(uri string, line, character int) object {
	return object{"textDocument": object{"uri": uri}, "position": position{line, character}}
}
