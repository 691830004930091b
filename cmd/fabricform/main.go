// Command fabricform provisions RDMA fabrics from declarations; `fabricform agent` is its helper on
// the hosts. This package holds commands, flags, wiring and exit codes, and nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/view"
)

// Exit codes, as documented in `fabricform -h`.
const (
	exitOK          = 0
	exitError       = 1
	exitChanges     = 2 // plan -detailed-exitcode
	exitCheckFailed = 3
	exitUnreachable = 4
	exitStale       = 5
	exitRolledBack  = 6 // apply failed, and every host that it changed was rolled back
	exitUnknown     = 7 // a rollback failed, or the state of a host is unknown: an operator must intervene
	exitHeld        = 8 // another transaction is open
)

// exit carries an exit code through cobra. If err is nil, the error was already printed.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return "exit"
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a := &app{out: view.New(os.Stdout), err: view.New(os.Stderr), interrupted: ctx.Done()}
	a.out.Below(a.err)
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go a.obey(interrupts, cancel) // until the program ends
	err := a.execute(ctx, args)
	a.cluster.Close()
	if a.leaving.Load() {
		select {} // leave ends the program
	}
	a.err.Warnings(&a.warnings)
	if lost := a.out.Err(); lost != nil && err == nil {
		err = fmt.Errorf("the output is not complete: %w", lost)
	}
	if err == nil {
		return exitOK
	}
	var e *exit
	if !errors.As(err, &e) {
		e = &exit{code: exitError, err: err}
	}
	if e.err != nil {
		a.err.Errorf("%s", e.err)
	}
	return e.code
}

// execute runs an internal program, or a command of the operator.
func (a *app) execute(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if args[0] == keepProgram {
			return keepConnections(ctx, args[1:])
		}
		if program := hostProgram(args[0]); program != nil {
			return program(ctx, args[1:])
		}
	}
	root := rootCommand(a)
	line := longFlags(args)
	if len(line) > 1 && strings.HasPrefix(line[0], cobra.ShellCompRequestCmd) {
		a.complete(root, args, line)
	}
	if err := misnamed(root, line); err != nil {
		return err
	}
	root.SetArgs(line)
	return root.ExecuteContext(ctx)
}

// longFlags turns -name into --name up to "--": pflag would read -lab as four short flags. The only
// short flag is -h.
func longFlags(args []string) []string {
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if len(arg) > 2 && strings.HasPrefix(arg, "-") && arg[1] != '-' {
			arg = "-" + arg
		}
		out = append(out, arg)
	}
	return out
}
