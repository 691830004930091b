package facts

import (
	"context"
	"io/fs"
	"testing"

	"github.com/fabricform/fabricform/host"
)

// still is a host without a network, which notes what is looked at.
type still struct {
	tree
	looked map[string]bool
}

func (still) Links(_ context.Context) ([]host.Link, error)   { return nil, nil }
func (still) Addrs(_ context.Context) ([]host.Addr, error)   { return nil, nil }
func (still) Routes(_ context.Context) ([]host.Route, error) { return nil, nil }
func (still) Rules(_ context.Context) ([]host.Rule, error)   { return nil, nil }
func (still) Sysctl(context.Context, string) (string, error) { return "", fs.ErrNotExist }
func (still) Dump(context.Context, uint16) ([][]byte, error) { return nil, nil }
func (s still) note(p string)                                { s.looked[p] = true }
func (s still) ReadFile(ctx context.Context, p string) ([]byte, error) {
	s.note(p)
	return s.tree.ReadFile(ctx, p)
}

func (s still) Stat(ctx context.Context, p string) (host.FileStat, error) {
	s.note(p)
	return s.tree.Stat(ctx, p)
}

// TestGatherNeverLooksIntoHomes: a home may be on a file server that only the fabric leads to, and a
// read of it waits as long as the fabric is down.
func TestGatherNeverLooksIntoHomes(t *testing.T) {
	const at = "/home/ann/.nccl.conf"
	r := etc(t, map[string]string{"/etc/passwd": "ann:x:1000:1000::/home/ann:/bin/sh\n", at: "NCCL_DEBUG=WARN\n"})
	s := still{r, map[string]bool{}}
	snap, err := Gather(t.Context(), s, Connection{})
	if err != nil {
		t.Fatal(err)
	}
	snap.ReadNCCL(t.Context(), s)
	if err := snap.ReadFiles(t.Context(), s, "/etc"); err != nil || s.looked[at] {
		t.Errorf("%v, %v", err, s.looked[at])
	}
}
