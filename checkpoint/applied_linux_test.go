package checkpoint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/resource"
)

func applied(fabric string) *resource.Applied {
	return &resource.Applied{Fabric: fabric, Build: "b", Time: time.Unix(1e9, 0).UTC(), Resources: []resource.Resource{{
		Addr: resource.Addr{Host: "a", Kind: "nic", Name: "rail0"}, Spec: json.RawMessage(`{"mtu":9000}`)}}}
}

// TestAppliedIsKeptWhole: for root alone, and what is damaged or could be somebody else's is an error that names the file and the cure.
func TestAppliedIsKeptWhole(t *testing.T) {
	s, _ := newFake(t)
	if all, err := s.Applied(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	for _, fabric := range []string{"lab", "b.lab"} {
		if err := s.KeepApplied(applied(fabric)); err != nil {
			t.Fatal(err)
		}
	}
	all := must[[]*resource.Applied](t)(s.Applied())
	if len(all) != 2 || all[0].Fabric != "b.lab" || all[1].Digest() != applied("lab").Digest() || all[0].Digest() == all[1].Digest() {
		t.Errorf("%+v", all)
	}
	path := must[string](t)(s.AppliedPath("lab"))
	info := must[os.FileInfo](t)(os.Stat(path))
	if info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
	whole := must[[]byte](t)(os.ReadFile(path))
	write := func(text []byte, mode os.FileMode) {
		t.Helper()
		_ = os.Remove(path)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what, want string) {
		t.Helper()
		if all, err := s.Applied(); err == nil || len(all) > 0 || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "remove the file, and apply the fabric again") {
			t.Errorf("%s: %v, %v", what, all, err)
		}
	}
	for i := range whole {
		text := append([]byte{}, whole...)
		text[i] ^= 1
		write(text, 0o600)
		refused("a changed byte", "is damaged")
		write(whole[:i], 0o600)
		refused("a part", "is damaged")
	}
	write(whole, 0o640)
	refused("others may read it", "by others than its owner")
	write(make([]byte, maxSavedFile+1), 0o600)
	refused("too large", "at most 1 MiB")
	write(whole, 0o600)
	if err := os.Rename(path, path+".x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".x", path); err != nil {
		t.Fatal(err)
	}
	refused("a link", "not a regular file")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(path), "other.applied")
	if err := os.Rename(path+".x", other); err != nil {
		t.Fatal(err)
	}
	path = other
	refused("of another fabric", `belongs to fabric "lab"`)
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}

	// What cannot be compared later is not kept, and neither is what was applied before.
	large := applied("b.lab")
	large.Resources[0].Spec = json.RawMessage(`"` + strings.Repeat("x", maxSavedFile) + `"`)
	for _, a := range []*resource.Applied{{Fabric: "b.lab"}, large} {
		if err := s.KeepApplied(applied("b.lab")); err != nil {
			t.Fatal(err)
		}
		if err := s.KeepApplied(a); err != nil {
			t.Fatal(err)
		}
		if all, err := s.Applied(); err != nil || len(all) != 0 {
			t.Error(all, err)
		}
	}
	for _, name := range []string{"", "../x", ".x", "a/b"} {
		if err := s.KeepApplied(applied(name)); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}
