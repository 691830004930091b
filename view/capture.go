package view

import (
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/probe/roce"
)

// CaptureJSON prints a capture as JSON.
func (p *Printer) CaptureJSON(c *apply.Capture) error {
	return p.printIndented(struct {
		Format int `json:"format"`
		*apply.Capture
	}{EventFormat, c})
}

// Capture prints packets as a table, and a summary for each queue pair.
func (p *Printer) Capture(c *apply.Capture) {
	p.Results(c.Results, true)
	p.Linef("%s  %s on %s of %s", p.bold("link "+c.Link), Count(c.Packets, "packet"), c.Netdev, c.Host)
	if len(c.Rows) > 0 {
		p.Linef("  %s",
			p.dim(fmt.Sprintf("%12s  %-15s    %-15s  %-26s %8s %8s %7s  %s", "µs", "from", "to", "opcode", "to QP", "PSN", "bytes", "")))
	}
	for _, r := range c.Rows {
		p.Linef("  %12.1f  %-15s → %-15s  %-26s %8d %8d %7d  %s",
			float64(r.After)/1e3, r.Source, r.Target, r.Opcode, r.TargetQP, r.PSN, r.Payload, r.Detail)
	}
	if more := c.Packets - c.Others - len(c.Rows); more > 0 {
		p.Linef("  %s", p.dim(fmt.Sprintf("… and %d more", more)))
	}
	for _, f := range c.Flows {
		p.flow(f)
	}
	switch {
	case c.Packets == 0:
		p.Linef("  %s no RoCE v2 packets were seen", p.bad("✗"))
	case c.Full:
		p.Linef("  %s reached the limit of -packets; later packets were not recorded", p.warn("!"))
	}
	if c.Dropped > 0 {
		p.Linef("  %s the kernel's buffer was full and dropped %s", p.warn("!"), Count(c.Dropped, "packet"))
	}
	if c.Others > 0 {
		p.Linef("  %s not RoCE v2: %s to UDP port 4791", p.warn("!"), Count(c.Others, "packet"))
	}
	if c.File != "" {
		p.Linef("  all packets were written to %s", c.File)
	}
}

func (p *Printer) flow(f roce.Flow) {
	var about []string
	for _, o := range f.Opcodes {
		about = append(about, fmt.Sprintf("%d %s", o.Packets, o.Opcode))
	}
	symbol := p.good("✓")
	for _, t := range []struct {
		n    uint64
		what string
	}{{f.Retransmitted, "retransmitted"}, {f.NAKs, "NAKs"}, {f.RNRs, "receiver not ready"}, {f.Marked, "congestion marked"},
		{f.CNPs, "congestion notifications"}, {f.BadICRC, "with a wrong ICRC"}} {
		if t.n > 0 {
			symbol = p.warn("!")
			about = append(about, fmt.Sprintf("%d %s", t.n, t.what))
		}
	}
	p.Linef("  %s %s → %s QP %d: %s", symbol, f.Source, f.Target, f.TargetQP, strings.Join(about, ", "))
}
