package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/draft"
	"github.com/fabricform/fabricform/fabric"
)

// TestNoFileIsEverReplaced: neither one that came since the directory was looked at, nor what a link leads to.
func TestNoFileIsEverReplaced(t *testing.T) {
	dir := t.TempDir()
	file, link, to := filepath.Join(dir, "fabric.hcl"), filepath.Join(dir, "link.hcl"), filepath.Join(dir, "elsewhere")
	if err := writeNew(file, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		if err := writeNew(path, []byte("second")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "first" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file behind a link: %v", err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm()&0o022 != 0 {
		t.Errorf("%v, %v", st, err)
	}
}

// TestFilesAreOfOneFabric: of that which owns values on the hosts, if there is one.
func TestFilesAreOfOneFabric(t *testing.T) {
	for _, c := range []struct {
		owners      []string
		want, wrong string
	}{{nil, "", ""}, {[]string{"x"}, "x", ""}, {[]string{"y", "x"}, "", "several fabrics own values on these hosts (x, y)"}} {
		owners := map[string]bool{}
		for _, name := range c.owners {
			owners[name] = true
		}
		got, err := ownerOf(owners)
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.HasPrefix(err.Error(), c.wrong) {
			t.Errorf("%v: %q, %v", c.owners, got, err)
		}
	}
}

// TestWhatTheFilesDoNotDeclareIsNamed: a NIC that they lack, its state, and addresses that are in no comment.
func TestWhatTheFilesDoNotDeclareIsNamed(t *testing.T) {
	in := draft.Input{Hosts: []draft.Host{drafted("a", "9000 10.1.0.1/24", "1500")}}
	for want, change := range map[string]func(h *fabric.Host){
		"": func(*fabric.Host) {},
		"would not declare NIC a.rail1; please report this":                                                   func(h *fabric.Host) { h.NICs = h.NICs[:1] },
		"would declare up of NIC a.rail1 as false, and the host has true":                                     func(h *fabric.Host) { h.NICs[1].Up = false },
		"would declare addresses of NIC a.rail0 as [10.1.0.1/24 10.1.0.1/24], and the host has [10.1.0.1/24]": func(h *fabric.Host) { h.NICs[0].Addresses = append(h.NICs[0].Addresses, h.NICs[0].Addresses[0]) },
	} {
		declared := drafted("a", "9000 10.1.0.1/24", "1500").Model
		declared.Name = "a"
		change(declared)
		err := asImported(&fabric.Fabric{Hosts: []*fabric.Host{declared}}, in)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	declared := drafted("a", "9000", "1500").Model
	declared.Name = "a"
	in.Left = map[string]string{"nic a.rail0": "the same address twice"}
	if err := asImported(&fabric.Fabric{Hosts: []*fabric.Host{declared}}, in); err != nil {
		t.Errorf("addresses that are a comment: %v", err)
	}
}
