// Package config loads a fabric's files into the typed model of package fabric, or reports all their
// problems at once. It contacts no host.
//
// Evaluation proceeds in strata: variables and locals, hosts and NICs, links and networks, everything
// else. An expression sees only earlier strata, so references cannot form a cycle. The language itself
// is defined by the tags of package fabric.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/fabricform/fabricform/fabric"
)

// Options are the inputs from outside the files.
type Options struct {
	Inputs  []Input  // from -var and -var-file, in order; they override fabricform.fabricvars and *.auto.fabricvars
	Env     []string // as os.Environ; FABRICFORM_VAR_N sets variable N; see docs/language.md
	Version string   // of this program, for required_version; "", "dev" and builds between releases satisfy every constraint

	// Overlay replaces the text of files, by path: unsaved text of an editor. A file that exists only
	// in the overlay belongs to the fabric as well.
	Overlay map[string][]byte

	// Validating also looks for the files that the fabric names and that only some commands need, and warns of a fabric
	// without hosts.
	Validating bool

	// Editing accepts variables without a value, because an editor does not know the command line.
	// Everything that depends on such a variable is missing from the Fabric.
	Editing bool
}

// files lists the files of the path and those that exist only in the overlay.
func (o Options) files(path string) ([]string, error) {
	if _, has := o.Overlay[path]; has {
		return []string{path}, nil
	}
	names, err := Files(path)
	for name := range o.Overlay {
		if filepath.Dir(name) == filepath.Clean(path) && IsFabric(filepath.Base(name)) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > 0 {
		err = nil
	}
	return names, err
}

// Load loads a directory or file and reports all problems at once. The Fabric is nil if the
// diagnostics contain errors. The files are returned either way, to show snippets.
func Load(path string, o Options) (*fabric.Fabric, map[string]*hcl.File, hcl.Diagnostics) {
	names, err := o.files(path)
	if err != nil {
		return nil, nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "No fabric files",
			Detail: err.Error() + ". Name a directory with *.hcl files or one such file."}}
	}
	l := newLoader(path, o)
	total := 0
	var bodies []*hclsyntax.Body
	for _, name := range names {
		if b := l.parse(name, language(), &total); b != nil {
			bodies = append(bodies, b)
		}
	}
	if several := severalFabrics(path, bodies); several != nil {
		return nil, l.files, hcl.Diagnostics{several}
	}
	if !l.diags.HasErrors() && !l.within(patience(), func() { l.run(bodies) }) {
		return nil, l.files, hcl.Diagnostics{l.meter.stuck()}
	}
	diags := tidy(l.redacted(), o.Editing)
	if diags.HasErrors() {
		return nil, l.files, diags
	}
	return l.f, l.files, diags
}

// Several is the Extra of the diagnostic about files of one directory that are different fabrics.
type Several struct{}

// severalFabrics says that the files of a directory declare different fabrics: each block of one would be a mistake in the
// other.
func severalFabrics(path string, bodies []*hclsyntax.Body) *hcl.Diagnostic {
	var said []string
	names, files := map[string]bool{}, map[string]bool{}
	var last hcl.Range
	for _, body := range bodies {
		for _, b := range body.Blocks {
			if b.Type == "fabric" && len(b.Labels) == 1 {
				last = b.DefRange()
				names[b.Labels[0]], files[last.Filename] = true, true
				said = append(said, fmt.Sprintf("%s declares %q", last.Filename, b.Labels[0]))
			}
		}
	}
	if len(names) < 2 || len(files) < 2 {
		return nil
	}
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Several fabrics in one directory", Subject: &last, Extra: Several{},
		Detail: fmt.Sprintf("All files of %s are one fabric, but %s. Name one of the files instead of the directory.",
			path, strings.Join(said, ", "))}
}

// within runs work and reports whether it finished in time. The meter cannot interrupt a single call
// of an HCL or cty function. Work that does not finish keeps running in its goroutine, and nothing that
// it touches is used again.
func (l *loader) within(limit time.Duration, work func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// redacted removes sensitive strings from messages.
func (l *loader) redacted() hcl.Diagnostics {
	for _, d := range l.diags {
		shown := l.hidden.Redact(d.Detail)
		if _, is := d.Extra.(Suggestion); is && shown != d.Detail {
			d.Extra = nil
		}
		d.Detail = shown
	}
	return l.diags
}

// hideRange removes a range from the text that snippets show. Places in the file stay the same.
func (l *loader) hideRange(r hcl.Range) {
	f := l.files[r.Filename]
	if f == nil || r.End.Byte > len(f.Bytes) {
		return
	}
	f.Bytes = slices.Clone(f.Bytes)
	text := f.Bytes[r.Start.Byte:r.End.Byte]
	for i, b := range text {
		if b != '\n' {
			text[i] = ' '
		}
	}
	copy(text, "***")
}

// unknownNames are the summaries of problems with names that no block declares.
var unknownNames = []string{"Unknown host", "Unknown variable", "Unknown local", "Unknown NIC"}

// tidy sorts problems by place, and joins those that are one mistake: the same problem of several instances of a block, and the
// same unknown name in several places, unless an editor shows them.
func tidy(diags hcl.Diagnostics, editing bool) (out hcl.Diagnostics) {
	sort.SliceStable(diags, func(i, j int) bool {
		a, b := diags[i].Subject, diags[j].Subject
		if a == nil || b == nil {
			return a == nil && b != nil
		}
		return a.Filename < b.Filename || a.Filename == b.Filename && a.Start.Byte < b.Start.Byte
	})
	said, more := map[string]bool{}, map[*hcl.Diagnostic]int{}
	first := map[string]*hcl.Diagnostic{}
	for _, d := range diags {
		if said[d.Error()] {
			continue
		}
		said[d.Error()] = true
		mistake := d.Summary
		if d.Subject == nil || slices.Contains(unknownNames, d.Summary) && !editing {
			mistake += d.Detail
		} else {
			mistake += d.Subject.String()
		}
		if f := first[mistake]; f != nil {
			more[f]++
			continue
		}
		first[mistake] = d
		out = append(out, d)
	}
	for d, n := range more {
		d.Detail += fmt.Sprintf(" %d more like this.", n)
	}
	return out
}

// IsFabric reports whether a file with this name belongs to a fabric, in native or JSON syntax.
func IsFabric(name string) bool {
	return (strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".hcl.json")) && !strings.HasPrefix(name, ".")
}

// Files lists the *.hcl and *.hcl.json files of a fabric, sorted.
func Files(path string) ([]string, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no directory or file has the name %s", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, errors.Unwrap(err))
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
		if !e.IsDir() && IsFabric(e.Name()) {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no *.hcl file", path)
	}
	return names, nil
}

// FilesBelow lists the *.hcl and *.hcl.json files of a directory and of those below it, sorted. Directories whose names begin with a
// dot are left out.
func FilesBelow(path string) (names []string, err error) {
	st, err := os.Stat(path)
	if err != nil || !st.IsDir() {
		return Files(path)
	}
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && at != path && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && IsFabric(d.Name()):
			names = append(names, at)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s and the directories below it have no *.hcl file", path)
	}
	return names, nil
}

// ReadInput reads a file's text from a stream: at most 4 MiB.
func ReadInput(in io.Reader) ([]byte, error) {
	src, err := io.ReadAll(io.LimitReader(in, maxFileBytes+1))
	if err == nil && len(src) > maxFileBytes {
		err = errors.New("it is larger than 4 MiB")
	}
	return src, err
}

// Format returns the source in canonical layout, or the problems that prevent parsing it. JSON is
// returned unchanged, because the program that writes it decides its layout.
func Format(src []byte, filename string) ([]byte, hcl.Diagnostics) {
	if d := savedPlan(src, filename); d.HasErrors() {
		return nil, d
	}
	if strings.HasSuffix(filename, ".json") {
		return src, nil
	}
	if d := guard(src, filename); d.HasErrors() {
		return nil, d
	}
	if _, d := hclsyntax.ParseConfig(src, filename, hcl.InitialPos); d.HasErrors() {
		return nil, hint(d, src)
	}
	return hclwrite.Format(src), nil
}

// savedPlan returns a diagnostic if the text is a saved plan.
func savedPlan(src []byte, name string) hcl.Diagnostics {
	if !bytes.HasPrefix(src, []byte(fabric.SavedPlan)) {
		return nil
	}
	by := fabric.Invocation{Path: name}
	return fail(hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}, "Saved plan",
		fmt.Sprintf("%s is a plan that plan -out saved, not a file of a fabric. To see it, run %s; to make its changes, run %s. "+
			"Other commands need the fabric: name its directory or file.", name, by.Hint("show"), by.Hint("apply")))
}

// parse parses one file in native or JSON syntax. total counts the bytes of all files.
func (l *loader) parse(name string, spec *block, total *int) *hclsyntax.Body {
	src, err := l.read(name)
	if err != nil {
		l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Cannot read a fabric file", Detail: err.Error() + "."})
		return nil
	}
	*total += len(src)
	l.files[name] = &hcl.File{Bytes: src}
	if *total > maxTotalBytes {
		l.diags = append(l.diags, fail(hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}, "Fabric too large",
			"All files together may have at most 16 MiB.")...)
		return nil
	}
	if d := savedPlan(src, name); d.HasErrors() {
		l.diags = append(l.diags, d...)
		return nil
	}
	if strings.HasSuffix(name, ".json") {
		return l.parseJSON(src, name, spec)
	}
	if d := guard(src, name); d.HasErrors() {
		l.diags = append(l.diags, d...)
		return nil
	}
	f, d := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	l.diags = append(l.diags, hint(d, src)...)
	if f == nil || d.HasErrors() {
		return nil
	}
	l.files[name] = f
	body := f.Body.(*hclsyntax.Body)
	l.meter.measure(body)
	return body
}

func (l *loader) read(name string) ([]byte, error) {
	src, ok := l.options.Overlay[name]
	if !ok {
		return ReadFile(name)
	}
	if len(src) > maxFileBytes {
		return nil, fmt.Errorf("%s is larger than 4 MiB", name)
	}
	return src, nil
}

// kernelFolders have files that are regular by their mode, although a read may block, never end, or take something away.
var kernelFolders = []string{"/proc/", "/sys/"}

// ReadFile reads a regular file of at most 4 MiB. A device or pipe could block or never end.
func ReadFile(name string) ([]byte, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	at, err := filepath.EvalSymlinks(name)
	if err == nil {
		at, err = filepath.Abs(at)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if !st.Mode().IsRegular() || slices.ContainsFunc(kernelFolders, func(dir string) bool { return strings.HasPrefix(at, dir) }) {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	src, err := ReadInput(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return src, nil
}

// parserHints are cures for the parser's own messages. The first row that fits counts.
var parserHints = []struct {
	summary string
	at      string // matches the text where the parser stopped
	cure    string
}{
	{"Missing newline after argument", `^(or|and|not|is|in|then|else|if)\b`, "The operators are ||, &&, !, == and CONDITION ? a : b."},
	{"Missing newline after argument", `^(_\d|[xX][0-9a-fA-F])`, "Write numbers with digits only: 9000."},
	{"Missing newline after argument", "", "Put each argument on its own line. Text needs quotes, and numbers have no units."},
	{"Missing key/value separator", "^}", "An object has keys: { a = 1 }. A variable is var.name, without braces."},
	{"Missing key/value separator", "", `A block has no equals sign: host "a" { … }.`},
	{"Invalid number literal", "", "Addresses and other text need quotes."},
	{"Invalid block definition", "^=", `Remove it: name "label" { … }.`},
	{"Invalid block definition", `^\[`, `Write braces: name "label" { … }.`},
	{"Invalid block definition", "", "An attribute needs an equals sign: name = value."},
	{"Argument or block definition required", "^}", "There is one closing brace too many, here or above."},
	{"Argument or block definition required", `^[\w-]+ *(:|=>|==)`, "Write one equals sign: name = value."},
	{"Argument or block definition required", "^-", "A list is written as [a, b], and a block as name \"label\" { … }."},
	{"Argument or block definition required", "", `Write name = value or name "label" { … }. Comments begin with #.`},
	{"Unexpected comma after argument", "", "Remove the comma. A list needs brackets: [a, b]."},
	{"Missing item separator", "", "If the list ends before this, its closing bracket is missing."},
	{"Unbalanced parentheses", "^,", "A list has square brackets: [a, b]."},
	{"Invalid expression", `^\s`, "The value is missing."},
	{"Invalid expression", `^\?`, "For a value that may be missing, write try(a, b) or coalesce(a, b)."},
	{"Invalid expression", `^\*`, "A comment that begins with /* ends with */."},
	{"Invalid expression", "^>", "An arrow is =>, as in { for k, v in m : k => v }."},
	{"Invalid expression", "^,", "There is one comma too many."},
	{"Unterminated template string", "", "A text that begins with <<EOT ends with a line that has only EOT."},
	{"Invalid character", `^\$`, "Outside quotes, write var.name instead of ${var.name}."},
	{"Invalid string literal", "", "A label is a fixed name; for_each makes several instances of a block."},
}

// hint adds cures to the parser's own messages, and leaves out those that only follow from the one before: on the same line, or
// after a missing quote.
func hint(diags hcl.Diagnostics, src []byte) (out hcl.Diagnostics) {
	for _, d := range diags {
		if d.Summary == unclosed {
			return append(out, missingQuote(src, d.Subject.Filename, *d.Subject))
		}
		if n := len(out); n > 0 && d.Subject != nil && out[n-1].Subject != nil {
			last := out[n-1]
			if last.Severity == d.Severity && last.Subject.Start.Line == d.Subject.Start.Line {
				continue
			}
		}
		if strings.Contains(d.Detail, "single-line block") || strings.Contains(d.Detail, "single-argument block") {
			d.Detail += " Put each argument on its own line."
		}
		for _, h := range parserHints {
			if d.Summary == h.summary && (h.at == "" || d.Subject != nil &&
				regexp.MustCompile(h.at).Match(src[min(d.Subject.Start.Byte, len(src)):])) {
				d.Detail += " " + h.cure
				break
			}
		}
		out = append(out, d)
	}
	return out
}
