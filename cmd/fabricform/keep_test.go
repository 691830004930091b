package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/view"
)

// TestConnectionsAreKeptForASaneTimeInAPrivateFolder: everything else is refused before a file is read.
func TestConnectionsAreKeptForASaneTimeInAPrivateFolder(t *testing.T) {
	own, err := os.MkdirTemp("", "k") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(own)
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ folder, keep, want string }{
		{own, "5m", "no-such.hcl"},
		{own, "8h", "no-such.hcl"},
		{own, "0", "-keep-connections must be from 1s to 8h; leave it out to keep no connection"},
		{own, "0s", "must be from 1s to 8h"},
		{own, "-5m", "must be from 1s to 8h"},
		{own, "999ms", "must be from 1s to 8h"},
		{own, "8h0m1s", "must be from 1s to 8h"},
		{own, "five", "takes a number with a unit"},
		{"", "5m", "-keep-connections: XDG_RUNTIME_DIR is not set to an absolute path: set it to a folder of your own with mode 0700"},
		{open, "5m", "has mode 0777, which lets other users in"},
	} {
		t.Setenv("XDG_RUNTIME_DIR", c.folder)
		for _, command := range []string{"plan", "apply", "verify", "destroy"} {
			var said bytes.Buffer
			root := rootCommand(&app{out: view.New(&said), err: view.New(&said)})
			root.SetArgs([]string{command, "--keep-connections=" + c.keep, "no-such.hcl"})
			if err := root.Execute(); err == nil || !strings.Contains(said.String()+err.Error(), c.want) {
				t.Errorf("%s -keep-connections=%s in %q: %v: %s; want %q", command, c.keep, c.folder, err, said.String(), c.want)
			}
		}
	}
	t.Setenv("XDG_RUNTIME_DIR", own)
	var out bytes.Buffer
	root := rootCommand(&app{out: view.New(&out), err: view.New(&out)})
	root.SetArgs([]string{"disconnect"})
	if err := root.Execute(); err != nil || out.String() != "No connection is kept.\n" {
		t.Errorf("%v: %s", err, out.String())
	}
}
