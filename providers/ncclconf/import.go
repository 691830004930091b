package ncclconf

import (
	"context"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Import drafts the settings of the file that every NCCL on the host reads. A file of somebody else stays as it is.
func (provider) Import(ctx context.Context, r host.Reader, d *resource.Draft) error {
	f, err := facts.FileAt(ctx, r, fabric.NCCLConf)
	if err != nil || f == nil {
		return err
	}
	n := &d.Host.NCCL
	n.Env = map[string]string{}
	sensitive := facts.SensitiveIn(f.Text)
	for line := range strings.Lines(f.Text) {
		name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if _, hidden := sensitive[name]; !found || strings.HasPrefix(line, "#") || hidden || n.Env[name] != "" {
			continue
		}
		n.Env[name] = value
	}
	for name := range sensitive {
		d.Leave("", "NCCL variable "+name+": its value is sensitive; declare it with a sensitive variable")
	}
	if ours, _, _ := strings.Cut(mark(""), `"`); !strings.HasPrefix(f.Text, ours) {
		no := false
		n.Write = &no
	}
	return nil
}
