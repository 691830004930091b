package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/perftest"
	"github.com/fabricform/fabricform/probe/roce"
	"github.com/fabricform/fabricform/validators"
	"github.com/fabricform/fabricform/view"
)

// captureOptions are the flags of `capture`.
type captureOptions struct {
	test, at, file string
	packets, rows  int
	asJSON         bool
}

// captureSnap keeps all headers, and the ICRC of short packets.
const captureSnap = 192

func captureCommand(a *app) *cobra.Command {
	var o captureOptions
	c := &cobra.Command{
		Use: "capture FABRIC LINK", Short: "Record RoCE v2 packets of a link while a verbs test runs over it", Args: cobra.ExactArgs(2),
		Long: `capture records UDP port 4791 at one end of a link while perftest runs between both ends. It prints each
packet's opcode, queue pair, PSN, acknowledgement and RDMA headers, and a summary for each queue pair.

It can record only Soft-RoCE packets: those of an RDMA card bypass the kernel.`,
		Example: `  fabricform capture examples/soft-roce-pair.hcl rail0
  fabricform capture examples/soft-roce-pair.hcl rail0 -test write_bw -file rail0.pcap`,
	}
	a.fleetFlags(c)
	c.Flags().BoolVar(&o.asJSON, "json", false, "print the packets and flows as one JSON object")
	c.Flags().StringVar(&o.test, "test", string(perftest.SendLat), "perftest `test` to run, without ib_")
	c.Flags().StringVar(&o.at, "at", "", "record at this `host`; default: the link's first end")
	c.Flags().StringVar(&o.file, "file", "", "write all packets to this pcap `file`")
	c.Flags().IntVar(&o.packets, "packets", 20000, "record at most `N` packets")
	c.Flags().IntVar(&o.rows, "rows", 24, "print the first `N` of them")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !perftest.Test(o.test).Valid() {
			return fmt.Errorf("unknown -test %s; use one of %v", o.test, perftest.Tests())
		}
		s, err := a.open(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		defer s.Close()
		return a.capture(cmd.Context(), s, args[1], o)
	}
	return c
}

func (a *app) capture(ctx context.Context, s *apply.Session, link string, o captureOptions) error {
	ref, err := captureEnd(s.Fabric, link, o.at)
	if err != nil {
		return err
	}
	snap, err := s.Snapshot(ctx, ref.Host)
	if err != nil {
		return fmt.Errorf("host %s: %w", ref.Host, err)
	}
	l := nccl.Netdev(snap, s.Fabric.Host(ref.Host).NIC(ref.NIC))
	if l == nil {
		return fmt.Errorf("%s: no device matches it, or several do: run plan", ref)
	}
	for _, d := range snap.RDMA {
		if d.Netdev == l.Name {
			if err := visible(ref.Host, d); err != nil {
				return err
			}
		}
	}
	id, err := probe.StartCapture.Call(ctx, s, ref.Host, probe.CaptureSpec{Netdev: l.Name, MaxPackets: o.packets, SnapLen: captureSnap, Duration: 10 * time.Minute})
	if err != nil {
		return fmt.Errorf("host %s: %w", ref.Host, err)
	}
	options := validators.Options{Only: []validators.Check{validators.CheckVerbs}, Link: link, Tests: []string{o.test}, Lab: s.Options.Lab != nil, Progress: func(what string) { a.err.Progressf("%s", what) }}
	results := validators.Run(ctx, s.Fabric, s.Fleet, options)
	got, err := probe.CollectCapture.Call(ctx, s, ref.Host, id)
	if err != nil {
		return fmt.Errorf("host %s: %w", ref.Host, err)
	}
	c := decode(got, o.rows)
	c.Link, c.Host, c.Netdev, c.Results = link, ref.Host, l.Name, results
	if o.file != "" {
		if err := writePcap(o.file, got.Records); err != nil {
			return err
		}
		c.File = o.file
	}
	if !o.asJSON {
		a.out.Capture(c)
	} else if err := a.out.CaptureJSON(c); err != nil {
		return err
	}
	if slices.ContainsFunc(results, func(r validators.Result) bool { return r.Verdict == validators.Fail }) {
		return exitWith(exitCheckFailed)
	}
	return nil
}

// visible returns an error if the device's packets bypass the kernel and cannot be recorded.
func visible(host string, d facts.RDMADevice) error {
	if d.Virtual {
		return nil
	}
	return fmt.Errorf("%s on %s is hardware: its packets bypass the kernel and cannot be recorded. Use `tcpdump -i %s` with a libpcap that supports RDMA (1.9 or later), or mirror the port on the switch. `verify` reads the card's own counters", d.Name, host, d.Name)
}

// captureEnd returns the end of a link, or of a network's path, at which to record.
func captureEnd(f *fabric.Fabric, link, host string) (fabric.NICRef, error) {
	var names []string
	for _, p := range f.Paths() {
		names = append(names, p.Name)
		if p.Name != link {
			continue
		}
		for _, ref := range p.Endpoints {
			if host == "" || ref.Host == host {
				return ref, nil
			}
		}
		return fabric.NICRef{}, fmt.Errorf("-at %s: link %s connects %s and %s", host, link, p.Endpoints[0].Host, p.Endpoints[1].Host)
	}
	return fabric.NICRef{}, fmt.Errorf("the fabric has no link or path %q; use one of %s", link, strings.Join(names, ", "))
}

// decode decodes the packets. Packets that are not RoCE v2 are only counted: any program may send to that port.
func decode(got probe.CaptureReport, rows int) view.Capture {
	c := view.Capture{Packets: got.Packets, Dropped: got.Dropped, Full: got.Ended == probe.EndedByPackets}
	var sum roce.Summary
	var start time.Time
	for _, r := range got.Records {
		p, err := roce.Decode(r.Data)
		if err != nil {
			c.Others++
			continue
		}
		if start.IsZero() {
			start = r.Time
		}
		sum.Add(p)
		if len(c.Rows) < rows {
			c.Rows = append(c.Rows, view.CaptureRow{After: r.Time.Sub(start), Row: p.Row()})
		}
	}
	c.Flows = sum.Flows()
	return c
}

func writePcap(path string, records []probe.CaptureRecord) error {
	var text bytes.Buffer
	w, err := roce.NewWriter(&text, captureSnap)
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := w.Write(roce.Record{Time: r.Time, Length: r.Length, Frame: r.Data}); err != nil {
			return err
		}
	}
	if err := file.Output(path, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write packets: %w", err)
	}
	return nil
}
