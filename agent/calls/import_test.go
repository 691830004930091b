package calls

import (
	"cmp"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestADraftRefersToItsOwnNICs: a reference of a host's answer is the name of one of its NICs, and never an expression.
func TestADraftRefersToItsOwnNICs(t *testing.T) {
	for _, name := range []string{"rail0", "", "rail1", "${file(\"/etc/passwd\")}", "%{ for k, v in nic }", "a b"} {
		own := name == "rail0" || name == ""
		for what, h := range map[string]*fabric.Host{
			"route":        {Routes: []*fabric.MainRoute{{Name: "r", NIC: fabric.NICRef{NIC: name}}}},
			"policy_route": {Policy: []*fabric.PolicyRoute{{Name: "r", NIC: fabric.NICRef{NIC: name}}}},
			"rxe":          {RXE: []*fabric.RXE{{Name: "rxe0", NIC: fabric.NICRef{NIC: name}}}},
			"bond":         {NICs: []*fabric.NIC{{Name: "b", Netdev: "b", Bond: &fabric.Bond{NICs: []fabric.NICRef{{NIC: cmp.Or(name, "rail0")}}}}}},
			"vlan":         {NICs: []*fabric.NIC{{Name: "v", Netdev: "v", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: cmp.Or(name, "rail0")}}}}},
		} {
			h.NICs = append(h.NICs, &fabric.NIC{Name: "rail0", Netdev: "eth0"})
			if err := (ImportResult{Host: h}).Check(); (err == nil) != own {
				t.Errorf("%s on %q: %v", what, name, err)
			}
		}
	}
	for what, h := range map[string]*fabric.Host{
		"nic":            {NICs: []*fabric.NIC{{Name: "a${b}", Netdev: "eth0"}}},
		"device":         {NICs: []*fabric.NIC{{Name: "rail0", Netdev: "a/b"}}},
		"route":          {Routes: []*fabric.MainRoute{{Name: "a${b}"}}},
		"policy_route":   {Policy: []*fabric.PolicyRoute{{Name: "a${b}"}}},
		"rxe":            {RXE: []*fabric.RXE{{Name: "${var.x}"}}},
		"nil":            nil,
		"VLAN on itself": {NICs: []*fabric.NIC{{Name: "v", Netdev: "v", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "v"}, ID: 5}}}},
		"VLAN on a VLAN": {NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth0"}, {Name: "v", Netdev: "v", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "rail0"}, ID: 5}},
			{Name: "w", Netdev: "w", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "v"}, ID: 6}}}},
		"VLAN twice": {NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth0"}, {Name: "v", Netdev: "v", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "rail0"}, ID: 5}},
			{Name: "w", Netdev: "w", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "rail0"}, ID: 5}}}},
		"VLAN of an odd name": {NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth0"}, {Name: "v", Netdev: "v", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "rail0"}, ID: 5}},
			{Name: "w", Netdev: "w", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "rail0 5"}}}}},
		"bond of nothing": {NICs: []*fabric.NIC{{Name: "b", Netdev: "b", Bond: &fabric.Bond{}}}},
		"two of one name": {NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth0"}, {Name: "rail0", Netdev: "eth0.5", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "rail0"}, ID: 5}}}},
		"member twice":    {NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth0"}, {Name: "b", Netdev: "b", Bond: &fabric.Bond{NICs: []fabric.NICRef{{NIC: "rail0"}, {NIC: "rail0"}}}}}},
		"member of two bonds": {NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth0"}, {Name: "b", Netdev: "b", Bond: &fabric.Bond{NICs: []fabric.NICRef{{NIC: "rail0"}}}},
			{Name: "c", Netdev: "c", Bond: &fabric.Bond{NICs: []fabric.NICRef{{NIC: "rail0"}}}}}},
		"two on one device": {NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth0"}, {Name: "rail1", Netdev: "eth0"}}},
		"bond of no name":   {NICs: []*fabric.NIC{{Name: "b", Netdev: "b", Bond: &fabric.Bond{NICs: []fabric.NICRef{{}}}}}},
		"bond of a bond": {NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth0"}, {Name: "b", Netdev: "b", Bond: &fabric.Bond{NICs: []fabric.NICRef{{NIC: "rail0"}}}},
			{Name: "c", Netdev: "c", Bond: &fabric.Bond{NICs: []fabric.NICRef{{NIC: "b"}}}}}},
		"bond of itself": {NICs: []*fabric.NIC{{Name: "b", Netdev: "b", Bond: &fabric.Bond{NICs: []fabric.NICRef{{NIC: "b"}}}}}},
	} {
		if (ImportResult{Host: h}).Check() == nil {
			t.Errorf("%s: its name is accepted", what)
		}
	}
	if (ImportResult{Host: &fabric.Host{}, Owners: []string{"a${b}"}}).Check() == nil {
		t.Error("an owner's name is accepted")
	}
	two := &fabric.Host{NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth0"}, {Name: "rail1", Netdev: "eth1"}, {Name: "v", Netdev: "v", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "rail0"}, ID: 5}},
		{Name: "w", Netdev: "w", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "rail1"}, ID: 5}}, {Name: "x", Netdev: "x", VLAN: &fabric.VLAN{On: fabric.NICRef{NIC: "rail0"}, ID: 6}}}}
	if err := (ImportResult{Host: two}).Check(); err != nil {
		t.Errorf("VLANs of one ID on two NICs, and of two IDs on one: %v", err)
	}
}
