package apply

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

func TestWhatCameUpAfterAReboot(t *testing.T) {
	entry := resource.HistoryEntry{Command: "apply", Changes: 3, Boot: "boot-1"}
	mine := []resource.Record{{Fabric: "f", History: []resource.HistoryEntry{entry, {Failed: "reverted", Boot: "boot-2"}}}}
	others := []resource.Record{{Fabric: "other", History: []resource.HistoryEntry{entry}}}
	unknown := []resource.Record{{Fabric: "f", History: []resource.HistoryEntry{{Command: "apply", Changes: 3}}}}
	differs := []planner.Action{{Resource: resource.Resource{Addr: resource.Addr{Host: "h", Kind: "nic", Name: "rail0"}},
		Changes: []resource.Change{{Attribute: "mtu", From: "1500", To: "9000"}, {Attribute: "address", To: "10.0.0.1/24"}}}}
	for _, c := range []struct {
		name    string
		boot    string
		host    planner.HostPlan
		records []resource.Record
		fails   int
		says    string
	}{
		{"all came up", "boot-2", planner.HostPlan{Unchanged: 7}, mine, 0, "7 resources came_up_as_declared"},
		{"not rebooted", "boot-1", planner.HostPlan{Unchanged: 7}, mine, 1, "reboot the host, and verify again"},
		{"never applied", "boot-2", planner.HostPlan{Actions: differs}, others, 1, "never_applied"},
		{"never changed, because it was as declared", "boot-2", planner.HostPlan{Unchanged: 7}, others, 0, "7 resources as_declared  fabricform has never changed this host"},
		{"changed in a boot that was not kept", "boot-2", planner.HostPlan{Actions: differs}, unknown, 1, "reboot_unknown "},
		{"changed in a boot that was not kept, and as declared", "boot-2", planner.HostPlan{Unchanged: 7}, unknown, 0, "cannot tell whether it has rebooted"},
		{"two values are gone", "boot-2", planner.HostPlan{Actions: differs}, mine, 2, "address 10.0.0.1/24"},
		{"a NIC is gone", "boot-2", planner.HostPlan{Problems: []planner.Problem{{Message: "no NIC has MAC x"}}}, mine, 1, "no NIC has MAC x"},
		{"nobody answers", "boot-2", planner.HostPlan{Unreachable: "refused"}, mine, 0, "host unreachable: refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.host.Name = "h"
			got := afterReboot(&planner.Plan{Fabric: "f", Hosts: []planner.HostPlan{c.host}}, map[string][]resource.Record{"h": c.records},
				map[string]*facts.Snapshot{"h": {System: facts.System{BootID: c.boot}}})
			fails, said := 0, ""
			for _, r := range got {
				if r.Verdict == validators.Fail {
					fails++
				}
				said += counted(r) + fmt.Sprintln(strings.TrimSpace(r.Attribute+" "+r.Found), r.Wanted, r.Cause, r.Cure)
			}
			if fails != c.fails || !strings.Contains(said, c.says) {
				t.Errorf("%d failures, wanted %d; it said %q", fails, c.fails, said)
			}
		})
	}
}

// counted is how many resources a result counts.
func counted(r validators.Result) (out string) {
	for _, v := range r.Values {
		out += fmt.Sprintf("%g %s ", v.Value, v.Name)
	}
	return out
}
