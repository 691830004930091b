package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/probe/perftest"
)

func captureCommand(a *app) *cobra.Command {
	var o apply.CaptureOptions
	var file string
	c := &cobra.Command{
		Use: "capture FABRIC LINK", Short: "Record RoCE v2 packets of a link while a verbs test runs over it", Args: cobra.ExactArgs(2),
		Long: `capture records UDP port 4791 at one end of a link while perftest runs between both ends. It prints each
packet's opcode, queue pair, PSN, acknowledgement and RDMA headers, and a summary for each queue pair.

It can record only Soft-RoCE packets: those of an RDMA card bypass the kernel.`,
		Example: `  fabricform capture examples/soft-roce-pair.hcl rail0
  fabricform capture examples/soft-roce-pair.hcl rail0 -test write_bw -file rail0.pcap`,
	}
	a.fleetFlags(c)
	a.jsonFlag(c, "print the packets and flows as one JSON object")
	c.Flags().StringVar((*string)(&o.Test), "test", string(perftest.SendLat), "perftest `test` to run, without ib_")
	c.Flags().StringVar(&o.At, "at", "", "record at this `host`; default: the link's first end")
	c.Flags().StringVar(&file, "file", "", "write all packets to this pcap `file`")
	c.Flags().IntVar(&o.Packets, "packets", 20000, "record at most `N` packets")
	c.Flags().IntVar(&o.Rows, "rows", 24, "print the first `N` of them")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneOf("-test", o.Test, perftest.Tests()...); err != nil {
			return err
		}
		o.Link = args[1]
		return a.readingHosts(func(ctx context.Context, s *apply.Session) error {
			c, err := apply.RecordCapture(ctx, s, o, a.events(false))
			if errors.Is(err, apply.ErrUnreachable) {
				return &exit{code: exitUnreachable, err: err}
			}
			if err != nil {
				return err
			}
			if file != "" {
				if err := c.WritePcap(file); err != nil {
					return err
				}
			}
			if !a.asJSON {
				a.out.Capture(c)
			} else if err := a.out.CaptureJSON(c); err != nil {
				return err
			}
			if c.Failed() {
				return exitWith(exitCheckFailed)
			}
			return nil
		})(cmd, args)
	}
	return c
}
