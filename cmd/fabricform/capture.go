package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/probe/perftest"
	"github.com/fabricform/fabricform/validators"
)

func captureCommand(a *app) *cobra.Command {
	var o apply.CaptureOptions
	var test, file string
	var asJSON bool
	c := &cobra.Command{
		Use: "capture FABRIC LINK", Short: "Record RoCE v2 packets of a link while a verbs test runs over it", Args: cobra.ExactArgs(2),
		Long: `capture records UDP port 4791 at one end of a link while perftest runs between both ends. It prints each
packet's opcode, queue pair, PSN, acknowledgement and RDMA headers, and a summary for each queue pair.

It can record only Soft-RoCE packets: those of an RDMA card bypass the kernel.`,
		Example: `  fabricform capture examples/soft-roce-pair.hcl rail0
  fabricform capture examples/soft-roce-pair.hcl rail0 -test write_bw -file rail0.pcap`,
	}
	a.fleetFlags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the packets and flows as one JSON object")
	c.Flags().StringVar(&test, "test", string(perftest.SendLat), "perftest `test` to run, without ib_")
	c.Flags().StringVar(&o.At, "at", "", "record at this `host`; default: the link's first end")
	c.Flags().StringVar(&file, "file", "", "write all packets to this pcap `file`")
	c.Flags().IntVar(&o.Packets, "packets", 20000, "record at most `N` packets")
	c.Flags().IntVar(&o.Rows, "rows", 24, "print the first `N` of them")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Test, o.Link = perftest.Test(test), args[1]; !o.Test.Valid() {
			return fmt.Errorf("unknown -test %s; use one of %v", test, perftest.Tests())
		}
		return a.readingHosts(func(ctx context.Context, s *apply.Session) error {
			c, err := apply.RecordCapture(ctx, s, o, a.events(false))
			if err := apply.Interrupted(ctx); err != nil {
				return err
			}
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
			if !asJSON {
				a.out.Capture(c)
			} else if err := a.out.CaptureJSON(c); err != nil {
				return err
			}
			if slices.ContainsFunc(c.Results, func(r validators.Result) bool { return r.Verdict == validators.Fail }) {
				return exitWith(exitCheckFailed)
			}
			return nil
		})(cmd, args)
	}
	return c
}
