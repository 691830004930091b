package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/agent/helper"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/resource/kindtest"
)

func TestMain(m *testing.M) { os.Exit(kindtest.OwnNetwork(m)) }

// recorded is a real host in a namespace of its own, whose ownership records stay in memory.
type recorded struct {
	host.Host
	records map[string][]byte
}

func (r recorded) Records(_ context.Context) (map[string][]byte, error) { return r.records, nil }

func (r recorded) SaveRecord(name string, text []byte) error {
	if delete(r.records, name); text != nil {
		r.records[name] = text
	}
	return nil
}

// machine is a namespace with cables ff0–ff1 and ff2–ff3. ff3 and all on it is foreign.
func machine(t *testing.T) recorded {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("kernel tests need root, and CI must have it")
		}
		t.Skip("kernel tests need root")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test, and the namespace with it
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	h, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// Duplicate address detection waits a second for each address, and there is nobody to answer.
	ok(h.SetSysctl("net/ipv6/conf/default/accept_dad", "0"))
	ok(h.SetSysctl("net/ipv6/conf/all/accept_dad", "0"))
	for _, p := range [][2]string{{"ff0", "ff1"}, {"ff2", "ff3"}} {
		ok(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: p[0]}, PeerName: p[1]}))
	}
	return recorded{h, map[string][]byte{}}
}

// world is what a host's kernel holds, without what it makes by itself.
type world struct {
	Links, Addrs, Routes, Rules []string
	Sysctls                     map[string]string
}

var watched = []string{"net/ipv4/tcp_mtu_probing", "net/ipv4/tcp_sack", "net/ipv4/conf/ff0/arp_ignore", "net/ipv4/conf/ff1/arp_ignore", "net/ipv6/conf/ff0/accept_ra", "net/ipv6/conf/ff1/accept_ra"}

func look(t *testing.T, h host.Host) world {
	t.Helper()
	snap, err := facts.Gather(t.Context(), h, facts.Connection{})
	if err != nil {
		t.Fatal(err)
	}
	snap.ReadSysctls(t.Context(), h, watched...)
	w := world{Sysctls: snap.Sysctls}
	for _, l := range snap.Links {
		w.Links = append(w.Links, fmt.Sprint(l.Name, l.MTU, l.Up))
	}
	for _, a := range snap.Addrs {
		if !a.Prefix.Addr().IsLinkLocalUnicast() {
			w.Addrs = append(w.Addrs, fmt.Sprint(a.Index, a.Prefix))
		}
	}
	for _, r := range snap.Routes {
		if r.Protocol != 2 { // RTPROT_KERNEL
			w.Routes = append(w.Routes, fmt.Sprint(r))
		}
	}
	for _, r := range snap.Rules {
		w.Rules = append(w.Rules, fmt.Sprint(r))
	}
	for _, list := range [][]string{w.Links, w.Addrs, w.Routes, w.Rules} {
		slices.Sort(list)
	}
	return w
}

// foreign is the part of the world that no fabric of the test may touch.
func (w world) foreign() (out []string) {
	for _, list := range [][]string{w.Links, w.Addrs, w.Routes, w.Rules} {
		for _, s := range list {
			if strings.Contains(s, "ff3") || strings.Contains(s, "172.") {
				out = append(out, s)
			}
		}
	}
	return out
}

// strangers puts things on ff3 that look as much like ours as they can.
func strangers(t *testing.T, r *rand.Rand, h host.Host) {
	t.Helper()
	links, err := h.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Name == "lo" || l.Name == "ff0" || l.Name == "ff1" {
			continue
		}
		if err := h.SetUp(l.Index, true); err != nil {
			t.Fatal(err)
		}
		if l.Name != "ff3" {
			continue
		}
		err := h.AddAddr(host.Addr{Index: l.Index, Prefix: netip.MustParsePrefix("172.16.0.1/24")})
		for i := range 1 + r.IntN(3) {
			if err == nil {
				err = h.ReplaceRoute(host.Route{Table: 100 + r.IntN(2), Dst: netip.MustParsePrefix(fmt.Sprintf("172.%d.0.0/16", 20+i)), Via: netip.MustParseAddr("172.16.0.9"), OutIndex: l.Index, Protocol: 251, Type: 1})
			}
			if err == nil {
				err = h.AddRule(host.Rule{Priority: 20000 + i, From: netip.MustParsePrefix("172.16.0.1/32"), Table: 100 + i, Family: 2, Protocol: 251})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// wish is a random host of a fabric.
func wish(r *rand.Rand) *fabric.Host {
	h := &fabric.Host{Name: "h", Sysctl: map[string]string{}}
	for _, key := range []string{"net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_sack"} {
		if r.IntN(2) == 0 {
			h.Sysctl[key] = fmt.Sprint(r.IntN(2))
		}
	}
	for i := range 2 {
		if r.IntN(5) == 0 {
			continue
		}
		n := &fabric.NIC{Name: fmt.Sprintf("rail%d", i), Host: "h", Netdev: fmt.Sprintf("ff%d", i), Up: r.IntN(8) > 0, IPv6LinkLocal: "keep", MTU: []int{0, 1500, 4000, 9000}[r.IntN(4)]}
		if r.IntN(4) > 0 {
			n.AddressesSet = true
			for range r.IntN(4) {
				n.Addresses = append(n.Addresses, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, byte(1 + r.IntN(5))}), []int{24, 28, 30}[r.IntN(3)]))
			}
			if r.IntN(2) == 0 {
				n.Addresses = append(n.Addresses, netip.MustParsePrefix(fmt.Sprintf("fd0%d::%d/64", i, 1+r.IntN(3))))
			}
			slices.SortFunc(n.Addresses, func(a, b netip.Prefix) int { return strings.Compare(a.Addr().String(), b.Addr().String()) })
			n.Addresses = slices.CompactFunc(n.Addresses, func(a, b netip.Prefix) bool { return a.Addr() == b.Addr() })
		}
		if r.IntN(3) == 0 {
			n.Sysctl = map[string]string{"ipv4.conf.arp_ignore": fmt.Sprint(r.IntN(3))}
		}
		h.NICs = append(h.NICs, n)
		if n.Up && len(n.Addresses) > 0 && n.Addresses[0].Addr().Is4() {
			routesOn(r, h, n)
		}
	}
	return h
}

func routesOn(r *rand.Rand, h *fabric.Host, n *fabric.NIC) {
	via := netip.AddrFrom4([4]byte{10, n.Netdev[2] - '0', 0, 200})
	route := func(i int) fabric.Route {
		return fabric.Route{To: netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", 50+i+100*int(n.Netdev[2]-'0'))), Via: via, OnLink: true, Metric: r.IntN(2) * 50}
	}
	for i := range r.IntN(3) {
		h.Routes = append(h.Routes, &fabric.MainRoute{Route: route(i), Name: fmt.Sprintf("%s-%d", n.Name, i), Host: "h", NIC: n.Ref()})
	}
	if r.IntN(2) == 0 {
		table := 100 + r.IntN(2) + 10*int(n.Netdev[2]-'0')
		p := &fabric.PolicyRoute{Name: n.Name, Host: "h", NIC: n.Ref(), From: netip.PrefixFrom(n.Addresses[0].Addr(), 32), Table: table, Priority: 10000 + table}
		for i := range 1 + r.IntN(2) {
			p.Routes = append(p.Routes, route(i+5))
		}
		h.Policy = append(h.Policy, p)
	}
}

// TestRandomFabricsSettleAndGoWithoutTrace: whatever is declared, one after the other, on whatever
// there is: after an apply the plan is empty, foreign things never change, and after a destroy all is
// as it was.
func TestRandomFabricsSettleAndGoWithoutTrace(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			m := machine(t)
			strangers(t, r, m)
			before := look(t, m)
			for range 4 {
				h := wish(r)
				converge(t, m, h)
				if d := cmp.Diff(before.foreign(), look(t, m).foreign()); d != "" {
					t.Fatalf("a foreign thing changed: %s", d)
				}
			}
			converge(t, m, nil)
			if d := cmp.Diff(before, look(t, m)); d != "" {
				t.Fatalf("not as it was: %s", d)
			}
			if len(m.records) > 0 {
				t.Fatalf("a record is left: %s", m.records["f"])
			}
		})
	}
}

// converge plans, applies through the helper's own methods, and expects an empty plan; nil gives all
// back.
func converge(t *testing.T, m recorded, h *fabric.Host) {
	t.Helper()
	store := checkpoint.NewStore(t.TempDir(), checkpoint.Now)
	methods, err := helper.Methods(m, providers.Kinds(), store, facts.Connection{None: true})
	if err != nil {
		t.Fatal(err)
	}
	plan := func() *planner.Plan {
		in := planner.HostInput{Name: "h"}
		if h != nil {
			in.Resources = providers.Desired(&fabric.Fabric{Name: "f"}, h)
		}
		var read calls.SnapshotResult
		call(t, methods, "snapshot", calls.SnapshotParams{Resources: in.Resources}, &read)
		in.Snapshot, in.Records = read.Snapshot, read.Records
		return planner.Make("f", providers.Kinds(), []planner.HostInput{in})
	}
	p := plan()
	if len(p.Problems()) > 0 {
		t.Fatal(p.Problems())
	}
	tx := openTx(t, store, m, p)
	for _, a := range p.Hosts[0].Actions {
		if len(a.Kept) > 0 {
			t.Errorf("nobody else changed anything, but the plan says: %+v", a.Kept)
		}
		if a.Op == planner.Undo {
			call(t, methods, "undo", calls.UndoParams{Fabric: "f", Changes: a.Changes, Forget: a.Forget, Tx: tx}, nil)
			continue
		}
		call(t, methods, "act", calls.ActParams{Fabric: "f", Resource: a.Resource, Changes: a.Changes, Disturbed: a.Disturbed, Tx: tx}, nil)
	}
	if q := plan(); q.Changes() > 0 || len(q.Problems()) > 0 {
		t.Fatalf("after apply: %+v %v\nbefore it: %+v\nwanted: %s", q.Hosts[0].Actions, q.Problems(), p.Hosts[0].Actions, dump(h))
	}
}

// openTx opens a transaction without a guardian, which would run this test's program.
func openTx(t *testing.T, store *checkpoint.Store, m recorded, p *planner.Plan) calls.TxRef {
	t.Helper()
	tx, err := store.Begin(checkpoint.Request{Fabric: "f"})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := checkpoint.TakeBackup(t.Context(), m, providers.Kinds(), atoms(p.Hosts[0]), nil)
	if err == nil {
		_, err = store.SaveBackup(tx.ID, tx.Token, snap)
	}
	if err != nil {
		t.Fatal(err)
	}
	return calls.TxRef{ID: tx.ID, Token: tx.Token}
}

func dump(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func call(t *testing.T, methods agent.Table, name string, params, result any) {
	t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	got, err := methods[name](context.Background(), raw)
	if err != nil {
		t.Fatalf("%s %s: %v", name, raw, err)
	}
	if result == nil {
		return
	}
	back, err := json.Marshal(got)
	if err == nil {
		err = json.Unmarshal(back, result)
	}
	if err != nil {
		t.Fatal(err)
	}
}
