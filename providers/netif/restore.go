package netif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/retry"
)

// restorePatience limits the rounds of Restore. A link that comes up changes again a moment later (carrier, the
// kernel's own addresses), and these changes must not come after the final comparison.
const restorePatience = 3 * time.Second

// Restore repeats its steps until the host equals the backup: a step may remove other objects, such as
// secondary addresses with their primary, and the next round restores them.
func (keeper) Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error) {
	k, _, err := decodeKept(part)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(restorePatience); ; {
		r := restorer{host: h}
		if err := r.meet(ctx, k); err != nil {
			return nil, err
		}
		r.pass(ctx)
		diffs, settled, err := r.compare(ctx)
		if err == nil && len(diffs) == 0 && (settled || time.Now().After(end)) {
			return nil, nil // the host is as it was, so earlier errors do not matter
		}
		r.note("compare with the backup", err)
		if ctx.Err() != nil || time.Now().After(end) {
			return diffs, errors.Join(r.errs...)
		}
		_ = retry.Pause(ctx, 100*time.Millisecond) // if ctx ends, the next round is the last
	}
}

// restorer is one round of Restore.
type restorer struct {
	host  host.Host
	kept  *kept
	want  objects
	links []host.Link   // live
	age   time.Duration // of the backup; negative if it is from another boot
	gone  []string      // devices of the backup that do not exist any more
	errs  []error
}

func (r *restorer) note(what string, err error) {
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", what, err))
	}
}

// meet adapts the backup to the present: it finds links by name and reduces lifetimes.
func (r *restorer) meet(ctx context.Context, k *kept) error {
	var err error
	if r.links, err = r.host.Links(ctx); err != nil {
		return err
	}
	boot, uptime, err := moment(ctx, r.host)
	if err != nil {
		return err
	}
	if r.age = max(uptime-k.Uptime, 0); boot != k.Boot {
		r.age = -1
	}
	if r.kept, err = k.renumber(r.links); err != nil {
		return err
	}
	for _, l := range r.kept.Links {
		if r.link(l) == nil {
			r.gone = append(r.gone, l.Name)
		}
	}
	raw, err := json.Marshal(r.kept)
	if err != nil {
		return err
	}
	_, r.want, err = decodeKept(raw)
	r.want = r.without(r.want, r.expired)
	r.want.routes = slices.DeleteFunc(r.want.routes, func(o object) bool { return r.down(o) || r.kept.Mixed && o.kernelMade() })
	return err
}

// link returns the live link of a kept one; nil if it is gone.
func (r *restorer) link(l keptLink) *host.Link {
	i := slices.IndexFunc(r.links, func(o host.Link) bool { return o.Name == l.Name })
	if i < 0 {
		return nil
	}
	return &r.links[i]
}

// pass takes every step once. The MTU of a device comes first, because below 1280 there are no IPv6 sysctls.
// Sysctls come before the device goes up, so that it does not learn routes or addresses that it should not.
func (r *restorer) pass(ctx context.Context) {
	for _, l := range r.kept.Links {
		if now := r.link(l); now != nil && now.MTU != l.MTU {
			r.note(fmt.Sprintf("set mtu of %s to %d", l.Name, l.MTU), r.host.SetMTU(now.Index, l.MTU))
		}
	}
	for _, s := range r.kept.Sysctls {
		if _, differs := sysctlDiffers(ctx, r.host, s); differs && !r.onGone(s.Path) {
			r.note("set "+sysctlName(s.Path), r.host.SetSysctl(s.Path, s.Value))
		}
	}
	for _, l := range r.kept.Links {
		if now := r.link(l); now != nil && now.Up != l.Up {
			r.note("bring "+l.Name+" "+state(l.Up), r.host.SetUp(now.Index, l.Up))
		}
	}
	r.bring(ctx, "addresses", func(o objects) []object { return o.addrs })
	r.bring(ctx, "neighbours", func(o objects) []object { return o.neighbours })
	r.bring(ctx, "nexthops", func(o objects) []object { return o.nexthops })
	r.bring(ctx, "routes", func(o objects) []object { return o.routes })
	r.bring(ctx, "rules", func(o objects) []object { return o.rules })
}

// onGone reports whether a sysctl belongs to a device that is gone. Such a device is reported once.
func (r *restorer) onGone(path string) bool {
	parts := strings.Split(path, "/")
	return len(parts) == 5 && slices.Contains(r.gone, parts[3])
}
