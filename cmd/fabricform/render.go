package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/nccl/launch"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/view"
)

func renderCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "render", Short: "Print settings for other programs"}
	onlySubcommands(c)
	c.AddCommand(renderNCCL(a), renderSlurmTopology(a), renderKubernetes(a))
	return c
}

func renderSlurmTopology(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "slurm-topology [FABRIC]", Short: "Print Slurm's topology.conf", Args: cobra.MaximumNArgs(1),
		Long: "Prints a topology.conf for Slurm's topology/tree from the files alone: no host is read. Comments say what the files do not " +
			"know, such as the switches between two leaves.",
		Example: "  fabricform render slurm-topology my-fabric/ > /etc/slurm/topology.conf",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.load(fabricArg(args))
			if err != nil {
				return err
			}
			return a.out.Raw([]byte(view.SlurmTopology(f)))
		},
	}
	a.fabricFlags(c)
	return c
}

func renderKubernetes(a *app) *cobra.Command {
	var what string
	c := &cobra.Command{
		Use: "kubernetes -for node [FABRIC]", Short: "Print labels of nodes, and a DaemonSet that checks them", Args: cobra.MaximumNArgs(1),
		Long: "Prints Kubernetes manifests from the files alone: no host is read. -for node prints labels that say which networks and cables " +
			"each node is on, and a DaemonSet that runs fabricform health on the nodes. To start a job, use render nccl -format kubernetes.",
		Example: "  fabricform render kubernetes -for node my-fabric/ > nodes.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := oneOf("-for", what, "node"); err != nil {
				return err
			}
			f, err := a.load(fabricArg(args))
			if err != nil {
				return err
			}
			text, err := launch.KubernetesNode(f)
			if err != nil {
				return err
			}
			return a.out.Raw(text)
		},
	}
	a.fabricFlags(c)
	c.Flags().StringVar(&what, "for", "node", "what to `print`: node")
	return c
}

func renderNCCL(a *app) *cobra.Command {
	var format, dir string
	c := &cobra.Command{
		Use: "nccl [FABRIC]", Short: "Print each host's NCCL settings with their reasons, or a launcher for a job",
		Args: cobra.MaximumNArgs(1),
		Long: formatHelp(),
		Example: `  fabricform render nccl -host a > nccl.conf
  fabricform render nccl -format torchrun -out scripts/
  fabricform render nccl -format mpirun > run.sh && sh run.sh ./all_reduce_perf -b 8 -e 1G -f 2 -g 1`,
	}
	a.fleetFlags(c)
	c.Flags().StringVar(&format, "format", "conf", "`FORMAT`: "+strings.Join(launch.Names(), ", "))
	c.Flags().StringVar(&dir, "out", "", "write files into `DIR`, such as HOST.torchrun.sh; required when there are several files")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneOf("-format", format, launch.Names()...); err != nil {
			return err
		}
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.Close()
		snaps, err := s.Snapshots(cmd.Context())
		if err != nil {
			return err
		}
		end := a.exitOfUnreachable(s.Unreachable())
		job := launch.New(s.Fabric, snaps)
		for _, h := range job.Hosts {
			for _, p := range h.Problems {
				a.err.Errorf("%s: %s", h.Name, p)
				end = exitWith(exitError)
			}
		}
		if len(job.Hosts) == 0 {
			return end
		}
		if slices.ContainsFunc(job.Hosts, func(h launch.Host) bool { return len(h.Problems) > 0 }) {
			a.err.Linef("! %s", a.invocation(s.Fabric, fabricArg(args)).Fill("The settings are for the hosts as they are now. If these files are not applied yet, run `fabricform apply` first."))
		}
		if bare := launch.WithoutGPUs(format, job); len(bare) > 0 {
			a.err.Linef("! %s: no GPU was found there in /proc/driver/nvidia/gpus, so the job starts one rank on each and asks for no GPU. If they have GPUs, load the driver, and render again.", planner.Names(bare))
		}
		files, err := launch.Render(format, job)
		switch {
		case err != nil:
			return err
		case dir != "":
			if err := launch.Write(dir, files); err != nil {
				return err
			}
			for _, f := range files {
				a.out.Linef("%s", filepath.Join(dir, f.Name))
			}
			earlier, err := launch.Earlier(dir, files)
			if err != nil {
				return err
			}
			if len(earlier) > 0 {
				a.err.Linef("! %s has files of an earlier rendering that are not part of this job: %s. Remove them before you start the job.", dir,
					strings.Join(earlier, ", "))
			}
		case len(files) > 1:
			return fmt.Errorf("-format %s makes one file for each of the %d hosts: use -out DIR, or choose one host with -host",
				format, len(files))
		default:
			if err := a.out.Raw(files[0].Text); err != nil {
				return err
			}
		}
		return end
	}
	return c
}

func formatHelp() string {
	var b strings.Builder
	b.WriteString("Reads the hosts, derives NCCL's settings for each, and prints them. " +
		"With -out, writes files, and replaces\nonly files that it rendered. The formats are:\n")
	for _, f := range launch.Formats {
		fmt.Fprintf(&b, "\n  %-18s %s", f.Name, f.About)
	}
	return b.String()
}
