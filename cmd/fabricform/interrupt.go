package main

import (
	"context"
	"os"
	"time"
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
		a.err.Linef("Interrupted: the running steps end, and then all hosts revert. Interrupt again to leave without waiting for that.")
	}
	<-interrupts
	a.leave()
}

// How long a second interrupt may take: to ask the hosts, and altogether, even if nobody reads the output.
const (
	askPatience   = 1400 * time.Millisecond
	leavePatience = 1800 * time.Millisecond
)

// leave ends the program at once. It asks the hosts that hold transactions of this program to revert, and names those
// whose outcome it does not know.
func (a *app) leave() {
	a.leaving.Store(true)
	by, held := a.leases.Held()
	if !held {
		os.Exit(exitError)
	}
	time.AfterFunc(leavePatience, func() { os.Exit(exitUnknown) })
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	a.report().Fates(a.leases.Abandon(ctx))
	a.err.Errorf("interrupted twice: no lease is renewed any more. To see what is still open, run %s", by.Hint("pending"))
	os.Exit(exitUnknown)
}
