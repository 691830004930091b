package cabling

import (
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
	r := &round{ctx: ctx, caller: c, survey: s, token: hex.EncodeToString(token), ids: map[string]string{},
		answers: &Answers{Listened: listen, Ports: map[Port]probe.CablingListeningPort{}, Sent: map[Port]probe.CablingSent{},
			Heard: map[string]probe.CablingHeard{}, Failed: map[string]string{}}}
	progress("opening the ports to listen on")
	r.each(func(host string) error { return r.open(host, listen+slack) })
	began := time.Now()
	progress("sending the frames")
	r.each(r.send)
	for left := listen - time.Since(began); left > 0 && ctx.Err() == nil; left = listen - time.Since(began) {
		progress(fmt.Sprintf("listening for what switches say: %s left", left.Round(time.Second)))
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
	mu      sync.Mutex
	ids     map[string]string // of the hosts' listenings
	answers *Answers
}

// each calls do for all hosts in parallel that have not failed.
func (r *round) each(do func(host string) error) {
	hosts := map[string]bool{}
	for _, p := range r.survey.Ports {
		if r.answers.Failed[p.Host] == "" {
			hosts[p.Host] = true
		}
	}
	parallel.Each(0, slices.Sorted(maps.Keys(hosts)), func(_ int, host string) {
		if err := do(host); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.answers.Failed[host] = err.Error()
		}
	})
}

func (r *round) open(host string, longest time.Duration) error {
	spec := probe.CablingListenSpec{Token: r.token, Duration: longest, Netdevs: []string{}}
	for _, p := range r.survey.Ports {
		if p.Host == host && p.State != Down {
			spec.Netdevs = append(spec.Netdevs, p.Netdev)
		}
	}
	l, err := probe.ListenCabling.Call(r.ctx, r.caller, host, spec)
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
	for i, p := range r.survey.Ports {
		if p.Host == host && p.State == Sends {
			spec.Ports = append(spec.Ports, probe.CablingPort{Netdev: p.Netdev, Number: uint32(i)})
		}
	}
	if len(spec.Ports) == 0 {
		return nil
	}
	sent, err := probe.SendCabling.Call(r.ctx, r.caller, host, spec)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range sent {
		if p.Frames <= probe.CablingFrames && slices.ContainsFunc(spec.Ports, func(q probe.CablingPort) bool { return q.Netdev == p.Netdev }) {
			r.answers.Sent[Port{host, p.Netdev}] = p
		}
	}
	return err
}

func (r *round) collect(host string) error {
	r.mu.Lock()
	id := r.ids[host]
	r.mu.Unlock()
	if id == "" {
		return errors.New("it was not listening")
	}
	heard, err := probe.CollectCabling.Call(r.ctx, r.caller, host, id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers.Heard[host] = heard
	return heard.Check()
}

// HeardBy returns the ports that heard frames of a port, without the functions of its own physical port: those that heard both kinds, and
// those that heard the broadcasts alone.
func (a *Answers) HeardBy(s *Survey, of Port) (both, some []Port) {
	number := slices.IndexFunc(s.Ports, func(p SurveyPort) bool { return p.Port == of })
	for _, at := range s.Ports {
		if number < 0 || at.Port == of || at.Host == of.Host && slices.Contains(s.Ports[number].Twins, at.Netdev) {
			continue
		}
		var heard sound
		for _, p := range a.Heard[at.Host].Probes {
			if p.Netdev == at.Netdev && int64(p.Number) == int64(number) {
				heard.group, heard.broadcast = heard.group || p.Group, heard.broadcast || !p.Group
			}
		}
		switch {
		case heard.both():
			both = append(both, at.Port)
		case heard.broadcast:
			some = append(some, at.Port)
		}
	}
	return both, some
}
