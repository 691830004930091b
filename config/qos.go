package config

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// classes reads all qos blocks. They come before hosts, so that NICs can refer to them.
func (l *loader) classes() {
	spec := language().block("qos")
	l.qosVal = l.named("qos", func(k *hclsyntax.Block, name string) cty.Value {
		q := &fabric.QoS{Block: l.place(k), Name: name}
		q.Invalid = !l.attributes(spec, k.Body, scope{}, value(q), nil)
		l.f.Classes = append(l.f.Classes, q)
		return qosValue(q)
	})
}

// qosValue returns the value of a class in expressions.
func qosValue(q *fabric.QoS) cty.Value {
	number := func(n int, set bool) cty.Value {
		if !set {
			return cty.NullVal(cty.Number)
		}
		return cty.NumberIntVal(int64(n))
	}
	out := map[string]cty.Value{"name": cty.StringVal(q.Name)}
	tc, set := q.TrafficClass()
	out["traffic_class"], out["dscp"], out["priority"] = number(tc, set), number(tc>>2, set), number(0, false)
	if q.Priority != nil {
		out["priority"] = number(*q.Priority, true)
	}
	if q.Invalid {
		for _, name := range []string{"traffic_class", "dscp", "priority"} {
			out[name] = cty.DynamicVal.Mark(failed{})
		}
	}
	return cty.ObjectVal(out)
}

// qosMark is the attribute by which the value of a class is known from other values that have a name.
const qosMark = "traffic_class"

// qosRef converts the value of an expression to the name of a qos block.
func (l *loader) qosRef(v cty.Value) (string, bool) {
	name, ok := nameOf(v, qosMark)
	return name, ok && l.f.QoS(fabric.QoSRef(name)) != nil
}

// giveClasses sets the block that holds for each NIC.
func (l *loader) giveClasses() {
	for _, h := range l.f.Hosts {
		for _, n := range h.NICs { // the class of a bond or VLAN belongs to its ports
			for _, p := range h.Ports(n) {
				if p.Class == "" {
					p.Class = n.Class
				}
			}
		}
		for _, n := range h.NICs {
			if n.Class == "" {
				n.Class = h.Class
			}
			n.QoS = l.f.QoS(n.Class)
		}
	}
}

// trafficClass says that a DSCP is really a traffic class, which has the two bits of ECN below it. nil: it may be a DSCP.
func trafficClass(a *attribute, f float64) *wrong {
	if a.shape != "dscp" || f <= *a.max || f > 255 || f != math.Trunc(f) {
		return nil
	}
	tc := int(f)
	detail := fmt.Sprintf("%d is a traffic class: DSCP %d. Write %s = %d.", tc, tc>>2, a.name, tc>>2)
	if ecn := tc & 3; ecn != 0 {
		detail = fmt.Sprintf("%d is a traffic class: DSCP %d with the ECN bits %d. Write %s = %d, and ecn = true if switches may mark "+
			"packets of the class.", tc, tc>>2, ecn, a.name, tc>>2)
	}
	return &wrong{"Traffic class instead of a DSCP", detail, &replacement{strconv.Itoa(tc), strconv.Itoa(tc >> 2)}}
}

// priorities is how many priorities IEEE 802.1Q has.
const priorities = 8

// decodeNumbers decodes a map of whole numbers by priority.
func decodeNumbers(a *attribute, v cty.Value, into reflect.Value) *wrong {
	if !v.Type().IsMapType() && !v.Type().IsObjectType() {
		return typeWrong(a, v)
	}
	out := map[int]int{}
	for it := v.ElementIterator(); it.Next(); {
		key, e := it.Element()
		if e.IsNull() {
			continue // null means absent
		}
		name, _ := text(key)
		priority, err := strconv.Atoi(name)
		if err != nil || priority < 0 || priority >= priorities || strconv.Itoa(priority) != name {
			return &wrong{"Not a priority", fmt.Sprintf("The keys of %s are priorities, from 0 to 7, and %q is not one.%s", a.name, name, a.hint()), nil}
		}
		number, err := convert.Convert(e, cty.Number)
		if err != nil {
			return &wrong{"Wrong type", fmt.Sprintf("%s[%d] must be a whole number.", a.name, priority), nil}
		}
		f, _ := number.AsBigFloat().Float64()
		lowest, highest := 1.0, float64(math.MaxInt32)
		if a.min != nil && a.max != nil {
			lowest, highest = *a.min, *a.max
		}
		if f < lowest || f > highest || f != math.Trunc(f) {
			return &wrong{"Number out of range", fmt.Sprintf("%s[%d] must be a whole number from %s to %s.", a.name, priority, plain(lowest),
				plain(highest)), nil}
		}
		out[priority] = int(f)
	}
	into.Set(reflect.ValueOf(out))
	return nil
}

// checkClasses reports variables of nccl.env that contradict the class of a NIC, once for each place. NICs that NCCL does not use
// may have another class.
func (l *loader) checkClasses() {
	said := map[hcl.Range]bool{}
	for _, h := range l.f.Hosts {
		n := l.f.NCCLOf(h)
		for _, nic := range h.NICs {
			role := l.f.Role(nic.Ref())
			other := n.HCA != nil && !slices.Contains(n.HCA, nic.Ref()) || n.HCA == nil && role != "" && role != "training"
			if other || nic.Invalid || nic.QoS == nil || nic.QoS.Invalid {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(n.Env)) {
				why := nic.QoS.Contradiction(name, int(env.ParseNumber(n.Env[name]).Value))
				r := l.variablePlace(h, name)
				if why != "" && !fabric.IsSensitive(n.Env[name]) && !said[r] {
					said[r] = true
					l.errorf(r, "Contradicting class of traffic", "%s = %s contradicts qos.%s of %s: %s. Remove %s, or change the block.",
						name, n.Env[name], nic.QoS.Name, nic.Ref(), why, name)
				}
			}
		}
	}
}

// variablePlace returns the position of a variable in the nccl.env that sets it for a host.
func (l *loader) variablePlace(h *fabric.Host, name string) hcl.Range {
	from := l.f.NCCL
	if _, own := h.NCCL.Env[name]; own {
		from = h.NCCL
	}
	return l.keyRange(from.Block, "env", name)
}
