package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// raisedBy is the name of the fabric that ports belong to while they are up for a search.
const raisedBy = "discover-ports"

// raiseLease is how long a host waits for this program before it sets the ports down by itself. It is short, because all work in
// the transaction is quick.
const raiseLease = 20 * time.Second

// errRaised says that another search has set ports up.
var errRaised = errors.New("nothing was changed, because another transaction is open")

// Raise sets ports up that are down, by host, calls during, and sets them down again, whatever during returns. The ports are in a transaction
// that is never committed: if this program ends in between, each host sets its ports down when the lease expires. If a port cannot be set up,
// or another transaction is open on a host, Raise changes nothing or reverts it, and does not call during.
func Raise(ctx context.Context, s *Session, ports map[string][]string, e Events, during func(context.Context) error) (Ending, error) {
	p, err := s.planRaise(ctx, ports)
	if errors.Is(err, errRaised) {
		return Held, err
	}
	if err != nil {
		return Failed, err
	}
	e.Progress("opening a transaction on %s", countHosts(countActing(p)))
	tx, err := s.begin(ctx, p, txOptions{Fabric: p.Fabric, Plan: NewID(), User: s.Options.User, Client: NewID(), Lease: raiseLease})
	var held *heldError
	if errors.As(err, &held) || isHeld(err) {
		return Held, fmt.Errorf("nothing was changed: %w", err)
	}
	if err != nil {
		return Failed, err
	}
	defer tx.Close()
	var errs []error
	for _, h := range tx.Walk(ctx, p, false, func(a planner.Action) { e.Progress("%s: up", a.Resource.Addr.Host) }) {
		if err := h.Err(); err != nil {
			errs = append(errs, fmt.Errorf("host %s: %w", h.Host, err))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, during(ctx))
	}
	e.Progress("setting the ports down again on %s", countHosts(len(tx.Hosts())))
	const why = "the search for cables has ended"
	fates, back := tx.Revert(context.WithoutCancel(ctx), tx.Hosts(), why)
	ending := fatesEnding(fates)
	if ending != Done {
		errs = append(errs, back, fmt.Errorf("not every port could be set down again: run %s", s.Options.Invocation.Hint("pending")))
	}
	err = errors.Join(append(errs, revertedBefore(fates, why))...)
	if err != nil {
		ending = max(ending, Failed)
	}
	return ending, err
}

// planRaise plans to set the ports up, and nothing else.
func (s *Session) planRaise(ctx context.Context, ports map[string][]string) (*planner.Plan, error) {
	f := &fabric.Fabric{Name: raisedBy}
	var inputs []planner.HostInput
	for _, host := range slices.Sorted(maps.Keys(ports)) {
		h := &fabric.Host{Name: host}
		for i, netdev := range ports[host] {
			h.NICs = append(h.NICs, &fabric.NIC{Host: host, Name: fmt.Sprintf("port%d", i), Netdev: netdev, Up: true, IPv6LinkLocal: "keep"})
		}
		f.Hosts = append(f.Hosts, h)
		in := planner.HostInput{Name: host, Resources: s.Options.Resources.Desired(f, h)}
		r, err := s.readAnew(ctx, host, in.Resources, true)
		if err != nil {
			return nil, fmt.Errorf("read host %s: %w", host, orInterrupted(ctx, err))
		}
		named := slices.ContainsFunc(r.Records, func(r resource.Record) bool { return r.Fabric == raisedBy && len(r.Atoms) > 0 })
		if open := s.open()[host]; named && len(open) > 0 {
			return nil, fmt.Errorf("%w: host %s: %s", errRaised, host, strings.Join(open, "; "))
		}
		if named {
			return nil, fmt.Errorf("nothing was changed: host %s has a fabric named %q, and ports that are set up need this name", host, raisedBy)
		}
		in.Snapshot, in.Records = r.Snapshot, r.Records
		inputs = append(inputs, in)
	}
	p := planner.Make(f.Name, s.Options.Resources.Kinds, inputs)
	var problems []string
	for _, h := range p.Hosts {
		for _, problem := range h.Problems {
			problems = append(problems, fmt.Sprintf("host %s: %s", h.Name, problem.Message))
		}
	}
	if problems != nil {
		return nil, fmt.Errorf("nothing was changed: %s", strings.Join(problems, "; "))
	}
	return p, nil
}
