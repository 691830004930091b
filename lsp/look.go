package lsp

import (
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
)

// job is a directory to check.
type job struct {
	dir     string
	open    []string // its files that are open in the editor, sorted
	alone   bool     // the result of the last check
	overlay map[string][]byte
}

// seen is the result of checking a directory: the problems of each file, by path.
type seen struct {
	dir      string
	alone    bool // each file is a separate fabric
	problems map[string][]diagnostic
	hosts    map[string]instances // by the directory or, if each file is a fabric, by the file; only fabrics without errors
}

// instances are the names of the hosts that a block with for_each makes, by the name of the block.
type instances map[string][]string

func instancesOf(f *fabric.Fabric) instances {
	out := instances{}
	for _, h := range f.Hosts {
		out[h.BlockName] = append(out[h.BlockName], h.Name)
	}
	return out
}

// look checks the fabric of a directory. If its files declare several fabrics, as in examples, each is a fabric of its own. If
// they declare the same names, each may be one. The interpretation with fewer errors is used.
func look(j job, o config.Options) seen {
	o.Overlay, o.Editing = j.overlay, true
	f, files, diags := config.Load(j.dir, o)
	out := seen{dir: j.dir, alone: j.alone, problems: map[string][]diagnostic{}, hosts: map[string]instances{}}
	switch {
	case len(files) < 2:
		out.alone = false
	case has[config.Several](diags):
		out.alone = true
	case has[config.Duplicate](diags):
		out.alone = j.alone || errorsAlone(files, o) < errorsIn(diags)
	case parsed(files):
		out.alone = false // if a file cannot be parsed, the last result is kept, because its names are unknown
	}
	if !out.alone {
		out.add(j.dir, f, j.open, files, diags)
		return out
	}
	for _, path := range j.open {
		f, files, diags := config.Load(path, o)
		out.add(path, f, []string{path}, files, diags)
	}
	return out
}

// add sorts problems by file. A problem without a position is shown in the open files.
func (s *seen) add(path string, f *fabric.Fabric, open []string, files map[string]*hcl.File, diags hcl.Diagnostics) {
	if f != nil {
		s.hosts[path] = instancesOf(f)
	}
	texts := map[string]*text{}
	for path, f := range files {
		texts[path] = newText(f.Bytes)
		s.problems[path] = []diagnostic{}
	}
	for _, d := range diags {
		out := diagnostic{Severity: severityError, Source: "fabricform", Message: strings.TrimSuffix(d.Summary, ".") + ". " + d.Detail}
		if d.Severity == hcl.DiagWarning {
			out.Severity = severityWarning
		}
		if d.Subject == nil || texts[d.Subject.Filename] == nil {
			for _, path := range open {
				s.problems[path] = append(s.problems[path], out)
			}
			continue
		}
		path := d.Subject.Filename
		if cure, is := d.Extra.(config.Suggestion); is {
			out.fix = newFix(cure, path, texts[path].src)
		}
		out.Range = texts[path].textRange(span{d.Subject.Start.Byte, d.Subject.End.Byte})
		s.problems[path] = append(s.problems[path], out)
	}
}

// has reports whether a problem is of the kind that its Extra says.
func has[Extra any](diags hcl.Diagnostics) bool {
	for _, d := range diags {
		if _, is := d.Extra.(Extra); is {
			return true
		}
	}
	return false
}

func parsed(files map[string]*hcl.File) bool {
	for _, f := range files {
		if f.Body == nil {
			return false
		}
	}
	return true
}

func errorsAlone(files map[string]*hcl.File, o config.Options) int {
	n := 0
	for path := range files {
		if config.IsFabric(path) {
			_, _, diags := config.Load(path, o)
			n += errorsIn(diags)
		}
	}
	return n
}

func errorsIn(diags hcl.Diagnostics) int {
	n := 0
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			n++
		}
	}
	return n
}
