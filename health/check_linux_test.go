package health

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// checked is a host with one NIC, and records.
type checked struct {
	host.Reader
	mtu     int
	carrier bool
	records map[string][]byte
	look    func() // runs when the host is read
}

func (c *checked) Links(context.Context) ([]host.Link, error) {
	if c.look != nil {
		c.look()
	}
	return []host.Link{{Index: 2, Name: "eth1", MTU: c.mtu, Up: true, Carrier: c.carrier}}, nil
}
func (*checked) Addrs(context.Context) ([]host.Addr, error)           { return nil, nil }
func (*checked) Routes(context.Context) ([]host.Route, error)         { return nil, nil }
func (*checked) Rules(context.Context) ([]host.Rule, error)           { return nil, nil }
func (*checked) Sysctl(context.Context, string) (string, error)       { return "", fs.ErrNotExist }
func (*checked) ReadDir(context.Context, string) ([]string, error)    { return nil, fs.ErrNotExist }
func (*checked) Readlink(context.Context, string) (string, error)     { return "", fs.ErrNotExist }
func (c *checked) Records(context.Context) (map[string][]byte, error) { return c.records, nil }
func (*checked) ReadFile(_ context.Context, path string) ([]byte, error) {
	if path == "/sys/class/net/eth1/carrier_down_count" {
		return []byte("7\n"), nil
	}
	return nil, fs.ErrNotExist
}

// nics is a kind whose specs are MTUs.
var nics = resource.Kinds{{Name: "nic", NIC: true, Local: true, Stage: resource.StageRuntime,
	Device: func(*facts.Snapshot, json.RawMessage) string { return "eth1" },
	Common: func(*facts.Snapshot, json.RawMessage, resource.Change) bool { return false },
	Undone: func(spec json.RawMessage, _ []resource.Change) json.RawMessage { return spec },
	Plan: func(snap *facts.Snapshot, spec json.RawMessage) (d resource.Difference, err error) {
		var mtu int
		if err := json.Unmarshal(spec, &mtu); err != nil {
			return d, &resource.SpecError{Kind: "nic", Err: err}
		}
		d.Exists = true
		if is := snap.Links[0].MTU; is != mtu {
			d.Changes = []resource.Change{{Attribute: "mtu", From: "1500", To: "9000", Stage: resource.StageRuntime}}
		}
		return d, nil
	}}}

func rail0(spec string) *resource.Applied {
	nic := resource.Addr{Host: "a", Kind: "nic", Name: "rail0"}
	return &resource.Applied{Fabric: "f", Build: "b", Time: time.Unix(0, 0), Resources: []resource.Resource{{Addr: nic, Spec: json.RawMessage(spec)}}, Cabled: []resource.Addr{nic}}
}

// TestCheck: only what is certain is a verdict.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		host    checked
		applied *resource.Applied
		before  func(t *testing.T, h *checked, s *checkpoint.Store, dir string)
		state   State
		says    string
	}{
		"as it was applied":      {host: checked{mtu: 9000, carrier: true}, applied: rail0("9000"), state: Healthy},
		"it differs":             {host: checked{mtu: 1500, carrier: true}, applied: rail0("9000"), state: Unhealthy, says: "nic.rail0: mtu"},
		"no carrier":             {host: checked{mtu: 9000}, applied: rail0("9000"), state: Unhealthy, says: "eth1 has no carrier"},
		"nothing known":          {host: checked{mtu: 9000}, state: Unknown, says: "nothing is known to be applied here"},
		"another release's spec": {host: checked{mtu: 1500}, applied: rail0(`"9000"`), state: Unknown, says: "decode spec of nic"},
		"another release's record": {host: checked{mtu: 1500, records: map[string][]byte{"f": []byte(`{"version":99,"fabric":"f"}`)}}, applied: rail0("9000"), state: Unknown,
			says: `the ownership record of fabric "f" is damaged, or another release wrote it`},
		"a damaged record": {host: checked{mtu: 1500, records: map[string][]byte{"f": []byte("{")}}, applied: rail0("9000"), state: Unknown, says: `of fabric "f" is damaged`},
		"an apply is in progress": {host: checked{mtu: 1500}, applied: rail0("9000"), state: Unknown, says: `a transaction of fabric "g" is open`,
			before: func(t *testing.T, _ *checked, s *checkpoint.Store, _ string) { begin(t, s) }},
		"an apply began meanwhile": {host: checked{mtu: 1500}, applied: rail0("9000"), state: Unknown, says: `a transaction of fabric "g" was opened during the check`,
			before: func(t *testing.T, h *checked, s *checkpoint.Store, _ string) { h.look = func() { begin(t, s) } }},
		"a pipe": {host: checked{mtu: 1500}, applied: rail0("9000"), state: Unknown, says: "not a regular file", before: func(t *testing.T, _ *checked, _ *checkpoint.Store, dir string) {
			replace(t, dir, func(path string) error { return syscall.Mkfifo(path, 0o600) })
		}},
		"a link": {host: checked{mtu: 1500}, applied: rail0("9000"), state: Unknown, says: "not a regular file", before: func(t *testing.T, _ *checked, _ *checkpoint.Store, dir string) {
			replace(t, dir, func(path string) error { return os.Symlink(path+".old", path) })
		}},
		"readable for all": {host: checked{mtu: 1500}, applied: rail0("9000"), state: Unknown, says: "can be read or written by others", before: func(t *testing.T, _ *checked, _ *checkpoint.Store, dir string) {
			if err := os.Chmod(filepath.Join(dir, "f.applied"), 0o604); err != nil {
				t.Fatal(err)
			}
		}},
		"of another user": {host: checked{mtu: 1500}, applied: rail0("9000"), state: Unknown, says: "can be read or written by others", before: func(t *testing.T, _ *checked, _ *checkpoint.Store, dir string) {
			if os.Getuid() != 0 {
				t.Skip("needs root")
			}
			if err := os.Chown(filepath.Join(dir, "f.applied"), 64123, 64123); err != nil {
				t.Fatal(err)
			}
		}},
		"damaged": {host: checked{mtu: 1500}, applied: rail0("9000"), state: Unknown, says: "is damaged", before: func(t *testing.T, _ *checked, _ *checkpoint.Store, dir string) {
			replace(t, dir, func(path string) error {
				text, err := os.ReadFile(path + ".old")
				return errors.Join(err, os.WriteFile(path, []byte(strings.Replace(string(text), "9000", "8000", 1)), 0o600))
			})
		}},
		"huge": {host: checked{mtu: 1500}, applied: rail0("9000"), state: Unknown, says: "at most 1 MiB", before: func(t *testing.T, _ *checked, _ *checkpoint.Store, dir string) {
			if err := os.Truncate(filepath.Join(dir, "f.applied"), 1<<40); err != nil {
				t.Fatal(err)
			}
		}},
		"another fabric's": {host: checked{mtu: 1500}, applied: rail0("9000"), state: Unknown, says: `belongs to fabric "f"`, before: func(t *testing.T, _ *checked, _ *checkpoint.Store, dir string) {
			if err := os.Rename(filepath.Join(dir, "f.applied"), filepath.Join(dir, "g.applied")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := checkpoint.NewStore(dir, checkpoint.Now)
			if c.applied != nil {
				if err := s.KeepApplied(c.applied); err != nil {
					t.Fatal(err)
				}
			}
			h := c.host
			if c.before != nil {
				c.before(t, &h, s, dir)
			}
			v := Check(t.Context(), &h, nics, s)
			if said := strings.Join(v.Problems, "; "); v.State != c.state || !strings.Contains(said, c.says) || v.Check() != nil {
				t.Errorf("%s: %q, %v", v.State, said, v.Check())
			}
			if v.State == Healthy && v.Counters["eth1 carrier_down_count"] != 7 {
				t.Errorf("counters: %v", v.Counters)
			}
		})
	}
}

func begin(t *testing.T, s *checkpoint.Store) {
	t.Helper()
	if _, err := s.Begin(checkpoint.Request{Fabric: "g", Plan: "p", Run: "r", Hosts: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
}

// replace puts something else where the file is that says what was applied, which stays beside it.
func replace(t *testing.T, dir string, with func(path string) error) {
	t.Helper()
	path := filepath.Join(dir, "f.applied")
	if err := errors.Join(os.Rename(path, path+".old"), with(path)); err != nil {
		t.Fatal(err)
	}
}
