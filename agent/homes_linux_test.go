package agent

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// lodger is this machine with one user, who has an .nccl.conf; it notes what is looked at.
type lodger struct {
	reader
	looked *bool
}

const lodgersConf = "/home/ann/.nccl.conf"

func (l lodger) ReadFile(path string) ([]byte, error) {
	if path == "/etc/passwd" {
		return []byte("ann:x:1000:1000::/home/ann:/bin/sh\n"), nil
	}
	return l.reader.ReadFile(path)
}

func (l lodger) Stat(path string) (host.FileStat, error) {
	if strings.HasPrefix(path, "/home/") {
		*l.looked = true
		return host.FileStat{}, nil
	}
	return l.reader.Stat(path)
}

// TestHomesAreLookedIntoOnlyWhereThatIsNeeded: what a transaction reads must not wait for one that is on
// a file server beyond the fabric.
func TestHomesAreLookedIntoOnlyWhereThatIsNeeded(t *testing.T) {
	machine, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []facts.Needs{{NCCL: true, Managers: true, Folders: []string{"/etc"}}, {Homes: true}} {
		looked := false
		s := &server{host: lodger{reader{machine, map[string][]byte{}}, &looked}}
		r, err := s.snapshot(t.Context(), SnapshotParams{Needs: n})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, p := range r.Snapshot.NCCLElse {
			found = found || p.Path == lodgersConf && !p.Unknown
		}
		if looked != n.Homes || found != n.Homes {
			t.Errorf("%+v: looked %v, found %v: %+v", n, looked, found, r.Snapshot.NCCLElse)
		}
	}
}
