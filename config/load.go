// Package config reads a fabric's files and makes the typed model of package fabric from them,
// or says everything that is wrong with them at once. It contacts no host. Evaluation goes in
// strata (variables, hosts and NICs, links, the rest), so that references can never form a cycle.
package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

const evalDeadline = 10 * time.Second

// Options are what comes from outside the files.
type Options struct {
	Vars     []string // "name=value" of -var, in order
	VarFiles []string // of -var-file, in order; they win over *.auto.fabricvars
	Env      []string // as os.Environ; FABRICFORM_VAR_N gives variable N
	Version  string   // of this program, for required_version; "" and "dev" satisfy everything
}

// Load reads a directory or file and reports all problems at once. The Fabric is nil when the
// diagnostics have errors; the files serve to show snippets and are returned either way.
func Load(path string, o Options) (*fabric.Fabric, map[string]*hcl.File, hcl.Diagnostics) {
	names, err := Files(path)
	if err != nil {
		return nil, nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "No fabric files", Detail: err.Error() + ". Name a directory with *.hcl files, or one file."}}
	}
	l := newLoader(path, o)
	total := 0
	var bodies []*hclsyntax.Body
	for _, name := range names {
		if b := l.parse(name, &total); b != nil {
			bodies = append(bodies, b)
		}
	}
	if l.diags.HasErrors() {
		return nil, l.files, l.diags
	}
	snapshot := make(map[string]*hcl.File, len(l.files))
	for k, v := range l.files {
		snapshot[k] = v
	}
	done := make(chan *fabric.Fabric, 1)
	go func() { done <- l.run(bodies) }()
	select {
	case f := <-done:
		sort.SliceStable(l.diags, func(i, j int) bool {
			a, b := l.diags[i].Subject, l.diags[j].Subject
			if a == nil || b == nil {
				return a == nil && b != nil
			}
			return a.Filename < b.Filename || a.Filename == b.Filename && a.Start.Byte < b.Start.Byte
		})
		l.diags = once(l.diags)
		if l.diags.HasErrors() {
			f = nil
		}
		return f, l.files, l.diags
	case <-time.After(evalDeadline):
		// HCL evaluation cannot be interrupted; the goroutine is left behind and the command ends.
		return nil, snapshot, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Evaluation takes too long",
			Detail: "The fabric's expressions were not evaluated within 10 seconds. Look for nested for expressions that multiply."}}
	}
}

// once leaves out what was said before: a mistake in a block with for_each is found per instance.
func once(diags hcl.Diagnostics) hcl.Diagnostics {
	seen := map[string]bool{}
	var out hcl.Diagnostics
	for _, d := range diags {
		if key := d.Error(); !seen[key] {
			seen[key] = true
			out = append(out, d)
		}
	}
	return out
}

// Files lists the *.hcl files of a fabric, sorted.
func Files(path string) ([]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if !st.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".hcl") && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	sort.Strings(names)
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no *.hcl file", path)
	}
	return names, nil
}

// Format returns the source in canonical layout, or what keeps it from being parsed.
func Format(src []byte, filename string) ([]byte, hcl.Diagnostics) {
	if d := guard(src, filename); d.HasErrors() {
		return nil, d
	}
	if _, d := hclsyntax.ParseConfig(src, filename, hcl.InitialPos); d.HasErrors() {
		return nil, hint(d)
	}
	return hclwrite.Format(src), nil
}

func (l *loader) parse(name string, total *int) *hclsyntax.Body {
	src, err := readCapped(name)
	if err != nil {
		l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Cannot read a fabric file", Detail: err.Error() + "."})
		return nil
	}
	*total += len(src)
	l.files[name] = &hcl.File{Bytes: src}
	if *total > maxTotalBytes {
		l.diags = append(l.diags, fail(hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}, "Fabric too large", "All files together may have 16 MiB.")...)
		return nil
	}
	if d := guard(src, name); d.HasErrors() {
		l.diags = append(l.diags, d...)
		return nil
	}
	f, d := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	l.diags = append(l.diags, hint(d)...)
	if f == nil || d.HasErrors() {
		return nil
	}
	l.files[name] = f
	return f.Body.(*hclsyntax.Body)
}

// readCapped reads a regular file of at most 4 MiB; a device or pipe would block or never end.
func readCapped(name string) ([]byte, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(src) > maxFileBytes {
		return nil, fmt.Errorf("%s is larger than 4 MiB", name)
	}
	return src, nil
}

// hint adds what to do to the parser's own messages.
func hint(diags hcl.Diagnostics) hcl.Diagnostics {
	for _, d := range diags {
		if d.Summary == "Missing newline after argument" || strings.Contains(d.Detail, "single-line block") {
			d.Detail += " Put each argument on a line of its own."
		}
	}
	return diags
}
