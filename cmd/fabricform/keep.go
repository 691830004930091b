package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/lab"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/view"
)

// keepProgram is the internal program that keeps connections in the background.
const keepProgram = "keep"

// longestKeep is the longest value of -keep-connections: a working day. It is bounded because every program of the operator can use the
// connections.
const longestKeep = 8 * time.Hour

// checkKeep refuses a value of -keep-connections that is out of range or unsupported on this system.
func checkKeep(keep time.Duration) error {
	if keep < time.Second || keep > longestKeep {
		return errors.New("-keep-connections must be from 1s to 8h; leave it out to keep no connection")
	}
	if err := transport.CanKeep(); err != nil {
		return fmt.Errorf("-keep-connections: %w", err)
	}
	return nil
}

// keeping says how a command with this build keeps and reuses connections to the declared hosts, or to those of a lab.
func (a *app) keeping(build, lab string) *transport.Keeping {
	return &transport.Keeping{For: a.keep, Build: build, Network: lab, Program: []string{keepProgram, build, a.keep.String(), lab}}
}

// keepConnections is the process that keeps connections for the command that starts it: it inherits the socket to listen on as its
// file 3, and reads its input until that command ends.
func keepConnections(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("keep is an internal command that -keep-connections starts")
	}
	if build, err := buildID(); err != nil || build != args[0] { // the program's file was replaced meanwhile
		return errors.Join(err, errors.New("this is another build"))
	}
	keep, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	d := &transport.Dialer{}
	if args[2] != "" {
		l, err := lab.Open(args[2])
		if err != nil {
			return err
		}
		d.NetDial = l.NetDial
	}
	inherited := os.NewFile(3, "socket")
	listener, err := net.FileListener(inherited) // a duplicate, which a ProxyCommand does not inherit
	if err = errors.Join(err, inherited.Close()); err != nil {
		return err
	}
	l, is := listener.(*net.UnixListener)
	if !is {
		return errors.New("file 3 is not the socket to listen on")
	}
	command := make(chan struct{})
	go func() { // ends with the command
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = os.Chdir("/") // the command's folder may be on a disk to unmount
		close(command)
	}()
	transport.Keep(ctx, d, l, command, keep)
	return nil
}

func disconnectCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "disconnect", Short: "End the connections that -keep-connections keeps", Args: cobra.NoArgs,
		Long: `disconnect ends all connections that commands of this user keep on this machine (-keep-connections). A
connection that a running command uses ends with that command.`,
		Example: `  fabricform plan -keep-connections=5m
  fabricform apply
  fabricform disconnect`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ended, err := transport.Disconnect(cmd.Context())
			var idle, used []string
			for _, k := range ended {
				if k.InUse {
					used = append(used, k.Host)
				} else {
					idle = append(idle, k.Host)
				}
			}
			if len(idle) > 0 {
				a.out.Linef("Ended %s: %s.", view.Count(len(idle), "kept connection"), hostsOf(idle))
			}
			if len(used) > 0 {
				a.out.Linef("In use, until the running commands end: %s.", hostsOf(used))
			}
			if len(ended) == 0 && err == nil {
				a.out.Linef("No connection is kept.")
			}
			return err
		},
	}
}

// hostsOf names the hosts of connections, of which a host may have several.
func hostsOf(names []string) string {
	slices.Sort(names)
	return planner.Names(slices.Compact(names))
}
