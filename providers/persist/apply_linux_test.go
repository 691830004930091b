package persist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/resource/kindtest"
)

// fake is a host of files below a folder, whose manager reads them when it is told to. The failAt-th
// change fails.
type fake struct {
	neighbours
	rules         []host.Rule
	asked         []string
	count, failAt int
}

var errInjected = errors.New("injected")

func (f *fake) step() error {
	f.count++
	if f.count == f.failAt {
		return errInjected
	}
	return nil
}

func (f *fake) ReadFile(ctx context.Context, p string) ([]byte, error) {
	return f.neighbours.ReadFile(ctx, p)
}
func (f *fake) ReadDir(ctx context.Context, p string) ([]string, error) {
	return f.neighbours.ReadDir(ctx, p)
}
func (f *fake) Links(_ context.Context) ([]host.Link, error)   { return snapshot().Links, nil }
func (f *fake) Addrs(_ context.Context) ([]host.Addr, error)   { return nil, nil }
func (f *fake) Routes(_ context.Context) ([]host.Route, error) { return nil, nil }
func (f *fake) Rules(_ context.Context) ([]host.Rule, error)   { return slices.Clone(f.rules), nil }
func (f *fake) Dump(context.Context, uint16) ([][]byte, error) { return nil, nil }
func (f *fake) Sysctl(context.Context, string) (string, error) { return "", fs.ErrNotExist }
func (f *fake) Readlink(_ context.Context, p string) (string, error) {
	return os.Readlink(filepath.Join(f.root, p))
}
func (f *fake) Stat(_ context.Context, p string) (host.FileStat, error) {
	info, err := os.Lstat(filepath.Join(f.root, p))
	if err != nil {
		return host.FileStat{}, err
	}
	return host.FileStat{Mode: info.Mode()}, nil
}

func (f *fake) AddRule(r host.Rule) error {
	if err := f.step(); err != nil {
		return err
	}
	f.rules = append(f.rules, r)
	return nil
}

func (f *fake) DelRule(r host.Rule) error {
	f.rules = slices.DeleteFunc(f.rules, func(o host.Rule) bool { return o == r })
	return nil
}

func (f *fake) PutFile(p string, text []byte, perm fs.FileMode) error {
	if err := errors.Join(host.OwnFile(p), f.step()); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(f.root, p), text, perm), os.Chmod(filepath.Join(f.root, p), perm))
}

func (f *fake) PutFolder(p string) error {
	if err := f.step(); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(f.root, p), 0o755)
}

func (f *fake) RemoveFile(p string) error {
	if err := f.step(); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(f.root, p))
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(filepath.Join(f.root, path.Dir(p), "."+path.Base(p)+".new")) // as the real one does
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f *fake) Stage(map[string][]byte) (string, func() error, error) {
	return "/staged", func() error { return nil }, nil
}

// Ask notes what is run. A reload of networkd makes it say by which file it configures each NIC.
func (f *fake) Ask(_ context.Context, _ []byte, name string, args ...string) (host.Answer, error) {
	said := strings.Join(append([]string{name}, args...), " ")
	f.asked = append(f.asked, said)
	if err := f.step(); err != nil {
		return host.Answer{}, err
	}
	if len(args) == 5 && strings.HasPrefix(said, "nmcli device set ") {
		return host.Answer{}, f.manages(args[2], args[4] == "yes")
	}
	if said != "networkctl reload" {
		return host.Answer{}, nil
	}
	for _, l := range snapshot().Links {
		text := "ADMIN_STATE=unmanaged\n"
		if at := "/etc/systemd/network/05-fabricform-lab-" + l.Name + ".network"; exists(f.root + at) {
			text = "ADMIN_STATE=configured\nNETWORK_FILE=" + at + "\n"
		}
		if err := os.WriteFile(f.root+"/run/systemd/netif/links/"+string(rune('0'+l.Index)), []byte(text), 0o600); err != nil {
			return host.Answer{}, err
		}
	}
	return host.Answer{}, nil
}

// manages makes NetworkManager manage a NIC or release it.
func (f *fake) manages(netdev string, yes bool) error {
	for _, l := range snapshot().Links {
		if l.Name == netdev {
			return os.WriteFile(fmt.Sprintf("%s/run/NetworkManager/devices/%d", f.root, l.Index), fmt.Appendf(nil, "[device]\nmanaged=%t\n", yes), 0o600)
		}
	}
	return fs.ErrNotExist
}

func exists(p string) bool { _, err := os.Lstat(p); return err == nil }

func newFake(t *testing.T) *fake {
	f := &fake{neighbours: neighbours{root: t.TempDir()}}
	dirs := append(slices.Clone(folders), "/run/systemd/netif/links", "/run/systemd/system", "/usr/local/lib", "/sys/fs/cgroup/system.slice/systemd-networkd.service")
	for _, d := range dirs {
		if slices.Contains([]string{"/etc/systemd/system.conf.d", wantsFolder}, d) {
			continue
		}
		if err := os.MkdirAll(f.root+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for p, text := range map[string]string{"/proc/sys/kernel/random/boot_id": "one\n", "/proc/uptime": "10.00 10.00\n", self: program} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(f.root+p), 0o755), os.WriteFile(f.root+p, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// tree is all of a host's files below /etc, as text.
func (f *fake) tree(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(f.root+"/etc", func(p string, d fs.DirEntry, err error) error {
		b.WriteString(strings.TrimPrefix(p, f.root) + "\n")
		if err == nil && !d.IsDir() {
			raw, readErr := os.ReadFile(p)
			b.Write(raw)
			return readErr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// now is the snapshot of the fake, and what the spec finds in it.
func (f *fake) now(t *testing.T, s Spec) (*facts.Snapshot, *Status) {
	t.Helper()
	snap := snapshot(networkd)
	snap.Files = map[string]facts.File{}
	for _, d := range folders {
		names, err := f.ReadDir(t.Context(), d)
		if err != nil {
			continue
		}
		snap.Folders = append(snap.Folders, d)
		for _, n := range names {
			got, err := facts.FileAt(t.Context(), f, d+"/"+n)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Mode.IsDir() {
				snap.Files[d+"/"+n] = *got
			}
		}
	}
	got, err := Observe(snap, s)
	if err != nil {
		t.Fatal(err)
	}
	got.InUse = nil // the snapshot is made by hand
	return snap, got
}

// ruleOf is a rule of the rich spec as this program made it.
func ruleOf(s Spec) host.Rule {
	p := s.NICs[0].Policies[0]
	return host.Rule{Priority: p.Priority, From: p.From, Table: p.Table, Family: 2, Protocol: 251}
}

// TestApplyFailingAnywhereLeavesNothing fails each write, reload and rule in turn.
func TestApplyFailingAnywhereLeavesNothing(t *testing.T) {
	for n := 1; ; n++ {
		f := newFake(t)
		f.rules, f.failAt = []host.Rule{ruleOf(rich())}, n
		before := f.tree(t)
		snap, got := f.now(t, rich())
		err := apply(t.Context(), f, snap, rich(), got, Diff(got))
		if f.count < n {
			if n < 10 || err != nil {
				t.Fatalf("only %d steps: %v", n, err)
			}
			return
		}
		if !errors.Is(err, errInjected) {
			t.Fatalf("step %d: %v", n, err)
		}
		if after := f.tree(t); after != before {
			t.Errorf("failing at step %d leaves\n%s", n, after)
		}
		if len(f.rules) != 1 || f.rules[0] != ruleOf(rich()) {
			t.Errorf("failing at step %d leaves rules %v", n, f.rules)
		}
	}
}

// managed is a fake whose managers are found, wherever the test runs.
type managed struct{ *fake }

func (managed) InLab() bool { return false }

// TestConformance runs each kind of the package on a host of files, whose managers do as they are told.
func TestConformance(t *testing.T) {
	t.Run(Kind, func(t *testing.T) {
		f := newFake(t)
		f.rules = []host.Rule{ruleOf(rich())}
		was := f.tree(t)
		kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: Kind, Host: managed{f}, Spec: rich(), There: true,
			Equal: func() bool { return f.tree(t) == was && slices.Equal(f.rules, []host.Rule{ruleOf(rich())}) }})
	})
	t.Run(KindProgram, func(t *testing.T) {
		f := newFake(t)
		kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: KindProgram, Host: managed{f}, Spec: Program{Fabric: "lab"},
			Equal: func() bool { return !exists(f.root + host.ProgramFolder) }})
	})
	t.Run(KindManager, func(t *testing.T) {
		f := newFake(t)
		if err := errors.Join(os.MkdirAll(f.root+"/run/NetworkManager/devices", 0o755),
			os.Rename(f.root+"/sys/fs/cgroup/system.slice/systemd-networkd.service", f.root+"/sys/fs/cgroup/system.slice/NetworkManager.service")); err != nil {
			t.Fatal(err)
		}
		for _, netdev := range []string{"ens1f0", "ens2f0"} {
			if err := f.manages(netdev, true); err != nil {
				t.Fatal(err)
			}
		}
		kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: KindManager, Host: managed{f}, Spec: rich(), There: true})
	})
}

func TestApplyThenDiffIsEmptyAndRemovalIsExact(t *testing.T) {
	f := newFake(t)
	f.rules = []host.Rule{ruleOf(rich())}
	before := f.tree(t)
	snap, got := f.now(t, rich())
	atoms := make([]resource.Atom, 0, len(Diff(got)))
	for _, c := range Diff(got) {
		atoms = append(atoms, c.Atom)
	}
	part, err := provider{}.Restorer().Save(t.Context(), f, atoms)
	if err != nil {
		t.Fatal(err)
	}
	if err := apply(t.Context(), f, snap, rich(), got, Diff(got)); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(f.asked, "; "); said != "systemctl daemon-reload; udevadm control --reload; networkctl reload" {
		t.Errorf("managers were asked: %s", said)
	}
	if _, got = f.now(t, rich()); len(Diff(got)) > 0 {
		t.Error(Diff(got))
	}
	made := f.tree(t)

	if differs, err := (provider{}).Restorer().Restore(t.Context(), f, part); err != nil || differs != nil {
		t.Fatal(differs, err)
	}
	if after := f.tree(t); after != before {
		t.Errorf("restored, there is\n%s", after)
	}
	// A reset came in the middle of a write.
	half := f.root + "/etc/systemd/system.conf.d/.fabricform-lab.conf.new"
	if err := errors.Join(os.Mkdir(path.Dir(half), 0o755), os.WriteFile(half, []byte("# Made"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if differs, err := (provider{}).Restorer().Restore(t.Context(), f, part); err != nil || differs != nil || f.tree(t) != before {
		t.Errorf("after a reset in the middle of a write: %v, %v\n%s", differs, err, f.tree(t))
	}

	snap, got = f.now(t, rich())
	if err := apply(t.Context(), f, snap, rich(), got, Diff(got)); err != nil || f.tree(t) != made {
		t.Fatal(err, f.tree(t))
	}
	snap, _ = f.now(t, rich())
	for _, a := range atoms {
		if live := (provider{}).live(snap, a); live == "" {
			t.Errorf("%s is not live", a)
		}
		if err := (provider{}).ApplyUndo(t.Context(), f, snap, a, ""); err != nil {
			t.Error(err)
		}
	}
	for _, a := range atoms { // folders, once they are empty
		if err := (provider{}).ApplyUndo(t.Context(), f, snap, a, ""); err != nil {
			t.Error(err)
		}
	}
	if after := f.tree(t); after != before {
		t.Errorf("given back, there is\n%s", after)
	}

	snap, got = f.now(t, rich())
	if err := apply(t.Context(), f, snap, rich(), got, Diff(got)); err != nil || f.tree(t) != made {
		t.Fatal(err, f.tree(t))
	}
	snap, _ = f.now(t, rich())
	f.asked = nil
	if err := (provider{}).ApplyUndos(t.Context(), f, snap, atoms); err != nil {
		t.Error(err)
	}
	if after := f.tree(t); after != before {
		t.Errorf("given back together, there is\n%s", after)
	}
	if n := strings.Count(strings.Join(f.asked, "\n"), "networkctl reload"); n != 1 {
		t.Errorf("networkd reads its files %d times on the way: %q", n, f.asked)
	}
}

// TestRestoreGoesOnPastAStepThatFails fails each step of a way back in turn: all others are made, what
// is left is said, and a second try ends it.
func TestRestoreGoesOnPastAStepThatFails(t *testing.T) {
	for n := 2; ; n++ { // the first writes the mark, without which the way back goes on
		f := newFake(t)
		before := f.tree(t)
		snap, got := f.now(t, rich())
		atoms := make([]resource.Atom, 0, len(got.Wanted))
		for _, c := range Diff(got) {
			atoms = append(atoms, c.Atom)
		}
		part, err := provider{}.Restorer().Save(t.Context(), f, atoms)
		if err != nil {
			t.Fatal(err)
		}
		if err := apply(t.Context(), f, snap, rich(), got, Diff(got)); err != nil {
			t.Fatal(err)
		}
		f.count, f.failAt = 0, n
		differs, err := provider{}.Restorer().Restore(t.Context(), f, part)
		if f.count < n {
			if n < 10 || err != nil || differs != nil {
				t.Fatalf("only %d steps: %v, %v", n, differs, err)
			}
			return
		}
		if !errors.Is(err, errInjected) {
			t.Fatalf("step %d: %v", n, err)
		}
		if len(differs) > 2 { // a file, and the folder that it keeps
			t.Errorf("failing at step %d leaves %v", n, differs)
		}
		f.failAt = 0
		if differs, err := (provider{}).Restorer().Restore(t.Context(), f, part); err != nil || differs != nil || f.tree(t) != before {
			t.Errorf("failing at step %d, then not: %v, %v", n, differs, err)
		}
		for _, l := range snapshot().Links { // a reload that failed is made up for
			state, err := os.ReadFile(f.root + "/run/systemd/netif/links/" + string(rune('0'+l.Index)))
			if err != nil || strings.Contains(string(state), "NETWORK_FILE") {
				t.Errorf("failing at step %d, then not: networkd configures %s by %q, %v", n, l.Name, state, err)
			}
		}
	}
}

// losing is a host whose manager takes a NIC's MTU along when it drops it.
type losing struct {
	*fake
	mtu int
}

func (l *losing) Links(_ context.Context) ([]host.Link, error) {
	links := snapshot().Links
	links[0].MTU = l.mtu
	return links, nil
}

func (l *losing) SetMTU(_ int, mtu int) error {
	l.mtu = mtu
	return nil
}

// TestWhatAManagerDroppedIsPutBack: one whose reload fails may have dropped the NIC all the same.
func TestWhatAManagerDroppedIsPutBack(t *testing.T) {
	for _, fails := range []error{nil, errInjected} {
		h := &losing{newFake(t), 9000}
		err := reloadKeeping(t.Context(), h, []string{"ens1f0"}, func() error {
			h.mtu = 1500
			return fails
		})
		if !errors.Is(err, fails) || h.mtu != 9000 {
			t.Errorf("reload fails with %v: mtu %d, %v", fails, h.mtu, err)
		}
	}
}

// generating is a losing host on which a NIC loses its MTU when netplan writes the files of a manager.
type generating struct{ *losing }

func (g *generating) Ask(ctx context.Context, stdin []byte, name string, args ...string) (host.Answer, error) {
	if name == "netplan" {
		g.mtu = 1500
	}
	return g.losing.Ask(ctx, stdin, name, args...)
}

// TestWhatNetworkManagerMakesAgainIsNotKept: it makes a bond that an apply has removed, and takes its members, until its file is gone. Nothing of
// this is put back, but a member of a bond that the apply leaves. networkd makes nothing again.
func TestWhatNetworkManagerMakesAgainIsNotKept(t *testing.T) {
	const bond = "network:\n  ethernets:\n    p0:\n      set-name: \"ens1f0\"\n  bonds:\n    b0:\n      # device: b0\n"
	for name, c := range map[string]struct {
		unit    string
		changed []resource.Atom
		mtu     int
	}{
		"a member leaves, with NetworkManager": {"NetworkManager.service", []resource.Atom{"bond b0 device", "bond b0 member ens1f0"}, 1500},
		"a bond stays":                         {"NetworkManager.service", []resource.Atom{"bond b0 mode"}, 9000},
		"another member leaves":                {"NetworkManager.service", []resource.Atom{"bond b0 member ens2f0"}, 9000},
		"a member leaves, with networkd":       {"systemd-networkd.service", []resource.Atom{"bond b0 device", "bond b0 member ens1f0"}, 9000},
	} {
		h := &generating{&losing{newFake(t), 9000}}
		services := h.root + "/sys/fs/cgroup/system.slice/"
		if err := errors.Join(os.Remove(services+"systemd-networkd.service"), os.Mkdir(services+c.unit, 0o755)); err != nil {
			t.Fatal(err)
		}
		ctx := resource.WithChanged(t.Context(), c.changed)
		err := reread(ctx, h, []step{{path: "/etc/netplan/90-fabricform-lab.yaml", was: &facts.File{Text: bond}}})
		if err != nil || h.mtu != c.mtu {
			t.Errorf("%s: the NIC has MTU %d, want %d, %v", name, h.mtu, c.mtu, err)
		}
	}
}

// slow is a losing host whose networkd says for a while that it uses a file that is gone, and then drops the NIC.
type slow struct {
	*losing
	reads int
}

func (*slow) InLab() bool { return false }

func (s *slow) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if path != "/run/systemd/netif/links/2" {
		return s.losing.ReadFile(ctx, path)
	}
	if s.reads++; s.reads < 4 {
		return []byte("ADMIN_STATE=configured\nNETWORK_FILE=/run/systemd/network/10-netplan-b0.network\n"), nil
	}
	if s.reads == 4 {
		s.mtu = 1500
	}
	return []byte("ADMIN_STATE=unmanaged\n"), nil
}

// TestAManagerMayUseAFileOfAFrontForAWhile that is gone: what it drops at the end is put back all the same.
func TestAManagerMayUseAFileOfAFrontForAWhile(t *testing.T) {
	h := &slow{losing: &losing{newFake(t), 9000}}
	if at := snapshot().Links[0].Index; at != 2 {
		t.Fatal(at)
	}
	if err := reloadKeeping(t.Context(), h, []string{"ens1f0"}, func() error { return nil }); err != nil || h.mtu != 9000 || h.reads < 4 {
		t.Errorf("MTU %d after %d readings, %v", h.mtu, h.reads, err)
	}
}

// routed is a host of routes alone.
type routed struct {
	*fake
	routes []host.Route
}

func (r *routed) Routes(_ context.Context) ([]host.Route, error) { return slices.Clone(r.routes), nil }

func (r *routed) ReplaceRoute(o host.Route) error {
	if !slices.Contains(r.routes, o) {
		r.routes = append(r.routes, o)
	}
	return nil
}

func (r *routed) DelRoute(o host.Route) error {
	r.routes = slices.DeleteFunc(r.routes, func(x host.Route) bool { return x == o })
	return nil
}

// TestTwinsGoWithTheirPledge: those that a killed helper left behind, too; what others have in a twin's
// place stays.
func TestTwinsGoWithTheirPledge(t *testing.T) {
	ours := host.Route{Table: 254, Dst: netip.MustParsePrefix("10.30.0.0/16"), Via: netip.MustParseAddr("10.20.0.254"), OutIndex: 2, Metric: 50, Protocol: netif.Protocol, Type: 1}
	twin := ours
	twin.Metric, twin.Protocol = 51, protocolKernel
	others := twin
	others.Via = netip.MustParseAddr("10.20.0.253")
	for name, c := range map[string]struct{ before, during, after []host.Route }{
		"nothing in its place": {[]host.Route{ours}, []host.Route{ours, twin}, []host.Route{ours}},
		"left behind":          {[]host.Route{ours, twin}, []host.Route{ours, twin}, []host.Route{ours}},
		"another's":            {[]host.Route{ours, others}, []host.Route{ours, others}, []host.Route{ours, others}},
	} {
		h := &routed{newFake(t), slices.Clone(c.before)}
		release, err := pledge(t.Context(), h, snapshot(netplan, networkd), rich())
		if err != nil || !slices.Equal(h.routes, c.during) {
			t.Fatalf("%s: %v, %v", name, h.routes, err)
		}
		if err := release(); err != nil || !slices.Equal(h.routes, c.after) {
			t.Errorf("%s: released, %v, %v", name, h.routes, err)
		}
	}
}

// TestAFrontsDevicesRestartTheManagerBehindIt, and its other files do not.
func TestAFrontsDevicesRestartTheManagerBehindIt(t *testing.T) {
	front := netmanager.Lookup("netplan")
	for _, devices := range []bool{true, false} {
		f := newFake(t)
		read := map[*netmanager.Manager]bool{front: true}
		if err := netmanager.Reload(t.Context(), f, read, map[*netmanager.Manager]bool{front: devices}, nil); err != nil {
			t.Fatal(err)
		}
		want := []string{"netplan generate", "networkctl reload"}
		if devices {
			want[1] = "systemctl restart systemd-networkd.service"
		}
		if !slices.Equal(f.asked, want) {
			t.Errorf("with devices %t: %q", devices, f.asked)
		}
	}
	f := newFake(t)
	services := f.root + "/sys/fs/cgroup/system.slice/"
	if err := os.Rename(services+"systemd-networkd.service", services+"NetworkManager.service"); err != nil {
		t.Fatal(err)
	}
	if err := netmanager.Reload(t.Context(), f, map[*netmanager.Manager]bool{front: true}, map[*netmanager.Manager]bool{front: true}, nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{"netplan generate", "nmcli connection reload"}; !slices.Equal(f.asked, want) {
		t.Errorf("NetworkManager needs no restart: %q", f.asked)
	}
}
