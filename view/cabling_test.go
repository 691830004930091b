package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/cabling"
)

// TestWhyNoCableWasFoundIsTrue: a port that failed had a carrier.
func TestWhyNoCableWasFoundIsTrue(t *testing.T) {
	port := []cabling.End{{Host: "a", Netdevs: []string{"eth0"}}}
	for want, r := range map[string]*cabling.Report{
		"! No cables found: no port that may send has a carrier.\n":                 {Down: port},
		"! No cables found: see above.\n":                                           {Failed: map[string]string{"a": "no answer"}},
		"a:eth0: may carry your connection and sent nothing; use -include-man":      {Management: port},
		"\na:eth0: set up for this run, and down again now\n":                       {Failed: map[string]string{"a": "x"}, Raised: []cabling.Port{{Host: "a", Netdev: "eth0"}}},
		"Look at its private flag with `ethtool --show-priv-flags 'a b$(c)'`: fw-l": {TakesLLDP: []cabling.LLDPTaken{{Port: cabling.Port{Host: "a", Netdev: "a b$(c)"}, Flag: "fw-lldp-agent"}}},
		"Not tried, or incomplete\n  · a:eth0: down: not tried. -raise sets":        {Down: port},
	} {
		var out bytes.Buffer
		New(&out).Cabling(r)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// TestPortsThatAreDownAreNamedBeforeAnImport: with the cure.
func TestPortsThatAreDownAreNamedBeforeAnImport(t *testing.T) {
	var out bytes.Buffer
	New(&out).PortsDown(&cabling.Report{NoCarrier: []cabling.End{{Host: "a", Netdevs: []string{"eth1"}}}})
	if out.Len() > 0 {
		t.Errorf("%s", out.String())
	}
	New(&out).PortsDown(&cabling.Report{Down: []cabling.End{{Host: "a", Netdevs: []string{"eth0"}}, {Host: "b", Netdevs: []string{"eth0"}}}})
	if got := out.String(); !strings.HasPrefix(got, "warning: a:eth0, b:eth0: down") || !strings.Contains(got, "With -raise, import sets them up") {
		t.Errorf("%s", got)
	}
}
