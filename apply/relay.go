package apply

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/fabricform/fabricform/agent"
)

// relay has a host hand its bundle to those behind it. Where one of them cannot get it so, it is sent
// from here: a firewall between hosts is no reason to install nothing.
func (f *Fleet) relay(ctx context.Context, relay string, own bool, hosts []string, bundles map[string]Bundle, p *progress, note func(host string, why error)) error {
	b := bundles[hosts[0]].Bundle
	at, err := ask[agent.Relay](ctx, f, relay, "relay.serve", b)
	served := err == nil
	if err != nil {
		err = fmt.Errorf("its relay %s hands out nothing: %w", relay, err)
	}
	failed := severally(hosts, func(host string) error {
		why := err
		if why == nil {
			why = f.fetch(ctx, host, bundles[host].Bundle, at, p)
		}
		if why == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if note != nil {
			note(host, why)
		}
		return f.send(ctx, host, bundles[host], p)
	})
	if !served {
		return failed
	}
	end := agent.RelayEnd{Token: at.Token}
	if !own {
		end.Bundle = b.Name
	}
	if _, err = ask[struct{}](ctx, f, relay, "relay.end", end); err != nil {
		err = fmt.Errorf("host %s: end its relaying: %w", relay, err)
	}
	return errors.Join(failed, err)
}

// fetch has a host fetch from a relay until it has all.
func (f *Fleet) fetch(ctx context.Context, host string, b agent.Bundle, from agent.Relay, p *progress) error {
	// It makes room and looks what is there, as before an upload.
	room, err := ask[agent.BundleRoom](ctx, f, host, "bundle.room", b)
	if err != nil {
		return err
	}
	if room.Whole {
		p.set(host, b.Size)
		return nil
	}
	breaks, have := 0, int64(-1)
	for {
		got, err := ask[agent.Fetched](ctx, f, host, "relay.fetch", agent.FetchParams{Bundle: b, Relay: from})
		switch {
		case err == nil && got.Whole:
			p.set(host, b.Size)
			return nil
		case err == nil && got.Have > have:
			breaks, have = 0, got.Have
			p.set(host, have)
			if got.From.IsValid() {
				from.Addresses = []netip.Addr{got.From} // the others were tried before
			}
			continue
		case err == nil: // another hash again, and all of it was removed
			return fmt.Errorf("what its relay has is not %s any more", b.Name)
		}
		if breaks++; breaks > 1 || ctx.Err() != nil {
			return err
		}
	}
}
