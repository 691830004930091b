package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
	"github.com/fabricform/fabricform/view"
)

// TestRandomFabricsChangeAsPrinted: a random fabric is planned and the saved plan is applied, while another hand changes
// the hosts before and between, and some hosts cannot be reached. What the kernels announced, what they hold afterwards and
// what /etc has are the changes that were printed, on the hosts of which they were printed, and nothing else. The plan is
// then applied again: it is refused, and nothing changes. A case is named by its seed, and FABRICFORM_SEED runs one more.
func TestRandomFabricsChangeAsPrinted(t *testing.T) {
	together(t)
	seeds, logins := 16, 1
	if full() {
		seeds, logins = 1000, 50
	}
	cases := func(name string, n int, by func(*random) operator) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var count tally
			t.Cleanup(func() { t.Logf("figure: over a %s: %s", name, &count) })
			which := make([]uint64, n)
			for i := range which {
				which[i] = uint64(i)
			}
			if one, err := strconv.ParseUint(os.Getenv("FABRICFORM_SEED"), 10, 64); err == nil {
				which = []uint64{one}
			}
			for _, seed := range which {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					t.Parallel()
					newRandom(t, name, seed, by, &count).live()
				})
			}
		})
	}
	cases("pipe", seeds, func(x *random) operator { return &overPipe{x} })
	cases("ssh", logins, func(x *random) operator { return &overSSH{x} })
}

// operator is how a plan is saved and applied. Both return what is printed as JSON, and the exit code. Hosts in away
// cannot be reached meanwhile.
type operator interface {
	plan(file string, away map[string]bool) (string, int)
	apply(file string, away map[string]bool) (string, int)
}

// random is a fabric with its lab.
type random struct {
	t       *testing.T
	r       *rand.Rand
	draft   *draft
	dir     string
	fabric  string // its file
	kernels map[string]*kernel
	lab     struct {
		Net   struct{ PID int }
		Hosts map[string]struct {
			Process struct{ PID int }
			Address string
		}
	}
	story strings.Builder // is told of a failed case
	count *tally
	operator
}

// tally counts what the cases have seen.
type tally struct{ fabrics, plans, refused, away, left, changes, events atomic.Int64 }

func (c *tally) String() string {
	return fmt.Sprintf("%d fabrics, %d saved plans applied and applied again, with %d changes and %d announcements of the kernels; %d plans refused; %d hosts unreachable for a plan, %d plans of hosts left out as changed or unreachable",
		c.fabrics.Load(), c.plans.Load(), c.changes.Load(), c.events.Load(), c.refused.Load(), c.away.Load(), c.left.Load())
}

// tell adds to the story.
func (x *random) tell(format string, args ...any) { fmt.Fprintf(&x.story, format+"\n", args...) }

func newRandom(t *testing.T, name string, seed uint64, by func(*random) operator, count *tally) *random {
	t.Helper()
	x := &random{t: t, r: rand.New(rand.NewPCG(seed, 16)), dir: t.TempDir(), kernels: map[string]*kernel{}, count: count}
	x.draft = newDraft(x.r, fmt.Sprintf("%s-%d", name, seed))
	x.fabric = filepath.Join(x.dir, "fabric.hcl")
	x.write(true)
	must := x.must
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(x.story.String())
		}
	})
	state := filepath.Join(x.dir, "fabricform", "lab", x.draft.name, "lab.json")
	t.Cleanup(func() { try(t, x.dir, "lab", "down", x.fabric) })
	try(t, x.dir, "lab", "up", "-sshd", sshd, x.fabric).want(t, 0)
	raw, err := os.ReadFile(state)
	must(err)
	must(json.Unmarshal(raw, &x.lab))
	probing := x.r.IntN(10) == 0
	for host, h := range x.lab.Hosts {
		k, err := openKernel(host, h.Process.PID)
		must(err)
		t.Cleanup(k.close)
		x.kernels[host] = k
		if !probing { // duplicate address detection waits a second for each address
			must(k.inside(func() error {
				files, err := filepath.Glob("/proc/sys/net/ipv6/conf/*/accept_dad")
				for _, file := range files {
					err = errors.Join(err, os.WriteFile(file, []byte("0"), 0o644))
				}
				return err
			}))
		}
	}
	x.operator = by(x)
	return x
}

func (x *random) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *random) write(bare bool) {
	x.t.Helper()
	x.must(os.WriteFile(x.fabric, []byte(x.draft.text(bare)), 0o600))
}

// live takes the fabric through a few versions of its files.
func (x *random) live() {
	for round := range 2 {
		if round > 0 {
			x.draft.edit(x.r)
		}
		x.write(false)
		x.tell("\nround %d:\n%s", round, x.draft.text(false))
		x.drift(x.r.IntN(2 + 3*round))
		away := x.unreachable()
		file := filepath.Join(x.dir, fmt.Sprintf("%d.plan", round))
		said, code := x.plan(file, away)
		x.tell("away at plan: %v; plan:\n%s", away, said)
		shown, err := readPlan(said)
		x.must(err)
		if _, err := os.Stat(file); err != nil {
			if len(shown.problems) == 0 || code != 1 {
				x.t.Fatalf("exit %d, and no plan was saved, although it has no problem:\n%s", code, said)
			}
			x.count.refused.Add(1)
			x.tell("the plan was refused: %s", strings.Join(shown.problems, "; "))
			continue
		}
		for host := range x.kernels {
			if shown.off[host] != away[host] {
				x.t.Fatalf("host %s is printed as unreachable: %v, but it is: %v", host, shown.off[host], away[host])
			}
		}
		x.count.away.Add(int64(len(away)))
		x.trials(file, shown)
	}
	x.count.fabrics.Add(1)
}

// trials applies a saved plan twice.
func (x *random) trials(file string, shown printedPlan) {
	away := map[string]bool{}
	drifts := 0
	if x.r.IntN(3) == 0 {
		drifts = 1 + x.r.IntN(2)
		x.drift(drifts)
	}
	if x.r.IntN(4) == 0 {
		away = x.unreachable()
	}
	committed := false
	x.watch("applied", func() map[string]printed {
		said, code := x.apply(file, away)
		x.tell("drifts between: %d, away at apply: %v; apply, exit %d:\n%s", drifts, away, code, said)
		if !slices.Contains([]int{0, 4, 5}, code) {
			x.t.Fatalf("the apply ends with exit %d:\n%s", code, said)
		}
		done, err := readPlan(said)
		x.must(err)
		x.count.plans.Add(1)
		for host, changes := range done.hosts {
			x.count.changes.Add(int64(len(changes)))
			if done.stale[host] || done.off[host] && !shown.off[host] {
				x.count.left.Add(1)
			}
			if len(changes) > 0 {
				committed = true
			}
			for name, c := range changes {
				if shown.hosts[host][name] != c {
					x.t.Errorf("host %s: the apply has %s, %+v, which the saved plan did not show", host, name, c)
				}
			}
			left := done.stale[host] || done.off[host] || done.partly[host]
			if (!left || drifts == 0 && len(away) == 0) && len(changes) != len(shown.hosts[host]) {
				x.t.Errorf("host %s: the apply made %d of %d changes, and names no reason:\n%s", host, len(changes), len(shown.hosts[host]), said)
			}
		}
		return done.hosts
	})
	if committed {
		away = map[string]bool{}
	}
	x.watch("applied again", func() map[string]printed {
		if said, code := x.apply(file, away); committed && code != 5 {
			x.t.Errorf("a plan that was applied is applied again with exit %d:\n%s", code, said)
		}
		return nil
	})
}

// watch holds what happens on all hosts while do runs against what do says was printed.
func (x *random) watch(what string, do func() map[string]printed) {
	x.t.Helper()
	before := map[string]state{}
	for host, k := range x.kernels {
		x.must(k.settle())
		s, err := k.look()
		x.must(err)
		_, err = k.heard(s)
		x.must(err)
		before[host] = s
	}
	said := do()
	for host, k := range x.kernels {
		x.must(k.settle())
		after, err := k.look()
		x.must(err)
		events, err := k.heard(before[host])
		x.must(err)
		x.count.events.Add(int64(len(events)))
		wrong := trial{said[host], before[host], after, events}.judge()
		if len(wrong) > 0 {
			x.t.Errorf("host %s, %s:\n%s\nThe kernel announced:%s", host, what, strings.Join(wrong, "\n"), eventList(events))
		}
	}
	if x.t.Failed() {
		x.t.FailNow()
	}
}

func eventList(events []event) (out string) {
	for _, e := range events {
		out += "\n  " + e.String()
	}
	return out
}

// unreachable draws hosts that cannot be reached, not all of them.
func (x *random) unreachable() map[string]bool {
	out := map[string]bool{}
	if x.r.IntN(3) == 0 {
		for range 1 + x.r.IntN(len(x.draft.hosts)-1) {
			out[pick(x.r, x.draft.hosts...).name] = true
		}
	}
	return out
}

// drift lets another hand change something on hosts, n times.
func (x *random) drift(n int) {
	x.t.Helper()
	for range n {
		nic := pick(x.r, pick(x.r, x.draft.cables...).nics...)
		x.must(x.another(x.kernels[nic.host], nic))
	}
}

func (x *random) another(k *kernel, nic *draftNIC) error {
	r := x.r
	link, err := k.handle.LinkByName(nic.name)
	if err != nil {
		return err
	}
	etc := fmt.Sprintf("/proc/%d/root/etc/", k.pid)
	switch r.IntN(12) {
	case 0, 1: // an address goes
		addrs, err := whole(func() ([]netlink.Addr, error) { return k.handle.AddrList(link, netlink.FAMILY_ALL) })
		if err != nil || len(addrs) == 0 {
			return err
		}
		return k.handle.AddrDel(link, &addrs[r.IntN(len(addrs))])
	case 2: // an address comes
		a := &net.IPNet{IP: net.IPv4(10, 66, byte(nic.cable.number), byte(1+r.IntN(200))), Mask: net.CIDRMask(24, 32)}
		return k.handle.AddrReplace(link, &netlink.Addr{IPNet: a})
	case 3:
		return k.handle.LinkSetMTU(link, pick(r, 1500, 3000, 8000))
	case 4:
		if link.Attrs().RawFlags&unix.IFF_UP != 0 {
			return k.handle.LinkSetDown(link)
		}
		return k.handle.LinkSetUp(link)
	case 5: // a route goes
		routes, err := whole(func() ([]netlink.Route, error) {
			return k.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: link.Attrs().Index}, netlink.RT_FILTER_OIF)
		})
		routes = slices.DeleteFunc(routes, func(r netlink.Route) bool { return r.Protocol == unix.RTPROT_KERNEL })
		if err != nil || len(routes) == 0 {
			return err
		}
		return k.handle.RouteDel(&routes[r.IntN(len(routes))])
	case 6: // a route comes
		if link.Attrs().RawFlags&unix.IFF_UP == 0 {
			return nil
		}
		dst := &net.IPNet{IP: net.IPv4(172, 31, byte(r.IntN(200)), 0), Mask: net.CIDRMask(24, 32)}
		return k.handle.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst, Protocol: unix.RTPROT_STATIC, Scope: netlink.SCOPE_LINK, Table: pick(r, 254, 100+nic.cable.number)})
	case 7: // a rule goes
		rules, err := whole(func() ([]netlink.Rule, error) { return k.handle.RuleList(netlink.FAMILY_V4) })
		rules = slices.DeleteFunc(rules, func(r netlink.Rule) bool { return r.Priority == 0 || r.Priority > 30000 })
		if err != nil || len(rules) == 0 {
			return err
		}
		return k.handle.RuleDel(&rules[r.IntN(len(rules))])
	case 8: // a rule comes
		rule := netlink.NewRule()
		rule.Priority, rule.Table, rule.Family = 20000+r.IntN(9000), 100+nic.cable.number, netlink.FAMILY_V4
		return k.handle.RuleAdd(rule)
	case 9:
		return k.inside(func() error {
			return os.WriteFile("/proc/sys/net/ipv4/conf/"+nic.name+"/arp_ignore", []byte(pick(r, "0", "1", "2")), 0o644)
		})
	case 10: // our file goes, or somebody writes into it
		if r.IntN(2) == 0 {
			if err := os.Remove(etc + "nccl.conf"); !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return nil
		}
		f, err := os.OpenFile(etc+"nccl.conf", os.O_WRONLY|os.O_APPEND, 0)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = f.WriteString("NCCL_P2P_LEVEL=SYS\n")
		return errors.Join(err, f.Close())
	}
	return os.WriteFile(etc+fmt.Sprintf("stranger-%d.conf", r.IntN(5)), fmt.Appendln(nil, r.Int()), 0o644)
}

// overPipe is the program's engine in this process, with helpers in the hosts' namespaces at the end of pipes.
type overPipe struct{ x *random }

// options are those of the program's commands, but for the way to the hosts.
func (p *overPipe) options(away map[string]bool, glance bool) apply.SessionOptions {
	return apply.SessionOptions{Build: build, Parallelism: 8, Glance: glance, User: "anna@desk",
		Tokens:    apply.TokenStore{Fabric: p.x.draft.name, Lab: p.x.draft.name, State: func() (string, error) { return p.x.dir, nil }},
		Resources: apply.Resources{Kinds: providers.Kinds(), Desired: providers.Desired, Derived: providers.Derived, Joined: providers.Joined, Looks: providers.Looks, Compared: providers.Compared},
		Dial: func(_ context.Context, to transport.Target) (io.ReadWriteCloser, error) {
			if away[to.Name] {
				return nil, errors.New("no route to host")
			}
			h := p.x.lab.Hosts[to.Name]
			server := netip.MustParseAddr(h.Address)
			return startHelper(h.Process.PID, fmt.Sprintf("%s 50000 %s 22", server.Prev(), server)) // as a login by the lab's management network says
		}}
}

// helperStream is a helper's standard input and output.
type helperStream struct {
	io.WriteCloser
	out io.Reader
	cmd *exec.Cmd
}

func (s *helperStream) Read(p []byte) (int, error) { return s.out.Read(p) }

func (s *helperStream) Close() error {
	err := s.WriteCloser.Close()
	return errors.Join(err, s.cmd.Wait())
}

// startHelper runs the program in a host.
func startHelper(pid int, connection string) (io.ReadWriteCloser, error) {
	cmd := exec.Command("nsenter", "--target", strconv.Itoa(pid), "--net", "--mount", "--uts", "--ipc", "--pid", "--wd=/", "--", bin, "agent", "--ssh-connection="+connection)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	return &helperStream{in, out, cmd}, err
}

func (p *overPipe) plan(file string, away map[string]bool) (string, int) {
	x := p.x
	x.t.Helper()
	f, _, diags := config.Load(x.fabric, config.Options{Version: "dev"})
	if diags.HasErrors() {
		x.t.Fatal(diags)
	}
	s := apply.Open(x.t.Context(), f, p.options(away, true))
	defer s.Close()
	plan := s.Propose(x.t.Context())
	if len(plan.Problems()) == 0 {
		text, err := s.Save(plan).Encode()
		x.must(err)
		x.must(os.WriteFile(file, text, 0o600))
	}
	var out bytes.Buffer
	view.New(&out).JSON().Plan(plan, plan.Notes())
	return out.String(), exitOf(apply.PlanEnding(plan))
}

func (p *overPipe) apply(file string, away map[string]bool) (string, int) {
	x := p.x
	x.t.Helper()
	raw, err := os.ReadFile(file)
	x.must(err)
	saved, err := planner.ReadSaved(bytes.NewReader(raw), build)
	x.must(err)
	s, err := apply.OpenSaved(x.t.Context(), saved, p.options(away, false))
	x.must(err)
	defer s.Close()
	var out bytes.Buffer
	r := apply.Run(x.t.Context(), s, apply.Options{Allowed: resource.LinkFlap, OnFailure: apply.RollbackAll, Lease: time.Minute, Unverified: true}, said{view.New(&out).JSON(), x})
	if r.Err != nil {
		x.tell("%v", r.Err)
	}
	return out.String(), exitOf(r.Ending)
}

// exitOf is the exit code of an ending, as the program's help lists them.
func exitOf(e apply.Ending) int {
	return map[apply.Ending]int{apply.Done: 0, apply.CheckFailed: 3, apply.HostsUnreachable: 4, apply.Failed: 1, apply.Stale: 5, apply.Held: 8, apply.RolledBack: 6, apply.OutcomeUnknown: 7}[e]
}

// said takes the events of a run: the results as JSON, warnings into the story.
type said struct {
	view.Reporter
	x *random
}

func (s said) Progress(string, ...any)             {}
func (s said) Warn(format string, args ...any)     { s.x.tell(format, args...) }
func (s said) Unreachable(hosts map[string]string) { s.x.tell("%v", hosts) }
func (s said) Approve(*planner.Plan, func()) error { return nil }

// overSSH is the program itself, over OpenSSH.
type overSSH struct{ x *random }

func (c *overSSH) plan(file string, away map[string]bool) (string, int) {
	return c.run(away, "plan", "-lab", "-json", "-out", file, c.x.fabric)
}

func (c *overSSH) apply(file string, away map[string]bool) (string, int) {
	return c.run(away, "apply", "-lab", "-json", "-auto-approve", "-no-verify", file)
}

// run runs the program, while the lab's network has no route to the hosts that are away.
func (c *overSSH) run(away map[string]bool, args ...string) (string, int) {
	x := c.x
	x.t.Helper()
	ip := func(what string) {
		for host := range away {
			out, err := exec.Command("nsenter", "--target", strconv.Itoa(x.lab.Net.PID), "--net", "--", "ip", "route", what, "unreachable", x.lab.Hosts[host].Address+"/32").CombinedOutput()
			if err != nil {
				x.t.Fatalf("%v: %s", err, out)
			}
		}
	}
	ip("add")
	defer ip("del")
	a := try(x.t, x.dir, args...)
	return a.out, a.code
}
