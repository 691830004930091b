package apply

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/parallel"
)

// relay is a host that serves a bundle to other hosts.
type relay struct {
	name   string
	bundle LocalBundle
	own    bool     // the relay host also installs the bundle itself
	hosts  []string // the hosts that fetch from the relay
	note   func(host, what string)

	at     calls.Relay
	mu     sync.Mutex
	direct []string // hosts that could not fetch, for example because of a firewall: they get a direct upload
}

// feed makes the hosts behind a relay fetch from it.
func (r *relay) feed(ctx context.Context, f *Fleet, p *progress) {
	var err error
	r.at, err = calls.StartRelay.Call(ctx, f, r.name, calls.RelayStart{Bundle: r.bundle.Bundle, For: f.networks(ctx, r.hosts)})
	if err != nil {
		err = fmt.Errorf("relay %s cannot serve the bundle: %w", r.name, err)
	}
	parallel.Each(sendersAtOnce, r.hosts, func(_ int, host string) {
		why := err
		if why == nil {
			why = f.fetch(ctx, host, r.bundle.Bundle, r.at, p)
		}
		if why == nil {
			return
		}
		if ctx.Err() == nil {
			r.note(host, fmt.Sprintf("could not fetch its bundle from the relay, and gets it from this machine: %v", why))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.direct = append(r.direct, host)
	})
}

// networks returns the addresses of hosts with their networks. It leaves out a host that cannot be read.
func (f *Fleet) networks(ctx context.Context, hosts []string) (out []netip.Prefix) {
	var mu sync.Mutex
	parallel.Each(0, hosts, func(_ int, host string) {
		snap, err := f.Snapshot(ctx, host)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, a := range snap.Addrs {
			if a.Prefix.Addr().IsGlobalUnicast() {
				out = append(out, a.Prefix)
			}
		}
	})
	return out
}

// endPatience limits how long the end of a relay may take, also if the apply was interrupted.
const endPatience = 10 * time.Second

// end stops a relay, and removes a bundle that the relay had only for others. If the connection is lost,
// its helper has exited and closed the port.
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
		r.note(r.name, fmt.Sprintf("may still hold %s, cached for other hosts: %v", r.bundle.Name, err))
	}
}

// fetch makes a host fetch the whole bundle from a relay.
func (f *Fleet) fetch(ctx context.Context, host string, b calls.Bundle, from calls.Relay, p *progress) error {
	// As before an upload, PrepareUpload also says how much is already there.
	to, err := calls.PrepareUpload.Call(ctx, f, host, b)
	if err != nil {
		return err
	}
	if to.Whole {
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
				from.Addresses = []netip.AddrPort{got.From} // the other addresses did not work
			}
			continue
		case err == nil: // the hash was wrong again, and the file was removed
			return fmt.Errorf("the relay no longer serves %s", b.Name)
		}
		if failures++; failures > 1 || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}
