package resource

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

// TestNewAppliedHasWhatAHostCanCompare: resources of Local kinds, without the places of the files, and without sensitive values.
func TestNewAppliedHasWhatAHostCanCompare(t *testing.T) {
	kinds := Kinds{{Name: "nic", NIC: true, Local: true}, {Name: "bond", Local: true}, {Name: "stack"}}
	secret, err := json.Marshal(map[string]string{"x": fabric.Secrets{}.Hide("value", "00112233445566778899aabbccddeeff")})
	if err != nil {
		t.Fatal(err)
	}
	stack := Addr{"a", "stack", "s"}
	all := []Resource{
		{Addr: stack, Spec: []byte("{}")},
		{Addr: Addr{"a", "nic", "rail0"}, Spec: []byte("{}"), After: []Addr{stack}, Pos: fabric.Pos{File: "/home/anna/f.hcl", Line: 3}},
		{Addr: Addr{"a", "nic", "mgmt"}, Spec: []byte("{}"), After: []Addr{{"a", "nic", "rail0"}}},
		{Addr: Addr{"a", "bond", "b0"}, Spec: secret},
		{Addr: Addr{"a", "unknown", "x"}, Spec: []byte("{}")},
	}
	a := kinds.NewApplied("f", "build", time.Now(), all, func(nic string) bool { return nic == "rail0" })
	raw, err := json.Marshal(a.Resources)
	const want = `[{"addr":{"host":"a","kind":"nic","name":"rail0"},"spec":{}},` +
		`{"addr":{"host":"a","kind":"nic","name":"mgmt"},"spec":{},"after":[{"host":"a","kind":"nic","name":"rail0"}]}]`
	if err != nil || string(raw) != want || len(a.Cabled) != 1 || a.Cabled[0].Name != "rail0" || len(a.Uncovered) != 1 || a.Uncovered[0].Name != "b0" {
		t.Errorf("%v: %s, cabled %v, uncovered %v", err, raw, a.Cabled, a.Uncovered)
	}
	again := kinds.NewApplied("f", "another build", time.Now().Add(time.Hour), all, func(nic string) bool { return nic == "rail0" })
	other := kinds.NewApplied("f", "build", time.Now(), all[:2], func(string) bool { return false })
	if a.Digest() != again.Digest() || a.Digest() == other.Digest() {
		t.Error("the digest is of what is compared")
	}
	if len(all[1].After) != 1 {
		t.Error("the plan's resources were changed")
	}
}
