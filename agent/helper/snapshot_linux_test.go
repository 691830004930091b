package helper

import (
	"context"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers"
)

// card is this machine with one RDMA device, whose GID table has one slot.
type card struct{ reader }

func (card) ReadDir(_ context.Context, path string) ([]string, error) {
	switch {
	case strings.HasSuffix(path, "/infiniband"):
		return []string{"mlx5_0"}, nil
	case strings.HasSuffix(path, "/ports"):
		return []string{"1"}, nil
	case strings.HasSuffix(path, "/gids"):
		return []string{"0"}, nil
	}
	return nil, nil
}

func (c card) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if strings.HasSuffix(path, "/gids/0") {
		return []byte("0000:0000:0000:0000:0000:ffff:0a14:0001\n"), nil
	}
	return c.reader.ReadFile(ctx, path)
}

// TestASnapshotHasTheGIDTables: the client predicts NCCL's choice from them, and no other gather reads them.
func TestASnapshotHasTheGIDTables(t *testing.T) {
	machine, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{host: card{reader{machine, map[string][]byte{}}}, kinds: providers.Kinds(), store: checkpoint.NewStore(t.TempDir(), checkpoint.Now)}
	r, err := s.snapshot(t.Context(), calls.SnapshotParams{})
	if err != nil {
		t.Fatal(err)
	}
	if d := r.Snapshot.RDMA; len(d) != 1 || len(d[0].GIDs) != 1 || d[0].GIDs[0].Addr.Unmap().String() != "10.20.0.1" {
		t.Errorf("%+v", d)
	}
}
