package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/fabricform/fabricform/fabric"
)

// Input is one -var or -var-file: either Var or File is set.
type Input struct {
	Var   string // "name=value"
	File  string // path of a value file
	Again bool   // given to a saved plan, which has the values of all variables that are not sensitive
}

// hidden stands for a sensitive value in commands that are shown: the operator puts the value in.
const hidden = "=…"

// ParseVar returns the input that -var names. It refuses a command that was pasted from a message, without the sensitive value.
func ParseVar(text string) (Input, error) {
	if strings.HasSuffix(text, hidden) {
		return Input{}, errors.New("write the sensitive value in the place of …")
	}
	return Input{Var: text}, nil
}

// Flags returns how inputs are named on the command line, with … for sensitive values.
func Flags(inputs []Input, sensitive []string) (out []string) {
	for _, in := range inputs {
		name, _, _ := strings.Cut(in.Var, "=")
		name = strings.TrimSpace(name)
		switch {
		case in.File != "":
			out = append(out, "-var-file="+in.File)
		case !slices.Contains(sensitive, name):
			out = append(out, "-var="+in.Var)
		case !slices.Contains(out, "-var="+name+hidden):
			out = append(out, "-var="+name+hidden)
		}
	}
	return out
}

// SensitiveFlags returns the Flags of sensitive variables: a command that applies a saved plan needs no other values.
func SensitiveFlags(inputs []Input, sensitive []string) []string {
	return slices.DeleteFunc(Flags(inputs, sensitive), func(flag string) bool { return !strings.HasSuffix(flag, hidden) })
}

// inputsOf returns the values that flags name, without sensitive ones.
func inputsOf(flags []string) (out []Input) {
	for _, flag := range flags {
		if file, is := strings.CutPrefix(flag, "-var-file="); is {
			out = append(out, Input{File: file})
		} else if v, is := strings.CutPrefix(flag, "-var="); is && !strings.HasSuffix(v, hidden) {
			out = append(out, Input{Var: v})
		}
	}
	return out
}

// FillSecrets puts the sensitive values into the fabric of a saved plan, which has only their hashes. It reads them from where
// they were when the plan was made, and from the inputs that are given now. The diagnostics are errors only: the plan showed
// the warnings.
func FillSecrets(planned *fabric.Fabric, by fabric.Invocation, plan string, o Options) (map[string]*hcl.File, hcl.Diagnostics, error) {
	given := o.Inputs
	o.Inputs = inputsOf(by.Flags)
	places := []string{by.Path, "fabricform.fabricvars and the *.auto.fabricvars files beside it"}
	for _, in := range o.Inputs {
		if in.File != "" {
			places = append(places, in.File)
		}
	}
	from := strings.Join(append(places, "-var", "-var-file"), ", ") + " and the environment"
	for _, in := range given {
		in.Again = true
		o.Inputs = append(o.Inputs, in)
	}
	f, files, diags := Load(by.Path, o)
	if diags.HasErrors() {
		errs := slices.DeleteFunc(slices.Clone(diags), func(d *hcl.Diagnostic) bool { return d.Severity != hcl.DiagError })
		return files, errs, fmt.Errorf("nothing was changed: %s has no sensitive values; they are taken from %s", plan, from)
	}
	if err := planned.FillSecrets(f.Secrets); err != nil {
		variables := "the variable "
		if len(f.Sensitive) != 1 {
			variables = "the variables "
		}
		variables += strings.Join(slices.Sorted(slices.Values(f.Sensitive)), ", ")
		return files, nil, fmt.Errorf("nothing was changed: %w. Give %s as it was planned (looked for in %s), or plan again",
			err, variables, from)
	}
	return files, nil, nil
}
