package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// TestNoFunctionPanics: each function gets numbers and texts that it may not be made for, and returns a value or an error.
func TestNoFunctionPanics(t *testing.T) {
	var hostile []cty.Value
	for _, n := range []string{"0", "-1", "2", "0.5", "-0.5", "1e-300", "1e300", "-1e300", "99999999999999999999"} {
		hostile = append(hostile, cty.MustParseNumberVal(n))
	}
	numbers := hostile
	text := cty.StringVal("a\n%d${")
	hostile = append(hostile, text, cty.StringVal(""), cty.StringVal("10.0.0.0/8"), cty.StringVal("::/0"), cty.StringVal("1e999999999"), cty.True, cty.NullVal(cty.Number), cty.NullVal(cty.String),
		cty.EmptyTupleVal, cty.EmptyObjectVal, cty.ListVal([]cty.Value{text, cty.NullVal(cty.String)}), cty.ListVal([]cty.Value{hostile[1], hostile[6]}), cty.TupleVal([]cty.Value{hostile[1], text}),
		cty.MapVal(map[string]cty.Value{"": cty.NullVal(cty.List(cty.String))}), cty.ObjectVal(map[string]cty.Value{"a": text}))
	m := newMeter()
	calls := 0
	for name, f := range functions(t.TempDir(), m) {
		if name == "try" || name == "can" {
			continue // they take expressions
		}
		call := func(args ...cty.Value) {
			fits := len(args) >= len(f.Params()) && (len(args) == len(f.Params()) || f.VarParam() != nil)
			in := make([]cty.Value, len(args))
			for i := 0; i < len(args) && fits; i++ {
				p := f.VarParam()
				if i < len(f.Params()) {
					p = &f.Params()[i]
				}
				v, err := convert.Convert(args[i], p.Type)
				in[i], fits = v, err == nil && (p.AllowNull || !v.IsNull())
			}
			if !fits {
				return // HCL reports it
			}
			calls++
			m.steps, m.over, m.spent = 0, nil, nil
			_, err := f.Call(in)
			var panicked function.PanicError
			if m.over == nil && (errors.As(err, &panicked) || err != nil && strings.Contains(err.Error(), "goroutine")) {
				t.Errorf("%s(%#v): %.300s", name, in, err)
			}
		}
		call()
		for _, a := range hostile {
			call(a)
			for _, b := range hostile {
				call(a, b)
			}
		}
		for _, a := range append(numbers, hostile[len(numbers):len(numbers)+4]...) {
			for _, b := range numbers {
				for _, c := range numbers {
					call(a, b, c)
				}
			}
		}
	}
	if calls < 10000 {
		t.Errorf("only %d calls", calls)
	}
}

// TestOnlyFilesAreRead: a read of anything else may block, never end, or take something away. The error names the place.
func TestOnlyFilesAreRead(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/proc/kmsg", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/zero", "/proc/kmsg", "/proc/self/status", link, t.TempDir(), "/dev/tty"} {
		at := write(t, "f.hcl", "output \"a\" {\n  value = file(\""+path+"\")\n}\n")
		_, _, d := Load(at, Options{})
		if len(d) != 1 || d[0].Subject == nil || d[0].Subject.Start.Line != 2 || !strings.Contains(d[0].Detail, "is not a regular file") && path != "/dev/tty" {
			t.Errorf("%s: %v", path, d)
		}
	}
}
