package view

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

func TestGraphsEscapeWhatTheyShow(t *testing.T) {
	f := &fabric.Fabric{Name: `a"<b>`, Hosts: []*fabric.Host{{Name: "a"}, {Name: "b"}},
		Links:    []*fabric.Link{{Name: "l<1>&\"", SpeedGbps: 25, Endpoints: []fabric.NICRef{{Host: "a", NIC: "r"}, {Host: "b", NIC: "r"}}}},
		Networks: []*fabric.Network{{Name: "n", Members: []fabric.NICRef{{Host: "a", NIC: "s"}}}}}
	g := Topology(f)
	svg := g.Text("svg")
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Count(svg, "<rect") != 3 {
		t.Error(svg)
	}
	if m := g.Text("mermaid"); !strings.Contains(m, `n0 ---|"l#lt;1#gt;#amp;#quot; 25 Gb/s"| n1`) {
		t.Error(m)
	}
	if dot := g.Text("dot"); !strings.Contains(dot, `n0 -- n1 [label="l<1>&\" 25 Gb/s"];`) {
		t.Error(dot)
	}
}

// TestGraphsShowWhatBondsAndVLANsAreMadeOf, at each end if the ends differ.
func TestGraphsShowWhatBondsAndVLANsAreMadeOf(t *testing.T) {
	host := func(name string) *fabric.Host {
		ref := func(nic string) fabric.NICRef { return fabric.NICRef{Host: name, NIC: nic} }
		return &fabric.Host{Name: name, NICs: []*fabric.NIC{{Name: "p0", Host: name}, {Name: "p1", Host: name},
			{Name: "b0", Host: name, Bond: &fabric.Bond{NICs: []fabric.NICRef{ref("p0"), ref("p1")}}}, {Name: "v", Host: name, VLAN: &fabric.VLAN{On: ref("b0"), ID: 200}}}}
	}
	link := func(name, a, b string) *fabric.Link {
		return &fabric.Link{Name: name, Endpoints: []fabric.NICRef{{Host: "a", NIC: a}, {Host: "b", NIC: b}}}
	}
	f := &fabric.Fabric{Hosts: []*fabric.Host{host("a"), host("b")}, Links: []*fabric.Link{link("pair", "b0", "b0"), link("odd", "v", "p1")},
		Networks: []*fabric.Network{{Name: "n", Members: []fabric.NICRef{{Host: "a", NIC: "v"}, {Host: "b", NIC: "p0"}}}}}
	want := `flowchart TB
  n0["a"]
  n1["b"]
  n2["n"]
  n0 ---|"pair, bond of p0 and p1"| n1
  n0 ---|"odd, VLAN 200 on b0, bond of p0 and p1 at a, a NIC at b"| n1
  n0 ---|"v, VLAN 200 on b0, bond of p0 and p1"| n2
  n1 ---|"p0"| n2
`
	if got := Topology(f).Text("mermaid"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
