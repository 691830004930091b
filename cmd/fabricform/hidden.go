package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/lab/netns"
	"github.com/fabricform/fabricform/lab/vm"
	"github.com/fabricform/fabricform/probe"
)

// remoteShell runs when mpirun calls this program by the name probe.RemoteShell, to start a daemon on another host.
func remoteShell() int {
	code, err := probe.AskRemoteShell(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
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
