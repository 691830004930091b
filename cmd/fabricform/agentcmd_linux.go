package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/helper"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/lab/netns"
	"github.com/fabricform/fabricform/lab/vm"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/providers/qos"
	"github.com/fabricform/fabricform/transport/slurm"
)

// hostProgram returns the program of that name, which runs on a host or as a process of a lab; nil if no program has it. It
// bypasses cobra, because building all commands costs more than starting the helper.
func hostProgram(name string) func(ctx context.Context, args []string) error {
	switch name {
	case "agent":
		return serveHost
	case "guard":
		return guardHost
	case "install":
		return installStack
	case "boot-qos":
		return bootQoS
	case healthProgram:
		return checkHealth
	case "lab-host":
		return func(_ context.Context, args []string) error { return netns.HostMain(args) }
	case "lab-rack":
		return vm.RackMain
	}
	return nil
}

// serveHost is the helper, which plan and apply start on a host. It speaks on stdin and stdout.
func serveHost(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	sshConnection := flags.String("ssh-connection", "",
		"SSH_CONNECTION of the login, which sudo drops; empty: the path of the connection is unknown")
	dialBack := flags.Bool("dial-back", false, "this is a job step of Slurm: dial back to the coordinator, whose credential is on stdin")
	node := flags.String("node", "", "the name of this node, if sudo has dropped it from the environment")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return errors.New("agent is an internal command that plan and apply start on a host")
	}
	id, err := buildID()
	if err != nil {
		return err
	}
	var client io.ReadWriter = struct {
		io.Reader
		io.Writer
	}{os.Stdin, os.Stdout}
	by := facts.Connection{SSH: *sshConnection}
	if *dialBack {
		var paths slurm.Paths
		if client, paths, err = slurm.ServeStep(ctx, os.Stdin, id, *node); err != nil {
			return err
		}
		by = facts.Connection{SSH: paths.Coordinator, By: "Slurm", Others: paths.Controllers}
	}
	h, err := host.Open()
	if err != nil {
		return err
	}
	table, err := helper.Methods(h, providers.Kinds(), checkpoint.NewStore(checkpoint.Dir, checkpoint.Now), by)
	if err != nil {
		return err
	}
	defer clearAbandoned(ctx)()
	// A client that is gone reads no answers. Without this, writing one would kill the helper (os/signal, SIGPIPE), which may still
	// clear up or revert for that client. Ignoring the signal would pass on to the programs that the helper starts; catching it does not.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return agent.Serve(ctx, client, client, id, table)
}

// clearAbandoned removes the temporary folders of helpers that were killed, while this one serves its calls. finish waits for that, but
// not for a disk that hangs.
func clearAbandoned(ctx context.Context) (finish func()) {
	done := make(chan struct{})
	go func() {
		process.RemoveAbandoned(ctx)
		close(done)
	}()
	return func() {
		select {
		case <-done:
		case <-time.After(time.Second):
		}
	}
}

// guardHost is a transaction's guardian. It outlives the helper that starts it, and rolls the host back when the lease expires.
func guardHost(_ context.Context, args []string) error {
	h, err := host.Open()
	if err != nil {
		return err
	}
	// Not the context of the program: an interrupt meant for others must not end a guardian.
	return checkpoint.GuardMain(context.Background(), args, func(ctx context.Context, s *checkpoint.Backup) ([]string, error) {
		return s.Restore(ctx, h, providers.Kinds())
	})
}

// installStack installs a driver stack. It outlives the helper that starts it, because a package manager must not be interrupted.
func installStack(_ context.Context, args []string) error {
	if len(args) > 0 {
		return errors.New("install is an internal command that the helper starts on a host")
	}
	h, err := host.Open()
	if err != nil {
		return err
	}
	// Not the context of the program: as with a guardian.
	return helper.InstallMain(context.Background(), h, providers.Kinds(), checkpoint.NewStore(checkpoint.Dir, checkpoint.Now))
}

// bootQoS sets the class of traffic of one device at boot. systemd starts it, and its output goes to the journal.
func bootQoS(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("boot-qos is an internal command that systemd starts on a host: FILE DEVICE")
	}
	h, err := host.Open()
	if err != nil {
		return err
	}
	now, err := checkpoint.Now()
	if err != nil {
		return err
	}
	open, _, err := checkpoint.NewStore(checkpoint.Dir, checkpoint.Now).Pending()
	if err == nil && open != nil && open.Boot == now.Boot && !open.Rebooted {
		fmt.Fprintln(os.Stderr, "a transaction is open, which sets the class of traffic")
		return nil
	}
	made, err := qos.Boot(ctx, h, args[0], args[1])
	for _, c := range made {
		fmt.Fprintf(os.Stderr, "%s of %s: %q is now %q\n", c.Attribute, c.Atom.Thing(), c.From, c.To)
	}
	if err == nil && len(made) == 0 {
		fmt.Fprintln(os.Stderr, "the class of traffic is already set")
	}
	return err
}
