package launch

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl"
)

var update = flag.Bool("update", false, "rewrite expected files; read the diff")

// shown is how many hosts of an example are rendered: a page tells no more than that.
const shown = 3

// hostsOf makes hosts as an example declares them: each NIC is there, with its addresses, and an RDMA
// device of the name that rdma-core would give it. Soft-RoCE examples have the devices that they declare.
func hostsOf(f *fabric.Fabric) map[string]*facts.Snapshot {
	out := map[string]*facts.Snapshot{}
	for i, h := range f.Hosts[:min(len(f.Hosts), shown)] {
		management := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)}), 24)
		if a, err := netip.ParseAddr(h.Address); err == nil {
			management = netip.PrefixFrom(a, 24)
		}
		s := &facts.Snapshot{System: facts.System{Hostname: h.Name}, Links: []host.Link{{Index: 1, Name: "mgmt0"}}, Addrs: []host.Addr{{Index: 1, Prefix: management}},
			Management: facts.Management{Server: management.Addr()}}
		for g := range 8 {
			s.GPUs = append(s.GPUs, facts.GPU{Index: g})
		}
		for n, nic := range h.NICs {
			s.Links = append(s.Links, host.Link{Index: n + 2, Name: nic.Netdev, Up: true})
			device := facts.RDMADevice{Name: fmt.Sprintf("mlx5_%d", n), Port: 1, State: "ACTIVE", LinkLayer: "Ethernet", Netdev: nic.Netdev}
			if rest, found := strings.CutPrefix(nic.Netdev, "en"); found {
				device.Name = "roce" + strings.TrimSuffix(strings.TrimSuffix(rest, "np0"), "np1")
			}
			for _, x := range h.RXE {
				if x.NIC == nic.Ref() {
					device.Name, device.Virtual = x.Name, true
				}
			}
			add := func(a netip.Addr) {
				for version := 1; version <= 2; version++ {
					device.GIDs = append(device.GIDs, facts.GID{Index: len(device.GIDs), Addr: netip.AddrFrom16(a.As16()), Version: version, Netdev: nic.Netdev})
				}
			}
			add(netip.MustParseAddr(fmt.Sprintf("fe80::%d", n+1)))
			for _, a := range nic.Addresses {
				s.Addrs = append(s.Addrs, host.Addr{Index: n + 2, Prefix: a})
				add(a.Addr())
			}
			s.RDMA = append(s.RDMA, device)
		}
		out[h.Name] = s
	}
	return out
}

func TestExamplesRendered(t *testing.T) {
	examples, err := filepath.Glob("../../examples/*.hcl")
	if err != nil || len(examples) < 7 {
		t.Fatal(examples, err)
	}
	for _, example := range examples {
		f, _, diags := config.Load(example, config.Options{Version: "0.1.0"})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		job := New(f, hostsOf(f))
		for _, h := range job.Hosts {
			if len(h.Problems) > 0 {
				t.Errorf("%s: host %s: %q", example, h.Name, h.Problems)
			}
		}
		name := strings.TrimSuffix(filepath.Base(example), ".hcl")
		for _, format := range Names() {
			expect(t, name, format, job)
		}
		text, err := KubernetesNode(f)
		if err != nil {
			t.Fatal(err)
		}
		expectText(t, name, "kubernetes-node", append([]byte("-- node.yaml --\n"), text...))
	}
}

// expect compares what a format renders with the expected file. A refusal is expected in the same way.
func expect(t *testing.T, name, format string, job Job) {
	t.Helper()
	var got []byte
	files, err := Render(format, job)
	if err != nil {
		got = fmt.Appendf(nil, "refused: %v\n", err)
	}
	for _, f := range files {
		got = append(append(got, "-- "+f.Name+" --\n"...), f.Text...)
	}
	expectText(t, name, format, got)
}

// expectText compares a text with the expected file.
func expectText(t *testing.T, name, format string, got []byte) {
	t.Helper()
	golden := filepath.Join("testdata", name, format+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s as %s: %s", name, format, d)
	}
}

// TestNoLauncherHasASensitiveValue: each says which variable it leaves out.
func TestNoLauncherHasASensitiveValue(t *testing.T) {
	s := fabric.Secrets{}
	hidden := nccl.Setting{Name: "NCCL_X", Value: s.Hide("hunter2", strings.Repeat("1", 32)), Reason: "r"}
	host := Host{Name: "a", Hostname: "a", Address: "a", Env: nccl.Env{hidden, {Name: "NCCL_Y", Value: "1", Reason: "r"}}}
	for _, f := range Formats {
		text := rendered(t, f.Name, Job{Fabric: "f", Hosts: []Host{host}})
		if strings.Contains(string(text), "NCCL_X=") || strings.Contains(string(text), "(sensitive ") || !strings.Contains(string(text), "# Left out, because their values are sensitive: NCCL_X.") ||
			strings.Contains(string(text), "#!") && !strings.HasPrefix(string(text), "#!") || !strings.Contains(string(text), "NCCL_Y") {
			t.Errorf("%s:\n%s", f.Name, text)
		}
	}
}
