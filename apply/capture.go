package apply

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/perftest"
	"github.com/fabricform/fabricform/probe/roce"
	"github.com/fabricform/fabricform/validators"
)

// Capture is what was recorded at one end of a link during a test.
type Capture struct {
	Link    string              `json:"link"`
	Host    string              `json:"host"`
	Netdev  string              `json:"netdev"`
	Packets int                 `json:"packets"`
	Dropped int                 `json:"dropped,omitempty"` // by the kernel, because its buffer was full
	Full    bool                `json:"full,omitempty"`    // the limit was reached
	Others  int                 `json:"others,omitempty"`  // packets that are not RoCE v2
	Rows    []CaptureRow        `json:"rows"`
	Flows   []roce.Flow         `json:"flows"`
	File    string              `json:"file,omitempty"` // with all packets; see WritePcap
	Results []validators.Result `json:"results"`

	records []probe.CaptureRecord
}

// CaptureRow is one packet, with its time since the first.
type CaptureRow struct {
	After time.Duration `json:"after_ns"`
	roce.Row
}

// CaptureOptions say what to record.
type CaptureOptions struct {
	Link    string        // a link, or a path of a network
	At      string        // the host at whose end to record; "": the link's first end
	Test    perftest.Test // runs meanwhile
	Packets int           // that are recorded at most
	Rows    int           // packets that are decoded one by one
}

// captureSnap keeps all headers, and the ICRC of short packets.
const captureSnap = 192

// ErrUnreachable means that an end of the link was not reached; the exit code depends on it.
var ErrUnreachable = errors.New("unreachable")

// RecordCapture records packets at one end of a link while a verbs test runs over it. It returns ErrUnreachable if an end was not
// reached.
func RecordCapture(ctx context.Context, s *Session, o CaptureOptions, e Events) (*Capture, error) {
	c, err := record(ctx, s, o, e)
	return c, cmp.Or(Interrupted(ctx), err)
}

func record(ctx context.Context, s *Session, o CaptureOptions, e Events) (*Capture, error) {
	ref, err := captureEnd(s.Fabric, o.Link, o.At)
	if err != nil {
		return nil, err
	}
	away := s.Unreachable()
	for _, p := range s.Fabric.Paths() {
		for _, end := range p.Endpoints {
			if why := away[end.Host]; p.Name == o.Link && why != "" {
				return nil, fmt.Errorf("host %s: %w: %s", end.Host, ErrUnreachable, why)
			}
		}
	}
	snap, err := s.Snapshot(ctx, ref.Host)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", ref.Host, err)
	}
	l := nccl.Netdev(snap, s.Fabric.Host(ref.Host).NIC(ref.NIC))
	if l == nil {
		return nil, fmt.Errorf("%s: no device matches it, or several do: run plan", ref)
	}
	for _, d := range snap.RDMAOn(l.Name) {
		if err := visible(ref.Host, *d); err != nil {
			return nil, err
		}
	}
	id, err := probe.StartCapture.Call(ctx, s, ref.Host,
		probe.CaptureSpec{Netdev: l.Name, MaxPackets: o.Packets, SnapLen: captureSnap, Duration: 10 * time.Minute})
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", ref.Host, err)
	}
	results := validators.Run(ctx, s.Fabric, s.Fleet, validators.Options{Only: []validators.Check{validators.CheckVerbs}, Link: o.Link,
		Tests: []string{string(o.Test)}, Lab: s.Options.Lab != nil,
		Progress: func(what string) { e.Progress("%s", what) }})
	got, err := probe.CollectCapture.Call(ctx, s, ref.Host, id)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", ref.Host, err)
	}
	c := decode(got, o.Rows)
	c.Link, c.Host, c.Netdev, c.Results = o.Link, ref.Host, l.Name, results
	return c, nil
}

// visible returns an error if the device's packets bypass the kernel and cannot be recorded.
func visible(host string, d facts.RDMADevice) error {
	if d.Virtual {
		return nil
	}
	return fmt.Errorf("%s on %s is hardware: its packets bypass the kernel and cannot be recorded. "+
		"Use `tcpdump -i %s` with a libpcap that supports RDMA (1.9 or later), or mirror the port on the switch. "+
		"`verify` reads the card's own counters", d.Name, host, d.Name)
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
func decode(got probe.CaptureReport, rows int) *Capture {
	c := &Capture{records: got.Records, Packets: got.Packets, Dropped: got.Dropped, Full: got.Ended == probe.EndedByPackets}
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
			c.Rows = append(c.Rows, CaptureRow{After: r.Time.Sub(start), Row: p.Row()})
		}
	}
	c.Flows = sum.Flows()
	return c
}

// Failed reports whether the test over the link failed.
func (c *Capture) Failed() bool { return failedAny(c.Results) }

// WritePcap writes all packets to a file.
func (c *Capture) WritePcap(path string) error {
	var text bytes.Buffer
	w, err := roce.NewWriter(&text, captureSnap)
	if err != nil {
		return err
	}
	for _, r := range c.records {
		if err := w.Write(roce.Record{Time: r.Time, Length: r.Length, Frame: r.Data}); err != nil {
			return err
		}
	}
	if err := file.Output(path, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write packets: %w", err)
	}
	c.File = path
	return nil
}
