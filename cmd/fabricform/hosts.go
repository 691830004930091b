package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/lab"
	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/view"
)

// sources returns the inputs of a fabric from the command line and the environment.
func (a *app) sources() config.Options {
	return config.Options{Inputs: a.inputs, Env: os.Environ(), Version: thisBuild().version}
}

// load reads a fabric and prints all problems of its files to stderr.
func (a *app) load(path string) (*fabric.Fabric, error) {
	if name := a.labAmong([]string{path}); name != "" {
		return nil, fmt.Errorf("no directory or file has the name %s. If it is a lab, write -lab=%[1]s", name)
	}
	f, files, diags := config.Load(path, a.sources())
	return f, a.problems(files, diags)
}

// problems prints the problems of files. The error is the exit of a command that errors among them end.
func (a *app) problems(files map[string]*hcl.File, diags hcl.Diagnostics) error {
	err := a.err.Diagnostics(files, diags)
	if err == nil && diags.HasErrors() {
		err = exitWith(exitError)
	}
	return err
}

// loadForHosts loads the fabric and returns it with the options to reach its hosts.
func (a *app) loadForHosts(path string) (*fabric.Fabric, apply.SessionOptions, error) {
	f, err := a.load(path)
	if err != nil {
		return nil, apply.SessionOptions{}, err
	}
	if len(f.Hosts) == 0 {
		return nil, apply.SessionOptions{},
			fmt.Errorf("%s declares no host, so nothing can be compared: add a host block, or name the files that have them", path)
	}
	o, err := a.session(f, a.invocation(f, path))
	return f, o, err
}

// open loads the fabric and connects to its hosts.
func (a *app) open(ctx context.Context, path string, allow ...string) (*apply.Session, error) {
	f, o, err := a.loadForHosts(path)
	if err != nil {
		return nil, err
	}
	return a.connect(ctx, f, o, allow)
}

// openToDestroy opens a session that undoes everything the fabric made. -host may also name hosts that
// only the other hosts' rosters still list.
func (a *app) openToDestroy(ctx context.Context, path string, allow ...string) (*apply.Session, error) {
	f, o, err := a.loadForHosts(path)
	if err != nil {
		return nil, err
	}
	if f, err = apply.WithVanished(ctx, f, o, a.Hosts); err != nil {
		return nil, err
	}
	o.Destroy = true
	return a.connect(ctx, f, o, allow)
}

// connect connects to the chosen hosts, unless it is interrupted: hosts that were not reached by then would count as unreachable.
func (a *app) connect(ctx context.Context, f *fabric.Fabric, o apply.SessionOptions, allow allowances) (*apply.Session, error) {
	var err error
	if o.Chosen, err = a.Choose(f); err != nil {
		return nil, err
	}
	o.Management, o.HalfLinks = allow.has(allowManagement), allow.has(allowHalfLinks)
	s := apply.Open(ctx, f, o)
	if err := apply.Interrupted(ctx); err != nil {
		s.Close()
		return nil, err
	}
	f.RootLogin = allow.has(allowRootLogin)
	return s, nil
}

// onHosts returns the body of a command that opens a session, does its work, and closes the session.
func (a *app) onHosts(do func(ctx context.Context, s *apply.Session) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.Close()
		defer func() {
			for _, r := range s.Remarks() {
				a.err.Linef("! %s", r)
			}
		}()
		return do(cmd.Context(), s)
	}
}

// readingHosts is onHosts for commands that change nothing. It also prints the open transactions.
func (a *app) readingHosts(do func(ctx context.Context, s *apply.Session) error) func(*cobra.Command, []string) error {
	return a.onHosts(func(ctx context.Context, s *apply.Session) error {
		err := do(ctx, s)
		for _, l := range s.OpenTransactions() {
			a.err.Linef("! %s", l)
		}
		return err
	})
}

// session returns the options to reach the hosts of a fabric that was named like this.
func (a *app) session(f *fabric.Fabric, by fabric.Invocation) (apply.SessionOptions, error) {
	id, err := buildID()
	if err != nil {
		return apply.SessionOptions{}, err
	}
	d := &transport.Dialer{Helper: transport.Helpers{ID: id, Cure: helperCure}, SSHConfig: true,
		Progress: func(host, message string) { a.err.Progressf("%s: %s", host, message) }, Warn: a.warnings.Add}
	a.cluster.Helper, a.cluster.Progress = d.Helper, d.Progress
	a.cluster.Warn = func(message string) { a.err.Linef("! %s", message) }
	a.reaches.Store(true)
	if a.dial == nil {
		a.dial = func(ctx context.Context, t transport.Target) (io.ReadWriteCloser, error) {
			if t.Slurm != nil {
				return a.cluster.Start(ctx, t)
			}
			return d.Start(ctx, t)
		}
	}
	o := apply.SessionOptions{Dial: a.dial, Leases: &a.leases, Parallelism: a.parallel, Glance: a.glance, Changing: a.changing, Build: id,
		Source: config.SourceID(by.Path), User: operator(), Invocation: by,
		Resources: apply.Resources{Kinds: providers.Kinds(), Desired: providers.Desired, Derived: providers.Derived,
			Joined: providers.Joined, Looks: providers.Looks, Compared: providers.Compared},
		Tokens: apply.TokenStore{Fabric: f.Name, Lab: labName(a.lab, f), State: site.StateDir}}
	if a.lab == "" && slices.ContainsFunc(f.Hosts, func(h *fabric.Host) bool { return h.Slurm != nil }) {
		o.Scheduler, o.Exclusive = &a.cluster, a.measuring
	}
	if a.lab != "" {
		l, err := openLab(labName(a.lab, f), f, o.Invocation)
		if err != nil {
			return o, err
		}
		o.Lab, d.NetDial, d.SSHConfig = l, l.NetDial, false
	}
	d.Keeping = a.keeping(id, o.Tokens.Lab)
	return o, nil
}

// invocation returns how the fabric was named on the command line.
func (a *app) invocation(f *fabric.Fabric, path string) fabric.Invocation {
	return fabric.Invocation{Path: path, Dir: a.dir, Flags: append(a.labFlag(), config.Flags(a.inputs, f.Sensitive)...)}
}

// labFlag returns -lab as it was given.
func (a *app) labFlag() []string {
	switch a.lab {
	case "":
		return nil
	case ownLab:
		return []string{"-lab"}
	}
	return []string{"-lab=" + a.lab}
}

// openLab opens a lab. The error says how to build one that does not exist.
func openLab(name string, f *fabric.Fabric, by fabric.Invocation) (lab.Lab, error) {
	l, err := lab.Open(name)
	if errors.Is(err, fs.ErrNotExist) && name == f.Name {
		by.Flags = slices.DeleteFunc(slices.Clone(by.Flags), func(flag string) bool { return strings.HasPrefix(flag, "-lab") })
		return nil, fmt.Errorf("%w; build it with %s", err, by.Hint("lab", "up"))
	}
	return l, err
}

// labName returns the lab that -lab selects: the fabric's own, or another fabric's by name.
func labName(flag string, f *fabric.Fabric) string {
	if flag == ownLab {
		return f.Name
	}
	return flag
}

// unseen says that nothing is known, because no host could be read. about completes the sentence.
func (a *app) unseen(s *apply.Session, unreachable map[string]string, about string) bool {
	none := s.ReadNone(unreachable)
	if none {
		a.out.Linef("! No host could be read: %s.", about)
	}
	return none
}

// exitOfUnreachable prints the hosts that are unreachable and returns the exit for them.
func (a *app) exitOfUnreachable(hosts map[string]string) error {
	if len(hosts) == 0 {
		return nil
	}
	a.err.Unreachable(hosts)
	return exitWith(exitUnreachable)
}

// events prints a run: results to stdout, progress and warnings to stderr.
type events struct {
	view.Reporter
	err     *view.Printer
	approve bool // approve without asking

	interrupted <-chan struct{} // ends a question
}

func (a *app) events(approve bool) events {
	return events{a.report(), a.err, approve, a.interrupted}
}

func (e events) Progress(format string, args ...any) { e.err.Progressf(format, args...) }

func (e events) Warn(format string, args ...any) { e.err.Linef(format, args...) }

func (e events) Unreachable(hosts map[string]string) { e.err.Unreachable(hosts) }

// Approve asks the operator. Without a terminal it refuses; it never assumes yes.
func (e events) Approve(p *planner.Plan, asking func()) error {
	if e.approve {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New("nothing was changed: approval needs a terminal. To make the changes without a question, run with -auto-approve")
	}
	fmt.Fprint(os.Stderr, "\n"+view.Question(p))
	asking()
	return e.answer(os.Stdin)
}

// answer returns nil if the operator types "yes". An interrupt ends the wait.
func (e events) answer(in io.Reader) error {
	answers := make(chan string, 1)
	go func() { // ends with the program if nobody answers
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			line = ""
		}
		answers <- line
	}()
	select {
	case answer := <-answers:
		if strings.TrimSpace(answer) != "yes" {
			return errors.New("nothing was changed: the answer was not \"yes\"")
		}
		return nil
	case <-e.interrupted:
		fmt.Fprintln(os.Stderr)
		return errors.New("interrupted; nothing was changed")
	}
}

// exitCode returns the exit code of an ending.
func exitCode(ending apply.Ending) int {
	switch ending {
	case apply.Done:
		return exitOK
	case apply.CheckFailed:
		return exitCheckFailed
	case apply.HostsUnreachable:
		return exitUnreachable
	case apply.Stale:
		return exitStale
	case apply.Held:
		return exitHeld
	case apply.RolledBack:
		return exitRolledBack
	case apply.OutcomeUnknown:
		return exitUnknown
	}
	return exitError // of apply.Failed, and of an ending that has no code yet
}

// canReport returns an error if a report could not be written to the path, before a host is changed.
func canReport(path string) error {
	if path == "" {
		return nil
	}
	if err := file.CanOutput(path); err != nil {
		return fmt.Errorf("-report %s: %w", path, err)
	}
	return nil
}

// finish writes a run's report if path is set, and returns the command's exit.
func (a *app) finish(r *apply.Report, path string) error {
	code, err := exitCode(r.Ending), r.Err
	if path != "" && (r.Plan != nil || r.Command == "verify") {
		saved := view.ReportFile{Format: view.EventFormat, Exit: code, Report: *r}
		text, werr := saved.Bytes(path)
		if werr == nil {
			werr = file.Output(path, text, 0o600)
		}
		if werr != nil {
			code, err = exitCode(max(r.Ending, apply.Failed)), errors.Join(err, fmt.Errorf("write report: %w", werr))
		}
	}
	if err == nil {
		return exitWith(code)
	}
	return &exit{code: code, err: err}
}

// exitWith returns the exit of a command whose outcome was already printed.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &exit{code: code}
}
