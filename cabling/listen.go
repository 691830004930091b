package cabling

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/retry"
)

// slowest is how long a frame of ours takes at most. Who listens longer does so for switches.
const slowest = time.Second

// slack is how much longer hosts keep listening than they are asked to, so that a slow connection loses nothing.
const slack = time.Minute

// Answers are what the hosts answered in one run.
type Answers struct {
	Listened time.Duration
	Ports    map[Port]probe.CablingListeningPort
	Sent     map[Port]probe.CablingSent
	Heard    map[string]probe.CablingHeard // by host
	Failed   map[string]string             // hosts that did not take part to the end, and why
}

// Listen runs a survey on the hosts: all ports that are not down listen, then the sending ones send, then all listen on for the rest of the
// time. A host that fails is in Failed. The error is that of ctx.
func Listen(ctx context.Context, c agent.Caller, s *Survey, listen time.Duration, progress func(string)) (*Answers, error) {
	token := make([]byte, 16)
	_, _ = rand.Read(token) // never fails (crypto/rand)
	r := &round{ctx: ctx, caller: c, survey: s, token: hex.EncodeToString(token), ids: map[string]string{}, numbers: map[string][]int{},
		answers: &Answers{Listened: listen, Ports: map[Port]probe.CablingListeningPort{}, Sent: map[Port]probe.CablingSent{},
			Heard: map[string]probe.CablingHeard{}, Failed: maps.Clone(s.Failed)}}
	for i, p := range s.Ports {
		r.numbers[p.Host] = append(r.numbers[p.Host], i)
	}
	progress("opening the ports to listen on")
	r.each(func(host string) error { return r.open(host, listen+slack) })
	began := time.Now()
	progress("sending the frames")
	r.each(r.send)
	for left := listen - time.Since(began); left > 0 && ctx.Err() == nil; left = listen - time.Since(began) {
		if listen > slowest {
			progress(fmt.Sprintf("listening for what switches say: %s left", left.Round(time.Second)))
		}
		_ = retry.Pause(ctx, min(left, 5*time.Second)) // ctx is asked below
	}
	r.each(r.collect)
	return r.answers, ctx.Err()
}

// round is one run of a survey.
type round struct {
	ctx     context.Context
	caller  agent.Caller
	survey  *Survey
	token   string
	numbers map[string][]int // of the ports, by host
	mu      sync.Mutex
	ids     map[string]string // of the hosts' listenings
	answers *Answers
}

// each calls do for all hosts in parallel that have not failed.
func (r *round) each(do func(host string) error) {
	hosts := slices.DeleteFunc(slices.Sorted(maps.Keys(r.numbers)), func(host string) bool { return r.answers.Failed[host] != "" })
	parallel.Each(0, hosts, func(_ int, host string) {
		if err := do(host); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.answers.Failed[host] = err.Error()
		}
	})
}

func (r *round) open(host string, longest time.Duration) error {
	spec := probe.CablingListenSpec{Token: r.token, Duration: longest, Netdevs: []string{}}
	for _, i := range r.numbers[host] {
		if p := r.survey.Ports[i]; p.State != Down {
			spec.Netdevs = append(spec.Netdevs, p.Netdev)
		}
	}
	l, err := probe.ListenCabling.Call(r.ctx, r.caller, host, spec)
	if err == nil && len(l.Ports) > len(spec.Netdevs) {
		err = fmt.Errorf("it listens on %d ports, and was asked for %d", len(l.Ports), len(spec.Netdevs))
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids[host] = l.ID
	for _, p := range l.Ports {
		if slices.Contains(spec.Netdevs, p.Netdev) {
			r.answers.Ports[Port{host, p.Netdev}] = p
		}
	}
	return nil
}

func (r *round) send(host string) error {
	spec := probe.CablingSendSpec{Token: r.token}
	for _, i := range r.numbers[host] {
		if p := r.survey.Ports[i]; p.State == Sends {
			spec.Ports = append(spec.Ports, probe.CablingPort{Netdev: p.Netdev, Number: uint32(i)})
		}
	}
	if len(spec.Ports) == 0 {
		return nil
	}
	sent, err := probe.SendCabling.Call(r.ctx, r.caller, host, spec)
	if err == nil && len(sent) > len(spec.Ports) {
		err = fmt.Errorf("it sent from %d ports, and was asked for %d", len(sent), len(spec.Ports))
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range sent {
		if p.Frames <= probe.CablingFrames && slices.ContainsFunc(spec.Ports, func(q probe.CablingPort) bool { return q.Netdev == p.Netdev }) {
			r.answers.Sent[Port{host, p.Netdev}] = p
		}
	}
	return nil
}

func (r *round) collect(host string) error {
	r.mu.Lock()
	id := r.ids[host]
	r.mu.Unlock()
	if id == "" {
		return errors.New("it was not listening")
	}
	heard, err := probe.CollectCabling.Call(r.ctx, r.caller, host, id)
	if err == nil {
		err = heard.Check()
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers.Heard[host] = heard
	return nil
}

// Reach says where a port's frames arrived, without the functions of its own physical port.
type Reach struct {
	Both []Port // ports that heard both kinds
	Some []Port // ports that heard the broadcasts alone
}

// Reached returns where the frames of each port arrived.
func (a *Answers) Reached(s *Survey) map[Port]Reach {
	heard := map[pair]sound{}
	numbers := map[Port]int{}
	for i, p := range s.Ports {
		numbers[p.Port] = i
	}
	for host, of := range a.Heard {
		for _, p := range of.Probes {
			at, known := numbers[Port{host, p.Netdev}]
			if !known || int64(p.Number) >= int64(len(s.Ports)) {
				continue
			}
			from := s.Ports[p.Number]
			if int(p.Number) != at && (from.Host != host || !slices.Contains(from.Twins, p.Netdev)) {
				k := pair{at, int(p.Number)}
				heard[k] = heard[k].with(p.Group)
			}
		}
	}
	out := map[Port]Reach{}
	for _, k := range slices.SortedFunc(maps.Keys(heard), func(a, b pair) int { return cmp.Compare(a.listener, b.listener) }) {
		at, from := s.Ports[k.listener].Port, s.Ports[k.sender].Port
		r := out[from]
		switch heard[k] {
		case sound{group: true, broadcast: true}:
			r.Both = append(r.Both, at)
		case sound{broadcast: true}:
			r.Some = append(r.Some, at)
		}
		out[from] = r
	}
	return out
}
