package draft

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/fabric"
)

// class refers to the qos block of a class of traffic; "" if it has none, or is left out. NICs with equal classes share a block.
func (w *writer) class(q *fabric.QoS) text {
	if q == nil {
		return ""
	}
	b := classBlock(q)
	names := map[string]bool{}
	for _, known := range w.classes {
		if slices.Equal(known.attrs, b.attrs) {
			b = known
		}
		names[known.label] = true
	}
	if b.label == "" {
		name := "class"
		if q.Lossless() {
			name = "lossless"
		}
		b.label = unique(names, name)
		b.left = w.in.Left["qos "+b.label]
		w.classes = append(w.classes, b)
	}
	if b.left != "" {
		return ""
	}
	return text("qos" + member(b.label))
}

// hostClass refers to the class that all NICs of a host have; "" if they differ, or have none.
func (w *writer) hostClass(h Host) text {
	var one text
	for i, n := range h.Model.NICs {
		of := w.class(n.QoS)
		if i > 0 && of != one {
			return ""
		}
		one = of
	}
	return one
}

func classBlock(q *fabric.QoS) *block {
	b := &block{kind: "qos"}
	number := func(name string, v *int) {
		if v != nil {
			b.set(name, literal(cty.NumberIntVal(int64(*v))))
		}
	}
	yes := func(name string, v *bool) {
		if v != nil {
			b.set(name, text(strconv.FormatBool(*v)))
		}
	}
	number("dscp", q.DSCP)
	number("priority", q.Priority)
	yes("pfc", q.PFC)
	yes("ecn", q.ECN)
	if q.Trust != "" {
		b.set("trust", quoted(q.Trust))
	}
	number("cnp_dscp", q.CNPDSCP)
	if q.ETS != nil {
		b.set("ets", byNumber(q.ETS))
	}
	if q.Buffer != nil {
		b.set("buffer", byNumber(q.Buffer))
	}
	yes("pause", q.Pause)
	yes("rdma_cm", q.RDMACM)
	return b
}

// byNumber is a map of numbers.
func byNumber(m map[int]int) text {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%d = %d", k, m[k]))
	}
	return text("{ " + strings.Join(out, ", ") + " }")
}
