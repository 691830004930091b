package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/helper"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/lab/netns"
	"github.com/fabricform/fabricform/lab/vm"
	"github.com/fabricform/fabricform/providers"
)

// hostCommands returns the hidden commands that run on a host, or as a process of a lab.
func hostCommands() []*cobra.Command {
	return []*cobra.Command{agentCommand(), guardCommand(), installCommand(), labHostCommand(), labRackCommand()}
}

// agentCommand returns the command of the helper on the host, which speaks on stdin and stdout.
func agentCommand() *cobra.Command {
	var sshConnection string
	c := &cobra.Command{
		Use: "agent", Short: "The helper on a host; started by plan and apply", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := buildID()
			if err != nil {
				return err
			}
			h, err := host.Open()
			if err != nil {
				return err
			}
			table, err := helper.Methods(h, providers.Kinds(), checkpoint.NewStore(checkpoint.Dir, checkpoint.Now), facts.Connection{SSH: sshConnection})
			if err != nil {
				return err
			}
			return agent.Serve(cmd.Context(), os.Stdin, os.Stdout, id, table)
		},
	}
	c.Flags().StringVar(&sshConnection, "ssh-connection", "", "SSH_CONNECTION of the login, which sudo drops; empty: the path of the connection is unknown")
	return c
}

// guardCommand returns the command of a transaction's guardian. It outlives the helper that starts it,
// and rolls the host back when the lease expires.
func guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: "guard", Short: "The guardian of a transaction on a host; started by the helper", Hidden: true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := host.Open()
			if err != nil {
				return err
			}
			// Not the command's context: an interrupt meant for others must not end a guardian.
			return checkpoint.GuardMain(context.Background(), args, func(ctx context.Context, s *checkpoint.Backup) ([]string, error) {
				return s.Restore(ctx, h, providers.Kinds())
			})
		},
	}
}

// installCommand returns the command that installs a driver stack. It outlives the helper that starts
// it, because a package manager must not be interrupted.
func installCommand() *cobra.Command {
	return &cobra.Command{
		Use: "install", Short: "The installation of a driver stack on a host; started by the helper", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			h, err := host.Open()
			if err != nil {
				return err
			}
			// Not the command's context: as with a guardian.
			return helper.InstallMain(context.Background(), h, providers.Kinds(), checkpoint.NewStore(checkpoint.Dir, checkpoint.Now))
		},
	}
}

// labHostCommand returns the command that runs as process 1 of a lab's host.
func labHostCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lab-host", Short: "Process 1 of a lab's host; started by lab up", Hidden: true,
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return netns.HostMain(args) },
	}
}

// labRackCommand returns the command that runs the virtual machines and cables of a lab.
func labRackCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lab-rack", Short: "The process of a lab of virtual machines; started by lab up", Hidden: true,
		DisableFlagParsing: true,
		RunE:               func(cmd *cobra.Command, args []string) error { return vm.RackMain(cmd.Context(), args) },
	}
}
