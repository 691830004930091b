package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/view"
)

// obey cancels the command at the first interrupt: it then finishes the running steps and reverts what it changed. At the
// second one it leaves at once. Commands that run on hosts, or for a lab, hold no leases and ignore later interrupts: the
// end of a terminal must not kill a helper in the middle of a step.
func (a *app) obey(interrupts <-chan os.Signal, cancel func()) {
	<-interrupts
	cancel()
	for !a.reaches.Load() {
		<-interrupts
	}
	if _, held := a.leases.Held(); held {
		a.err.Linef("Interrupted: the running steps end, and then all hosts revert. Interrupt again to exit without waiting.")
	}
	<-interrupts
	a.leave()
}

// endAtOnce ends the program at the first interrupt, until stop is called: for commands that change nothing, and that may wait for their
// input or work on it for long.
func endAtOnce(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { os.Exit(exitError) })
}

// How long a second interrupt may take: to ask the hosts, and altogether, even if nobody reads the output.
const (
	askPatience   = 1200 * time.Millisecond
	leavePatience = 1900 * time.Millisecond // a busy machine takes a while to print
)

// leave ends the program at once.
func (a *app) leave() {
	time.AfterFunc(leavePatience, func() { os.Exit(exitUnknown) })
	os.Exit(a.lastWords(view.New(os.Stdout), view.New(os.Stderr)))
}

// lastWords asks the hosts that hold transactions of this program to revert, prints of each host how its transaction ended,
// or when it ends, and returns the exit code. The command's own further output would be out of date, so it is suppressed.
func (a *app) lastWords(out, err *view.Printer) int {
	a.leaving.Store(true)
	a.out.Stop()
	a.err.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	by, held := a.leases.Held()
	fates := a.leases.Abandon(ctx)
	(&app{out: out, asJSON: a.asJSON}).report().Fates(fates)
	switch {
	case held:
		err.Errorf("interrupted twice: leases are no longer renewed. To see what is still open, run %s", by.Hint("pending"))
	case len(fates) > 0:
		err.Errorf("interrupted twice, after every transaction of this command had ended")
	default:
		err.Errorf("interrupted twice: this command has opened no transaction on any host")
	}
	if nodes := a.cluster.Drained(); len(nodes) > 0 {
		err.Linef("Nodes that this command drained: %s. When the hosts are as they should be: scontrol update nodename=%s state=undrain", strings.Join(nodes, ", "), strings.Join(nodes, ","))
	}
	unknown := func(o apply.HostOutcome) bool { return o.Fate == apply.Lost || o.Fate == apply.RevertFailed }
	if held || slices.ContainsFunc(fates, unknown) {
		return exitUnknown
	}
	return exitError
}
