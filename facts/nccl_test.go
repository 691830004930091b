package facts

import (
	"testing"

	"github.com/fabricform/fabricform/host"
)

// TestNCCLConfIsReadWhateverItIs: it is the one file of others in a snapshot, because NCCL takes it.
func TestNCCLConfIsReadWhateverItIs(t *testing.T) {
	var s Snapshot
	if err := s.ReadFiles(t.Context(), etc(t, map[string]string{"/etc/nccl.conf": "A=1\n", "/etc/shadow": "secret", "/etc/x-fabricform": "ours"}), "/etc"); err != nil {
		t.Fatal(err)
	}
	if len(s.Files) != 2 || s.Files[host.NCCLConf].Text != "A=1\n" || s.Files["/etc/x-fabricform"].Text != "ours" {
		t.Errorf("%+v", s.Files)
	}
	s = Snapshot{}
	if err := s.ReadFiles(t.Context(), etc(t, map[string]string{"/etc/nccl.conf/inside": ""}), "/etc"); err != nil || !s.Files[host.NCCLConf].Mode.IsDir() {
		t.Error(s.Files, err)
	}
}
