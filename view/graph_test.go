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
