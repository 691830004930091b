package ncclconf

import (
	"context"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// conf is a host with that text in nccl.conf; "": without the file.
type conf struct {
	host.Reader
	text string
}

func (c conf) ReadFile(_ context.Context, path string) ([]byte, error) {
	if path != fabric.NCCLConf || c.text == "" {
		return nil, fs.ErrNotExist
	}
	return []byte(c.text), nil
}

func (conf) Stat(context.Context, string) (host.FileStat, error) {
	return host.FileStat{Mode: 0o644}, nil
}

// TestNCCLConfIsImportedAsNCCLReadsIt: without sensitive values, without lines that set nothing, and of two lines the first.
func TestNCCLConfIsImportedAsNCCLReadsIt(t *testing.T) {
	const foreign = "# NCCL_ALGO=Ring\nNCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\nNCCL_NET=\nNCCL_NET=IB\nexport NCCL_IB_TC=106\nNCCL_IB_HCA==mlx5_0:1\n  NCCL_PROTO=LL\n\nno setting\n"
	const program = "HF_TOKEN=hunter2\nNCCL_DEBUG=INFO\nNCLL_ALGO=Ring\nMASTER_PORT=1\nNCCL_FOO=hunter2\nNCCL_UCX_TLS=rc\n"
	const secret = facts.SensitiveMark + "NCCL_TOKEN salt\nNCCL_TOKEN=hunter2\nNCCL_DEBUG=INFO\n"
	for text, c := range map[string]struct {
		env   map[string]string
		left  []string
		write bool
	}{
		"":                              {nil, nil, true},
		foreign:                         {map[string]string{"NCCL_DEBUG": "INFO", "NCCL_NET": "", "NCCL_IB_HCA": "=mlx5_0:1"}, []string{`line 6 of /etc/nccl.conf: NCCL takes "export NCCL_IB_TC" for`, `line 8 of /etc/nccl.conf: NCCL takes "  NCCL_PROTO" for`}, false},
		program:                         {map[string]string{"NCCL_DEBUG": "INFO", "NCLL_ALGO": "Ring", "NCCL_UCX_TLS": "rc"}, []string{"HF_TOKEN in /etc/nccl.conf: NCCL does not read it", "MASTER_PORT in", "NCCL_FOO in /etc/nccl.conf: no NCCL up to 2."}, false},
		secret:                          {map[string]string{"NCCL_DEBUG": "INFO"}, []string{"NCCL variable NCCL_TOKEN: its value is sensitive"}, false},
		mark("f") + "NCCL_DEBUG=INFO\n": {map[string]string{"NCCL_DEBUG": "INFO"}, nil, true},
	} {
		d := &resource.Draft{Snapshot: &facts.Snapshot{}, Host: &fabric.Host{}}
		if err := (provider{}).Import(t.Context(), conf{text: text}, d); err != nil {
			t.Fatal(err)
		}
		n := d.Host.NCCL
		if !maps.Equal(n.Env, c.env) || (n.Env == nil) != (c.env == nil) || (n.Write == nil) != c.write || len(d.Remarks) != len(c.left) {
			t.Fatalf("%q: %+v, %+v", text, n, d.Remarks)
		}
		for i, want := range c.left {
			if !d.Remarks[i].Left || !strings.HasPrefix(d.Remarks[i].Text, want) || strings.Contains(d.Remarks[i].Text, "hunter2") {
				t.Errorf("%q, want %q", d.Remarks[i].Text, want)
			}
		}
	}
}
