package checkpoint

import (
	"context"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/resource"
)

// textHost is a host with NCCL's file alone; "" is absence.
type textHost struct {
	host.Reader
	text string
}

func (h *textHost) Stat(_ context.Context, at string) (host.FileStat, error) {
	if at != host.NCCLConf || h.text == "" {
		return host.FileStat{}, fs.ErrNotExist
	}
	return host.FileStat{Mode: 0o644}, nil
}

func (h *textHost) ReadFile(context.Context, string) ([]byte, error) { return []byte(h.text), nil }

// TestARollbackShowsNoSensitiveValue: neither the value that it restores or removes, nor the one that somebody else has set
// since, even if the mark is gone. A difference that is not shown is a difference nevertheless.
func TestARollbackShowsNoSensitiveValue(t *testing.T) {
	const mark, name = "# sensitive: NCCL_X 11111111111111111111111111111111\n", "NCCL_X"
	for _, c := range []struct {
		before, committed, now string
		changes, kept          []string
	}{
		{"", mark + "NCCL_X=S3cr3t\n", mark + "NCCL_X=S3cr3t\n", []string{"/etc/nccl.conf: mode 0644 → ", "NCCL_X: (sensitive) → "}, nil},
		{mark + "NCCL_X=S3cr3t-1\n", mark + "NCCL_X=S3cr3t-2\n", mark + "NCCL_X=S3cr3t-2\n", []string{"NCCL_X: (sensitive) → (sensitive)"}, nil},
		{"NCCL_X=S3cr3t-1\n", mark + "NCCL_X=S3cr3t-2\n", "NCCL_X=S3cr3t-3\n", nil, []string{"NCCL_X: (sensitive) → (sensitive)"}},
		{"NCCL_Y=1\n", mark + "NCCL_X=S3cr3t\nNCCL_Y=2\n", mark + "NCCL_X =S3cr3t\nNCCL_Y=2\n", []string{"NCCL_Y: 2 → 1"}, []string{"NCCL_X :  → (sensitive)"}},
	} {
		h := &textHost{text: c.before}
		backup := must[*Backup](t)(TakeBackup(t.Context(), h, providers.Kinds(), []resource.Atom{resource.NewAtom("nccl", "file", host.NCCLConf)}, nil))
		h.text = c.committed
		backup.Committed = must[*Backup](t)(backup.Again(t.Context(), h, providers.Kinds()))
		h.text = c.now
		to, rev, err := backup.reverse(t.Context(), h, providers.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([][]string{c.changes, c.kept}, [][]string{asText(rev.Changes), asText(rev.Kept)}); d != "" {
			t.Errorf("%q: %s", c.now, d)
		}
		if raw := must[[]byte](t)(json.Marshal(rev)); strings.Contains(string(raw), "S3cr3t") {
			t.Errorf("%s", raw)
		}
		if text := string(must[[]byte](t)(json.Marshal(to.Parts))); strings.Contains(c.now, mark) && strings.Contains(text, name) && !strings.Contains(text, strings.TrimSpace(mark)) {
			t.Errorf("the mark is lost: %s", text)
		}
		h.text = strings.ReplaceAll(c.now, "S3cr3t", "S3cr3t-9")
		if again := must[Reversal](t)(backup.Reverse(t.Context(), h, providers.Kinds())); again.Digest() == rev.Digest() {
			t.Errorf("%q: another value has the same digest", c.now)
		}
	}
}
