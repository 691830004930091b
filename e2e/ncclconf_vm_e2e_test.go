//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSoftRoCENCCLConf: the file names RDMA devices that the same apply makes, and those alone that stay.
func TestSoftRoCENCCLConf(t *testing.T) {
	long(t)
	raw, err := os.ReadFile(softRoCE)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\nnccl {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	full := write("full.hcl", string(raw))
	before, rest, _ := strings.Cut(string(raw), "  rxe \"rxe\" {")
	_, after, _ := strings.Cut(rest, "\n  }\n")
	bare := write("bare.hcl", before+after)
	state := vmLabFor(t, full)
	conf := func() string { return inside(t, state, full, "node1", "cat", confFile) }

	try(t, state, "plan", "-lab", "-detailed-exitcode", full).want(t, 2, "NCCL_IB_HCA", "=rxe0,rxe1")
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", full).want(t, 0, "✓ node1.nccl.file")
	try(t, state, "plan", "-lab", "-detailed-exitcode", full).want(t, 0, "No changes")
	if got := conf(); !strings.Contains(got, "\nNCCL_IB_HCA==rxe0,rxe1\n") || strings.Contains(got, "GID_INDEX") {
		t.Errorf("written:\n%s", got)
	}
	try(t, state, "verify", "-lab", "-only", "nccl", full).want(t, 0, confFile)

	t.Run("a reboot keeps it", func(t *testing.T) {
		was := conf()
		try(t, state, "lab", "reboot", full, "node1").want(t, 0)
		if got := conf(); got != was {
			t.Errorf("after a reboot:\n%s", got)
		}
		try(t, state, "plan", "-lab", full).want(t, 0) // its own runtime state is another test's
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", full).want(t, 0)
	})
	t.Run("the devices go, and their names with them", func(t *testing.T) {
		try(t, state, "plan", "-lab", bare).want(t, 0, "=rxe0,rxe1", "NCCL_IB_DISABLE")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", bare).want(t, 0)
		if got := conf(); !strings.Contains(got, "\nNCCL_IB_DISABLE=1\n") || strings.Contains(got, "rxe0") {
			t.Errorf("written:\n%s", got)
		}
		try(t, state, "plan", "-lab", "-detailed-exitcode", bare).want(t, 0, "No changes")
	})
	t.Run("destroyed", func(t *testing.T) {
		try(t, state, "destroy", "-lab", "-auto-approve", bare).want(t, 0)
		if left := inside(t, state, full, "node1", "sh", "-c", "ls /etc | grep nccl || true"); left != "" {
			t.Errorf("left: %s", left)
		}
	})
}
