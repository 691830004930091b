package netif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// keeper is the room's exact way back.
type keeper struct{}

// Keeper is shared by the room's kinds: a NIC's change takes routes along, a route's a rule.
func (nic) Keeper() resource.Keeper         { return keeper{} }
func (sysctl) Keeper() resource.Keeper      { return keeper{} }
func (mainRoute) Keeper() resource.Keeper   { return keeper{} }
func (policyRoute) Keeper() resource.Keeper { return keeper{} }

// Room names the part.
func (keeper) Room() string { return "netif" }

// keptVersion is the form of kept; a helper refuses what it does not know.
const keptVersion = 1

// kept is what a host's network was, as far as a transaction can reach.
type kept struct {
	Version int            `json:"version"`
	Boot    string         `json:"boot"`
	Uptime  time.Duration  `json:"uptime_ns"` // when it was taken, since boot
	Names   map[int]string `json:"names"`     // of all links: a link's index changes with its driver's reload
	Links   []keptLink     `json:"links"`     // those below first
	Sysctls []keptSysctl   `json:"sysctls"`   // in the order in which they are written

	Addrs      [][]byte `json:"addrs"`
	Neighbours [][]byte `json:"neighbours,omitempty"` // permanent ones
	Nexthops   [][]byte `json:"nexthops"`
	Routes     [][]byte `json:"routes"`
	Rules      [][]byte `json:"rules"`

	Places     []string `json:"places,omitempty"`     // of routes that are changed by name
	Tables     []int    `json:"tables,omitempty"`     // whose rules belong to it
	Priorities []int    `json:"priorities,omitempty"` // of rules that are changed by name
}

type keptLink struct {
	Index int    `json:"index"`
	Name  string `json:"name"`
	MTU   int    `json:"mtu"` // bytes
	Up    bool   `json:"up"`
	State string `json:"state"` // of operation: "up", "down", …; waited for, not set
}

type keptSysctl struct {
	Path  string `json:"path"` // below /proc/sys
	Value string `json:"value"`
}

// Snapshot reads the links that the atoms name, with those above and below them, and all that
// stands on them: addresses, nexthops, routes by them or with their addresses, sysctls; and the
// routes, rules and sysctls that the atoms name themselves.
func (keeper) Snapshot(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	k, err := takeKept(ctx, r, atoms)
	if err != nil {
		return nil, fmt.Errorf("take a snapshot of the network: %w", err)
	}
	return json.Marshal(k)
}

func takeKept(ctx context.Context, r host.Reader, atoms []resource.Atom) (*kept, error) {
	links, err := r.Links(ctx)
	if err != nil {
		return nil, err
	}
	k := &kept{Version: keptVersion, Names: map[int]string{}}
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
		k.Links = append(k.Links, keptLink{Index: l.Index, Name: l.Name, MTU: l.MTU, Up: l.Up, State: l.OperState})
	}
	if k.Sysctls, err = readSysctls(ctx, r, reached); err != nil {
		return nil, err
	}
	found, err := k.find(ctx, r)
	if err != nil {
		return nil, err
	}
	k.Addrs, k.Neighbours, k.Nexthops = encodeAll(found.addrs), encodeAll(found.neighbours), encodeAll(found.nexthops)
	k.Routes, k.Rules = encodeAll(found.routes), encodeAll(found.rules)
	return k, nil
}

func encodeAll(objects []object) [][]byte {
	out := make([][]byte, 0, len(objects))
	for _, o := range objects {
		out = append(out, o.encode())
	}
	return out
}

// moment is this boot and the time since it, sleep included (/proc/uptime; fs/proc/uptime.c).
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

// decodeKept reads a part of a snapshot; the bytes come from a disk and are not believed.
func decodeKept(raw json.RawMessage) (*kept, objects, error) {
	var k kept
	if err := json.Unmarshal(raw, &k); err != nil {
		return nil, objects{}, fmt.Errorf("read the network's snapshot: %w", err)
	}
	if k.Version != keptVersion {
		return nil, objects{}, fmt.Errorf("the network's snapshot has version %d, this build knows %d: use the release that took it", k.Version, keptVersion)
	}
	for _, s := range k.Sysctls {
		if strings.Contains(s.Path, "..") {
			return nil, objects{}, fmt.Errorf("the network's snapshot names the sysctl %q", s.Path)
		}
	}
	var was objects
	var errs [5]error
	was.addrs, errs[0] = parseAll(host.NewAddr, k.Addrs)
	was.nexthops, errs[1] = parseAll(host.NewNexthop, k.Nexthops)
	was.routes, errs[2] = parseAll(host.NewRoute, k.Routes)
	was.rules, errs[3] = parseAll(host.NewRule, k.Rules)
	was.neighbours, errs[4] = parseAll(host.NewNeighbour, k.Neighbours)
	return &k, was, errors.Join(errs[:]...)
}

// objects are the kernel's, by kind, in the order in which it lists them.
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

// dump lists live objects. A kernel before 5.3 has no nexthops and says so.
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
		return o.kind == host.NewRoute && u32(o.head, 8)&cloned != 0 || o.kind == host.NewAddr && o.family() == inet6 && o.flags()&flagTemporary != 0
	}), err
}
