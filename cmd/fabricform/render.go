package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/nccl/launch"
)

func renderCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "render", Short: "Print settings for other programs"}
	onlySubcommands(c)
	c.AddCommand(renderNCCL(a))
	return c
}

func renderNCCL(a *app) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use: "nccl [FABRIC]", Short: "Print each host's NCCL settings with their reasons, or a launcher for a job", Args: cobra.MaximumNArgs(1),
		Long:    formatHelp(),
		Example: "  fabricform render nccl -host a > nccl.conf\n  fabricform render nccl -format shell -host a\n  fabricform render nccl -format mpirun > run.sh && sh run.sh ./all_reduce_perf -b 8 -e 1G -f 2 -g 1",
	}
	a.fleetFlags(c)
	c.Flags().StringVar(&format, "format", "conf", "`FORMAT`: "+strings.Join(launch.Names(), ", "))
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(launch.Names(), format) {
			return fmt.Errorf("unknown -format %s; use one of %s", format, strings.Join(launch.Names(), ", "))
		}
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.Close()
		snaps, err := s.Snapshots(cmd.Context())
		if err = cmp.Or(apply.Interrupted(cmd.Context()), err); err != nil {
			return err
		}
		code := exitOK
		for _, h := range s.Fabric.Hosts {
			if !s.LeftOut(h.Name) && snaps[h.Name] == nil {
				a.err.Unreachable(map[string]string{h.Name: s.Unreachable()[h.Name]})
				code = worse(code, exitUnreachable)
			}
		}
		job := launch.New(s.Fabric, snaps)
		for _, h := range job.Hosts {
			for _, p := range h.Problems {
				a.err.Errorf("%s: %s", h.Name, p)
				code = worse(code, exitError)
			}
		}
		if len(job.Hosts) == 0 {
			return exitWith(code)
		}
		text, err := launch.Render(format, job)
		if err != nil {
			return err
		}
		if err := a.out.Raw(text); err != nil {
			return err
		}
		return exitWith(code)
	}
	return c
}

func formatHelp() string {
	var b strings.Builder
	b.WriteString("Reads the hosts, derives NCCL's settings for each, and prints them. The formats are:\n")
	for _, f := range launch.Formats {
		fmt.Fprintf(&b, "\n  %-18s %s", f.Name, f.About)
	}
	return b.String()
}
