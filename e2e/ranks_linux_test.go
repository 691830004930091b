//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/validators"
	"github.com/fabricform/fabricform/view"
)

// rankHost names the host that this process is to become, and rankEtc the folder that is its /etc.
const (
	rankHost = "FABRICFORM_TEST_RANK_HOST"
	rankEtc  = "FABRICFORM_TEST_RANK_ETC"
)

// rankHostMain is a host of ranks: namespaces of its own, whose /etc is a copy. It becomes the program whose
// arguments stand behind "--": the real helper, mostly.
func rankHostMain() int {
	start := os.NewFile(3, "start")
	_, err := io.Copy(io.Discard, start) // ends when the network is in place
	if err := errors.Join(err, start.Close()); err != nil {
		fmt.Fprintln(os.Stderr, "wait for the network:", err)
		return 1
	}
	mount := func(source, target, kind string, flags uintptr) error {
		if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", source, target, err)
		}
		return nil
	}
	err = errors.Join(syscall.Sethostname([]byte(os.Getenv(rankHost))), mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE),
		mount(os.Getenv(rankEtc), "/etc", "", syscall.MS_BIND))
	if mount("sysfs", "/sys", "sysfs", syscall.MS_RDONLY) != nil { // shows this namespace's interfaces
		fmt.Fprintln(os.Stderr, "/sys is the machine's: speeds of interfaces are not known")
	}
	if lo, lost := netlink.LinkByName("lo"); lost == nil {
		err = errors.Join(err, netlink.LinkSetUp(lo))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for i, a := range os.Args {
		if a == "--" {
			err := syscall.Exec(os.Args[i+1], os.Args[i+1:], os.Environ())
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	fmt.Fprintln(os.Stderr, "there is no program to become")
	return 1
}

// rankFleet asks helpers over pipes, and keeps what ranks print below out.
type rankFleet struct {
	clients   map[string]*agent.Client
	etc       map[string]string
	pids      map[string]int
	out, name string // folder, and how the files of a case begin
}

func (f *rankFleet) Snapshot(ctx context.Context, host string) (*facts.Snapshot, error) {
	r, err := calls.Snapshot.Call(ctx, f, host, calls.SnapshotParams{Resources: providers.Looks(&fabric.Fabric{}, &fabric.Host{})}) // with nccl.conf
	return r.Snapshot, err
}

// Call calls a helper, and writes the output of ranks to files.
func (f *rankFleet) Call(ctx context.Context, host, method string, params, result any) error {
	err := f.clients[host].Call(ctx, host, method, params, result)
	if ranks, are := result.(*[]probe.CollectiveRank); are {
		for _, rank := range *ranks {
			base := filepath.Join(f.out, fmt.Sprintf("%s-%s-rank%d", f.name, host, rank.Rank))
			err = errors.Join(err, os.WriteFile(base+".log", rank.Log, 0o644), os.WriteFile(base+".jsonl", rank.Out, 0o644))
		}
	}
	return err
}

// startHost starts this test as a host in namespaces of its own. begin lets it go on.
func startHost(t *testing.T, name, etc string, more []string, args ...string) (cmd *exec.Cmd, begin func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command("/proc/self/exe", append([]string{"-test.run=^$"}, args...)...)
	cmd.Env = append(append(os.Environ(), rankHost+"="+name, rankEtc+"="+etc), more...)
	cmd.ExtraFiles, cmd.Dir = []*os.File{r}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC}
	t.Cleanup(func() { r.Close(); w.Close() })
	return cmd, func() { w.Close() }
}

// ownEtc copies the machine's /etc for a host, without an nccl.conf.
func ownEtc(t *testing.T) string {
	t.Helper()
	etc := filepath.Join(t.TempDir(), "etc")
	out, err := exec.Command("cp", "-a", "/etc", etc).CombinedOutput()
	if err != nil { // a file may have gone meanwhile
		out, err = exec.Command("cp", "-a", "-T", "/etc", etc).CombinedOutput()
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(etc, "nccl.conf")); err != nil {
		t.Fatal(err)
	}
	return etc
}

// pipe is both ends of a helper's stream.
type pipe struct {
	io.Reader
	io.WriteCloser
}

// twoHosts starts helpers a and b with cables rail0, rail1 and meet0 between them, all made inside
// their own namespaces: 10.77.0.1 and .2, 10.77.1.1 and .2, 10.78.0.1 and .2.
func twoHosts(t *testing.T, environ func(i int) []string) *rankFleet {
	t.Helper()
	return someHosts(t, []string{"a", "b"}, environ, func(f *rankFleet) {
		for k, cable := range []string{"rail0", "rail1", "meet0"} {
			lay(t, f, cable, []string{"10.77.0.%d/30", "10.77.1.%d/30", "10.78.0.%d/30"}[k])
		}
	})
}

// someHosts starts helpers, which find the network that join makes.
func someHosts(t *testing.T, names []string, environ func(i int) []string, join func(*rankFleet)) *rankFleet {
	t.Helper()
	f := &rankFleet{clients: map[string]*agent.Client{}, etc: map[string]string{}, pids: map[string]int{}, out: t.TempDir()}
	streams := map[string]pipe{}
	var begin []func()
	for i, name := range names {
		f.etc[name] = ownEtc(t)
		cmd, start := startHost(t, name, f.etc[name], environ(i), "--", bin, "agent")
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		cmd.Stderr = os.Stderr
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		f.pids[name], streams[name] = cmd.Process.Pid, pipe{out, in}
		begin = append(begin, start)
	}
	join(f)
	for i, name := range names {
		begin[i]()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var err error
		if f.clients[name], err = agent.Connect(ctx, streams[name], build, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.clients[name].Close)
	}
	return f
}

// lay makes a cable between the hosts' namespaces; nothing is made in the machine's own.
func lay(t *testing.T, f *rankFleet, name, address string) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := f.inside(t, "a").LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name, PeerNamespace: netlink.NsPid(f.pids["b"])}); err != nil {
		t.Fatalf("make cable %s: %v", name, err)
	}
	for i, host := range []string{"a", "b"} {
		f.address(t, host, name, fmt.Sprintf(address, i+1))
		h := f.inside(t, host)
		l, err := h.LinkByName(name)
		if err == nil {
			err = h.LinkSetUp(l)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// inside is a netlink handle in a host's network namespace.
func (f *rankFleet) inside(t *testing.T, host string) *netlink.Handle {
	t.Helper()
	ns, err := netns.GetFromPid(f.pids[host])
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// address gives an interface one address in the place of all others.
func (f *rankFleet) address(t *testing.T, host, dev, address string) {
	t.Helper()
	h := f.inside(t, host)
	l, err := h.LinkByName(dev)
	if err != nil {
		t.Fatal(err)
	}
	old, err := h.AddrList(l, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	p := netip.MustParsePrefix(address)
	err = h.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}})
	for _, a := range old {
		err = errors.Join(err, h.AddrDel(l, &a))
	}
	if err != nil {
		t.Fatalf("address of %s on %s: %v", dev, host, err)
	}
}

// verdicts are results as lines, for a person and for a test.
func verdicts(results []validators.Result) string {
	var out strings.Builder
	for _, r := range results {
		host := r.Host
		if host == "" && len(r.Hosts) > 0 {
			host = r.Hosts[0]
		}
		fmt.Fprintf(&out, "%s %s %s: %s (want %s) %s\n", r.Verdict, host, view.What(r), view.Measured(r), view.Expected(r), view.Why(r))
	}
	return out.String()
}

// plug joins hosts by a switch in the first one's namespace, as rail0: 10.77.0.1, .2 and so on.
func plug(t *testing.T, f *rankFleet, names []string) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "switch"
	first := f.inside(t, names[0])
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	// Without ARP it does not speak for the host's own address.
	err := errors.Join(first.LinkAdd(bridge), first.LinkSetARPOff(bridge), first.LinkSetUp(bridge))
	for _, name := range names {
		attrs.Name = "to-" + name
		err = errors.Join(err, first.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "rail0", PeerNamespace: netlink.NsPid(f.pids[name])}))
		port, lost := first.LinkByName(attrs.Name)
		if err = errors.Join(err, lost); err != nil {
			t.Fatal(err)
		}
		h := f.inside(t, name)
		end, lost := h.LinkByName("rail0")
		if err = errors.Join(err, lost, first.LinkSetMaster(port, bridge), first.LinkSetUp(port)); err != nil {
			t.Fatal(err)
		}
		err = h.LinkSetUp(end)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		f.address(t, name, "rail0", fmt.Sprintf("10.77.0.%d/24", i+1))
	}
}
