package validators

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// ring is the trials of n hosts on two rails; bad says which paths fail.
func ring(n int, bad func(rail, a, b int) bool) []*trial {
	var out []*trial
	for rail := range 2 {
		for a := range n {
			b := (a + 1) % n
			t := &trial{path: fabric.Path{Name: fmt.Sprintf("rail%d:h%d-h%d", rail, a, b)}}
			for i, h := range []int{a, b} {
				t.ends[i] = side{host: fmt.Sprintf("h%d", h), nic: fmt.Sprintf("rail%d", rail)}
			}
			v := Pass
			if bad(rail, a, b) {
				v = Fail
			}
			t.add(Result{Verdict: v})
			out = append(out, t)
		}
	}
	return out
}

func TestTheCulpritIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		bad  func(rail, a, b int) bool
		want string
	}{
		"nothing":       {func(_, _, _ int) bool { return false }, ""},
		"one NIC":       {func(rail, a, b int) bool { return rail == 1 && (a == 3 || b == 3) }, "h3.rail1 2 of 2"},
		"one host":      {func(_, a, b int) bool { return a == 3 || b == 3 }, "h3 4 of 4"},
		"one cable":     {func(rail, a, _ int) bool { return rail == 0 && a == 5 }, ""},
		"everything":    {func(_, _, _ int) bool { return true }, ""},
		"two NICs":      {func(rail, a, b int) bool { return rail == 0 && (a == 1 || b == 1 || a == 5 || b == 5) }, "h1.rail0 2 of 2 h5.rail0 2 of 2"},
		"and one other": {func(rail, a, b int) bool { return a == 3 || b == 3 || rail == 0 && a == 6 }, ""},
	} {
		var got []string
		for _, r := range culprits(ring(8, c.bad)) {
			got = append(got, fmt.Sprintf("%s %g of %g", strings.TrimSuffix(r.Subject.Name+"."+r.Subject.NIC, "."), r.Values[0].Value, r.Values[0].OutOf))
		}
		if text := strings.Join(got, " "); c.want == "" && text != "" || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}
