package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
)

// Bundle is a local file that hosts get.
type Bundle struct {
	calls.Bundle
	From io.ReaderAt
	// Relay is the host that gets it first and hands it on; "": it is sent from here.
	Relay string
}

// sendersAtOnce bounds how many hosts are sent to at a time: a laptop's own link is the limit, and a
// host that is done can begin to install.
const sendersAtOnce = 8

// breaksBorne is how often an upload may break without a byte more before it is given up.
const breaksBorne = 5

// Sent is how far the uploads are.
type Sent struct {
	Bytes, Size int64         // of all hosts together
	Rate        float64       // bytes per second since the beginning
	Left        time.Duration // by that rate
	Hosts       int
}

// Send brings to each host the bundle that it is to get: by SFTP over the open connections and several
// at once, or from its relay once that has it. A connection that breaks is made anew, and the upload
// goes on where it was; the hosts check the hash. told hears of the progress about once a second; note
// hears what did not go by a relay as declared, and was done otherwise. Both may be nil.
func (f *Fleet) Send(ctx context.Context, bundles map[string]Bundle, told func(Sent), note func(host, what string)) error {
	if note == nil {
		note = func(string, string) {}
	}
	p := &progress{began: time.Now(), at: map[string]int64{}, from: map[string]int64{}, told: told}
	direct, relays := map[string]Bundle{}, map[string]*relay{}
	for host, b := range bundles {
		if b.Relay == "" {
			direct[host] = b
			continue
		}
		if relays[b.Relay] == nil {
			_, own := bundles[b.Relay]
			relays[b.Relay] = &relay{name: b.Relay, bundle: b, own: own, note: note}
		}
		relays[b.Relay].hosts = append(relays[b.Relay].hosts, host)
	}
	for _, r := range relays {
		if !r.own && f.client(r.name) != nil {
			direct[r.name] = r.bundle
			p.size += r.bundle.Size
		}
	}
	for _, b := range bundles {
		p.size += b.Size
	}
	names := slices.Sorted(maps.Keys(relays))
	defer func() {
		_ = sideBySide(sendersAtOnce, names, func(_ int, name string) error { relays[name].end(ctx, f); return nil }) // which notes what fails
	}()
	err := sideBySide(sendersAtOnce, slices.Sorted(maps.Keys(direct)), func(_ int, host string) error {
		err := f.send(ctx, host, direct[host], p)
		if _, asked := bundles[host]; err != nil && !asked {
			note(host, fmt.Sprintf("is no relay: %v", err)) // those behind it are sent to
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	_ = sideBySide(sendersAtOnce, names, func(_ int, name string) error { relays[name].feed(ctx, f, p); return nil }) // and who got nothing is sent to
	var left []string
	for _, r := range relays {
		left = append(left, r.left...)
	}
	return sideBySide(sendersAtOnce, left, func(_ int, host string) error { return f.send(ctx, host, bundles[host], p) })
}

func (f *Fleet) send(ctx context.Context, host string, b Bundle, p *progress) error {
	if err := f.sendTo(ctx, host, b, p); err != nil {
		return fmt.Errorf("host %s: send %s: %w", host, b.Name, err)
	}
	return nil
}

func (f *Fleet) sendTo(ctx context.Context, host string, b Bundle, p *progress) error {
	breaks, wrong, before := 0, 0, int64(-1)
	for {
		room, err := calls.MakeRoom.Call(ctx, f, host, b.Bundle)
		var refused *agent.Error
		switch {
		case errors.As(err, &refused), ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case err == nil && room.Whole:
			p.set(host, b.Size)
			return nil
		case err == nil:
			if room.Have > before {
				breaks, before = 0, room.Have
			}
			p.set(host, room.Have)
			if err = f.upload(ctx, host, b, room, p); err == nil {
				room, err = calls.CheckBundle.Call(ctx, f, host, b.Bundle)
			}
			if err == nil && room.Whole {
				return nil
			}
			if err == nil { // the hash differs: what was there before is not what we send
				if wrong++; wrong > 1 {
					return errors.New("what arrived has another SHA-256, twice: does the file change while it is sent?")
				}
				continue
			}
		}
		if breaks++; breaks > breaksBorne || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if back := f.comeBack(ctx, host, time.Minute); back != nil {
			return errors.Join(err, back)
		}
	}
}

// upload goes over the connection that the host's helper runs on.
func (f *Fleet) upload(ctx context.Context, host string, b Bundle, room calls.BundleRoom, p *progress) error {
	c := f.client(host)
	if c == nil {
		return errors.New("it is not connected")
	}
	carrier, ok := c.Stream().(interface {
		Upload(ctx context.Context, to string, from io.ReaderAt, offset, size int64, progress func(int64)) error
	})
	if !ok {
		return errors.New("the connection carries no files")
	}
	// A connection that fell silent ends the helper's client first.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.Dead():
			cancel()
		case <-ctx.Done():
		}
	}()
	return carrier.Upload(ctx, room.Path, b.From, room.Have, b.Size, func(sent int64) { p.set(host, sent) })
}

// progress adds up what all hosts have.
type progress struct {
	mu    sync.Mutex
	began time.Time
	last  time.Time
	size  int64
	at    map[string]int64 // by host
	from  map[string]int64 // what was there before: it has no rate
	told  func(Sent)
}

// set notes how far a host is. What it has at first, before anything was sent, has no rate.
func (p *progress) set(host string, at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[host] = at
	if _, known := p.from[host]; !known {
		p.from[host] = at
	}
	if p.told == nil || time.Since(p.last) < time.Second {
		return
	}
	p.last = time.Now()
	s := Sent{Size: p.size, Hosts: len(p.at)}
	var began int64
	for h, n := range p.at {
		s.Bytes += n
		began += p.from[h]
	}
	if spent := time.Since(p.began).Seconds(); spent > 0 && s.Bytes > began {
		s.Rate = float64(s.Bytes-began) / spent
		s.Left = time.Duration(float64(s.Size-s.Bytes) / s.Rate * float64(time.Second))
	}
	p.told(s)
}
