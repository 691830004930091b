package fabric

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestNoBlockOfAReadFabricIsLeftUnchecked: each kind of block is refused if it says so itself.
func TestNoBlockOfAReadFabricIsLeftUnchecked(t *testing.T) {
	const b = `{"Invalid":true}`
	for _, text := range []string{`{"NCCL":` + b + `}`, `{"Links":[{"Endpoints":[{},{}],"Invalid":true}]}`, `{"Networks":[` + b + `]}`, `{"Classes":[` + b + `]}`, `{"Hosts":[{"NICs":[{"QoS":` + b + `}]}]}`, `{"Hosts":[` + b + `]}`,
		`{"Hosts":[{"NCCL":` + b + `}]}`, `{"Hosts":[{"NICs":[` + b + `]}]}`, `{"Hosts":[{"Routes":[` + b + `]}]}`, `{"Hosts":[{"Policy":[` + b + `]}]}`,
		`{"Hosts":[{"Policy":[{"Routes":[` + b + `]}]}]}`, `{"Hosts":[{"RXE":[` + b + `]}]}`, `{"Hosts":[{"OFED":` + b + `}]}`} {
		var f Fabric
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
		if err := f.CheckEntries(); err == nil || !strings.Contains(err.Error(), "a block that says not to be checked") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
