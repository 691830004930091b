package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestImportedFabricsAreThoseOfTheHosts: a random fabric is applied and imported. The plan of the imported files is empty, fmt changes
// nothing in them, and applied on fresh hosts they give the same kernel state. FABRICFORM_SEED runs one case.
func TestImportedFabricsAreThoseOfTheHosts(t *testing.T) {
	together(t)
	seeds := 6
	if full() {
		seeds = 200
	}
	which := make([]uint64, seeds)
	for i := range which {
		which[i] = uint64(i)
	}
	if one, err := strconv.ParseUint(os.Getenv("FABRICFORM_SEED"), 10, 64); err == nil {
		which = []uint64{one}
	}
	var fabrics, refused, hosts, wrote, imported atomic.Int64
	t.Cleanup(func() {
		t.Logf("figure: %d fabrics of %d hosts imported, %d could not be applied; %.1f lines of HCL a host where %.1f were written by hand",
			fabrics.Load(), hosts.Load(), refused.Load(), float64(imported.Load())/float64(hosts.Load()), float64(wrote.Load())/float64(hosts.Load()))
		if imported.Load()*2 > wrote.Load()*3 {
			t.Errorf("%d lines were imported where %d were written", imported.Load(), wrote.Load())
		}
	})
	for _, seed := range which {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			d := newDraft(rand.New(rand.NewPCG(seed, 22)), fmt.Sprintf("import-%d", seed))
			dir := t.TempDir()
			file := filepath.Join(dir, "by-hand.hcl")
			write := func(text string) {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(d.text(true))
			first := filepath.Join(dir, "first")
			t.Cleanup(func() { try(t, first, "lab", "down", file) })
			try(t, first, "lab", "up", "-sshd", sshd, file).want(t, 0)
			write(d.text(false))
			if a := try(t, first, "apply", "-lab", "-auto-approve", "-no-verify", file); a.code != 0 {
				refused.Add(1)
				return
			}
			to := filepath.Join(dir, "imported")
			try(t, first, "import", "-lab", "-listen=1s", "-out", to, file).want(t, 0, "Wrote ")
			text, err := os.ReadFile(filepath.Join(to, "fabric.hcl"))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("by hand:\n%s\nimported:\n%s", d.text(false), text)
			emptyButComments(t, try(t, first, "plan", "-lab", "-detailed-exitcode", to))
			try(t, first, "fmt", "-check", to).want(t, 0)
			fabrics.Add(1)
			hosts.Add(int64(len(d.hosts)))
			wrote.Add(codeLines(d.text(false)))
			imported.Add(codeLines(string(text)))

			second := filepath.Join(dir, "second")
			t.Cleanup(func() { try(t, second, "lab", "down", to) })
			try(t, second, "lab", "up", "-sshd", sshd, to).want(t, 0)
			try(t, second, "apply", "-lab", "-auto-approve", "-no-verify", to).want(t, 0)
			was, is := kernelStates(t, first, d.name), kernelStates(t, second, d.name)
			for host, before := range was {
				for name, thing := range before {
					if got, there := is[host][name]; !there || got.value != thing.value {
						t.Errorf("host %s: %s was %q, and is %q", host, name, thing.value, got.value)
					}
				}
				for name, thing := range is[host] {
					if _, there := before[name]; !there {
						t.Errorf("host %s: %s is new: %q", host, name, thing.value)
					}
				}
			}
		})
	}
}

// emptyButComments fails unless the plan is empty. The comments of nccl.conf name NICs as the files do, so that this file may change, but
// none of its settings.
func emptyButComments(t *testing.T, a answer) {
	t.Helper()
	if a.code == 0 {
		return
	}
	for line := range strings.Lines(a.out) {
		line = strings.TrimSpace(line)
		sign, _, _ := strings.Cut(line, " ")
		if strings.Contains("~+-✗", sign) && sign != "" && !strings.HasPrefix(line, "~ nccl.file") && !strings.HasPrefix(line, "~ file /etc/nccl.conf ") {
			t.Fatalf("the plan has a change: %s", line)
		}
	}
	if a.code != 2 {
		t.Fatalf("exit %d", a.code)
	}
}

// codeLines counts the lines that declare something.
func codeLines(text string) (n int64) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// apart are things that differ between two hosts that were configured alike: hardware addresses, what the kernel makes of them, its own
// routes to local addresses, which come and go with the carrier (the cable of a NIC that is down is not found), and files, whose comments
// name the blocks.
var apart = regexp.MustCompile(`( mac| index| master| queue length|fe80::.*|address_gen.*)$|^file |ff00::|stable_secret|^kernel's route (255 |.*fe80)|^sysctl net/(ipv6/route|netfilter|ipv4/tcp_fastopen)`)

func kernelStates(t *testing.T, state_, fabric string) map[string]state {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(state_, "fabricform", "lab", fabric, "lab.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lab struct {
		Hosts map[string]struct{ Process struct{ PID int } }
	}
	if err := json.Unmarshal(raw, &lab); err != nil {
		t.Fatal(err)
	}
	out := map[string]state{}
	for host, h := range lab.Hosts {
		k, err := openKernel(host, h.Process.PID)
		if err != nil {
			t.Fatal(err)
		}
		defer k.close()
		if err := k.settle(); err != nil {
			t.Log(err) // a NIC without a cable never runs
		}
		s, err := k.look()
		if err != nil {
			t.Fatal(err)
		}
		for name := range s {
			if apart.MatchString(name) || strings.Contains(name, "address fe80") {
				delete(s, name)
			}
		}
		out[host] = s
	}
	return out
}

// TestHandMadeHostsAreImportedWithTheirTraps: two servers as field notes leave them. Both cables are in one subnet, nccl.conf has a quoted
// value, a bridge, routes that no block can declare, and a NIC without IPv6. The traps are named, the files load, and their plan is empty.
func TestHandMadeHostsAreImportedWithTheirTraps(t *testing.T) {
	together(t)
	dir := t.TempDir()
	bare := filepath.Join(dir, "bare.hcl")
	text := `fabric "handmade" {}`
	for _, host := range []string{"a", "b"} {
		text += fmt.Sprintf("\nhost %q {\n  address = \"10.0.0.1%d\"\n  nic \"x\" { netdev = \"ens19f0np0\" }\n  nic \"y\" { netdev = \"ens19f1np1\" }\n  nic \"z\" { netdev = \"xgbe0\" }\n}\n", host, len(text)%7)
	}
	for _, nic := range []string{"x", "y", "z"} {
		text += fmt.Sprintf("link %q { endpoints = [host.a.nic.%s, host.b.nic.%[2]s] }\n", nic, nic)
	}
	if err := os.WriteFile(bare, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	state := labUpFor(t, bare)
	run := func(host string, commands ...string) {
		t.Helper()
		inside(t, state, bare, host, "sh", "-ec", strings.Join(commands, "\n"))
	}
	for i, host := range []string{"a", "b"} {
		run(host, fmt.Sprintf("ip addr add 192.168.88.%d/24 dev ens19f0np0", i+1), "ip link set ens19f0np0 up mtu 9000",
			fmt.Sprintf("ip addr add 192.168.88.%d/24 dev ens19f1np1", 11*(i+1)), "ip link set ens19f1np1 up mtu 9000",
			fmt.Sprintf("ip addr add 192.168.0.%d/24 dev xgbe0", i+2), "ip link set xgbe0 up mtu 4200",
			fmt.Sprintf("ip route add 10.0.0.0/8 via 192.168.0.1 dev xgbe0 src 192.168.0.%d table 100", i+2),
			fmt.Sprintf("ip rule add priority 10000 from 192.168.0.%d lookup 100", i+2),
			"ip route append 10.83.0.0/24 via 192.168.0.1", "ip route append 10.83.0.0/24 via 192.168.0.9", "ip route add 10.64.0.0/24 via 192.168.0.1 tos 8",
			"ip -6 route add fd66::/64 dev xgbe0 expires 1000", "ip rule add from 10.1.7.1 blackhole", "sysctl -qw net.ipv6.conf.ens19f0np0.disable_ipv6=1",
			"ip link add br7 type bridge", "ip route add 172.30.0.0/16 via 192.168.0.1 dev xgbe0 proto bgp",
			"printf 'NCCL_IB_GID_INDEX=3\\nNCCL_DEBUG=\"INFO\"\\nNCCL_IB_HCA=mlx5_0, mlx5_1\\nexport NCCL_IB_TC=106\\n' > /etc/nccl.conf")
	}
	to := filepath.Join(dir, "imported")
	try(t, state, "import", "-lab", "-listen=2s", "-out", to, bare).want(t, 0, "left out: link a-b-rail", "Two direct links in one subnet", "left out: NCCL_IB_HCA: Space in", "Wrote ")
	raw, err := os.ReadFile(filepath.Join(to, "fabric.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", raw)
	for _, want := range []string{"# link ", "br7 is a bridge: not imported", "route 172.30.0.0/16 via 192.168.0.1 dev xgbe0: it was learned (protocol 186)",
		"route 10.83.0.0/24 via 192.168.0.1 dev xgbe0: its table has another", "route 10.83.0.0/24 via 192.168.0.9 dev xgbe0: its table has another", "route 10.64.0.0/24 via 192.168.0.1 dev xgbe0: it is for packets with TOS 0x8",
		"route fd66::/64 dev xgbe0: it expires", "rule from 10.1.7.1/32 priority 9999: it leads to no table", `"ipv6.conf.disable_ipv6" = "1"`,
		"write = false", "# NCCL_IB_HCA is left out: Space in an NCCL list", "# NCCL_DEBUG is left out: Unknown word", `    NCCL_IB_GID_INDEX = "3"`, `line 4 of /etc/nccl.conf: NCCL takes "export NCCL_IB_TC" for`, "Quotes become part of the value", "from     = nic.", "priority = 10000", "mgmt0 carries your connection"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%q is not in the file", want)
		}
	}
	try(t, state, "plan", "-lab=handmade", "-detailed-exitcode", to).want(t, 0, "No changes")
	try(t, state, "fmt", "-check", to).want(t, 0)

	const all = "ip addr | sed 's/ tentative//'; ip route show table all | sed 's/ expires [0-9]*sec//'; ip rule; find /etc/nccl.conf /var/lib/fabricform -type f | xargs cksum"
	before := inside(t, state, bare, "a", "sh", "-c", all)
	try(t, state, "import", "-lab", "-listen=1s", "-out", to, bare).want(t, 1, "it has files of a fabric (fabric.hcl), which import never changes")
	try(t, state, "import", "-lab=handmade", "-persist", "-listen=1s", "-json", "-out", filepath.Join(dir, "again"), "a", "b").want(t, 0, `"hosts": 2`)
	after := inside(t, state, bare, "a", "sh", "-c", all)
	if before != after {
		t.Errorf("an import changed the host:\n%s\n%s", before, after)
	}
}

// TestWhatNoLinkCanCarryIsImportedAsItIs: ends with different MTUs, prefix lengths or subnets, a network where one host has another MTU, and
// two pairs of hosts with the same addresses. Each is a comment with its reason, the network has the other hosts, and the plan is empty.
func TestWhatNoLinkCanCarryIsImportedAsItIs(t *testing.T) {
	together(t)
	dir := t.TempDir()
	bare := filepath.Join(dir, "bare.hcl")
	text := `fabric "uneven" {}`
	for host, nics := range map[string]string{"a": "n m p s q t", "b": "n m p s q", "c": "n t"} {
		text += fmt.Sprintf("\nhost %q {\n", host)
		for nic := range strings.FieldsSeq(nics) {
			text += fmt.Sprintf("  nic %q { netdev = \"eth%[1]s\" }\n", nic)
		}
		text += "}\n"
	}
	for _, nic := range []string{"m", "p", "s", "q"} {
		text += fmt.Sprintf("link %q { endpoints = [host.a.nic.%[1]s, host.b.nic.%[1]s] }\n", nic)
	}
	text += "link \"t\" { endpoints = [host.a.nic.t, host.c.nic.t] }\nnetwork \"n\" { members = [host.a.nic.n, host.b.nic.n, host.c.nic.n] }\n"
	if err := os.WriteFile(bare, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	state := labUpFor(t, bare)
	for host, nics := range map[string][]string{
		"a": {"n 10.1.0.1/24 9000", "m 10.2.0.1/30 9000", "p 10.3.0.1/24 9000", "s 10.4.0.1/24 9000", "q 10.6.0.1/30 9000", "t 10.6.0.1/30 9000"},
		"b": {"n 10.1.0.2/24 9000", "m 10.2.0.2/30 1400", "p 10.3.0.2/30 9000", "s 10.5.0.1/24 9000", "q 10.6.0.2/30 9000"},
		"c": {"n 10.1.0.3/24 1500", "t 10.6.0.2/30 9000"},
	} {
		for _, nic := range nics {
			w := strings.Fields(nic)
			inside(t, state, bare, host, "sh", "-ec", fmt.Sprintf("ip addr add %s dev eth%s; ip link set eth%[2]s up mtu %s", w[1], w[0], w[2]))
		}
	}
	to := filepath.Join(dir, "k1")
	try(t, state, "import", "-lab", "-listen=2s", "-out", to, bare).want(t, 0, "The ends of the cable have different MTUs: a.rail0 has 9000, but b.rail0 has 1400",
		"is in 10.3.0.0/24, but", "is in 10.4.0.0/24, but", "Address used twice: 10.6.0.1", "Address used twice: 10.6.0.2", "fabricform plan -lab=uneven "+to)
	raw, err := os.ReadFile(filepath.Join(to, "fabric.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", raw)
	if want := "members = [host.a.nic.rail1, host.b.nic.rail1]"; !strings.Contains(string(raw), want) || !strings.Contains(string(raw), "# in no network: no NIC that it is connected with declares the same MTU and subnets (a.rail1, b.rail1)") {
		t.Errorf("%q is not in the file, or host c is not named", want)
	}
	try(t, state, "plan", "-lab=uneven", "-detailed-exitcode", to).want(t, 0, "No changes")
	try(t, state, "fmt", "-check", to).want(t, 0)
}

// TestAnImportedHostIsAdopted: the first apply of imported files records what it finds and changes nothing. What a later apply changes goes back
// to the adopted value. A block that is removed, and a destroy, leave the host as it was before all of it.
func TestAnImportedHostIsAdopted(t *testing.T) {
	together(t)
	dir := t.TempDir()
	bare := filepath.Join(dir, "bare.hcl")
	text := `fabric "before" {}
host "a" {
  address = "10.0.0.11"
  nic "x" { netdev = "ens19f0np0" }
}
host "b" {
  address = "10.0.0.12"
  nic "x" { netdev = "ens19f0np0" }
}
link "x" { endpoints = [host.a.nic.x, host.b.nic.x] }
`
	if err := os.WriteFile(bare, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	state := labUpFor(t, bare)
	for i, host := range []string{"a", "b"} {
		inside(t, state, bare, host, "sh", "-ec", fmt.Sprintf(`ip addr add 192.168.88.%d/24 dev ens19f0np0
ip link set ens19f0np0 up mtu 9000
ip route add 10.40.0.0/16 via 192.168.88.9 dev ens19f0np0 proto static
ip route add 10.0.0.0/8 via 192.168.88.9 dev ens19f0np0 table 100 proto static
ip rule add priority 10000 from 192.168.88.%[1]d lookup 100
sysctl -q net.ipv4.conf.all.arp_ignore=1 net.ipv6.conf.ens19f0np0.accept_ra=0`, i+1))
	}
	// All but counters, ages and what a router may say.
	const all = `ip -d addr | sed 's/ tentative//'; ip -d route show table all; ip -6 -d route show table all | grep -v '^local fe80'; ip rule; ip -6 rule
sysctl -a 2>/dev/null | grep -E '^net\.ipv[46]\.(conf|ip_forward|fib)' | grep -v stable_secret
find /etc -xdev -type f -exec cksum {} + 2>/dev/null | sort | cksum`
	inside(t, state, bare, "a", "sh", "-c", `until [ $(ip -6 addr show scope link | grep -c 'inet6 fe80') = 2 ] && ! ip addr | grep -q -e tentative -e NO-CARRIER; do sleep 0.1; done`)
	before := inside(t, state, bare, "a", "sh", "-c", all)
	asBefore := func(when string) {
		t.Helper()
		if d := cmp.Diff(strings.Split(before, "\n"), strings.Split(inside(t, state, bare, "a", "sh", "-c", all), "\n")); d != "" {
			t.Errorf("%s, host a is not as before:\n%s", when, d)
		}
	}
	to := filepath.Join(dir, "imported")
	file := filepath.Join(to, "fabric.hcl")
	run := func(arg ...string) answer { t.Helper(); return try(t, state, append(arg, "-lab=before", to)...) }
	try(t, state, "import", "-lab", "-listen=1s", "-out", to, bare).want(t, 0, "Wrote ")
	run("plan", "-detailed-exitcode").want(t, 0, "No changes", "a, b: adopted by the first apply, because they are as declared already: nic.rail0, ", "destroy leaves them")
	if !strings.HasPrefix(inside(t, state, bare, "a", "sh", "-c", "ls /var/lib/fabricform; echo none"), "none") {
		t.Error("import or plan has written a record")
	}
	run("apply", "-auto-approve", "-no-verify").want(t, 0, "No changes", "✓ a, b: ", " values each adopted, as before the first apply")
	asBefore("adopted")
	run("history").want(t, 0, "apply    0 changes, ", " values adopted on a, b")
	again := run("plan", "-detailed-exitcode")
	again.want(t, 0, "No changes")
	if strings.Contains(again.out, "adopted") {
		t.Errorf("the second apply would adopt again:\n%s", again.out)
	}
	run("show", "-host=a").want(t, 0, `owns `, "adopted: as before its first apply")

	inside(t, state, bare, "a", "ip", "link", "set", "ens19f0np0", "mtu", "4000")
	run("plan", "-detailed-exitcode").want(t, 2, "mtu", "4000 → 9000", "drifted")
	run("apply", "-auto-approve", "-no-verify").want(t, 0)
	asBefore("with its drift corrected")

	declared, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", declared)
	changed := strings.Replace(strings.ReplaceAll(string(declared), "9000", "8000"), "10.40.0.0/16", "10.41.0.0/16", 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	run("apply", "-auto-approve", "-no-verify").want(t, 0, "9000 → 8000", "10.41.0.0/16", "left: adopted, it was there before")
	run("destroy", "-auto-approve").want(t, 0, "8000 → 9000", "left: adopted, it was there before")
	asBefore("destroyed")
	run("destroy", "-auto-approve").want(t, 0, "nothing is left to undo")
	if got := inside(t, state, bare, "a", "sh", "-c", "ls /var/lib/fabricform"); strings.Contains(got, ".json") {
		t.Errorf("a record is left: %s", got)
	}
}
