package view

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// ShowJSON prints one host as a line of JSON.
func (p *Printer) ShowJSON(s apply.HostFacts) error { return p.printIndented(s) }

// Show prints a host's facts, findings and records.
func (p *Printer) Show(s apply.HostFacts) {
	f := s.Facts
	p.Linef("%s  %s", p.bold(s.Name),
		p.dim(strings.Join(nonEmpty(f.System.OS, "Linux "+f.System.Kernel, f.System.Arch, "host name "+f.System.Hostname), ", ")))
	switch m := f.Management; {
	case m.Unknown != "":
		p.Linef("  %s the path of your own connection is unknown: %s", p.warn("!"), m.Unknown)
	case m.Client.IsValid():
		p.Linef("  your %s: %s → %s via %s", m.Connection(), m.Client, m.Server, strings.Join(m.Devices, ", "))
	}
	for _, l := range f.Links {
		if !l.Loopback {
			p.link(l, s.NICs[l.Name], f)
		}
	}
	for _, d := range f.RDMA {
		p.rdma(d, f)
	}
	p.gpus(f)
	for _, finding := range s.Findings {
		p.Linef("  %s %s", p.warn("!"), finding)
	}
	for _, r := range s.Records {
		if r.Fabric == apply.RaisedBy && len(r.Atoms) == 0 {
			continue // a search has ended
		}
		last := ""
		if n := len(r.History); n > 0 {
			last = fmt.Sprintf(", last %s by %s", r.History[n-1].Time.Local().Format("2006-01-02 15:04"), r.History[n-1].Who)
		}
		adopted := 0
		for _, o := range r.Atoms {
			if o.Adopted() {
				adopted++
			}
		}
		if len(r.Atoms) == 0 {
			p.Linef("  fabric %q owns nothing here any more%s", r.Fabric, last)
			continue
		}
		what := Count(len(r.Atoms), "value")
		if adopted > 0 {
			what += fmt.Sprintf(" (%d adopted: as before its first apply)", adopted)
		}
		p.Linef("  fabric %q owns %s here%s", r.Fabric, what, last)
	}
	p.Linef("")
}

func nonEmpty(parts ...string) (out []string) {
	for _, s := range parts {
		if strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	return out
}

func (p *Printer) link(l host.Link, nic string, f *facts.Snapshot) {
	symbol, state := p.good("✓"), "carrier"
	switch {
	case !l.Up:
		symbol, state = p.dim("·"), "down"
	case !l.Carrier:
		symbol, state = p.bad("✗"), "no carrier"
	}
	name := l.Name
	if nic != "" {
		name += " (" + nic + ")"
	}
	about := []string{state, fmt.Sprintf("mtu %d", l.MTU)}
	if l.SpeedMbps > 0 {
		about = append(about, fmt.Sprintf("%g Gb/s", float64(l.SpeedMbps)/1000))
	}
	about = append(about, nonEmpty(l.Kind, l.Driver, l.PCI, l.MAC)...)
	p.Linef("  %s %-24s %s", symbol, name, strings.Join(about, ", "))
	for _, a := range f.Addrs {
		if a.Index != l.Index {
			continue
		}
		var flags styled
		switch {
		case a.DADFailed:
			flags = p.bad("  duplicate: another machine uses this address")
		case a.Tentative:
			flags = p.warn("  tentative: duplicate address detection is running")
		case a.Dynamic:
			flags = p.dim("  dynamic")
		}
		p.Linef("      %s%s", a.Prefix, flags)
	}
}

// rdma prints a device as ibdev2netdev, ibv_devinfo and show_gids would together.
func (p *Printer) rdma(d facts.RDMADevice, f *facts.Snapshot) {
	symbol := p.good("✓")
	if d.State != "ACTIVE" {
		symbol = p.bad("✗")
	}
	parts := []string{fmt.Sprintf("port %d on %s", d.Port, d.Netdev), d.Kind(), d.State}
	if l := f.Link(d.Netdev); l != nil && d.LinkLayer != "InfiniBand" {
		parts = append(parts, fmt.Sprintf("RDMA MTU %d", facts.ActiveMTU(l.MTU)))
	}
	if d.Firmware != "" && !d.Virtual {
		parts = append(parts, "firmware "+d.Firmware)
	}
	parts = append(parts, nonEmpty(d.Rate, d.HCA, d.Board)...)
	p.Linef("  %s %-24s %s", symbol, d.Name, strings.Join(parts, ", "))
	for _, about := range d.About() {
		p.Linef("      %s", p.dim(about))
	}
	for _, g := range d.GIDs {
		addr := g.Addr
		if addr.Is4In6() {
			addr = netip.AddrFrom4(addr.As4())
		}
		on := ""
		if !g.Of(d.Netdev) {
			on = "  on " + g.Netdev
		}
		p.Linef("      GID %-3d RoCE v%d  %s%s", g.Index, g.Version, addr, on)
	}
}

// gpus prints the GPUs with their distance to each RDMA device, as nvidia-smi topo -m does, and their driver.
func (p *Printer) gpus(f *facts.Snapshot) {
	t := f.Topology()
	for i, g := range f.GPUs {
		var devices []string
		for _, d := range t.Devices {
			if distance := t.From[t.GPUs[i]][d]; distance != "" {
				devices = append(devices, d+" "+distance)
			}
		}
		about := nonEmpty(g.Model, g.Slot.PCI())
		if len(devices) > 0 {
			about = append(about, "to "+strings.Join(devices, ", "))
		}
		p.Linef("  %s %-24s %s", p.good("✓"), t.GPUs[i], strings.Join(about, ", "))
	}
	if f.GPUDriver != "" {
		p.Linef("  NVIDIA driver %s", f.GPUDriver)
	}
	for _, l := range f.NCCL {
		p.Linef("  NCCL %s (%s)", l.Version, l.Path)
	}
}
