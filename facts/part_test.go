package facts

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// TestAPartTravels from who gathered it to who reads it, and only as what it is.
func TestAPartTravels(t *testing.T) {
	colours, other := Part[map[string]int]("colours"), Part[[]string]("colours")
	var here, there Snapshot
	if colours.Of(&here) != nil || colours.Check(&here) == nil {
		t.Error("a snapshot without the part has it")
	}
	colours.Put(&here, map[string]int{"red": 1})
	raw, err := json.Marshal(here)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &there); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(there)
	if err != nil || string(again) != string(raw) {
		t.Errorf("%s, %v", again, err)
	}
	if err := other.Check(&there); err == nil || !strings.Contains(err.Error(), `decode part "colours"`) {
		t.Error(err)
	}
	for range 2 {
		if got := colours.Of(&there); !maps.Equal(got, map[string]int{"red": 1}) || colours.Check(&there) != nil {
			t.Error(got)
		}
	}
	if other.Of(&there) != nil || other.Check(&there) == nil {
		t.Error("a part is read as what it is not")
	}
	copied := there
	colours.Put(&copied, nil)
	if len(colours.Of(&there)) != 1 {
		t.Error("a copy changes what it was copied from")
	}
}
