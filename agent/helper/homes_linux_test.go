package helper

import (
	"context"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/providers/ncclconf"
)

// lodger is this machine with one user, who has an .nccl.conf; it notes what is looked at.
type lodger struct {
	reader
	looked *bool
}

const lodgersConf = "/home/ann/.nccl.conf"

func (l lodger) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if path == "/etc/passwd" {
		return []byte("ann:x:1000:1000::/home/ann:/bin/sh\n"), nil
	}
	return l.reader.ReadFile(ctx, path)
}

func (l lodger) Stat(ctx context.Context, path string) (host.FileStat, error) {
	if strings.HasPrefix(path, "/home/") {
		*l.looked = true
		return host.FileStat{}, nil
	}
	return l.reader.Stat(ctx, path)
}

// TestHomesAreLookedIntoOnlyWhereThatIsNeeded: what a transaction reads must not wait for one that is on
// a file server beyond the fabric.
func TestHomesAreLookedIntoOnlyWhereThatIsNeeded(t *testing.T) {
	machine, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	h := &fabric.Host{Name: "h"}
	looks := providers.Looks(&fabric.Fabric{Name: "f", Hosts: []*fabric.Host{h}}, h)
	for _, ask := range []bool{true, false} {
		looked := false
		s := &server{host: lodger{reader{machine, map[string][]byte{}}, &looked}, kinds: providers.Kinds(), store: checkpoint.NewStore(t.TempDir(), checkpoint.Now)}
		r, err := s.snapshot(t.Context(), calls.SnapshotParams{Resources: looks, Ask: ask})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, p := range ncclconf.Part.Of(r.Snapshot) {
			found = found || p.Path == lodgersConf && !p.Unknown
		}
		if looked != ask || found != ask {
			t.Errorf("asking %v: looked %v, found %v: %+v", ask, looked, found, ncclconf.Part.Of(r.Snapshot))
		}
	}
}
