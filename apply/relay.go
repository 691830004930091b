package apply

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
)

// relay is a host that hands a bundle to others.
type relay struct {
	name   string
	bundle Bundle
	own    bool     // it is to have the bundle itself, too
	hosts  []string // behind it
	note   func(host, what string)

	at   calls.Relay
	mu   sync.Mutex
	left []string // of hosts, those that got nothing: a firewall between hosts is no reason to install nothing
}

// feed has the hosts behind a relay fetch from it.
func (r *relay) feed(ctx context.Context, f *Fleet, p *progress) {
	var err error
	r.at, err = calls.StartRelay.Call(ctx, f, r.name, r.bundle.Bundle)
	if err != nil {
		err = fmt.Errorf("%s hands out nothing: %w", r.name, err)
	}
	_ = sideBySide(sendersAtOnce, r.hosts, func(_ int, host string) error {
		why := err
		if why == nil {
			why = f.fetch(ctx, host, r.bundle.Bundle, r.at, p)
		}
		if why == nil {
			return nil
		}
		if ctx.Err() == nil {
			r.note(host, fmt.Sprintf("gets its bundle from here, not from its relay: %v", why))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.left = append(r.left, host)
		return nil
	})
}

// endPatience is how long the end of a relaying may take, also when the apply was interrupted.
const endPatience = 10 * time.Second

// end stops a relaying, and removes what the relay had for others only. Where the connection is gone,
// its helper is, and the port with it.
func (r *relay) end(ctx context.Context, f *Fleet) {
	if f.client(r.name) == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	end := calls.RelayEnd{Token: r.at.Token}
	if !r.own {
		end.Remove = r.bundle.Bundle
	}
	if _, err := calls.EndRelay.Call(ctx, f, r.name, end); err != nil {
		r.note(r.name, fmt.Sprintf("may still have %s, which it had for others: %v", r.bundle.Name, err))
	}
}

// fetch has a host fetch from a relay until it has all.
func (f *Fleet) fetch(ctx context.Context, host string, b calls.Bundle, from calls.Relay, p *progress) error {
	// It makes room and looks what is there, as before an upload.
	room, err := calls.MakeRoom.Call(ctx, f, host, b)
	if err != nil {
		return err
	}
	if room.Whole {
		p.set(host, b.Size)
		return nil
	}
	failures, have := 0, int64(-1)
	for {
		got, err := calls.Fetch.Call(ctx, f, host, calls.FetchParams{Bundle: b, Relay: from})
		switch {
		case err == nil && got.Whole:
			p.set(host, b.Size)
			return nil
		case err == nil && got.Have > have:
			failures, have = 0, got.Have
			p.set(host, have)
			if got.From.IsValid() {
				from.Addresses = []netip.Addr{got.From} // the others were tried before
			}
			continue
		case err == nil: // another hash again, and all of it was removed
			return fmt.Errorf("what it hands out is not %s any more", b.Name)
		}
		if failures++; failures > 1 || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}
