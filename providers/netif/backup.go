package netif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// restorer restores the network of a host exactly.
type restorer struct{}

// Restorer returns the same restorer for all kinds of this package, because a change of a NIC can remove routes.
func (nic) Restorer() resource.Restorer         { return restorer{} }
func (sysctl) Restorer() resource.Restorer      { return restorer{} }
func (mainRoute) Restorer() resource.Restorer   { return restorer{} }
func (policyRoute) Restorer() resource.Restorer { return restorer{} }

// Name names the part.
func (restorer) Name() string { return "netif" }

// backupVersion is the format of a backup; a helper refuses versions that it does not know. Version 1 had one field for each
// value of a link, and version 2 no bonds and VLANs. Both are read.
const backupVersion = 3

// backup is the backup of a host's network, as far as a transaction can affect it.
type backup struct {
	Version int            `json:"version"`
	Boot    string         `json:"boot"`
	Uptime  time.Duration  `json:"uptime_ns"`         // time since boot when the backup was made
	Names   map[int]string `json:"names"`             // of all links: a driver reload changes the index of a link
	Links   []backupLink   `json:"links"`             // lower devices first
	Devices []backupDevice `json:"devices,omitempty"` // bonds, and then VLANs
	Sysctls []backupSysctl `json:"sysctls"`           // in the order in which they are written

	Addrs      [][]byte `json:"addrs"`
	Neighbours [][]byte `json:"neighbours,omitempty"` // permanent ones
	Nexthops   [][]byte `json:"nexthops"`
	Routes     [][]byte `json:"routes"`
	Rules      [][]byte `json:"rules"`

	Places     []string `json:"places,omitempty"`     // of routes that the atoms name
	Tables     []int    `json:"tables,omitempty"`     // tables whose rules belong to the backup
	Priorities []int    `json:"priorities,omitempty"` // of rules that the atoms name

	// Addresses are those that the links had and those that the atoms name. Their rules belong to the backup.
	Addresses []netip.Addr `json:"addresses"`

	// Mixed is true if Merge added objects of others. The kernel's own routes then follow from both.
	Mixed bool `json:"mixed,omitempty"`
}

type backupLink struct {
	Index  int               `json:"index"`
	Name   string            `json:"name"`
	Values map[string]string `json:"values"`          // by attribute of settings; an absent value is left alone
	State  string            `json:"state"`           // operational state: "up", "down", …; Restore waits for it and does not set it
	Flaps  bool              `json:"flaps,omitempty"` // a real port, which its driver resets when some values change
}

type backupSysctl struct {
	Path  string `json:"path"` // below /proc/sys
	Value string `json:"value"`
}

// Save reads the links that the atoms name, the links above and below them, and everything that depends on
// those links: addresses, nexthops, routes through them or with their addresses, sysctls. It also reads the
// routes, rules and sysctls that the atoms name.
func (restorer) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	k, err := newBackup(ctx, r, atoms)
	if err != nil {
		return nil, fmt.Errorf("back up the network: %w", err)
	}
	return json.Marshal(k)
}

func newBackup(ctx context.Context, r host.Reader, atoms []resource.Atom) (*backup, error) {
	links, err := r.Links(ctx)
	if err != nil {
		return nil, err
	}
	k := &backup{Version: backupVersion, Names: map[int]string{}}
	if k.Boot, k.Uptime, err = moment(ctx, r); err != nil {
		return nil, err
	}
	for _, l := range links {
		k.Names[l.Index] = l.Name
	}
	reached, err := k.reach(links, atoms)
	if err != nil {
		return nil, err
	}
	for _, l := range reached.links {
		k.Links = append(k.Links, newBackupLink(l))
		if made(l) {
			reached.devices[l.Name] = l.Kind
		}
	}
	if k.Devices, err = readDevices(ctx, r, links, reached.devices); err != nil {
		return nil, err
	}
	if k.Sysctls, err = readSysctls(ctx, r, reached); err != nil {
		return nil, err
	}
	k.Sysctls = slices.DeleteFunc(k.Sysctls, func(s backupSysctl) bool { return asNew(ctx, r, s, atoms) })
	addrs, err := k.ourAddrs(ctx, r, k.indexes())
	if err != nil {
		return nil, err
	}
	k.Addresses = slices.AppendSeq(append([]netip.Addr{}, k.Addresses...), maps.Keys(localAddresses(addrs)))
	slices.SortFunc(k.Addresses, netip.Addr.Compare)
	found, err := k.find(ctx, r)
	if err != nil {
		return nil, err
	}
	k.put(found)
	return k, nil
}

func encodeAll(objects []object) [][]byte {
	out := make([][]byte, 0, len(objects))
	for _, o := range objects {
		out = append(out, o.encode())
	}
	return out
}

// moment returns the boot ID and the time since boot, including sleep (/proc/uptime; fs/proc/uptime.c).
func moment(ctx context.Context, r host.Reader) (boot string, uptime time.Duration, err error) {
	id, err := r.ReadFile(ctx, "/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", 0, err
	}
	raw, err := r.ReadFile(ctx, "/proc/uptime")
	if err != nil {
		return "", 0, err
	}
	first, _, _ := strings.Cut(string(raw), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return "", 0, fmt.Errorf("read /proc/uptime: %w", err)
	}
	return strings.TrimSpace(string(id)), time.Duration(seconds * float64(time.Second)), nil
}

// decodeBackup decodes and validates a part of a backup, because the bytes come from a disk.
func decodeBackup(raw json.RawMessage) (*backup, objects, error) {
	var k backup
	if err := json.Unmarshal(raw, &k); err != nil {
		return nil, objects{}, fmt.Errorf("decode the network backup: %w", err)
	}
	switch {
	case k.Version == 1:
		if err := k.readVersion1(raw); err != nil {
			return nil, objects{}, fmt.Errorf("decode the network backup: %w", err)
		}
	case k.Version == 2:
		k.Version = backupVersion
	case k.Version != backupVersion:
		return nil, objects{},
			fmt.Errorf("the network backup has version %d, but this build supports version %d: use the release that made the backup",
				k.Version, backupVersion)
	}
	for _, l := range k.Links {
		for attribute := range l.Values {
			if s, _ := settingOf(nicAtom(l.Name, attribute, "")); s == nil {
				return nil, objects{},
					fmt.Errorf("the network backup has %q of %s, which this build cannot restore: use the release that made the backup",
						attribute, l.Name)
			}
		}
	}
	for _, d := range k.Devices {
		if d.Kind != KindBond && d.Kind != KindVLAN {
			return nil, objects{}, fmt.Errorf("the network backup has a device of kind %q, which this build cannot make", d.Kind)
		}
		if _, _, err := d.decode(); d.Body != nil && err != nil {
			return nil, objects{}, fmt.Errorf("decode the network backup: %s: %w", d.Name, err)
		}
	}
	for _, s := range k.Sysctls {
		if strings.Contains(s.Path, "..") {
			return nil, objects{}, fmt.Errorf("the network backup names an invalid sysctl %q", s.Path)
		}
	}
	var was objects
	var errs [5]error
	was.addrs, errs[0] = parseAll(host.NewAddr, k.Addrs)
	was.nexthops, errs[1] = parseAll(host.NewNexthop, k.Nexthops)
	was.routes, errs[2] = parseAll(host.NewRoute, k.Routes)
	was.rules, errs[3] = parseAll(host.NewRule, k.Rules)
	was.neighbours, errs[4] = parseAll(host.NewNeighbour, k.Neighbours)
	if k.Addresses == nil { // a backup by an earlier build names none
		k.Addresses = slices.AppendSeq([]netip.Addr{}, maps.Keys(localAddresses(was.addrs)))
	}
	return &k, was, errors.Join(errs[:]...)
}

// readVersion1 sets the values of links. A link of version 1 had all of them.
func (k *backup) readVersion1(raw json.RawMessage) error {
	var earlier struct {
		Links []struct {
			MTU int  `json:"mtu"`
			Up  bool `json:"up"`
		} `json:"links"`
	}
	err := json.Unmarshal(raw, &earlier)
	for i, l := range earlier.Links {
		k.Links[i].Values = map[string]string{"mtu": strconv.Itoa(l.MTU), "state": state(l.Up)}
	}
	k.Version = backupVersion
	return err
}

// objects holds kernel objects by kind, in the order in which the kernel lists them.
type objects struct{ addrs, neighbours, nexthops, routes, rules []object }

func parseAll(kind uint16, bodies [][]byte) ([]object, error) {
	var out []object
	for _, b := range bodies {
		o, err := parseObject(kind, b)
		if err != nil {
			return nil, err
		}
		if f := o.family(); f == inet || f == inet6 || kind == host.NewNexthop { // the rest is multicast routing and MPLS
			out = append(out, o)
		}
	}
	return out, nil
}

// dump lists live objects. A kernel before 5.3 has no nexthops and returns an error.
func dump(ctx context.Context, r host.Reader, get uint16) ([]object, error) {
	found, err := r.Dump(ctx, get)
	if get == host.GetNexthops && (errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EINVAL)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out, err := parseAll(get-2, found)
	return slices.DeleteFunc(out, func(o object) bool {
		return o.kind == host.NewRoute && u32(o.head, 8)&cloned != 0 ||
			o.kind == host.NewAddr && o.family() == inet6 && o.flags()&flagTemporary != 0
	}), err
}
