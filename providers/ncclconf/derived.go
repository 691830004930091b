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

// Looks has what Derived looks at read. The folder of the file is looked into whether one is written or not:
// NCCL reads what is there.
func Looks(f *fabric.Fabric, h *fabric.Host) []resource.Resource {
	return []resource.Resource{resource.New(h.Name, Kind, "sources", fabric.Pos{}, Spec{File: cmp.Or(f.NCCLFile(h), host.NCCLConf), Sources: true})}
}

// Derived is the host's file, as it is right once the host is as declared; none where the files ask
// for none. gone are Soft-RoCE devices that are there and will not be.
func Derived(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot, gone ...string) []resource.Resource {
	file := f.NCCLFile(h)
	if file == "" {
		return nil
	}
	settled := nccl.Settled(h, snap, gone...)
	block := f.NCCLOf(h)
	s := Spec{Fabric: f.Name, File: file, Replace: block.Replace != nil && *block.Replace}
	var problems []nccl.Problem
	s.Env, problems = nccl.Derive(f, h, settled)
	// A wrong GID fails silently and late, so that nothing is written which would choose one. What an
	// address that is not declared makes of it is not known before: it is said, and verify fails.
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

// elsewhere says what NCCL takes before the file, or instead of it: a process's environment, then the file
// that NCCL_CONF_FILE names or else the home's, then /etc/nccl.conf.
func elsewhere(snap *facts.Snapshot, file string) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	named := ""
	for _, p := range snap.NCCLElse {
		for _, s := range p.Sets {
			name, value, _ := strings.Cut(s, "=")
			if name == "NCCL_CONF_FILE" {
				named = value
			} else {
				say("%s sets %s to %q, which wins over %s for everybody who logs in", p.Path, name, value, file)
			}
		}
	}
	switch {
	case named != "" && named != file:
		say("NCCL_CONF_FILE is %q for everybody who logs in, and NCCL reads that before %s", named, file)
	case named == "" && file != fabric.NCCLConf:
		say("NCCL reads %s only where NCCL_CONF_FILE names it: /etc/environment, or what starts a job, has to", file)
	}
	var silent []string
	for _, p := range snap.NCCLElse {
		switch {
		case len(p.Sets) > 0 || named != "":
		case p.Unknown:
			silent = append(silent, path.Dir(p.Path))
		default:
			say("%s is there: what it sets wins over %s for its user", p.Path, file)
		}
	}
	if more := len(silent) - maxNamed; more > 0 { // all homes of a file server are silent together
		silent = append(silent[:maxNamed], fmt.Sprintf("%d more", more))
	}
	if silent != nil {
		say("no answer from %s: whether an .nccl.conf there wins over %s for its user is not known", strings.Join(silent, ", "), file)
	}
	return out
}

// maxNamed is how many homes that do not answer are named.
const maxNamed = 3
