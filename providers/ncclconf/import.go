package ncclconf

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl/env"
	"github.com/fabricform/fabricform/resource"
)

// variable is the name of a variable that a program may look for.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Import drafts the settings of the file that every NCCL on the host reads. A file of somebody else stays as it is.
func (provider) Import(ctx context.Context, r host.Reader, d *resource.Draft) error {
	f, err := facts.FileAt(ctx, r, fabric.NCCLConf)
	if err != nil || f == nil {
		return err
	}
	n := &d.Host.NCCL
	n.Env = map[string]string{}
	head, _, _ := strings.Cut(mark(""), `"`)
	ours := strings.HasPrefix(f.Text, head)
	sensitive := facts.SensitiveIn(f.Text)
	number := 0
	for line := range strings.Lines(f.Text) {
		number++
		name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		_, hidden := sensitive[name]
		_, again := n.Env[name] // the first one counts (setEnvFile in NCCL's src/misc/param.cc)
		switch {
		case !found || strings.HasPrefix(line, "#") || hidden || again:
		case !variable.MatchString(name):
			d.Leave("", fmt.Sprintf("line %d of %s: NCCL takes %q for the whole name of a variable, so that the line has no effect: write NAME=VALUE", number, fabric.NCCLConf, name))
		case !ours && !env.MayRead(name) && strings.HasPrefix(name, "NCCL_"):
			d.Leave("", fmt.Sprintf("%s in %s: no NCCL up to %s reads it; declare it if a newer one or a plugin does", name, fabric.NCCLConf, env.Newest))
		case !ours && !env.MayRead(name):
			d.Leave("", fmt.Sprintf("%s in %s: NCCL does not read it, so that no file of a fabric needs its value", name, fabric.NCCLConf))
		default:
			n.Env[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sensitive)) {
		d.Leave("", "NCCL variable "+name+": its value is sensitive; declare it with a sensitive variable")
	}
	if !ours {
		no := false
		n.Write = &no
	}
	return nil
}
