package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/transport"
)

// neighbour is a host that hands out a bundle or fetches it, as it is told.
type neighbour struct {
	places  []calls.BundleUpload // answers, the last one for good
	fetched []calls.Fetched
	fails   map[string]string // methods, and why
	mu      sync.Mutex
	asked   []string
	tried   []int // addresses of the relay that it was given
	ended   calls.RelayEnd
	during  func() // of a fetch
}

func (n *neighbour) handlers() map[string]agent.Handler {
	out := map[string]agent.Handler{}
	for _, method := range []string{"bundle.room", "relay.serve", "relay.fetch", "relay.end"} {
		out[method] = func(_ context.Context, raw json.RawMessage) (any, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.asked = append(n.asked, method)
			if why := n.fails[method]; why != "" {
				return nil, errors.New(why)
			}
			switch method {
			case "bundle.room":
				place := n.places[0]
				n.places = n.places[min(1, len(n.places)-1):]
				return place, nil
			case "relay.serve":
				return calls.Relay{Addresses: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:7"), netip.MustParseAddrPort("10.0.0.2:8")}, Token: "T"}, nil
			case "relay.end":
				return struct{}{}, json.Unmarshal(raw, &n.ended)
			}
			var p calls.FetchParams
			if err := json.Unmarshal(raw, &p); err != nil {
				return nil, err
			}
			n.tried = append(n.tried, len(p.Relay.Addresses))
			if n.during != nil {
				n.during()
			}
			got := n.fetched[0]
			n.fetched = n.fetched[min(1, len(n.fetched)-1):]
			return got, nil
		}
	}
	return out
}

func neighbours(t *testing.T, hosts map[string]*neighbour) *Fleet {
	t.Helper()
	var members []FleetHost
	for name := range hosts {
		members = append(members, FleetHost{Target: transport.Target{Name: name}})
	}
	f := newFleet(nil, "b", members)
	for name, n := range hosts {
		near, conn := net.Pipe()
		go func() { _ = agent.Serve(context.Background(), conn, conn, "b", n.handlers()) }() // ends with the connection
		client, err := agent.Connect(t.Context(), near, "b", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		f.adopt(name, client)
	}
	t.Cleanup(f.Close)
	return f
}

// TestHostsGetTheirBundleFromARelay, from here where they cannot, and the relay hears of its end in any case.
func TestHostsGetTheirBundleFromARelay(t *testing.T) {
	whole, empty := calls.BundleUpload{Whole: true}, calls.BundleUpload{Path: "/p"}
	from := netip.MustParseAddrPort("10.0.0.2:8")
	bundle := calls.Bundle{Name: "b.tgz", SHA256: strings.Repeat("a", 64), Size: 100}
	for name, c := range map[string]struct {
		relay, behind *neighbour
		others        bool // the relay has it for others only
		notes         string
		fails         string
		tried         []int
	}{
		"fetched": {&neighbour{places: []calls.BundleUpload{whole}}, &neighbour{places: []calls.BundleUpload{empty}, fetched: []calls.Fetched{{Have: 30, From: from}, {Have: 70, From: from}, {Whole: true}}}, false, "", "", []int{2, 1, 1}},
		"there already, and the relay is for others": {&neighbour{places: []calls.BundleUpload{whole}}, &neighbour{places: []calls.BundleUpload{whole}}, true, "", "", nil},
		"another content": {&neighbour{places: []calls.BundleUpload{whole}}, &neighbour{places: []calls.BundleUpload{empty, whole}, fetched: []calls.Fetched{{Have: 0}}}, false,
			"b could not fetch its bundle from the relay, and gets it from this machine: the relay no longer serves b.tgz", "", []int{2, 2}},
		"a firewall": {&neighbour{places: []calls.BundleUpload{whole}}, &neighbour{places: []calls.BundleUpload{empty, whole}, fails: map[string]string{"relay.fetch": "timeout"}}, false,
			"b could not fetch its bundle from the relay, and gets it from this machine: timeout", "", nil},
		"a relay without space, for others": {&neighbour{fails: map[string]string{"bundle.room": "make space", "relay.serve": "not there"}}, &neighbour{places: []calls.BundleUpload{whole}}, true,
			"a cannot be used as a relay: host a: send b.tgz: make space; b could not fetch its bundle from the relay, and gets it from this machine: relay a cannot serve the bundle: not there", "", nil},
		"a relay without space":      {&neighbour{fails: map[string]string{"bundle.room": "make space"}}, &neighbour{places: []calls.BundleUpload{whole}}, false, "", "host a: send b.tgz: make space", nil},
		"the end of it is not heard": {&neighbour{places: []calls.BundleUpload{whole}, fails: map[string]string{"relay.end": "gone"}}, &neighbour{places: []calls.BundleUpload{whole}}, true, "a may still hold b.tgz, cached for other hosts: gone", "", nil},
	} {
		f := neighbours(t, map[string]*neighbour{"a": c.relay, "b": c.behind})
		bundles := map[string]LocalBundle{"b": {Bundle: bundle, Relay: "a"}}
		if !c.others {
			bundles["a"] = LocalBundle{Bundle: bundle}
		}
		var notes []string
		err := f.Send(t.Context(), bundles, nil, func(host, what string) { notes = append(notes, host+" "+what) })
		if fmt.Sprint(err) != c.fails && (err != nil || c.fails != "") || strings.Join(notes, "; ") != c.notes || !slices.Equal(c.behind.tried, c.tried) {
			t.Errorf("%s: %v, %q, %d", name, err, notes, c.behind.tried)
		}
		if !slices.Contains(c.relay.asked, "relay.end") || (c.relay.ended.Remove.Name != "") != c.others && c.relay.fails["relay.end"] == "" {
			t.Errorf("%s: %q, %+v", name, c.relay.asked, c.relay.ended)
		}
	}
}

// TestAnInterruptEndsTheRelaying: what the relay had for others goes all the same.
func TestAnInterruptEndsTheRelaying(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := &neighbour{places: []calls.BundleUpload{{Whole: true}}}
	b := &neighbour{places: []calls.BundleUpload{{Path: "/p"}}, fetched: []calls.Fetched{{Have: 1}}, during: cancel}
	f := neighbours(t, map[string]*neighbour{"a": a, "b": b})
	bundle := calls.Bundle{Name: "b.tgz", SHA256: strings.Repeat("a", 64), Size: 100}
	if err := f.Send(ctx, map[string]LocalBundle{"b": {Bundle: bundle, Relay: "a"}}, nil, func(host, what string) { t.Error(host, what) }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if a.ended.Token != "T" || a.ended.Remove != bundle {
		t.Errorf("%+v", a.ended)
	}
}
