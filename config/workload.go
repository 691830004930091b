package config

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/fabric"
)

// workloads reads all workload blocks. They come before links and networks, which refer to them.
func (l *loader) workloads() {
	spec := language().block("workload")
	l.workloadVal = l.named("workload", func(k *hclsyntax.Block, name string) cty.Value {
		w := &fabric.Workload{Block: l.place(k), Name: name}
		spec.defaults(value(w))
		w.Invalid = !l.attributes(spec, k.Body, scope{}, value(w), nil)
		l.f.Workloads = append(l.f.Workloads, w)
		return cty.ObjectVal(map[string]cty.Value{workloadMark: cty.True, "name": cty.StringVal(name)})
	})
}

// workloadMark is the attribute by which the value of a workload is known from other values that have a name. No expression can
// write it.
const workloadMark = " workload"

// workloadRef converts the value of an expression to the name of a workload block.
func (l *loader) workloadRef(v cty.Value) (string, bool) {
	name, ok := nameOf(v, workloadMark)
	return name, ok && l.f.Workload(fabric.WorkloadRef(name)) != nil
}
