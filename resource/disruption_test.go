package resource

import (
	"encoding/json"
	"testing"
)

func TestDisruptionsAreTextInJSON(t *testing.T) {
	for d := Live; d <= Reboot; d++ {
		raw, err := json.Marshal(Change{Attribute: "mtu", To: "9000", Disruption: d})
		var got Change
		if err := json.Unmarshal(raw, &got); err != nil || got.Disruption != d {
			t.Errorf("%s: read as %s, %v", raw, got.Disruption, err)
		}
		want := `{"attribute":"mtu","to":"9000","disruption":"` + d.String() + `"}`
		if d == Live {
			want = `{"attribute":"mtu","to":"9000"}`
		}
		if err != nil || string(raw) != want {
			t.Errorf("%s is written as %s, %v", d, raw, err)
		}
		if raw, err = json.Marshal(int(d)); err != nil || json.Unmarshal(raw, &got.Disruption) != nil || got.Disruption != d {
			t.Errorf("the number %s of an earlier build is read as %s", raw, got.Disruption)
		}
	}
}

// A host or a saved plan may send any number: a change that is less than live would need no permission.
func TestUnknownDisruptionsAreRefused(t *testing.T) {
	for _, raw := range []string{"-1", "4", "1e99", "0.5", `"harmless"`, `""`, "[]", "{}"} {
		var d Disruption
		if err := json.Unmarshal([]byte(raw), &d); err == nil {
			t.Errorf("%s is read as %s", raw, d)
		}
	}
	for _, d := range []Disruption{-1, 4} {
		if got := d.String(); got != "unknown disruption -1" && got != "unknown disruption 4" {
			t.Errorf("%d is shown as %q", int(d), got)
		}
	}
}
