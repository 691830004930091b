package ncclconf

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/resource"
)

// Looks returns resources that make Gather read the facts for Derived. They include the folder of the file even if no
// file is written, because NCCL reads any file there.
func Looks(f *fabric.Fabric, h *fabric.Host) []resource.Resource {
	return []resource.Resource{resource.New(h.Name, Kind, "sources", fabric.Pos{}, Spec{File: cmp.Or(f.NCCLFile(h), host.NCCLConf), Sources: true})}
}

// Derived returns the resource for the host's NCCL file, for the state that the host has after apply; none if the fabric
// declares no file. gone lists existing Soft-RoCE devices that apply removes.
func Derived(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot, gone ...string) []resource.Resource {
	file := f.NCCLFile(h)
	if file == "" {
		return nil
	}
	settled := nccl.AfterApply(h, snap, gone...)
	block := f.NCCLOf(h)
	s := Spec{Fabric: f.Name, File: file, Replace: block.Replace != nil && *block.Replace}
	var problems []nccl.Problem
	s.Env, problems = nccl.Derive(f, h, settled)
	// A wrong GID fails silently and late, so nothing is written that would choose a wrong one. The effect of an
	// address that is not declared cannot be known in advance: it is reported, and verify fails.
	for _, p := range problems {
		if n := h.NIC(p.NIC); p.Of == nccl.WrongGID && n.AddressesSet {
			s.Wrong = append(s.Wrong, p.Text)
		} else {
			s.Notes = append(s.Notes, "NCCL: "+p.Text)
		}
	}
	s.Notes = append(s.Notes, elsewhere(snap, file)...)
	pos := h.NCCL.Pos
	if pos == (fabric.Pos{}) {
		pos = f.NCCL.Pos
	}
	return []resource.Resource{resource.New(h.Name, Kind, "file", pos, s)}
}

// elsewhere reports settings that override the file. NCCL reads the environment of the process, then the file that
// NCCL_CONF_FILE names or else .nccl.conf of the home, then /etc/nccl.conf.
func elsewhere(snap *facts.Snapshot, file string) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	named := ""
	for _, p := range snap.NCCLElse {
		for _, s := range p.Sets {
			name, value, _ := strings.Cut(s, "=")
			if name == "NCCL_CONF_FILE" {
				named = value
			} else {
				say("%s sets %s to %q, which overrides %s for all users who log in", p.Path, name, value, file)
			}
		}
	}
	switch {
	case named != "" && named != file:
		say("NCCL_CONF_FILE is %q for all users who log in, and NCCL reads that file before %s", named, file)
	case named == "" && file != fabric.NCCLConf:
		say("NCCL reads %s only if NCCL_CONF_FILE names it: set NCCL_CONF_FILE in /etc/environment, or in the environment of the job", file)
	}
	var silent []string
	for _, p := range snap.NCCLElse {
		switch {
		case len(p.Sets) > 0 || named != "":
		case p.Unknown:
			silent = append(silent, path.Dir(p.Path))
		default:
			say("%s exists: its settings override %s for its user", p.Path, file)
		}
	}
	if more := len(silent) - maxNamed; more > 0 { // all homes of a file server are silent together
		silent = append(silent[:maxNamed], fmt.Sprintf("%d more", more))
	}
	if silent != nil {
		say("no answer from %s: cannot tell whether an .nccl.conf there overrides %s for its user", strings.Join(silent, ", "), file)
	}
	return out
}

// maxNamed is how many of the homes that do not answer a note names.
const maxNamed = 3
