package validators

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
)

// loom is hosts whose ports are cabled: by the name of a port (host:netdev), who hears its frames.
type loom struct {
	fake
	mu    sync.Mutex
	snaps map[string]*facts.Snapshot
	both  map[string][]string // who hears both kinds
	some  map[string][]string // who hears the broadcasts alone
	deaf  map[string]string   // ports that cannot listen, and why
	dead  map[string]bool     // hosts that fail to listen
	mute  string              // a port that cannot send
	sent  map[string]uint32   // by port: its number
}

func (l *loom) Snapshot(_ context.Context, h string) (*facts.Snapshot, error) { return l.snaps[h], nil }

func newLoom(hosts string, ports int) *loom {
	l := &loom{fake: fake{}, snaps: map[string]*facts.Snapshot{}, both: map[string][]string{}, some: map[string][]string{}, deaf: map[string]string{}, dead: map[string]bool{}, sent: map[string]uint32{}}
	for n, h := range strings.Fields(hosts) {
		l.snaps[h] = &facts.Snapshot{}
		for i := range ports {
			l.snaps[h].Links = append(l.snaps[h].Links, host.Link{Index: i + 1, Name: fmt.Sprintf("eth%d", i), MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", n, i<<4), MTU: 1500, Up: true, Carrier: true})
		}
	}
	on(l.fake, probe.ListenCabling, func(_ context.Context, h string, s probe.CablingListenSpec) (probe.CablingListening, error) {
		if l.dead[h] {
			return probe.CablingListening{}, errors.New("no packet sockets")
		}
		out := probe.CablingListening{ID: "x"}
		for _, n := range s.Netdevs {
			out.Ports = append(out.Ports, probe.CablingListeningPort{Netdev: n, Failed: l.deaf[h+":"+n]})
		}
		return out, nil
	})
	on(l.fake, probe.SendCabling, func(_ context.Context, h string, s probe.CablingSendSpec) (out []probe.CablingSent, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, p := range s.Ports {
			if l.mute == h+":"+p.Netdev {
				out = append(out, probe.CablingSent{Netdev: p.Netdev, Failed: "no buffer"})
				continue
			}
			l.sent[h+":"+p.Netdev] = p.Number
			out = append(out, probe.CablingSent{Netdev: p.Netdev, Frames: probe.CablingFrames})
		}
		return out, nil
	})
	on(l.fake, probe.CollectCabling, func(_ context.Context, h string, _ string) (out probe.CablingHeard, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for from, number := range l.sent {
			for _, at := range slices.Concat(l.both[from], l.some[from]) {
				name, netdev, _ := strings.Cut(at, ":")
				if name == h {
					out.Probes = append(out.Probes, probe.CablingProbe{Netdev: netdev, Number: number, Count: 2})
				}
				if name == h && slices.Contains(l.both[from], at) {
					out.Probes = append(out.Probes, probe.CablingProbe{Netdev: netdev, Number: number, Group: true, Count: 2})
				}
			}
		}
		return out, nil
	})
	return l
}

// cable joins pairs of ports: a0-b1 are a:eth0 and b:eth1.
func (l *loom) cable(pairs ...string) *loom {
	for _, pair := range pairs {
		x, y, _ := strings.Cut(pair, "-")
		x, y = x[:1]+":eth"+x[1:], y[:1]+":eth"+y[1:]
		l.both[x], l.both[y] = append(l.both[x], y), append(l.both[y], x)
	}
	return l
}

// bridge joins ports by a switch.
func (l *loom) bridge(ports ...string) *loom {
	for _, x := range ports {
		for _, y := range ports {
			if x != y {
				l.some[x[:1]+":eth"+x[1:]] = append(l.some[x[:1]+":eth"+x[1:]], y[:1]+":eth"+y[1:])
			}
		}
	}
	return l
}

// woven declares links, named by their pairs: a0-b0 joins a.rail0 and b.rail0. Its NICs are all ports but the last of each host.
func woven(l *loom, links ...string) *fabric.Fabric {
	f := &fabric.Fabric{Name: "woven"}
	for _, h := range []string{"a", "b", "c"} {
		if s := l.snaps[h]; s != nil {
			one := &fabric.Host{Name: h, BlockName: h}
			for i := range len(s.Links) - 1 {
				one.NICs = append(one.NICs, &fabric.NIC{Name: fmt.Sprintf("rail%d", i), Host: h, Netdev: fmt.Sprintf("eth%d", i)})
			}
			f.Hosts = append(f.Hosts, one)
		}
	}
	for i, pair := range links {
		x, y, _ := strings.Cut(pair, "-")
		f.Links = append(f.Links, &fabric.Link{Block: fabric.Block{Pos: fabric.Pos{File: "f.hcl", Line: 10 + i}}, Name: pair, BlockName: pair,
			Endpoints: []fabric.NICRef{{Host: x[:1], NIC: "rail" + x[1:]}, {Host: y[:1], NIC: "rail" + y[1:]}}})
	}
	return f
}

func networked(l *loom, routed bool, members ...string) *fabric.Fabric {
	f := woven(l)
	n := &fabric.Network{Name: "net", BlockName: "net", Routed: routed}
	for _, m := range members {
		n.Members = append(n.Members, fabric.NICRef{Host: m[:1], NIC: "rail" + m[1:]})
	}
	f.Networks = append(f.Networks, n)
	return f
}

// told is the results on lines, with the diffs of links behind.
func told(results []Result) string {
	var out strings.Builder
	for _, r := range results {
		if r.Check == CheckCabling {
			fmt.Fprintf(&out, "%s %s.%s", r.Verdict, r.Host, r.Object)
			if r.Found != "" {
				fmt.Fprintf(&out, " at %s", r.Found)
			}
			if r.Cause != "" {
				fmt.Fprintf(&out, ": %s", r.Cause)
			}
			fmt.Fprintln(&out)
		}
	}
	for _, r := range results {
		for _, line := range r.Diff {
			if !strings.HasPrefix(line, "-") {
				fmt.Fprintln(&out, line)
			}
		}
	}
	return out.String()
}

func TestCablesAreComparedWithTheFiles(t *testing.T) {
	unknown := newLoom("a b", 2)
	unknown.snaps["a"].Management.Unknown = "no SSH_CONNECTION"
	dark := newLoom("a b", 2)
	dark.snaps["a"].Links[0].Carrier = false
	infiniband := newLoom("a b", 2)
	infiniband.snaps["b"].Links[0].MAC = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01"
	bonded := newLoom("a b", 2).cable("a0-b0")
	bonded.snaps["a"].Links[0].Bond = &host.Bond{}
	tagged := newLoom("a b", 2).cable("a0-b0")
	tagged.snaps["b"].Links[0].VLAN = &host.VLAN{}
	deaf := newLoom("a b", 2).cable("a0-b0")
	deaf.deaf["b:eth0"] = "no memory"
	dead := newLoom("a b", 2).cable("a0-b0")
	dead.dead["b"] = true
	off := newLoom("a b", 2)
	off.snaps["a"].Links[0].Up = false
	mute := newLoom("a b", 2).cable("a0-b0")
	mute.mute = "a:eth0"
	half := newLoom("a b", 2)
	half.both["a:eth0"] = []string{"b:eth0"}
	tapped := newLoom("a b", 2).cable("a0-b0")
	tapped.some["a:eth0"] = []string{"b:eth1"}
	const aggregate = "the cables of bonds and VLANs are not compared; the check bond judges the members of a bond"
	const wrong = ": the port is cabled to another segment than the files say\n"
	for name, c := range map[string]struct {
		l    *loom
		f    func(*loom) *fabric.Fabric
		want string
	}{
		"as declared": {newLoom("a b", 3).cable("a0-b0", "a1-b1"), func(l *loom) *fabric.Fabric { return woven(l, "a0-b0", "a1-b1") }, "pass a.rail0 at b.rail0\npass a.rail1 at b.rail1\n"},
		"swapped": {newLoom("a b", 3).cable("a0-b1", "a1-b0"), func(l *loom) *fabric.Fabric { return woven(l, "a0-b0", "a1-b1") },
			"fail a.rail0 at b.rail1: declared a.rail0 – b.rail0, cabled to b.rail1\nfail b.rail0 at a.rail1: declared b.rail0 – a.rail0, cabled to a.rail1\n" +
				"fail a.rail1 at b.rail0: declared a.rail1 – b.rail1, cabled to b.rail0\nfail b.rail1 at a.rail0: declared b.rail1 – a.rail1, cabled to a.rail0\n" +
				"@@ f.hcl:10, link a0-b0 @@\n+  endpoints = [host.a.nic.rail0, host.b.nic.rail1]\n@@ f.hcl:11, link a1-b1 @@\n+  endpoints = [host.a.nic.rail1, host.b.nic.rail0]\n"},
		"to a port that is not declared": {newLoom("a b", 2).cable("a0-b1"), func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") },
			"fail a.rail0 at b:eth1 (not declared): declared a.rail0 – b.rail0, cabled to b:eth1 (not declared)\nfail b.rail0: no port of these hosts heard its frames: the cable leads elsewhere, or the other end is down\n"},
		"a loop of one host": {newLoom("a b", 3).cable("a0-a1", "b0-b1"), func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") },
			"fail a.rail0 at a.rail1: declared a.rail0 – b.rail0, cabled to a.rail1\nfail b.rail0 at b.rail1: declared b.rail0 – a.rail0, cabled to b.rail1\n"},
		"loops of both hosts": {newLoom("a b", 3).cable("a0-a1", "b0-b1"), func(l *loom) *fabric.Fabric { return woven(l, "a0-b0", "a1-b1") },
			"fail a.rail0 at a.rail1: declared a.rail0 – b.rail0, cabled to a.rail1\nfail b.rail0 at b.rail1: declared b.rail0 – a.rail0, cabled to b.rail1\n" +
				"fail a.rail1 at a.rail0: declared a.rail1 – b.rail1, cabled to a.rail0\nfail b.rail1 at b.rail0: declared b.rail1 – a.rail1, cabled to b.rail0\n"},
		"a port that is down":     {off, func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") }, "skip a.rail0: a.rail0 has no carrier\nfail b.rail0: no port of these hosts heard its frames: the cable leads elsewhere, or the other end is down\n"},
		"a port that cannot send": {mute, func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") }, "fail a.rail0: no buffer\nfail b.rail0: no buffer\n"},
		"a bridge where a link is declared": {newLoom("a b c", 2).bridge("a0", "b0", "c0"), func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") },
			"warn a.rail0 at b.rail0, c.rail0: " + bridged + "\n"},
		"a bridge that two ports are on": {newLoom("a b", 2).bridge("a0", "b0"), func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") },
			"warn a.rail0 at b.rail0: " + bridged + "\n"},
		"a cable that a third port hears": {tapped, func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") }, "warn a.rail0 at b.rail0, b:eth1 (not declared): " + bridged + "\npass b.rail0 at a.rail0\n"},
		"a bridge that leads elsewhere": {newLoom("a b c", 2).bridge("a0", "b1", "c0").cable("b0-c1"), func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") },
			"fail a.rail0 at b:eth1 (not declared), c.rail0: the port is cabled to a bridge or a switch that does not lead to b.rail0\n" +
				"fail b.rail0 at c:eth1 (not declared): declared b.rail0 – a.rail0, cabled to c:eth1 (not declared)\n"},
		"one direction": {half, func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") }, "pass a.rail0 at b.rail0\nfail b.rail0: no port of these hosts heard its frames: the cable leads elsewhere, or the other end is down\n"},
		"a link without its cable": {newLoom("a b c", 3).cable("a0-c0", "b0-b1"), func(l *loom) *fabric.Fabric { return woven(l, "a0-b0", "b1-c0") },
			"fail a.rail0 at c.rail0: declared a.rail0 – b.rail0, cabled to c.rail0\nfail b.rail0 at b.rail1: declared b.rail0 – a.rail0, cabled to b.rail1\nfail b.rail1 at b.rail0: declared b.rail1 – c.rail0, cabled to b.rail0\n" +
				"fail c.rail0 at a.rail0: declared c.rail0 – b.rail1, cabled to a.rail0\n@@ f.hcl:10, link a0-b0 @@\n+  endpoints = [host.a.nic.rail0, host.c.nic.rail0]\n" +
				"@@ f.hcl:11, link b1-c0: no cable was found for it, and another link has an end of it: remove it @@\n"},
		"a segment":                 {newLoom("a b", 2).bridge("a0", "b0"), func(l *loom) *fabric.Fabric { return networked(l, false, "a0", "b0") }, "pass a.rail0 at b.rail0\n"},
		"a network of two ports":    {newLoom("a b", 2).cable("a0-b0"), func(l *loom) *fabric.Fabric { return networked(l, false, "a0", "b0") }, "pass a.rail0 at b.rail0\n"},
		"another segment":           {newLoom("a b c", 2).bridge("a0", "c0"), func(l *loom) *fabric.Fabric { return networked(l, false, "a0", "b0") }, "fail a.rail0 at c.rail0" + wrong + "skip b.rail0: no port of these hosts heard the frames of b.rail0: the network may not carry them\n"},
		"a network of a cloud":      {newLoom("a b", 2), func(l *loom) *fabric.Fabric { return networked(l, false, "a0", "b0") }, "skip a.rail0: no port of these hosts heard the frames of a.rail0: the network may not carry them\nskip b.rail0: no port of these hosts heard the frames of b.rail0: the network may not carry them\n"},
		"a routed network":          {newLoom("a b", 2), func(l *loom) *fabric.Fabric { return networked(l, true, "a0", "b0") }, "skip a.rail0: a routed network has no common segment\n"},
		"the operator's own path":   {unknown.cable("a0-b0"), func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") }, "skip a.rail0: a.rail0 sent nothing, because it may carry your connection\npass b.rail0 at a.rail0\n"},
		"no carrier":                {dark, func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") }, "skip a.rail0: a.rail0 has no carrier\nfail b.rail0: no port of these hosts heard its frames: the cable leads elsewhere, or the other end is down\n"},
		"InfiniBand":                {infiniband, func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") }, "skip a.rail0: b.rail0 is not an Ethernet port\n"},
		"a bond":                    {bonded, func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") }, "skip a.rail0: " + aggregate + "\n"},
		"a VLAN":                    {tagged, func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") }, "skip a.rail0: " + aggregate + "\n"},
		"a port that hears nothing": {deaf, func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") }, "fail a.rail0: no memory\nfail b.rail0: no memory\n"},
		"a host that fails":         {dead, func(l *loom) *fabric.Fabric { return woven(l, "a0-b0") }, "fail a.rail0: no packet sockets\nfail b.rail0: no packet sockets\n"},
	} {
		t.Run(name, func(t *testing.T) {
			results := measure(t, c.f(c.l), c.l, Options{Only: []Check{CheckCabling}})
			if got := told(results); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			for _, r := range results {
				if len(r.Diff) > 0 && r.Diff[1] != "-  endpoints = [host.a.nic.rail0, host.b.nic.rail0]" {
					t.Errorf("the diff takes away %s", r.Diff[1])
				}
			}
		})
	}
}

// TestOnlyDeclaredPortsSend: and never one that may carry the operator's connection, that is routed, or of a path that is not asked for.
func TestOnlyDeclaredPortsSend(t *testing.T) {
	l := newLoom("a b", 4)
	l.snaps["a"].Management = facts.Management{Devices: []string{"eth1"}}
	f := woven(l, "a0-b0", "a1-b1", "a2-b2")
	measure(t, f, l, Options{Only: []Check{CheckCabling}, Where: func(p fabric.Path) bool { return p.Name != "a2-b2" }})
	var got []string
	for at := range l.sent {
		got = append(got, at)
	}
	slices.Sort(got)
	if text := strings.Join(got, " "); text != "a:eth0 b:eth0 b:eth1" {
		t.Errorf("frames from %s", text)
	}
	l = newLoom("a b", 2)
	measure(t, networked(l, true, "a0", "b0"), l, Options{Only: []Check{CheckCabling}})
	if len(l.sent) > 0 {
		t.Errorf("ports of a routed network sent: %v", l.sent)
	}
}

// TestTheDiffNamesALinkOfForEach: its endpoints stand in no line of their own.
func TestTheDiffNamesALinkOfForEach(t *testing.T) {
	l := newLoom("a b", 3).cable("a0-b1", "a1-b0")
	f := woven(l, "a0-b0", "a1-b1")
	f.Links[1].BlockName = "rail"
	if got := told(measure(t, f, l, Options{Only: []Check{CheckCabling}})); !strings.Contains(got, "@@ f.hcl:10, link a0-b0 @@\n") ||
		!strings.Contains(got, "@@ f.hcl:11, link rail[\"a1-b1\"] (of for_each: declare it in a block of its own) @@\n") {
		t.Error(got)
	}
}

// TestCablingIsPartOfVerify: it runs unless other checks are named, and listens no longer than frames of ours take.
func TestCablingIsPartOfVerify(t *testing.T) {
	for _, c := range []struct {
		only []Check
		runs bool
	}{{nil, true}, {[]Check{CheckPing}, false}} {
		l := newLoom("a b", 2).cable("a0-b0")
		listened := time.Duration(0)
		measure(t, woven(l, "a0-b0"), l, Options{Only: c.only, Progress: func(what string) {
			if strings.Contains(what, "switches") {
				listened++
			}
		}})
		if got := len(l.sent) == 2; got != c.runs || listened > 0 {
			t.Errorf("only %v: sent %v, waits for switches %d times", c.only, l.sent, listened)
		}
	}
	l, far, waits := newLoom("a b", 2).cable("a0-b0"), 4*time.Second, false
	f := woven(l, "a0-b0")
	f.Links[0].RTT = &far
	measure(t, f, l, Options{Only: []Check{CheckCabling}, Progress: func(what string) { waits = waits || strings.Contains(what, "switches") }})
	if !waits {
		t.Error("it does not listen for as long as a frame takes over a long link")
	}
}

// TestLinksAreRewiredTogether: each cable once, whatever was exchanged.
func TestLinksAreRewiredTogether(t *testing.T) {
	pairs := func(text string) (out [][2]fabric.NICRef) {
		for _, pair := range strings.Fields(text) {
			x, y, _ := strings.Cut(pair, "-")
			out = append(out, [2]fabric.NICRef{{Host: x[:1], NIC: x[1:]}, {Host: y[:1], NIC: y[1:]}})
		}
		return out
	}
	for name, c := range map[string]struct{ links, cables, want string }{
		"a rotation":                        {"a0-b0 a1-b1 a2-b2", "a0-b1 a1-b2 a2-b0", "a0-b1 a1-b2 a2-b0"},
		"two hosts exchanged":               {"a0-b0 a1-c0", "a0-c0 a1-b0", "a1-b0 a0-c0"},
		"the second end in its place":       {"a0-b0 c0-d0", "c0-b0 a0-d0", "a0-d0 c0-b0"},
		"a cable that is not there":         {"a0-b0 a1-b1", "a0-b1", "a0-b1 a1-b1"},
		"a cable is left for the last link": {"a0-b0 c0-d0 e0-f0", "a0-c0 b0-e0 d0-f0", "a0-c0 f0-d0 e0-b0"},
		"nothing is known":                  {"a0-b0", "", "a0-b0"},
	} {
		cables := map[fabric.NICRef]fabric.NICRef{}
		for _, p := range pairs(c.cables) {
			cables[p[0]], cables[p[1]] = p[1], p[0]
		}
		var got []string
		for _, p := range rewired(pairs(c.links), cables) {
			got = append(got, p[0].Host+p[0].NIC+"-"+p[1].Host+p[1].NIC)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
	one := pairs("a0-b1")[0]
	if got := rewired(pairs("a0-b0"), map[fabric.NICRef]fabric.NICRef{one[0]: one[1]}); got[0] != pairs("a0-b0")[0] {
		t.Errorf("a cable that one end alone knows: %v", got)
	}
}
