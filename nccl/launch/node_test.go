package launch

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestKubernetesNodeRefusesNames: names that are no labels, or that two nodes would share, are errors that say what to do.
func TestKubernetesNodeRefusesNames(t *testing.T) {
	of := func(name, host, other, nic, network string) *fabric.Fabric {
		return &fabric.Fabric{Name: name, Hosts: []*fabric.Host{{Name: host}, {Name: other}},
			Networks: []*fabric.Network{{Name: network, Members: []fabric.NICRef{{Host: host, NIC: nic}}}}}
	}
	if text, err := KubernetesNode(of("f", "A", "b", "rail0", "net")); err != nil || !strings.Contains(string(text), "  name: \"a\"\n  labels:\n    \"fabricform/fabric\": \"f\"\n    \"fabricform/network.net\": \"rail0\"\n") {
		t.Errorf("%v\n%s", err, text)
	}
	for want, f := range map[string]*fabric.Fabric{
		"fabric f-: its name cannot be the value of a Kubernetes label":        of("f-", "a", "b", "x", "n"),
		"host a_b: its name cannot be that of a Kubernetes node":               of("f", "a_b", "b", "x", "n"),
		"hosts A and a would both be node a in Kubernetes: rename one of them": of("f", "A", "a", "x", "n"),
		"network n of NIC a.x-: both names must end with a letter or a digit":  of("f", "a", "b", "x-", "n"),
		"be short enough for a Kubernetes label (fabricform/network." + long60: of("f", "a", "b", "x", long60),
	} {
		if text, err := KubernetesNode(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v\n%s", want, err, text)
		}
	}
}

const long60 = "n12345678901234567890123456789012345678901234567890123456789"
