package main

import (
	"fmt"
	"os"
	"os/user"
	"runtime"
	"sync"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/view"
)

// version is the release, set by the linker; "dev" satisfies every required_version.
var version = "dev"

// linkedID is the hash of the sources, set by the linker in `make build`, so that the builds for
// all architectures share it. A plain `go build` leaves it empty: the program's own hash serves.
var linkedID string

// buildID names this build; helper and laptop must agree on it.
var buildID = sync.OnceValues(func() (string, error) {
	if linkedID != "" {
		return linkedID, nil
	}
	return transport.OwnID()
})

// operator is who runs this, as histories name them.
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

// app is what all commands share.
type app struct {
	out, err *view.Printer
	inputs   []config.Input
	lab      string // "": the declared hosts
	parallel int
	glance   bool // each host is read once, and left
	fabric.Selection
	asJSON bool // lines of JSON on stdout instead of text
}

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "fabricform",
		Short:         "Declare an RDMA fabric, see the difference, make it, prove it",
		Long:          longHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Example: `  fabricform validate examples/roce-pair.hcl
  fabricform plan examples/roce-pair.hcl
  fabricform apply examples/roce-pair.hcl`,
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"change", "Change the fabric:", []*cobra.Command{planCommand(a), applyCommand(a), destroyCommand(a)}},
		{"recover", "Recover:", []*cobra.Command{pendingCommand(a), confirmCommand(a), rollbackCommand(a), unlockCommand(a)}},
		{"look", "Look and prove:", []*cobra.Command{verifyCommand(a), showCommand(a), historyCommand(a), graphCommand(a), renderCommand(a), explainCommand(a), captureCommand(a), outputCommand(a)}},
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
	root.AddCommand(labHostCommand(), labRackCommand())
	return root
}

const longHelp = `fabricform provisions RDMA fabrics declaratively. HCL files say what each host and each cable
should be; plan reads the real state over SSH and shows the difference; apply makes exactly that
difference and ends with live proof: carrier, ping, TCP throughput, RDMA bandwidth and latency, and
NCCL. What is taken out of the files is given back on the hosts.

FABRIC is a directory of *.hcl files or one file; the default is the current directory.
Exit codes: 0 success; 1 error; 2 plan -detailed-exitcode found changes; 3 a live check failed;
4 some hosts could not be reached; 5 a host moved since the plan was made; 6 apply failed, and every
host that it touched is as it was; 7 a rollback failed or a host's end is not known: a person is
needed; 8 another transaction is open. Where several fit, the first of 7, 6, 8, 5, 1, 4, 3, 2.`

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

// fabricFlags are the flags of every command that reads a fabric.
func (a *app) fabricFlags(c *cobra.Command) {
	c.Flags().Func("var", "set a variable: `name=value`; may be repeated", func(s string) error {
		a.inputs = append(a.inputs, config.Input{Var: s})
		return nil
	})
	c.Flags().Func("var-file", "read variables from a *.fabricvars `file`; may be repeated, and the last one wins among all -var and -var-file", func(s string) error {
		a.inputs = append(a.inputs, config.Input{File: s})
		return nil
	})
}

// ownLab is what a bare -lab means.
const ownLab = "."

// fleetFlags are the flags of every command that reaches hosts.
func (a *app) fleetFlags(c *cobra.Command) {
	a.fabricFlags(c)
	c.Flags().StringVar(&a.lab, "lab", "", "go to the lab's hosts instead of the declared addresses; -lab=`NAME` to those of another fabric's lab")
	c.Flags().Lookup("lab").NoOptDefVal = ownLab
	c.Flags().StringSliceVar(&a.Hosts, "host", nil, "these hosts only: a `glob` on names, or label=glob; may be repeated")
	c.Flags().StringSliceVar(&a.Exclude, "exclude", nil, "not these hosts: a `glob` on names, or label=glob; may be repeated")
	c.Flags().IntVar(&a.parallel, "parallelism", 64, "hosts to work on side by side")
	c.PreRunE = func(*cobra.Command, []string) error {
		if a.parallel < 1 {
			return fmt.Errorf("-parallelism is %d: it must be at least 1", a.parallel)
		}
		return nil
	}
}

// fabricArg is the optional last argument.
func fabricArg(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[len(args)-1]
}

// report tells what a command found and did, in the form that was asked for.
func (a *app) report() view.Reporter {
	if a.asJSON {
		return a.out.JSON()
	}
	return a.out
}

// jsonFlag is of the commands whose answer programs read.
func (a *app) jsonFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.asJSON, "json", false, "print lines of JSON (docs/json.md)")
}
