package view

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/validators"
)

func TestManyPathsFoldAndFailuresDoNot(t *testing.T) {
	var results []validators.Result
	for i := range 20 {
		v := validators.Pass
		if i == 7 {
			v = validators.Fail
		}
		results = append(results, validators.Result{Check: "ping", Link: fmt.Sprintf("rail0:h%d-h%d", i, i+1), Host: "h", Verdict: v, What: "ping", Cause: "no light"})
	}
	var b bytes.Buffer
	New(&b).Results(results)
	got := b.String()
	for _, want := range []string{"path rail0:h7-h8", "no light", "network rail0  19 of them: 19 checks passed", "19 passed, 1 failed"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n > 8 {
		t.Errorf("%d lines:\n%s", n, got)
	}
	b.Reset()
	New(&b).Results(results[:3])
	if !strings.Contains(b.String(), "path rail0:h2-h3") {
		t.Errorf("three paths are folded:\n%s", b.String())
	}
}
