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

// restorePatience is how long Restore goes round: what a link does after it comes up (carrier, the
// kernel's own addresses) comes a moment later, and must not come after the proof.
const restorePatience = 3 * time.Second

// Restore goes round until a re-read equals the snapshot: what one step takes along, such as
// secondary addresses with their primary, the next round brings back.
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
			return nil, nil // whatever failed on the way did not matter
		}
		r.failed("compare with the snapshot", err)
		if ctx.Err() != nil || time.Now().After(end) {
			return diffs, errors.Join(r.errs...)
		}
		_ = retry.Pause(ctx, 100*time.Millisecond) // its end is seen after the next round
	}
}

// restorer is one round.
type restorer struct {
	host  host.Host
	kept  *kept
	want  objects
	links []host.Link   // live
	age   time.Duration // of the snapshot; negative: of another boot
	gone  []string      // devices of the snapshot that are not there
	errs  []error
}

func (r *restorer) failed(what string, err error) {
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", what, err))
	}
}

// meet turns the snapshot into what it means now: links found by name, lifetimes run on.
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
	if r.kept, err = k.renumbered(r.links); err != nil {
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
	r.want.routes = slices.DeleteFunc(r.want.routes, r.down)
	return err
}

// link is the live link that the snapshot speaks of; nil where it is gone.
func (r *restorer) link(l keptLink) *host.Link {
	i := slices.IndexFunc(r.links, func(o host.Link) bool { return o.Name == l.Name })
	if i < 0 {
		return nil
	}
	return &r.links[i]
}

// pass makes every step once. A device's MTU comes first, because below 1280 there are no IPv6
// sysctls; sysctls before the device comes up, so that it does not learn what it should not.
func (r *restorer) pass(ctx context.Context) {
	for _, l := range r.kept.Links {
		if now := r.link(l); now != nil && now.MTU != l.MTU {
			r.failed(fmt.Sprintf("set mtu of %s to %d", l.Name, l.MTU), r.host.SetMTU(now.Index, l.MTU))
		}
	}
	for _, s := range r.kept.Sysctls {
		if _, differs := sysctlDiffers(ctx, r.host, s); differs && !r.onGone(s.Path) {
			r.failed("set "+s.Path, r.host.SetSysctl(s.Path, s.Value))
		}
	}
	for _, l := range r.kept.Links {
		if now := r.link(l); now != nil && now.Up != l.Up {
			r.failed("bring "+l.Name+" "+state(l.Up), r.host.SetUp(now.Index, l.Up))
		}
	}
	r.bring(ctx, "addresses", func(o objects) []object { return o.addrs })
	r.bring(ctx, "neighbours", func(o objects) []object { return o.neighbours })
	r.bring(ctx, "nexthops", func(o objects) []object { return o.nexthops })
	r.bring(ctx, "routes", func(o objects) []object { return o.routes })
	r.bring(ctx, "rules", func(o objects) []object { return o.rules })
}

// onGone says whether a sysctl belongs to a device that is gone, which is said once.
func (r *restorer) onGone(path string) bool {
	parts := strings.Split(path, "/")
	return len(parts) == 5 && slices.Contains(r.gone, parts[3])
}
