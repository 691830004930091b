package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/cabling"
	"github.com/fabricform/fabricform/fabric"
)

// CablingJSON prints a report as JSON.
func (p *Printer) CablingJSON(r *cabling.Report) error {
	return p.printIndented(struct {
		Format int `json:"format"`
		*cabling.Report
		Listened float64 `json:"listened"` // seconds
	}{EventFormat, r, r.Listened.Seconds()})
}

// Cabling prints what a run found out.
func (p *Printer) Cabling(r *cabling.Report) {
	section := func(n int, title string) bool {
		if n > 0 {
			p.Linef("%s", p.bold(title))
		}
		return n > 0
	}
	section(len(r.Cables), "Direct cables")
	for _, c := range r.Cables {
		p.Linef("  %s %s – %s", p.good("✓"), c[0], c[1])
	}
	section(len(r.Segments), "Segments: ports behind a bridge or a switch")
	for _, s := range r.Segments {
		note := ""
		if s.Forwards {
			note = " (the switch also forwards frames that bridges must not forward)"
		}
		p.Linef("  %s %s%s", p.good("✓"), ends(s.Ends), note)
	}
	section(len(r.Switches), "Switches that describe themselves")
	for _, s := range r.Switches {
		p.Linef("  %s %s", p.good("✓"), strings.Join(nonEmpty(s.Name, s.System), ", "))
		for _, at := range s.Ports {
			p.Linef("      %s", strings.Join(nonEmpty(at.End.String(), at.Port, at.About), "  "))
		}
	}
	section(len(r.Rails), "Rails")
	for _, rail := range r.Rails {
		p.Linef("  %s %s: %s (%s)", p.good("✓"), rail.Name, ends(rail.Ends), rail.By)
	}
	section(len(r.Unclear), "Unclear: neither a direct cable nor a segment")
	for _, u := range r.Unclear {
		p.Linef("  %s %s", p.warn("!"), ends(u.Ends))
		for _, line := range u.Heard {
			p.Linef("      %s", line)
		}
	}
	if section(len(r.Silent), "Nothing heard") {
		p.Linef("  %s %s", p.warn("!"), ends(r.Silent))
		p.Linef("      These ports have a carrier. The devices at the other end sent nothing in %s, and did not take part.", r.Listened)
	}
	if section(len(r.Management)+len(r.NoCarrier)+len(r.Down)+len(r.TakesLLDP)+len(r.Failed), "Not tried, or incomplete") {
		p.notTried(r)
	}
	if len(r.Raised) > 0 {
		var ports []string
		for _, at := range r.Raised {
			ports = append(ports, at.String())
		}
		p.Linef("%s: set up for this run, and down again now", strings.Join(ports, ", "))
	}
	if len(r.Cables)+len(r.Segments)+len(r.Switches)+len(r.Unclear)+len(r.Silent) == 0 {
		why := "no port that may send has a carrier"
		if len(r.Failed) > 0 {
			why = "see above"
		}
		p.Linef("%s No cables found: %s.", p.warn("!"), why)
	}
}

// PortsDown warns that the cables of ports that are down are not known.
func (p *Printer) PortsDown(r *cabling.Report) {
	if down := raisable(r); len(down) > 0 {
		p.Linef("warning: %s: down, so that nothing is known of their cables. With -raise, import sets them up to find their cables, and down again", ends(down))
	}
}

// raisable returns the ports that are down and that -raise would set up.
func raisable(r *cabling.Report) []cabling.End {
	return slices.DeleteFunc(slices.Clone(r.Down), func(e cabling.End) bool {
		return slices.ContainsFunc(e.Netdevs, func(netdev string) bool {
			return r.LeftAlone[cabling.Port{Host: e.Host, Netdev: netdev}.String()] != ""
		})
	})
}

func (p *Printer) notTried(r *cabling.Report) {
	for _, at := range []struct {
		ends []cabling.End
		why  string
	}{
		{r.Management, "may carry your connection and sent nothing; use -include-management to send from it"},
		{r.NoCarrier, "no carrier: unplugged, or the other end is down"},
		{raisable(r), "down: not tried. -raise sets ports up for the run"},
	} {
		if len(at.ends) > 0 {
			p.Linef("  %s %s: %s", p.dim("·"), ends(at.ends), at.why)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(r.LeftAlone)) {
		p.Linef("  %s %s: down, and not set up with -raise: %s", p.dim("·"), port, r.LeftAlone[port])
	}
	for _, e := range r.TakesLLDP {
		p.Linef("  %s %s: the NIC's firmware takes the frames of LLDP, so that no switch is heard. Look at its private flag with `ethtool --show-priv-flags %s`: %s",
			p.warn("!"), e.Port, fabric.Quote(e.Port.Netdev), e.Flag)
	}
	for _, what := range slices.Sorted(maps.Keys(r.Failed)) {
		p.Linef("  %s %s: %s", p.bad("✗"), what, r.Failed[what])
	}
}

func ends(all []cabling.End) string {
	out := make([]string, 0, len(all))
	for _, e := range all {
		out = append(out, fmt.Sprint(e))
	}
	return strings.Join(out, ", ")
}
