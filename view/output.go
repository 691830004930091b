package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/fabric"
)

// OutputForm is how outputs are printed.
type OutputForm int

// The forms. OutputText hides sensitive values; the others print them.
const (
	OutputText OutputForm = iota
	OutputJSON
	OutputRaw // of a single output: a string has no quotes
)

// Outputs prints a fabric's outputs, or the one with that name. As text, a single string has no quotes, for
// use in a shell.
func (p *Printer) Outputs(all []fabric.Output, name string, form OutputForm) error {
	names := make([]string, 0, len(all))
	whole := map[string]json.RawMessage{}
	for _, o := range all {
		if o.Name == name {
			return p.output(o, form)
		}
		names = append(names, o.Name)
		whole[o.Name] = o.JSON
	}
	if name != "" {
		return fmt.Errorf("the fabric has no output %q; it has %s", name, listed(names))
	}
	switch form {
	case OutputJSON:
		return p.printIndented(whole)
	case OutputRaw:
		return errors.New("-raw prints one output: name it")
	}
	for _, o := range all {
		text := string(o.JSON)
		if o.Sensitive {
			text = fabric.Sensitive
		}
		p.Linef("%s = %s", p.bold(o.Name), text)
	}
	return nil
}

func (p *Printer) output(o fabric.Output, form OutputForm) error {
	if o.Sensitive && form == OutputText {
		p.Linef("%s", fabric.Sensitive)
		return nil
	}
	var s string
	if form != OutputJSON && json.Unmarshal(o.JSON, &s) == nil {
		if p.live {
			p.Linef("%s", s)
			return nil
		}
		return p.Raw([]byte(s + "\n")) // for a shell or a file, exactly
	}
	return p.printIndented(json.RawMessage(o.JSON))
}

func (p *Printer) printIndented(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return p.Raw(neutralJSON(b.Bytes()))
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
