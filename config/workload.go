package config

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/fabric"
)

// workloads reads all workload blocks. They come before links and networks, which refer to them.
func (l *loader) workloads() {
	spec := language().block("workload")
	values := map[string]cty.Value{}
	for _, k := range l.blocks["workload"] {
		name := k.Labels[0]
		if _, twice := values[name]; twice {
			l.duplicate(k.DefRange(), "Duplicate workload name", "Another workload is named %q. Rename one.", name)
			continue
		}
		if !fabric.IsName(name) {
			l.errorf(k.LabelRanges[0], "Name not allowed",
				"The name of a workload begins with a letter or digit and has only letters, digits, '.', '_' and '-'.")
		}
		w := &fabric.Workload{Block: l.place(k), Name: name}
		spec.defaults(value(w))
		w.Invalid = !l.attributes(spec, k.Body, scope{}, value(w), nil)
		l.f.Workloads = append(l.f.Workloads, w)
		values[name] = cty.ObjectVal(map[string]cty.Value{workloadMark: cty.StringVal(name), "name": cty.StringVal(name)})
	}
	l.workloadVal = object(values)
}

// workloadMark is the attribute by which the value of a workload is known from other values that have a name. No expression can
// write it.
const workloadMark = " workload"

// workloadRef converts the value of an expression to the name of a workload block.
func (l *loader) workloadRef(v cty.Value) (string, bool) {
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() || !v.Type().IsObjectType() || !v.Type().HasAttribute(workloadMark) {
		return "", false
	}
	name, ok := plainString(v.GetAttr(workloadMark))
	return name, ok && l.f.Workload(fabric.WorkloadRef(name)) != nil
}
