package netif

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Again reads the links, sysctls and objects of the part, and whatever is in their places now.
func (restorer) Again(ctx context.Context, r host.Reader, part json.RawMessage) (json.RawMessage, error) {
	k, _, err := decodeBackup(part)
	if err != nil {
		return nil, err
	}
	now, err := k.again(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("read the network: %w", err)
	}
	return json.Marshal(now)
}

func (k *backup) again(ctx context.Context, r host.Reader) (*backup, error) {
	links, err := r.Links(ctx)
	if err != nil {
		return nil, err
	}
	if k, err = k.renumber(links); err != nil {
		return nil, err
	}
	now := &backup{Version: backupVersion, Names: map[int]string{}, Places: k.Places, Tables: k.Tables,
		Priorities: k.Priorities, Addresses: k.Addresses}
	if now.Boot, now.Uptime, err = moment(ctx, r); err != nil {
		return nil, err
	}
	for _, l := range links {
		now.Names[l.Index] = l.Name
	}
	if now.Devices, err = readDevices(ctx, r, links, k.kinds()); err != nil {
		return nil, err
	}
	for _, was := range k.Links {
		i := slices.IndexFunc(links, func(l host.Link) bool { return l.Name == was.Name })
		if i < 0 && k.kinds()[was.Name] != "" {
			continue
		}
		if i < 0 {
			return nil, fmt.Errorf("device %s does not exist any more", was.Name)
		}
		l := newBackupLink(links[i])
		maps.DeleteFunc(l.Values, func(attribute, _ string) bool { _, had := was.Values[attribute]; return !had })
		now.Links = append(now.Links, l)
	}
	for _, s := range k.Sysctls {
		if v, err := r.Sysctl(ctx, s.Path); err == nil {
			now.Sysctls = append(now.Sysctls, backupSysctl{s.Path, v})
		}
	}
	look := *k
	for _, l := range links { // a device that did not exist has settings now
		if k.absent(l.Name) {
			now.Links = append(now.Links, newBackupLink(l))
			look.Links = append(slices.Clone(look.Links), newBackupLink(l))
		}
	}
	found, err := look.find(ctx, r)
	if err != nil {
		return nil, err
	}
	now.put(found)
	return now, nil
}

// put sets the objects.
func (k *backup) put(o objects) {
	k.Addrs, k.Neighbours, k.Nexthops = encodeAll(o.addrs), encodeAll(o.neighbours), encodeAll(o.nexthops)
	k.Routes, k.Rules = encodeAll(o.routes), encodeAll(o.rules)
}

// Items lists links, sysctls and objects. Devices are compared by name: their indexes change with a driver reload.
func (restorer) Items(part json.RawMessage) ([]resource.Item, error) {
	k, all, err := decodeBackup(part)
	if err != nil {
		return nil, err
	}
	var out []resource.Item
	for _, d := range k.Devices {
		if d.Body != nil {
			out = append(out, d.item())
		}
	}
	for _, l := range k.Links {
		items := l.items()
		for i := range items { // whoever made the device made its values
			if kind := k.kinds()[l.Name]; kind != "" {
				items[i].Others = append(items[i].Others, deviceAtom(kind, l.Name, attrDevice, ""))
			}
		}
		out = append(out, items...)
	}
	for _, s := range k.Sysctls {
		out = append(out, s.item())
	}
	for _, o := range slices.Concat(all.addrs, all.neighbours, all.nexthops, all.routes, all.rules) {
		out = append(out, k.item(o))
	}
	return out, nil
}

// items lists the values. The change to a value has the disruption of restoring it.
func (l backupLink) items() (out []resource.Item) {
	for _, s := range linkSettings() {
		value, had := l.Values[s.attribute]
		if !had {
			continue
		}
		as := s.change(l.Name, l.Flaps, "", "", value)
		as.To = ""
		out = append(out, resource.Item{Key: string(as.Atom), State: value, Shown: value, Device: l.Name, As: as})
	}
	return out
}

func keySysctl(path string) string {
	return string(resource.NewAtom(KindSysctl, path))
}

// item names a key of a link as the NIC's, as plans do.
func (s backupSysctl) item() resource.Item {
	i := resource.Item{Key: keySysctl(s.Path), State: strings.Join(strings.Fields(s.Value), " "), Shown: s.Value,
		As: resource.Change{Attribute: "value", Atom: resource.Atom(keySysctl(s.Path))}}
	parts := strings.Split(s.Path, "/")
	if len(parts) == 5 && slices.Contains(linkSysctls, strings.Join(parts[:3], "/")) && parts[3] != "all" && parts[3] != "default" {
		name := strings.Join([]string{parts[1], parts[2], parts[4]}, ".")
		i.Device, i.Others = parts[3], []resource.Atom{i.As.Atom}
		i.As = resource.Change{Attribute: "sysctl " + name, Atom: nicAtom(parts[3], "sysctl", name)}
		i.Own = name == "ipv6.conf.mtu" // follows the MTU of the link
	}
	return i
}

// canonical returns a copy of the object whose device indexes depend only on the devices' names.
func (k *backup) canonical(o object) object {
	to := map[int]int{}
	for index, name := range k.Names {
		h := fnv.New32a()
		_, _ = h.Write([]byte(name)) // never fails
		to[index] = int(h.Sum32()>>2) | vanished
	}
	out := o.without()
	out.renumber(to)
	return out
}

func (k *backup) item(o object) resource.Item {
	c := k.canonical(o)
	device := k.Names[o.device()]
	what, shown, _ := strings.Cut(o.String(), " ")
	i := resource.Item{Key: c.place() + " " + c.same(), Shown: shown, Device: device, As: resource.Change{Attribute: what}}
	if device != "" && o.kind != host.NewAddr {
		i.Shown += " dev " + device
	}
	_, mortal := o.remaining()
	switch o.kind {
	case host.NewAddr:
		p := netip.PrefixFrom(o.local(), int(o.head[1]))
		i.Key, i.State = o.identity(device), k.canonical(o.plain()).same()
		i.As.Address, i.As.Atom = p.Addr(), nicAtom(device, "address", p.String())
		i.Own = mortal || o.family() == inet6 && p.Addr().IsLinkLocalUnicast()
	case host.NewRoute:
		table, metric, dst := strconv.Itoa(int(o.table())), strconv.Itoa(int(o.number(rtaPriority))), o.prefix(rtaDst, 1)
		main, policy := resource.NewAtom(KindRoute, table, dst.String(), metric), resource.NewAtom(KindPolicyRoute,
			table, dst.String(), metric)
		if o.table() == tableMain {
			i.As.Atom, i.Others = main, []resource.Atom{policy}
		} else {
			i.As.Atom, i.Others = policy, []resource.Atom{main}
		}
		i.To, i.Own = dst, mortal || o.head[5] == protocolKernel || dst.Addr().IsMulticast()
	case host.NewRule:
		from, to := o.prefix(fraSrc, 2), o.prefix(fraDst, 1)
		i.Key = c.place() + " " + c.without(fraProtocol).same() // a manager that reads our files makes the rule its own
		i.To, i.As.Atom = to, resource.NewAtom(KindPolicyRoute, "rule",
			strconv.Itoa(int(o.number(fraPriority))), strconv.Itoa(int(o.table())), orAll(from), orAll(to))
	case host.NewNeighbour:
		i.As.Atom = nicAtom(device, "neighbour", o.addr(ndaDst).String())
	default:
		i.As.Atom = resource.NewAtom(KindRoute, "nexthop", shown)
	}
	return i
}

// identity names an address on its device, whatever its flags are.
func (o object) identity(device string) string {
	return fmt.Sprintf("address %s %s peer %s", device, netip.PrefixFrom(o.local(), int(o.head[1])), o.addr(ifaAddress))
}

// plain returns an address without the mark of a secondary one, which depends on the other addresses.
func (o object) plain() object {
	if o.family() != inet {
		return o
	}
	out := o.without()
	out.set(ifaFlags, o.flags()&^flagSecondary)
	return out
}

// flagSecondary is IFA_F_SECONDARY, for IPv4.
const flagSecondary = flagTemporary

// orAll writes the prefix of a rule as its atom does.
func orAll(p netip.Prefix) string {
	if p.Bits() == 0 {
		return all(netip.Prefix{})
	}
	return p.String()
}

// Merge copies the items of now. An object is lost if its device is down, if another object returns to its place, or
// if it needs an address or a nexthop that is removed.
func (restorer) Merge(part, now json.RawMessage, keys map[string]bool) (json.RawMessage, []string, error) {
	k, _, err := decodeBackup(part)
	if err != nil {
		return nil, nil, err
	}
	live, found, err := decodeBackup(now)
	if err != nil {
		return nil, nil, err
	}
	var links []host.Link
	for index, name := range live.Names {
		links = append(links, host.Link{Index: index, Name: name})
	}
	if k, err = k.renumber(links); err != nil {
		return nil, nil, err
	}
	t := merging{backup: *k, live: live, keys: keys}
	if err := t.mergeAll(found); err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(t.backup)
	return raw, t.lost, err
}

// merging is the work of one Merge.
type merging struct {
	backup backup // the result
	live   *backup
	keys   map[string]bool
	lost   []string
}

// mergeAll merges the part, whose links have the indexes of now, with the objects of now.
func (t *merging) mergeAll(found objects) error {
	raw, err := json.Marshal(t.backup)
	if err != nil {
		return err
	}
	_, was, err := decodeBackup(raw)
	if err != nil {
		return err
	}
	t.devices()
	t.values()
	was = t.ageAll(was, found)
	out := objects{
		addrs: t.merge(was.addrs, found.addrs), neighbours: t.merge(was.neighbours, found.neighbours),
		nexthops: t.merge(was.nexthops, found.nexthops),
		routes:   t.merge(was.routes, found.routes), rules: t.merge(was.rules, found.rules),
	}
	t.backup.Mixed = t.backup.Mixed || len(t.keys) > 0
	t.backup.Boot, t.backup.Uptime = t.live.Boot, t.live.Uptime
	out.addrs = t.drop(out.addrs, was.addrs, t.isDown)
	out.neighbours = t.drop(out.neighbours, was.neighbours, t.isDown)
	out.nexthops = t.drop(out.nexthops, was.nexthops, t.isDown)
	local, ids := localAddresses(out.addrs), map[uint32]bool{}
	for _, o := range out.nexthops {
		ids[o.number(nhaID)] = true
	}
	went := localAddresses(found.addrs)
	out.routes = t.drop(out.routes, was.routes, func(o object) bool {
		source, id := o.addr(rtaPrefSrc), o.number(rtaNexthop)
		return t.isDown(o) || went[source] && !local[source] || id != 0 && !ids[id]
	})
	if t.backup.Mixed {
		out.addrs = ranked(out.addrs)
	}
	t.backup.put(out)
	return nil
}

// devices merges the bonds and VLANs, and loses the settings of those that go.
func (t *merging) devices() {
	t.backup.Devices = slices.Clone(t.backup.Devices)
	for i, d := range t.backup.Devices {
		for _, now := range t.live.Devices {
			if now.Name != d.Name || !t.keys[d.key()] {
				continue
			}
			t.backup.Devices[i] = now
			t.backup.Links = slices.DeleteFunc(slices.Clone(t.backup.Links), func(l backupLink) bool { return l.Name == d.Name })
			for _, l := range t.live.Links {
				if l.Name == d.Name {
					t.backup.Links = append(t.backup.Links, l)
				}
			}
		}
	}
	for _, l := range t.live.Links {
		for _, i := range l.items() {
			if t.keys[i.Key] && t.backup.absent(l.Name) {
				t.lost = append(t.lost, i.Key)
			}
		}
	}
}

// values merges the links' values and the sysctls.
func (t *merging) values() {
	t.backup.Links = slices.Clone(t.backup.Links)
	for i := range t.backup.Links {
		l := &t.backup.Links[i]
		l.Values = maps.Clone(l.Values)
		for _, now := range t.live.Links {
			for attribute, value := range now.Values {
				if now.Name != l.Name || !t.keys[string(nicAtom(l.Name, attribute, ""))] {
					continue
				}
				l.Values[attribute] = value
				if attribute == "state" {
					l.State = now.State
				}
			}
		}
	}
	var out []backupSysctl
	for _, s := range t.backup.Sysctls {
		if t.keys[s.item().Key] {
			i := slices.IndexFunc(t.live.Sysctls, func(o backupSysctl) bool { return o.Path == s.Path })
			if i < 0 {
				continue
			}
			s = t.live.Sysctls[i]
		}
		out = append(out, s)
	}
	t.backup.Sysctls = out
}

// ageAll gives objects with a lifetime the lifetime that they have now, and leaves out those that expired.
func (t *merging) ageAll(was, found objects) objects {
	r := restoration{backup: &t.backup, age: max(t.live.Uptime-t.backup.Uptime, 0)}
	if t.live.Boot != t.backup.Boot {
		r.age = -1
	}
	there := map[string]bool{}
	for _, o := range slices.Concat(found.addrs, found.routes) {
		there[t.live.item(o).Key] = true
	}
	was = r.without(was, func(o object) bool { return r.expired(o) && !there[t.backup.item(o).Key] })
	for _, list := range [][]object{was.addrs, was.routes} {
		for i, o := range list {
			if !there[t.backup.item(o).Key] {
				list[i] = r.ageLifetimes(o.without())
			}
		}
	}
	return was
}

// merge returns the objects of the part, with those of the keys as they are now. An object that is the same now keeps
// its present lifetime.
func (t *merging) merge(was, found []object) []object {
	now := map[string]object{}
	for _, o := range found {
		now[t.live.item(o).Key] = o
	}
	var out []object
	had := map[string]bool{}
	for _, o := range was {
		i := t.backup.item(o)
		had[i.Key] = true
		live, there := now[i.Key]
		_, mortal := live.remaining()
		switch {
		case t.keys[i.Key] && !there:
			continue
		case t.keys[i.Key], there && mortal:
			o = live
		}
		out = append(out, o)
	}
	for _, o := range found {
		if key := t.live.item(o).Key; t.keys[key] && !had[key] {
			out = append(out, o)
		}
	}
	return out
}

// drop leaves out the added objects that cannot exist.
func (t *merging) drop(all, was []object, cannot func(object) bool) []object {
	had, places := map[string]bool{}, map[string]bool{}
	for _, o := range was {
		had[t.backup.item(o).Key] = true
		if o.kind != host.NewRule && o.kind != host.NewAddr { // these may share a place
			places[o.place()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(o object) bool {
		key := t.backup.item(o).Key
		if had[key] || !places[o.place()] && !cannot(o) {
			return false
		}
		t.lost = append(t.lost, key)
		return true
	})
}

// isDown reports whether the object's device will be down, will not exist, or will be without IPv6 because of its MTU. The kernel keeps only IPv4
// addresses on such a device.
func (t *merging) isDown(o object) bool {
	if t.backup.absent(t.live.Names[o.device()]) {
		return true
	}
	for _, l := range t.backup.Links {
		if l.Index == o.device() && l.Index != 0 {
			mtu, err := strconv.Atoi(l.Values["mtu"])
			noIPv6 := err == nil && mtu < smallestIPv6MTU
			return !l.up() && (o.kind != host.NewAddr || o.family() != inet) || o.family() == inet6 && noIPv6
		}
	}
	return false
}

func localAddresses(addrs []object) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, o := range addrs {
		out[o.local()] = true
	}
	delete(out, netip.Addr{})
	return out
}

// ranked marks and sorts the IPv4 addresses as the kernel does (net/ipv4/devinet.c, inet_insert_ifa): the first of a network
// on a device is the primary one. Primary ones come first, those of a wider scope later.
func ranked(addrs []object) []object {
	var out []object
	for _, o := range addrs {
		if o.family() == inet {
			o = o.plain()
			same := func(p object) bool {
				return p.family() == inet && p.link() == o.link() && p.head[1] == o.head[1] &&
					netip.PrefixFrom(p.addr(ifaAddress), int(p.head[1])).Contains(o.addr(ifaAddress))
			}
			if slices.ContainsFunc(out, same) {
				o.set(ifaFlags, o.flags()|flagSecondary)
				o.head[2] |= flagSecondary
			} else {
				o.head[2] &^= flagSecondary
			}
		}
		out = append(out, o)
	}
	rank := func(o object) int {
		switch {
		case o.family() != inet:
			return 0
		case o.flags()&flagSecondary != 0:
			return 1
		}
		return -int(o.head[3]) // the scope: 0 is the widest
	}
	slices.SortStableFunc(out, func(a, b object) int { return rank(a) - rank(b) })
	return out
}

func newBackupLink(l host.Link) backupLink {
	k := backupLink{Index: l.Index, Name: l.Name, Values: map[string]string{}, State: l.OperState, Flaps: hardware(l)}
	for _, s := range linkSettings() {
		k.Values[s.attribute] = s.get(l)
	}
	return k
}

func (l backupLink) up() bool { return l.Values["state"] != state(false) }
