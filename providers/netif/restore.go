package netif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
)

// restorePatience limits the rounds of Restore. A link that comes up changes again a moment later (carrier, the
// kernel's own addresses), and these changes must not come after the final comparison.
const restorePatience = 3 * time.Second

// Restore repeats its steps until the host equals the backup: a step may remove other objects, such as
// secondary addresses with their primary, and the next round restores them.
func (restorer) Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error) {
	k, _, err := decodeBackup(part)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(restorePatience); ; {
		r := restoration{host: h}
		r.note("restore bonds and VLANs", restoreDevices(ctx, h, k))
		if err := r.meet(ctx, k); err != nil {
			return nil, err
		}
		r.pass(ctx)
		diffs, converged, err := r.compare(ctx)
		if err == nil && len(diffs) == 0 && (converged || time.Now().After(end)) {
			return nil, nil // the host is as it was, so earlier errors do not matter
		}
		r.note("compare with the backup", err)
		if ctx.Err() != nil || time.Now().After(end) {
			return diffs, errors.Join(r.errs...)
		}
		_ = retry.Pause(ctx, 100*time.Millisecond) // if ctx ends, the next round is the last
	}
}

// restoration is one round of Restore.
type restoration struct {
	host   host.Host
	backup *backup
	want   objects
	links  []host.Link   // live
	age    time.Duration // of the backup; negative if it is from another boot
	gone   []string      // devices of the backup that do not exist any more
	errs   []error
}

func (r *restoration) note(what string, err error) {
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", what, err))
	}
}

// meet adapts the backup to the present: it finds links by name and reduces lifetimes.
func (r *restoration) meet(ctx context.Context, k *backup) error {
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
	if r.backup, err = k.renumber(r.links); err != nil {
		return err
	}
	for _, l := range r.backup.Links {
		if r.link(l) == nil {
			r.gone = append(r.gone, l.Name)
		}
	}
	raw, err := json.Marshal(r.backup)
	if err != nil {
		return err
	}
	_, r.want, err = decodeBackup(raw)
	r.want = r.without(r.want, r.expired)
	r.want.routes = slices.DeleteFunc(r.want.routes, func(o object) bool { return r.down(o) || r.backup.Mixed && o.kernelMade() })
	return err
}

// link returns the live link of one in the backup; nil if it is gone.
func (r *restoration) link(l backupLink) *host.Link {
	i := slices.IndexFunc(r.links, func(o host.Link) bool { return o.Name == l.Name })
	if i < 0 {
		return nil
	}
	return &r.links[i]
}

// pass takes every step once. Sysctls come before the device goes up, so that it does not learn routes or addresses that it should not.
func (r *restoration) pass(ctx context.Context) {
	r.setLinks(ctx, true)
	for _, s := range r.backup.Sysctls {
		if _, differs := sysctlDiffers(ctx, r.host, s); differs && !r.onGone(s.Path) {
			r.note("set "+sysctlName(s.Path), r.host.SetSysctl(s.Path, s.Value))
		}
	}
	r.setLinks(ctx, false)
	r.bring(ctx, "addresses", func(o objects) []object { return o.addrs })
	r.bring(ctx, "neighbours", func(o objects) []object { return o.neighbours })
	r.bring(ctx, "nexthops", func(o objects) []object { return o.nexthops })
	r.bring(ctx, "routes", func(o objects) []object { return o.routes })
	r.bring(ctx, "rules", func(o objects) []object { return o.rules })
}

// setLinks sets the values of links that come before the sysctls, or the others.
func (r *restoration) setLinks(ctx context.Context, beforeSysctl bool) {
	r.eachDifference(func(l host.Link, s setting, was string) {
		if s.beforeSysctl == beforeSysctl {
			r.note(fmt.Sprintf("set %s of %s to %s", s.attribute, l.Name, was), s.set(ctx, r.host, l, "", was))
		}
	})
}

// eachDifference visits the values of live links that are not as in the backup, attribute by attribute.
func (r *restoration) eachDifference(visit func(l host.Link, s setting, was string)) {
	for _, s := range linkSettings() {
		for _, l := range r.backup.Links {
			now := r.link(l)
			if was, had := l.Values[s.attribute]; had && now != nil && s.get(*now) != was {
				visit(*now, s, was)
			}
		}
	}
}

// onGone reports whether a sysctl belongs to a device that is gone. Such a device is reported once.
func (r *restoration) onGone(path string) bool {
	parts := strings.Split(path, "/")
	return len(parts) == 5 && slices.Contains(r.gone, parts[3])
}

// Disturbed names the devices of others above each device that the changes take down, or whose MTU becomes smaller than
// theirs: the kernel takes them down, or makes their MTU smaller, with it.
func (restorer) Disturbed(links []host.Link, changes []resource.Change, ours []resource.Atom) (out []string) {
	for _, l := range links {
		own := slices.ContainsFunc(ours, func(a resource.Atom) bool {
			return slices.Contains([]string{KindNIC, KindBond, KindVLAN}, a.Kind()) && a.Thing() == l.Name
		})
		for _, c := range changes {
			if made := c.Atom.Kind() == KindBond || c.Atom.Kind() == KindVLAN; made && !own && c.Downs != "" && above(links, l, c.Downs) {
				happens := "goes down with it"
				if c.Attribute == attrDevice && c.To == "" || c.Atom.Kind() == KindVLAN { // a VLAN is made again
					happens = "is removed with it"
				}
				out = append(out, fmt.Sprintf("%s on %s is not ours and %s", l.Name, c.Downs, happens))
			}
			s, _ := settingOf(c.Atom)
			if own || c.Atom.Kind() != KindNIC || s == nil || s.get == nil || !above(links, l, c.Atom.Thing()) {
				continue
			}
			mtu, _ := strconv.Atoi(c.To)
			switch {
			case c.Disruption >= resource.LinkFlap:
				out = append(out, fmt.Sprintf("%s on %s is not ours and goes down with it", l.Name, c.Atom.Thing()))
			case s.attribute == "mtu" && mtu < l.MTU:
				out = append(out, fmt.Sprintf("%s on %s is not ours and gets a smaller MTU with it", l.Name, c.Atom.Thing()))
			}
		}
	}
	return slices.Compact(out)
}

// above reports whether a link is above the named device, such as a VLAN or a macvlan, or a device above that.
func above(links []host.Link, l host.Link, device string) bool {
	for range links { // a parent in another network namespace may have the same index as a link here
		i := slices.IndexFunc(links, func(o host.Link) bool { return l.Parent != 0 && o.Index == l.Parent })
		if i < 0 {
			return false
		}
		if l = links[i]; l.Name == device {
			return true
		}
	}
	return false
}
