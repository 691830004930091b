package view

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
)

// Graph has boxes and lines, in the order in which they are drawn.
type Graph struct {
	Title    string
	Boxes    []Box
	Lines    []Line
	Directed bool
}

// Box is one node. Row is its row in a picture; 0 is the top row.
type Box struct {
	ID, Label string
	Row       int
}

// Line connects two boxes.
type Line struct{ From, To, Label string }

// Topology returns the graph of a fabric's hosts, cables and networks.
func Topology(f *fabric.Fabric) Graph {
	g := Graph{Title: f.Name}
	for _, h := range f.Hosts {
		g.Boxes = append(g.Boxes, Box{ID: "host " + h.Name, Label: h.Name})
	}
	made := map[fabric.NICRef]string{} // what bonds and VLANs are made of
	for _, h := range f.Hosts {
		for _, n := range h.NICs {
			if of := madeOf(h, n); of != "" {
				made[n.Ref()] = ", " + of
			}
		}
	}
	for _, l := range f.Links {
		a, z := made[l.Endpoints[0]], made[l.Endpoints[1]]
		if z != a {
			z = cmp.Or(z, ", a NIC") + " at " + l.Endpoints[1].Host
			a = cmp.Or(a, ", a NIC") + " at " + l.Endpoints[0].Host
		} else {
			z = ""
		}
		g.Lines = append(g.Lines, Line{"host " + l.Endpoints[0].Host, "host " + l.Endpoints[1].Host, l.Name + speed(l.SpeedGbps) + a + z})
	}
	for _, n := range f.Networks {
		g.Boxes = append(g.Boxes, Box{ID: "network " + n.Name, Label: n.Name + speed(n.SpeedGbps), Row: 1})
		for _, m := range n.Members {
			g.Lines = append(g.Lines, Line{From: "host " + m.Host, To: "network " + n.Name, Label: m.NIC + made[m]})
		}
	}
	return g
}

// madeOf says what a bond or VLAN is made of; "" for any other NIC.
func madeOf(h *fabric.Host, n *fabric.NIC) string {
	switch {
	case n.Bond != nil:
		var members []string
		for _, m := range h.Members(n) {
			members = append(members, m.Name)
		}
		return "bond of " + strings.Join(members, " and ")
	case n.VLAN != nil:
		text := fmt.Sprintf("VLAN %d on %s", n.VLAN.ID, n.VLAN.On.NIC)
		if on := h.NIC(n.VLAN.On.NIC); on != nil && on.Bond != nil {
			text += ", " + madeOf(h, on)
		}
		return text
	}
	return ""
}

func speed(gbps float64) string {
	if gbps == 0 {
		return ""
	}
	return fmt.Sprintf(" %g Gb/s", gbps)
}

// Order returns the graph of a plan's actions, each after those that it depends on.
func Order(p *planner.Plan) Graph {
	g := Graph{Title: p.Fabric, Directed: true}
	for _, h := range p.Hosts {
		acts := map[string]bool{}
		for i, a := range h.Shown() {
			id := a.Resource.Addr.String()
			acts[id] = true
			g.Boxes = append(g.Boxes, Box{ID: id, Label: fmt.Sprintf("%d. %s %s", i+1, a.Op, id), Row: i})
			for _, after := range a.Resource.After {
				if acts[after.String()] {
					g.Lines = append(g.Lines, Line{From: after.String(), To: id})
				}
			}
		}
	}
	return g
}

// GraphFormats are the formats of Graph.Text.
var GraphFormats = []string{"mermaid", "dot", "svg"}

// Text formats the graph.
func (g Graph) Text(format string) string {
	switch format {
	case "dot":
		return g.dot()
	case "svg":
		return g.svg()
	}
	return g.mermaid()
}

func (g Graph) ids() map[string]string {
	out := map[string]string{}
	for i, b := range g.Boxes {
		out[b.ID] = fmt.Sprintf("n%d", i)
	}
	return out
}

// mermaid escapes with entities, as Mermaid's flowchart syntax has it.
func (g Graph) mermaid() string {
	var b strings.Builder
	ids, arrow := g.ids(), "---"
	if g.Directed {
		arrow = "-->"
	}
	b.WriteString("flowchart TB\n")
	text := func(s string) string {
		return strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;").Replace(neutral(s))
	}
	for _, x := range g.Boxes {
		fmt.Fprintf(&b, "  %s[\"%s\"]\n", ids[x.ID], text(x.Label))
	}
	for _, l := range g.Lines {
		label := ""
		if l.Label != "" {
			label = `|"` + text(l.Label) + `"|`
		}
		fmt.Fprintf(&b, "  %s %s%s %s\n", ids[l.From], arrow, label, ids[l.To])
	}
	return b.String()
}

func (g Graph) dot() string {
	var b strings.Builder
	ids, kind, arrow := g.ids(), "graph", "--"
	if g.Directed {
		kind, arrow = "digraph", "->"
	}
	fmt.Fprintf(&b, "%s %q {\n  node [shape=box];\n", kind, neutral(g.Title))
	for _, x := range g.Boxes {
		fmt.Fprintf(&b, "  %s [label=%q];\n", ids[x.ID], neutral(x.Label))
	}
	for _, l := range g.Lines {
		fmt.Fprintf(&b, "  %s %s %s [label=%q];\n", ids[l.From], arrow, ids[l.To], neutral(l.Label))
	}
	b.WriteString("}\n")
	return b.String()
}

// Sizes of the picture, in pixels.
const (
	boxHeight = 36
	rowGap    = 150
	boxGap    = 24
	letter    = 7.5 // width of a letter of the 12 px font
	margin    = 40
	bowGap    = 36 // between two lines of the same boxes
)

type rectangle struct{ x, y, w float64 }

// svg draws rows of boxes. Lines within a row bow out above it, each a little higher than the last.
func (g Graph) svg() string {
	at, width, height := g.place()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+
		"\n<title>%s</title>\n", width, height, html.EscapeString(neutral(g.Title)))
	between := map[string]int{}
	for _, l := range g.Lines {
		p, q := at[l.From], at[l.To]
		px, qx := p.x+p.w/2, q.x+q.w/2
		label := html.EscapeString(neutral(l.Label))
		if p.y == q.y {
			pair := []string{l.From, l.To}
			slices.Sort(pair)
			n := between[strings.Join(pair, "\x00")]
			between[strings.Join(pair, "\x00")]++
			bow := p.y - bowGap*float64(n+1)
			fmt.Fprintf(&b,
				`<path d="M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f" fill="none" stroke="#555"/>`+
					`<text x="%.1f" y="%.1f" text-anchor="middle" fill="#555">%s</text>`+"\n",
				// a cubic curve reaches three quarters of its handles
				px, p.y, px, bow, qx, bow, qx, p.y, (px+qx)/2, p.y-0.75*bowGap*float64(n+1)-4, label)
			continue
		}
		if p.y > q.y {
			p, q, px, qx = q, p, qx, px
		}
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#999"><title>%s</title></line>`+"\n",
			px, p.y+boxHeight, qx, q.y, label)
	}
	for _, x := range g.Boxes {
		r := at[x.ID]
		fmt.Fprintf(&b,
			`<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="6" fill="#eef4ff" stroke="#346"/>`+
				`<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			r.x, r.y, r.w, boxHeight, r.x+r.w/2, r.y+boxHeight/2+4, html.EscapeString(neutral(x.Label)))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (g Graph) place() (at map[string]rectangle, width, height float64) {
	at = map[string]rectangle{}
	end := map[int]float64{}
	row := map[string]int{}
	for _, x := range g.Boxes {
		row[x.ID] = x.Row
	}
	top, gap := float64(margin), float64(boxGap)
	count := map[string]int{}
	for _, l := range g.Lines {
		if row[l.From] == row[l.To] {
			count[l.From+"\x00"+l.To]++
			top = max(top, margin+bowGap*float64(count[l.From+"\x00"+l.To]))
			gap = max(gap, letter*float64(len([]rune(l.Label))))
		}
	}
	for _, x := range g.Boxes {
		if end[x.Row] == 0 {
			end[x.Row] = margin
		}
		r := rectangle{x: end[x.Row], y: top + rowGap*float64(x.Row), w: letter*float64(len([]rune(x.Label))) + 24}
		at[x.ID] = r
		end[x.Row] = r.x + r.w + gap
		width, height = max(width, end[x.Row]-gap+margin), max(height, r.y+boxHeight+margin)
	}
	return at, width, height
}
