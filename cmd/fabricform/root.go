package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/habits"
	"github.com/fabricform/fabricform/transport/slurm"
	"github.com/fabricform/fabricform/view"
)

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
	dir      string // of -chdir; "": the current one
	lab      string // "" for the declared hosts
	parallel int
	glance   bool // disconnect from each host after one read
	changing bool // this is an apply or a destroy
	// measuring is set by commands that load hosts and links
	measuring bool
	keep      time.Duration // how long new connections are kept; 0: none is
	fabric.Selection
	asJSON   bool // print lines of JSON on stdout instead of text
	warnings view.Warnings
	dial     apply.Dial // nil: over SSH, or by the cluster
	cluster  slurm.Cluster

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
		Args:          cobra.ArbitraryArgs, // a word that is not a command is an error of misnamed
		Example: `  fabricform validate examples/roce-pair.hcl
  fabricform plan examples/roce-pair.hcl
  fabricform apply examples/roce-pair.hcl`,
	}
	version := root.Flags().Bool("version", false, "print version, build and platform, as the command version does")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *version {
			return a.printVersion()
		}
		return c.Help()
	}
	root.PersistentFlags().StringVar(&a.dir, "chdir", "", "change to `DIR` first; all relative paths are below it")
	root.PersistentFlags().BoolFunc("no-color", "print without colour, as with NO_COLOR=1 in the environment", func(s string) error {
		no, err := strconv.ParseBool(s)
		if no {
			a.out.NoColour()
			a.err.NoColour()
		}
		return err
	})
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return a.enter() }
	root.CompletionOptions.HiddenDefaultCmd = false
	help, usage := root.HelpFunc(), strings.ReplaceAll(root.UsageTemplate(), "[command] --help", "[command] -h")
	root.SetHelpFunc(func(c *cobra.Command, args []string) { // broken between words, as all other text is
		var text bytes.Buffer
		columns := a.out.Columns(80)
		c.Long = view.Fill(c.Long, columns)
		root.SetUsageTemplate(strings.ReplaceAll(usage, ".FlagUsages", ".FlagUsagesWrapped "+strconv.Itoa(columns)))
		c.SetOut(&text)
		help(c, args)
		for line := range strings.Lines(text.String()) {
			line = strings.Replace(line, `--lab NAME[="."]`, `--lab[=NAME]    `, 1) // as it is written
			a.out.Linef("%s", strings.TrimSuffix(line, "\n"))
		}
	})
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"change", "Change the fabric:", []*cobra.Command{planCommand(a), applyCommand(a), destroyCommand(a)}},
		{"recover", "Recover:", []*cobra.Command{pendingCommand(a), confirmCommand(a), rollbackCommand(a), unlockCommand(a)}},
		{"look", "Inspect and verify:", []*cobra.Command{discoverCommand(a), importCommand(a), verifyCommand(a), healthCommand(a), showCommand(a), historyCommand(a), graphCommand(a),
			renderCommand(a), explainCommand(a), captureCommand(a), outputCommand(a), estimateCommand(a)}},
		{"lab", "Rehearse:", []*cobra.Command{labCommand(a)}},
		{"tools", "Tools:", []*cobra.Command{validateCommand(a), fmtCommand(a), disconnectCommand(a), schemaCommand(a), lspCommand(a),
			versionCommand(a)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("tools")
	root.SetCompletionCommandGroupID("tools")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	a.explainUsage(root)
	return root
}

// enter changes to the directory of -chdir.
func (a *app) enter() error {
	if a.dir == "" {
		return nil
	}
	if err := os.Chdir(a.dir); err != nil {
		return fmt.Errorf("-chdir=%s: %w", a.dir, errors.Unwrap(err))
	}
	return nil
}

// misnamed returns an error if the command of a line does not exist, also if the line asks for help: cobra prints a help text and
// succeeds, so a script with a mistyped name would go on.
func misnamed(root *cobra.Command, line []string) error {
	if len(line) > 0 && strings.HasPrefix(line[0], cobra.ShellCompRequestCmd) {
		return nil
	}
	c, rest, err := root.Find(line)
	if err == nil && c.Name() == "help" {
		c, rest, err = root.Find(rest)
	}
	if err == nil && !c.HasSubCommands() {
		return nil
	}
	_ = c.ParseFlags(rest) // a wrong flag is found again when the line is executed
	name := c.Flags().Arg(0)
	if name == "" {
		return nil
	}
	var known []string
	for _, sub := range c.Commands() {
		known = append(known, sub.Name())
	}
	return fmt.Errorf("%s has no command %s. %s", c.CommandPath(), name, habits.Command(c.CommandPath(), name, known))
}

// explainUsage makes a command and those below it say how they are called when the arguments or flags do not fit.
func (a *app) explainUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(flagError)
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil {
				err = a.leftOut(c, args)
			}
			if err == nil || c.HasSubCommands() {
				return err
			}
			if name := a.labAmong(args); name != "" {
				return fmt.Errorf("-lab takes the name of a lab after an equals sign: write -lab=%s", name)
			}
			given := "no argument was given"
			if errors.Is(err, fs.ErrNotExist) {
				given = "no directory or file has the name " + args[0]
			} else if len(args) > 0 {
				given = view.Count(len(args), "argument") + " given: " + strings.Join(args, " ")
			}
			where := ""
			if needsFabric(c) && len(args) > 0 {
				where = " (for the current directory, FABRIC is .)"
			}
			return fmt.Errorf("%s; the command is: %s%s", given, c.CommandPath()+strings.TrimPrefix(c.Use, c.Name()), where)
		}
	}
	for _, sub := range c.Commands() {
		a.explainUsage(sub)
	}
}

// needsFabric reports whether a command's first argument is FABRIC, which must be given.
func needsFabric(c *cobra.Command) bool { return strings.Contains(c.Use, " FABRIC ") }

// leftOut returns an error if the first argument is not a fabric although the command needs one: people write the host in its place.
func (a *app) leftOut(c *cobra.Command, args []string) error {
	if !needsFabric(c) || filepath.IsAbs(args[0]) {
		return nil
	}
	_, err := os.Stat(filepath.Join(a.dir, args[0]))
	if errors.Is(err, fs.ErrNotExist) {
		return err // explained by how the command is called
	}
	return nil
}

// labAmong returns the argument that may be the name of a lab after a bare -lab, because it is not a path; "" if none may be.
func (a *app) labAmong(args []string) string {
	for _, arg := range args {
		if _, err := os.Stat(arg); a.lab == ownLab && err != nil {
			return arg
		}
	}
	return ""
}

// flagValues say what a flag takes, by the type of its value.
var flagValues = map[string]string{"bool": "true or false", "int": "a whole number", "float64": "a number", "duration": "a number with a unit, such as 90s or 10m"}

// flagError names the flag as it is written, with one dash, and the nearest flag that exists, or what its value must be.
func flagError(c *cobra.Command, err error) error {
	var wrong *pflag.InvalidValueError
	if errors.As(err, &wrong) {
		flag := wrong.GetFlag()
		if takes := flagValues[flag.Value.Type()]; takes != "" {
			return fmt.Errorf("-%s takes %s, not %q", flag.Name, takes, wrong.GetValue())
		}
		return fmt.Errorf("-%s %q: %w", flag.Name, wrong.GetValue(), wrong.Unwrap())
	}
	var of interface{ GetSpecifiedName() string }
	if !errors.As(err, &of) {
		return err
	}
	name := of.GetSpecifiedName()
	if c.Flags().Lookup(name) != nil {
		return fmt.Errorf("-%s needs a value", name)
	}
	cure := ""
	if name == "lab" && c.Name() == "render" {
		cure = " It is a flag of the sub-command nccl."
	} else if name == "lab" && strings.HasPrefix(c.CommandPath(), "fabricform lab ") {
		cure = " This command always works on the fabric's lab: leave -lab out."
	} else if c.CommandPath() == "fabricform lab exec" {
		cure = " Write -- before the command to run in the host: its flags are its own."
	} else if name == "lab" {
		cure = " This command reaches no host: leave -lab out."
	} else if said := habits.Flag(name, flagNames(c)); said != "" {
		cure = " " + said
	}
	return fmt.Errorf("%s has no flag -%s.%s `%s -h` lists its flags", c.CommandPath(), name, cure, c.CommandPath())
}

func flagNames(c *cobra.Command) (out []string) {
	for _, word := range strings.Fields(c.Flags().FlagUsages()) {
		if name, is := strings.CutPrefix(word, "--"); is {
			out = append(out, name)
		}
	}
	return out
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
If several apply, the first in this order is returned: 7, 6, 8, 5, 1, 3, 4, 2.`

// onlySubcommands makes a command that only groups others print its help.
func onlySubcommands(c *cobra.Command) {
	c.DisableFlagsInUseLine = true
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// fabricFlags are the flags of every command that reads a fabric.
func (a *app) fabricFlags(c *cobra.Command) {
	c.Flags().Func("var", "set a variable: `name=value`; may be repeated", func(s string) error {
		in, err := config.ParseVar(s)
		a.inputs = append(a.inputs, in)
		return err
	})
	c.Flags().Func("var-file", "read variables from a *.fabricvars `file`; may be repeated, and the last of all -var and -var-file wins",
		func(s string) error {
			a.inputs = append(a.inputs, config.Input{File: s})
			return nil
		})
}

// ownLab is the value of a bare -lab: the fabric's own lab.
const ownLab = "."

// fleetFlags are the flags of every command that reaches hosts.
func (a *app) fleetFlags(c *cobra.Command) {
	a.fabricFlags(c)
	c.Flags().StringVar(&a.lab, "lab", "",
		"connect to the lab's hosts instead of the declared addresses; -lab=`NAME` uses another fabric's lab")
	c.Flags().Lookup("lab").NoOptDefVal = ownLab
	c.Flags().StringSliceVar(&a.Hosts, "host", nil, "select only these hosts: a `glob` on names, or label=glob; may be repeated")
	c.Flags().StringSliceVar(&a.Exclude, "exclude", nil, "leave out these hosts: a `glob` on names, or label=glob; may be repeated")
	c.Flags().IntVar(&a.parallel, "parallelism", 64, "maximum number of hosts to work on in parallel")
	c.Flags().DurationVar(&a.keep, "keep-connections", 0, "keep the connections for this `time`, such as 5m; later commands use them "+
		"instead of new logins, until fabricform disconnect (off without this flag)")
	c.PreRunE = func(*cobra.Command, []string) error {
		if a.parallel < 1 {
			return fmt.Errorf("-parallelism is %d: it must be at least 1", a.parallel)
		}
		if c.Flags().Changed("keep-connections") {
			return checkKeep(a.keep)
		}
		return nil
	}
}

// oneOf returns an error if the value of a flag is not among the known ones.
func oneOf[T ~string](flag string, value T, known ...T) error {
	if slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("unknown %s %s; use one of %s", flag, value, view.List(known))
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

// linesOfJSON is the usage of -json for commands that print events.
const linesOfJSON = "print lines of JSON (docs/json.md)"

// jsonFlag adds -json to commands whose output programs read.
func (a *app) jsonFlag(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&a.asJSON, "json", false, usage)
}
