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
	"sync"

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
	return config.Options{Inputs: a.inputs, Env: os.Environ(), Version: version}
}

// load reads a fabric and prints all problems of its files to stderr.
func (a *app) load(path string) (*fabric.Fabric, error) {
	f, files, diags := config.Load(path, a.sources())
	if err := a.err.Diagnostics(files, diags); err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		return nil, &exit{code: exitError}
	}
	return f, nil
}

// loaded loads the fabric and returns it with the options to reach its hosts.
func (a *app) loaded(path string) (*fabric.Fabric, apply.SessionOptions, error) {
	f, err := a.load(path)
	if err != nil {
		return nil, apply.SessionOptions{}, err
	}
	if len(f.Hosts) == 0 {
		return nil, apply.SessionOptions{}, fmt.Errorf("%s declares no host, so nothing can be compared: add a host block, or name the files that have them", path)
	}
	o, err := a.session(f, a.invocation(f, path))
	return f, o, err
}

// open loads the fabric and connects to its hosts.
func (a *app) open(ctx context.Context, path string) (*apply.Session, error) {
	f, o, err := a.loaded(path)
	if err != nil {
		return nil, err
	}
	if o.Chosen, err = a.Choose(f); err != nil {
		return nil, err
	}
	return connect(ctx, f, o)
}

// connect connects to the hosts, unless it is interrupted: hosts that were not reached by then would count as unreachable.
func connect(ctx context.Context, f *fabric.Fabric, o apply.SessionOptions) (*apply.Session, error) {
	s := apply.Open(ctx, f, o)
	if err := apply.Interrupted(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// openToDestroy opens a session that undoes everything the fabric made. -host may also name hosts that
// only the other hosts' rosters still list.
func (a *app) openToDestroy(ctx context.Context, path string, management bool) (*apply.Session, error) {
	f, o, err := a.loaded(path)
	if err != nil {
		return nil, err
	}
	unknown := slices.DeleteFunc(slices.Clone(a.Hosts), func(term string) bool {
		return f.Host(term) != nil || strings.ContainsAny(term, "*?[=")
	})
	if len(unknown) > 0 {
		if f, err = apply.WithVanished(ctx, f, o, unknown); err != nil {
			return nil, err
		}
	}
	if o.Chosen, err = a.Choose(f); err != nil {
		return nil, err
	}
	o.Destroy, o.Management = true, management
	return connect(ctx, f, o)
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
	d := &transport.Dialer{Helper: transport.Helpers{ID: id}, SSHConfig: true,
		Progress: func(host, message string) { a.err.Progressf("%s: %s", host, message) }, Warn: a.warnings.add}
	a.reaches.Store(true)
	if a.dial == nil {
		a.dial = d.Start
	}
	o := apply.SessionOptions{Dial: a.dial, Leases: &a.leases, Parallelism: a.parallel, Glance: a.glance, Build: id, Source: config.SourceID(by.Path), User: operator(), Invocation: by,
		Resources: apply.Resources{Kinds: providers.Kinds(), Desired: providers.Desired, Derived: providers.Derived, Looks: providers.Looks},
		Tokens:    apply.TokenStore{Fabric: f.Name, Lab: labName(a.lab, f), State: site.StateDir}}
	if a.lab != "" {
		l, err := openLab(labName(a.lab, f), f, o.Invocation)
		if err != nil {
			return o, err
		}
		o.Lab, d.NetDial, d.SSHConfig = l, l.NetDial, false
	}
	return o, nil
}

// warnings are what somebody should put right on hosts. They are printed when the command ends, each once with all its
// hosts: a fleet has the same startup files everywhere.
type warnings struct {
	mu    sync.Mutex
	order []string
	hosts map[string][]string
}

func (w *warnings) add(host, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hosts == nil {
		w.hosts = map[string][]string{}
	}
	if w.hosts[message] == nil {
		w.order = append(w.order, message)
	}
	if !slices.Contains(w.hosts[message], host) {
		w.hosts[message] = append(w.hosts[message], host)
	}
}

func (w *warnings) print(to *view.Printer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, message := range w.order {
		to.Linef("warning: %s: %s", planner.Names(w.hosts[message]), message)
	}
}

// invocation returns how the fabric was named on the command line, with … for sensitive values.
func (a *app) invocation(f *fabric.Fabric, path string) fabric.Invocation {
	i := fabric.Invocation{Path: path, Flags: a.labFlag()}
	for _, in := range a.inputs {
		switch name := varName(in); {
		case in.File != "":
			i.Flags = append(i.Flags, "-var-file="+in.File)
		case !slices.Contains(f.Sensitive, name):
			i.Flags = append(i.Flags, "-var="+in.Var)
		case !slices.Contains(i.Flags, hiddenVar(name)):
			i.Flags = append(i.Flags, hiddenVar(name))
		}
	}
	return i
}

// varName returns the name of a variable that -var sets; spaces around it are allowed.
func varName(in config.Input) string {
	name, _, _ := strings.Cut(in.Var, "=")
	return strings.TrimSpace(name)
}

// hiddenVar is -var of a sensitive variable in commands that are shown: the operator puts the value in.
func hiddenVar(name string) string { return "-var=" + name + "=…" }

// inputsOf returns the values that an invocation named.
func inputsOf(i fabric.Invocation) (out []config.Input) {
	for _, flag := range i.Flags {
		if file, is := strings.CutPrefix(flag, "-var-file="); is {
			out = append(out, config.Input{File: file})
		} else if v, is := strings.CutPrefix(flag, "-var="); is && !strings.HasSuffix(v, "=…") {
			out = append(out, config.Input{Var: v})
		}
	}
	return out
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
	if slices.ContainsFunc(s.Fabric.Hosts, func(h *fabric.Host) bool { return unreachable[h.Name] == "" && !s.LeftOut(h.Name) }) {
		return false
	}
	a.out.Linef("! No host could be read: %s.", about)
	return true
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
func (e events) Approve(p *planner.Plan) error {
	if e.approve {
		return nil
	}
	question := "Apply these changes? Type \"yes\" to apply: "
	if p != nil && p.RollsBack != "" {
		question = "Roll back? Type \"yes\" to make these changes: "
		if p.Changes() == 0 {
			question = "Mark the transaction as rolled back? Type \"yes\" to do so: "
		}
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New("nothing was changed: there is no terminal for the question. To make the changes without it, run with -auto-approve")
	}
	fmt.Fprint(os.Stderr, "\n"+question)
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
	case apply.Undone:
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
