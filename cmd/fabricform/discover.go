package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/cabling"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/retry"
	"github.com/fabricform/fabricform/view"
)

// The time to listen: a device sends LLDP every 30 s (msgTxInterval of IEEE 802.1AB, 9.2.5.7).
const (
	listenDefault = 30 * time.Second
	listenLongest = 4 * time.Minute
)

// finding are the flags of commands that find out which port is cabled to which.
type finding struct {
	listen  time.Duration
	raise   bool // set ports up that are down, without asking
	options cabling.Options
}

func (d *finding) flags(c *cobra.Command) {
	c.Flags().DurationVar(&d.listen, "listen", listenDefault, "`time` to listen; switches name themselves every 30 s")
	c.Flags().BoolVar(&d.options.IncludeManagement, "include-management", false, "also send from the devices that carry your own connections")
	c.Flags().BoolVar(&d.raise, "raise", false, "set ports up that are down, without asking, and down again at the end")
}

func (d *finding) check() error {
	if d.listen < time.Second || d.listen > listenLongest {
		return fmt.Errorf("-listen is %s: it must be from 1s to %s", d.listen, listenLongest)
	}
	return nil
}

func discoverCommand(a *app) *cobra.Command {
	var d finding
	c := &cobra.Command{
		Use: "discover [FABRIC or HOST…]", Short: "Find out which port is cabled to which", Args: cobra.ArbitraryArgs,
		Long: fmt.Sprintf(`discover finds direct cables, segments, switches and rails, without asking a switch. HOST is user@address, or a
name of ~/.ssh/config. With FABRIC, its hosts take part; it needs no more than host blocks.

Every Ethernet port that is up sends %d frames of type 0x88b5: two to 01:80:c2:00:00:0e, which bridges must not
forward, and two broadcasts. All ports listen for these frames, and for LLDP and STP of other devices. Devices
that may carry your own connection send nothing without -include-management.

Ports that are down take part only with -raise, or if you agree. They are set up in a transaction, and down again
at the end. If this program dies, each host sets them down by itself. Nothing else is changed.

A port that hears nothing is reported as that: it may be cabled to a device that says nothing.`, probe.CablingFrames),
		Example: "  fabricform discover root@gpu01 root@gpu02\n  fabricform discover -listen 5s my-fabric/\n  fabricform discover -json gpu01 gpu02 gpu03",
	}
	a.fleetFlags(c)
	a.jsonFlag(c, "print the report as one JSON object")
	d.flags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := d.check(); err != nil {
			return err
		}
		return a.onNamedHosts(cmd.Context(), args, func(ctx context.Context, s *apply.Session) error {
			snaps, unreachable, err := a.readAll(ctx, s)
			if err != nil {
				return err
			}
			report, err := a.discover(ctx, s, snaps, d)
			if err != nil {
				return err
			}
			if a.asJSON {
				maps.Copy(report.Failed, unreachable) // stderr alone says it to a person
				if err := a.out.CablingJSON(report); err != nil {
					return err
				}
			} else if len(snaps) > 0 {
				a.out.Cabling(report)
			} else {
				a.out.Linef("! No host was reached: no cables found.")
			}
			return a.exitOfUnreachable(unreachable)
		})
	}
	return c
}

// onNamedHosts opens a session with the hosts of a fabric, or with hosts as ssh names them, does its work, and closes the session.
func (a *app) onNamedHosts(ctx context.Context, args []string, do func(context.Context, *apply.Session) error) error {
	f, o, err := a.named(args)
	if err != nil {
		return err
	}
	s, err := a.connect(ctx, f, o, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(ctx, s)
}

// named returns the fabric that the arguments name. Without arguments, or with one that exists as a file, it is that of the files.
func (a *app) named(args []string) (*fabric.Fabric, apply.SessionOptions, error) {
	if len(args) == 0 {
		if _, err := config.Files("."); err != nil {
			return nil, apply.SessionOptions{}, fmt.Errorf("%w: name a directory with *.hcl files, or name hosts: root@gpu01", err)
		}
		return a.loadForHosts(".")
	}
	if _, err := os.Stat(args[0]); len(args) == 1 && err == nil {
		return a.loadForHosts(args[0])
	}
	f := &fabric.Fabric{Name: "default"}
	for _, arg := range args {
		h, err := hostOf(arg)
		if err != nil {
			return nil, apply.SessionOptions{}, err
		}
		if f.Host(h.Name) != nil {
			return nil, apply.SessionOptions{}, fmt.Errorf("host %s is named twice", h.Name)
		}
		f.Hosts = append(f.Hosts, h)
	}
	slices.SortFunc(f.Hosts, func(x, y *fabric.Host) int { return strings.Compare(x.Name, y.Name) })
	if a.lab == ownLab {
		return nil, apply.SessionOptions{}, errors.New("hosts without a fabric have no lab of their own: name one with -lab=NAME")
	}
	o, err := a.session(f, fabric.Invocation{Dir: a.dir, Flags: a.labFlag()})
	if o.Lab != nil {
		for _, h := range f.Hosts {
			if address, port, _, _, _ := o.Lab.Target(h.Name); address == "" || port == 0 {
				return nil, o, fmt.Errorf("lab %s has no host %q", a.lab, h.Name)
			}
		}
	}
	return f, o, err
}

// hostOf reads a host as ssh names it: user@address, an address, or a name of ~/.ssh/config.
func hostOf(arg string) (*fabric.Host, error) {
	h := &fabric.Host{Address: arg}
	if i := strings.LastIndexByte(arg, '@'); i >= 0 {
		h.SSH.User, h.Address = arg[:i], arg[i+1:]
		if h.SSH.User == "" {
			return nil, fmt.Errorf("%q names no user before the @", arg)
		}
	}
	odd := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`/\"'`, r) }
	if h.Address == "" || h.Address[0] == '-' || strings.HasPrefix(h.SSH.User, "-") || strings.ContainsFunc(arg, odd) {
		return nil, fmt.Errorf("%q is neither a directory or file of a fabric, nor a host such as user@address or a name of ~/.ssh/config", arg)
	}
	if _, err := netip.ParseAddr(h.Address); err != nil && strings.Contains(h.Address, ":") {
		return nil, fmt.Errorf("%q: an address has no port here: set Port for it in ~/.ssh/config, or ssh { port = … } in a host block", arg)
	}
	h.Name = h.Address
	return h, nil
}

// readAll reads all hosts of a session in parallel. It also returns those that could not be read, and why. Two names of one machine are an error.
func (a *app) readAll(ctx context.Context, s *apply.Session) (map[string]*facts.Snapshot, map[string]string, error) {
	snaps, unreachable := map[string]*facts.Snapshot{}, s.Unreachable()
	var mu sync.Mutex
	parallel.Each(0, s.Hosts(), func(_ int, host string) {
		snap, err := s.Snapshot(ctx, host)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			unreachable[host] = err.Error()
			return
		}
		snaps[host] = snap
	})
	return snaps, unreachable, oneMachine(snaps)
}

// oneMachine returns an error if two of the hosts are the same machine: one boot of a kernel, and the same devices. The hosts of a namespace
// lab share the boot alone.
func oneMachine(snaps map[string]*facts.Snapshot) error {
	known := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(snaps)) {
		system := snaps[name].System
		if system.BootID == "" {
			continue
		}
		machine := system.BootID
		for _, l := range snaps[name].Links {
			machine += fmt.Sprintf(" %d %s %s", l.Index, l.Name, l.MAC)
		}
		if first := known[machine]; first != "" {
			return fmt.Errorf("%s and %s are one machine: name it once", first, name)
		}
		known[machine] = name
	}
	return nil
}

// discover finds out the cables. Ports that are down take part if the operator agrees to set them up for the run.
func (a *app) discover(ctx context.Context, s *apply.Session, snaps map[string]*facts.Snapshot, d finding) (*cabling.Report, error) {
	down := cabling.Plan(snaps, d.options).Raisable()
	if len(down) == 0 || ctx.Err() != nil || !d.raise && !a.asks() {
		return a.listen(ctx, s, cabling.Plan(snaps, d.options), d)
	}
	r, ending, err := apply.PlanRaise(ctx, s, down)
	if err != nil {
		return nil, &exit{code: exitCode(ending), err: err}
	}
	d.options.LeaveAlone = r.LeftAlone
	if raise, err := a.mayRaise(ctx, r.Ports, d); err != nil {
		return nil, err
	} else if !raise {
		return a.listen(ctx, s, cabling.Plan(snaps, d.options), d)
	}
	var report *cabling.Report
	others, ending, err := apply.Raise(ctx, s, r, a.events(true), func(ctx context.Context) (err error) {
		survey, err := a.awaitCarriers(ctx, s, snaps, r.Ports, d)
		if err == nil {
			report, err = a.listen(ctx, s, survey, d)
		}
		return err
	})
	a.err.Others(others)
	if err != nil {
		return nil, &exit{code: exitCode(ending), err: err}
	}
	for _, host := range slices.Sorted(maps.Keys(r.Ports)) {
		for _, netdev := range r.Ports[host] {
			report.Raised = append(report.Raised, cabling.Port{Host: host, Netdev: netdev})
		}
	}
	return report, nil
}

// asks reports whether there is somebody to ask whether ports may be set up. Without a terminal, and for JSON, -raise says so.
func (a *app) asks() bool { return !a.asJSON && term.IsTerminal(int(os.Stdin.Fd())) }

// mayRaise shows the ports that are down, and asks whether they may be set up. Only an interrupt is an error.
func (a *app) mayRaise(ctx context.Context, down map[string][]string, d finding) (bool, error) {
	if len(down) == 0 {
		return false, nil
	}
	verb := "sets up"
	if !d.raise {
		verb = "would set up"
	}
	for _, host := range slices.Sorted(maps.Keys(down)) {
		a.err.Linef("%s %s %s for this run, and down again, also if this program dies", host, verb, strings.Join(down[host], ", "))
	}
	if d.raise {
		return true, nil
	}
	fmt.Fprint(os.Stderr, "\nSet these ports up? Type \"yes\" to do so: ")
	err := a.events(false).answer(os.Stdin)
	if ctx.Err() != nil {
		return false, err
	}
	if err != nil {
		a.err.Linef("No port is set up: the answer was not \"yes\".")
	}
	return err == nil, nil
}

// carrierPatience is how long a port that was set up may take until it has a carrier: both ends negotiate, and optics train.
const carrierPatience = 10 * time.Second

// awaitCarriers waits until all raised ports have a carrier, at most carrierPatience, and returns the survey with them.
func (a *app) awaitCarriers(ctx context.Context, s *apply.Session, snaps map[string]*facts.Snapshot, raised map[string][]string, d finding) (*cabling.Survey, error) {
	a.err.Progressf("waiting for carriers")
	now := maps.Clone(snaps)
	for end := time.Now().Add(carrierPatience); ; {
		var mu sync.Mutex
		waits := false
		err := parallel.Do(0, slices.Sorted(maps.Keys(raised)), func(_ int, host string) error {
			snap, err := s.Snapshot(ctx, host)
			if err != nil {
				return fmt.Errorf("read host %s: %w", host, err)
			}
			mu.Lock()
			defer mu.Unlock()
			now[host] = snap
			for _, netdev := range raised[host] {
				l := snap.Link(netdev)
				waits = waits || l == nil || !l.Carrier
			}
			return nil
		})
		if err != nil || !waits || time.Now().After(end) {
			return cabling.Plan(now, d.options), err
		}
		if retry.Pause(ctx, 200*time.Millisecond) != nil {
			return nil, errors.New("interrupted; the ports are set down again")
		}
	}
}

// listen says which frames will be sent, sends them, and says what was heard. If no port may send, it does not listen.
func (a *app) listen(ctx context.Context, s *apply.Session, survey *cabling.Survey, d finding) (*cabling.Report, error) {
	sending := survey.Of(cabling.Sends)
	for _, host := range slices.Sorted(maps.Keys(sending)) {
		a.err.Linef("%s sends %s from each of %s", host, view.Count(probe.CablingFrames, "frame"), strings.Join(sending[host], ", "))
	}
	held := survey.Of(cabling.Management)
	for _, host := range slices.Sorted(maps.Keys(held)) {
		a.err.Linef("%s sends nothing from %s, which may carry your connection (-include-management)", host, strings.Join(held[host], ", "))
	}
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("interrupted; nothing was sent")
	case len(sending) == 0:
		return cabling.Judge(survey, &cabling.Answers{}), nil
	}
	answers, err := cabling.Listen(ctx, s, survey, d.listen, func(what string) { a.err.Progressf("%s", what) })
	if err != nil {
		return nil, errors.New("interrupted; stopped listening")
	}
	return cabling.Judge(survey, answers), nil
}
