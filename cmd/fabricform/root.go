package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/view"
)

// version is the release, set by the linker; "dev" satisfies every required_version.
var version = "dev"

// linkedID is the hash of the sources, the embedded files and the toolchain's version, set by the linker in `make
// build`, so that the builds for all platforms share it. A plain `go build` leaves it empty, and the program has an ID of
// its own: then only the same file can be the helper.
var linkedID string

// buildID names this build. A host's helper must be of the same build as the client.
var buildID = sync.OnceValues(func() (string, error) {
	if linkedID != "" {
		return linkedID, nil
	}
	return transport.OwnID()
})

// operator names the person who runs this command, as user@machine, for histories.
func operator() string {
	name, machine := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		machine = h
	}
	return name + "@" + machine
}

// app is the state that all commands share.
type app struct {
	out, err *view.Printer
	inputs   []config.Input
	lab      string // "" for the declared hosts
	parallel int
	glance   bool // disconnect from each host after one read
	fabric.Selection
	asJSON   bool // print lines of JSON on stdout instead of text
	warnings warnings
	dial     apply.Dial // nil: over SSH

	interrupted <-chan struct{} // closed by the first interrupt
	reaches     atomic.Bool     // the command connects to hosts
	leases      apply.Leases
	leaving     atomic.Bool // a second interrupt ends the program
}

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "fabricform",
		Short:         "Declare an RDMA fabric, plan and apply the changes, and verify the result",
		Long:          longHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Example: `  fabricform validate examples/roce-pair.hcl
  fabricform plan examples/roce-pair.hcl
  fabricform apply examples/roce-pair.hcl`,
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) { // broken between words, as all other text is
		var text bytes.Buffer
		c.Long = view.Fill(c.Long, 80)
		c.SetOut(&text)
		help(c, args)
		for line := range strings.Lines(text.String()) {
			a.out.Linef("%s", strings.TrimSuffix(line, "\n"))
		}
	})
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"change", "Change the fabric:", []*cobra.Command{planCommand(a), applyCommand(a), destroyCommand(a)}},
		{"recover", "Recover:", []*cobra.Command{pendingCommand(a), confirmCommand(a), rollbackCommand(a), unlockCommand(a)}},
		{"look", "Inspect and verify:", []*cobra.Command{verifyCommand(a), showCommand(a), historyCommand(a), graphCommand(a), renderCommand(a), explainCommand(a), captureCommand(a), outputCommand(a)}},
		{"lab", "Rehearse:", []*cobra.Command{labCommand(a)}},
		{"tools", "Tools:", []*cobra.Command{validateCommand(a), fmtCommand(a), schemaCommand(a), lspCommand(a), versionCommand(a)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("tools")
	root.SetCompletionCommandGroupID("tools")
	root.AddCommand(hostCommands()...)
	return root
}

const longHelp = `fabricform provisions RDMA fabrics declaratively. HCL files say what each host and each cable
should be. plan reads the real state over SSH and shows the difference. apply makes exactly those
changes and then verifies the fabric with live checks: carrier, ping, TCP throughput, RDMA bandwidth
and latency, and NCCL. When you remove something from the files, the next apply restores the hosts'
original state.

FABRIC is a directory of *.hcl files or one file; the default is the current directory.

Exit codes:
  0  success
  1  error
  2  plan -detailed-exitcode found changes
  3  a live check failed
  4  some hosts are unreachable
  5  a host changed since the plan was made
  6  apply failed, and every host that it changed was rolled back
  7  a rollback failed, or the state of a host is unknown: an operator must intervene
  8  another transaction is open
If several apply, the first in this order is returned: 7, 6, 8, 5, 1, 4, 3, 2.`

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print version, build and platform", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			id, err := buildID()
			if err != nil {
				return err
			}
			a.out.Linef("fabricform %s (build %s, %s/%s, %s)", version, id, runtime.GOOS, runtime.GOARCH, runtime.Version())
			return nil
		},
	}
}

// onlySubcommands makes a command that only groups others print its help, and refuse a name that is none of
// theirs: cobra prints the help and succeeds, so a script with a mistyped name would go on.
func onlySubcommands(c *cobra.Command) {
	c.DisableFlagsInUseLine = true
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		err := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
		c.SuggestionsMinimumDistance = 2
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			err += "\n\nDid you mean this?\n\t" + strings.Join(near, "\n\t") + "\n"
		}
		return errors.New(err)
	}
}

// fabricFlags are the flags of every command that reads a fabric.
func (a *app) fabricFlags(c *cobra.Command) {
	c.Flags().Func("var", "set a variable: `name=value`; may be repeated", func(s string) error {
		if strings.HasSuffix(s, "=…") { // pasted from a command in a message
			return errors.New("write the sensitive value in the place of …")
		}
		a.inputs = append(a.inputs, config.Input{Var: s})
		return nil
	})
	c.Flags().Func("var-file", "read variables from a *.fabricvars `file`; may be repeated, and the last of all -var and -var-file wins", func(s string) error {
		a.inputs = append(a.inputs, config.Input{File: s})
		return nil
	})
}

// ownLab is the value of a bare -lab: the fabric's own lab.
const ownLab = "."

// fleetFlags are the flags of every command that reaches hosts.
func (a *app) fleetFlags(c *cobra.Command) {
	a.fabricFlags(c)
	c.Flags().StringVar(&a.lab, "lab", "", "connect to the lab's hosts instead of the declared addresses; -lab=`NAME` uses another fabric's lab")
	c.Flags().Lookup("lab").NoOptDefVal = ownLab
	c.Flags().StringSliceVar(&a.Hosts, "host", nil, "select only these hosts: a `glob` on names, or label=glob; may be repeated")
	c.Flags().StringSliceVar(&a.Exclude, "exclude", nil, "leave out these hosts: a `glob` on names, or label=glob; may be repeated")
	c.Flags().IntVar(&a.parallel, "parallelism", 64, "maximum number of hosts to work on in parallel")
	c.PreRunE = func(*cobra.Command, []string) error {
		if a.parallel < 1 {
			return fmt.Errorf("-parallelism is %d: it must be at least 1", a.parallel)
		}
		return nil
	}
}

// fabricArg returns the first argument, or the current directory.
func fabricArg(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// report returns the reporter for a command's output: JSON or text.
func (a *app) report() view.Reporter {
	if a.asJSON {
		return a.out.JSON()
	}
	return a.out
}

// jsonFlag adds -json to commands whose output programs read.
func (a *app) jsonFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.asJSON, "json", false, "print lines of JSON (docs/json.md)")
}
