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
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// RaisedBy is the name of the fabric that ports belong to while they are up for a search. It owns nothing at other times.
const RaisedBy = "discover-ports"

// raiseLease is how long a host waits for this program before it sets the ports down by itself. It is short, because all work in
// the transaction is quick.
const raiseLease = 20 * time.Second

// errRaised says that another search has set ports up.
var errRaised = errors.New("nothing was changed, because another transaction is open")

// Raising is what a search sets up: ports that are down.
type Raising struct {
	Ports map[string][]string // by host
	// LeftAlone says of other ports, by host and netdev, why they cannot be set up, such as that a fabric has set them down.
	LeftAlone map[string]map[string]string

	plan *planner.Plan
}

// PlanRaise plans to set ports up. It changes nothing. Without an error, the ending is Done; Held if another search has ports up.
func PlanRaise(ctx context.Context, s *Session, ports map[string][]string) (*Raising, Ending, error) {
	hosts := slices.Sorted(maps.Keys(ports))
	inputs := make([]planner.HostInput, len(hosts))
	err := parallel.Do(0, hosts, func(i int, host string) (err error) {
		inputs[i], err = s.raiseInput(ctx, host, ports[host])
		return err
	})
	if errors.Is(err, errRaised) {
		return nil, Held, err
	}
	if err != nil {
		return nil, Failed, err
	}
	r := &Raising{Ports: map[string][]string{}, LeftAlone: map[string]map[string]string{}, plan: planner.Make(RaisedBy, s.Options.Resources.Kinds, inputs)}
	for i := range inputs {
		in := &inputs[i]
		for n, netdev := range ports[in.Name] {
			if why := problemOf(r.plan, in.Name, portName(n)); why == "" {
				r.Ports[in.Name] = append(r.Ports[in.Name], netdev)
			} else {
				if r.LeftAlone[in.Name] == nil {
					r.LeftAlone[in.Name] = map[string]string{}
				}
				r.LeftAlone[in.Name][netdev] = why
				in.Resources = slices.DeleteFunc(in.Resources, func(r resource.Resource) bool { return r.Addr.Name == portName(n) })
			}
		}
	}
	r.plan = planner.Make(RaisedBy, s.Options.Resources.Kinds, inputs)
	for _, h := range r.plan.Hosts {
		for _, problem := range h.Problems {
			return nil, Failed, fmt.Errorf("nothing was changed: host %s: %s", h.Name, problem.Message)
		}
	}
	return r, Done, nil
}

// portName is the name of a host's n-th port in the plan.
func portName(n int) string { return fmt.Sprintf("port%d", n) }

// problemOf says why a resource cannot be planned; "" if it can.
func problemOf(p *planner.Plan, host, name string) string {
	for _, h := range p.Hosts {
		for _, problem := range h.Problems {
			if h.Name == host && problem.Addr.Name == name {
				return problem.Message
			}
		}
	}
	return ""
}

// Raise sets the ports up, calls during, and sets them down again, whatever during returns. The ports are in a transaction
// that is never committed: if this program ends in between, each host sets its ports down when the lease expires. If a port cannot be set up,
// or another transaction is open on a host, Raise changes nothing or reverts it, and does not call during. others is what became of changes that
// somebody else made to the ports meanwhile.
func Raise(ctx context.Context, s *Session, r *Raising, e Events, during func(context.Context) error) (others []Others, ending Ending, err error) {
	p := r.plan
	e.Progress("opening a transaction on %s", countHosts(countActing(p)))
	tx, err := s.begin(ctx, p, txOptions{Fabric: p.Fabric, Plan: NewID(), User: s.Options.User, Client: NewID(), Lease: raiseLease})
	var held *heldError
	if errors.As(err, &held) || isHeld(err) {
		return nil, Held, fmt.Errorf("nothing was changed: %w", err)
	}
	if err != nil {
		return nil, Failed, err
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
	ending = fatesEnding(fates)
	if ending != Done {
		errs = append(errs, back, fmt.Errorf("not every port could be set down again: run %s", s.Options.Invocation.Hint("pending")))
	}
	for _, host := range slices.Sorted(maps.Keys(fates)) {
		if f := fates[host]; len(f.Kept)+len(f.Overwritten) > 0 {
			others = append(others, Others{Host: host, Kept: f.Kept, Overwritten: f.Overwritten})
		}
	}
	err = errors.Join(append(errs, revertedBefore(fates, why))...)
	if err != nil {
		ending = max(ending, Failed)
	}
	return others, ending, err
}

// raiseInput reads a host anew, and declares that its ports are up.
func (s *Session) raiseInput(ctx context.Context, host string, netdevs []string) (planner.HostInput, error) {
	h := &fabric.Host{Name: host}
	for n, netdev := range netdevs {
		h.NICs = append(h.NICs, &fabric.NIC{Host: host, Name: portName(n), Netdev: netdev, Up: true, IPv6LinkLocal: "keep"})
	}
	f := &fabric.Fabric{Name: RaisedBy, Hosts: []*fabric.Host{h}}
	in := planner.HostInput{Name: host, Resources: s.Options.Resources.Desired(f, h)}
	r, err := s.readAnew(ctx, host, in.Resources, true)
	if err != nil {
		return in, fmt.Errorf("read host %s: %w", host, orInterrupted(ctx, err))
	}
	named := slices.ContainsFunc(r.Records, func(r resource.Record) bool { return r.Fabric == RaisedBy && len(r.Atoms) > 0 })
	if open := s.open()[host]; named && len(open) > 0 {
		return in, fmt.Errorf("%w: host %s: %s", errRaised, host, strings.Join(open, "; "))
	}
	if named {
		return in, fmt.Errorf("nothing was changed: host %s has a fabric named %q, and ports that are set up need this name", host, RaisedBy)
	}
	in.Snapshot, in.Records = r.Snapshot, r.Records
	return in, nil
}
