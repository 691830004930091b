package config

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fabricform/fabricform/fabric"
)

// TestExamples holds every example to what a newcomer expects of one: nothing is wrong with it, not
// even a warning, and `fmt` would change nothing.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.hcl")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if _, _, d := Load(file, Options{Version: "0.1.0"}); len(d) != 0 {
			t.Error(d)
		}
	}
	broken, err := filepath.Glob("../examples/broken/*.hcl")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, broken...) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, d := Format(src, file)
		if diff := cmp.Diff(string(src), string(want)); diff != "" || d.HasErrors() {
			t.Errorf("%s is not in canonical form: %s%s", file, diff, d)
		}
	}
}

// TestTheLargeClusterIsShort: sixteen hosts with eight rails take fewer than 40 lines.
func TestTheLargeClusterIsShort(t *testing.T) {
	const file = "../examples/training-cluster.hcl"
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(src)) {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "#") {
			lines++
		}
	}
	f, _, _ := Load(file, Options{})
	if lines >= 40 || len(f.Hosts) != 16 || len(f.Networks) != 8 || len(f.Hosts[15].Policy) != 8 {
		t.Fatalf("%d lines, %d hosts, %d networks", lines, len(f.Hosts), len(f.Networks))
	}
	n := f.Hosts[15].NIC("rail7")
	if n.Addresses[0].String() != "10.10.7.16/24" || f.Hosts[15].Policy[7].From.Addr() != n.Addresses[0].Addr() || f.Hosts[15].Policy[7].Priority != 10107 {
		t.Fatalf("%+v %+v", n, f.Hosts[15].Policy[7])
	}
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// good loads text that must be without errors.
func good(t testing.TB, name, text string, o Options) *fabric.Fabric {
	t.Helper()
	f, _, d := Load(write(t, name, text), o)
	if d.HasErrors() {
		t.Fatal(d)
	}
	return f
}

func TestLinkSubnets(t *testing.T) {
	for subnet, want := range map[string][2]string{
		"192.168.0.0/30": {"192.168.0.1/30", "192.168.0.2/30"},
		"192.168.0.0/31": {"192.168.0.0/31", "192.168.0.1/31"},
		"10.0.0.0/24":    {"10.0.0.1/24", "10.0.0.2/24"},
		"fd00::/127":     {"fd00::/127", "fd00::1/127"},
		"fd00::/64":      {"fd00::1/64", "fd00::2/64"},
		"fd00::/126":     {"fd00::1/126", "fd00::2/126"},
	} {
		f := good(t, "f.hcl", fmt.Sprintf(`
host "a" {
  nic "r" {
    netdev = "e"
  }
}
host "b" {
  nic "r" {
    netdev = "e"
  }
}
link "l" {
  endpoints = [host.b.nic.r, host.a.nic.r]
  subnet    = [%q]
  mtu       = 9000
}
`, subnet), Options{})
		a, b := f.Hosts[0].NICs[0], f.Hosts[1].NICs[0]
		if got := [2]string{b.Addresses[0].String(), a.Addresses[0].String()}; got != want || !a.AddressesSet || a.MTU != 9000 {
			t.Errorf("%s: %v, want %v", subnet, got, want)
		}
	}
}

// TestAServiceAddressIsInNoSubnet: an address of its own at one end does not keep the ends from sharing the other subnet.
func TestAServiceAddressIsInNoSubnet(t *testing.T) {
	good(t, "f.hcl", `
host "a" {
  nic "r" {
    netdev    = "e"
    addresses = ["10.1.0.1/24", "10.1.7.1/32", "fd00::7/128"]
  }
}
host "b" {
  nic "r" {
    netdev    = "e"
    addresses = ["10.1.0.2/24"]
  }
}
link "l" {
  endpoints = [host.a.nic.r, host.b.nic.r]
}
`, Options{})
}

func TestNearestThresholdWins(t *testing.T) {
	f := good(t, "f.hcl", `
host "h" {
  for_each = toset(["a", "b"])
  nic "r" {
    netdev = "e"
  }
}
validate {
  tcp {
    streams  = 8
    duration = "1s"
  }
  ping {
    enabled = false
  }
}
network "n" {
  members = values(host.h)[*].nic.r
  validate {
    tcp {
      duration = "7s"
    }
  }
}
`, Options{})
	v := f.Networks[0].Validate
	if v.TCP.Streams != 8 || v.TCP.Duration != 7*time.Second || v.Ping.Enabled || v.Ping.Count != 10 || !v.TCP.Enabled || v.NCCL.Run != "none" || len(v.Verbs.Tests) != 2 {
		t.Fatalf("%+v", v)
	}
	if f.Validate.TCP.Duration != time.Second {
		t.Fatalf("the network's threshold leaked: %+v", f.Validate)
	}
}

func TestDisabledEndsDropOut(t *testing.T) {
	path := write(t, "f.hcl", `
host "h" {
  for_each = { a = true, b = true, c = false }
  enabled  = each.value
  nic "r" {
    netdev = "e"
  }
}
link "ab" {
  endpoints = [host.h["a"].nic.r, host.h["c"].nic.r]
}
network "n" {
  members = values(host.h)[*].nic.r
}
`)
	f, _, d := Load(path, Options{})
	if f == nil || len(f.Hosts) != 2 || len(f.Links) != 0 || len(f.Networks[0].Members) != 2 || len(d) != 1 || d[0].Summary != "Link skipped" {
		t.Fatal(f, d)
	}
}

func TestVariablePrecedence(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"f.hcl":                 "variable \"v\" {\n  default = \"0\"\n}\nvariable \"l\" {\n  type    = list(object({ n = number, s = optional(string, \"x\") }))\n  default = []\n}\nvariable \"w\" {\n  default = \"0\"\n}\noutput \"w\" {\n  value = var.w\n}\noutput \"o\" {\n  value = [var.v, var.l]\n}\n",
		"fabricform.fabricvars": "v = \"1.5\"\nw = \"default file\"\n",
		"a.auto.fabricvars":     "v = \"2\"\n",
		"b.auto.fabricvars":     "v = \"3\"\n",
		"given.fabricvars":      "v = \"4\"\nl = [{ n = 1 }]\n",
		"other.fabricvars":      "v = \"6\"\n",
		"json.fabricvars.json":  "{\"v\": \"7\"}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := func(o Options) string {
		f, _, d := Load(dir, o)
		if d.HasErrors() {
			t.Fatal(d)
		}
		return string(f.Outputs[0].JSON)
	}
	env := []string{"FABRICFORM_VAR_v=1", "FABRICFORM_VAR_w=1", "FABRICFORM_VAR_strange=1"}
	file := func(n string) Input { return Input{File: filepath.Join(dir, n)} }
	for _, c := range []struct {
		in   []Input
		want string
	}{
		{nil, `["3",[]]`},
		{[]Input{file("given.fabricvars")}, `["4",[{"n":1,"s":"x"}]]`},
		{[]Input{file("given.fabricvars"), {Var: "v=5"}}, `["5",[{"n":1,"s":"x"}]]`},
		{[]Input{{Var: "v=5"}, file("other.fabricvars")}, `["6",[]]`},
		{[]Input{file("json.fabricvars.json")}, `["7",[]]`},
		{[]Input{{Var: `l=[{n = 2, s = "y"}]`}, {Var: "v=a=b"}}, `["a=b",[{"n":2,"s":"y"}]]`},
	} {
		if got := out(Options{Inputs: c.in, Env: env}); got != c.want {
			t.Errorf("%v: %s, want %s", c.in, got, c.want)
		}
	}
	if f, _, _ := Load(dir, Options{Env: env}); string(f.Outputs[1].JSON) != `"default file"` {
		t.Errorf("fabricform.fabricvars: %s", f.Outputs[1].JSON)
	}
}

// TestNamesInTheEnvironmentMatchWithoutCase: the exact name wins, and nothing is chosen among several.
func TestNamesInTheEnvironmentMatchWithoutCase(t *testing.T) {
	const one = "variable \"railMTU\" {\n  default = \"0\"\n}\noutput \"o\" {\n  value = var.railMTU\n}\n"
	const two = one + "variable \"RAILMTU\" {\n  default = \"0\"\n}\n"
	for _, c := range []struct{ text, env, value, said string }{
		{one, "railMTU=1", "1", ""},
		{one, "RAILMTU=1", "1", ""},
		{one, "railmtu=2 railMTU=1 RAILMTU=3", "1", ""},
		{one, "railmtu=1 RAILMTU=2", "", "FABRICFORM_VAR_RAILMTU and FABRICFORM_VAR_railmtu both set railMTU. Keep one, or use the exact name: FABRICFORM_VAR_railMTU."},
		{two, "railMTU=1 RAILMTU=2", "1", ""},
		{two, "railMTU=1 railmtu=2", "1", ""}, // of RAILMTU
		{two, "railmtu=1", "", "FABRICFORM_VAR_railmtu may mean RAILMTU or railMTU. Use the exact name."},
		{one, "rail_mtu=1", "0", `FABRICFORM_VAR_rail_mtu sets nothing: no variable block declares "rail_mtu". Did you mean "railMTU"?`},
	} {
		var env []string
		for _, e := range strings.Fields(c.env) {
			env = append(env, "FABRICFORM_VAR_"+e)
		}
		f, _, d := Load(write(t, "f.hcl", c.text), Options{Env: append(env, "HOME=/", "FABRICFORM_VARIABLE=x")})
		if c.value == "" != d.HasErrors() || c.value != "" && string(f.Outputs[0].JSON) != strconv.Quote(c.value) {
			t.Errorf("%s: %v", c.env, d)
		}
		if c.said == "" != (len(d) == 0) || c.said != "" && d[0].Detail != c.said {
			t.Errorf("%s: %v, want %s", c.env, d, c.said)
		}
	}
}

// TestJSONSyntaxMeansTheSame: what HCL's JSON syntax says is what the native syntax says.
func TestJSONSyntaxMeansTheSame(t *testing.T) {
	native := good(t, "f.hcl", `
locals {
  rails = { for i in range(2) : "rail${i}" => i }
}
host "gpu" {
  for_each = { a = 1, b = 2 }
  labels   = { rack = "r${each.value}" }
  nic "rail" {
    for_each    = local.rails
    netdev      = "eth${each.value}"
    host_number = self.value
    mtu         = 9000
  }
}
network "rail" {
  for_each = local.rails
  members  = [for h in values(host.gpu) : h.nic.rail[each.key]]
  subnet   = "10.0.${each.value}.0/24"
}
`, Options{})
	json := good(t, "f.hcl.json", `{
  "locals": {"rails": "${{ for i in range(2) : \"rail${i}\" => i }}"},
  "host": {"gpu": {
    "for_each": {"a": 1, "b": 2},
    "labels": {"rack": "r${each.value}"},
    "nic": {"rail": {"for_each": "${local.rails}", "netdev": "eth${each.value}", "host_number": "${self.value}", "mtu": 9000}}
  }},
  "network": [{"rail": {
    "for_each": "${local.rails}",
    "members": "${[for h in values(host.gpu) : h.nic.rail[each.key]]}",
    "subnet": "10.0.${each.value}.0/24"
  }}]
}`, Options{})
	if d := cmp.Diff(native, json, cmpopts.IgnoreTypes(fabric.Block{}), cmpopts.EquateComparable(netip.Prefix{})); d != "" {
		t.Fatal(d)
	}
}

// TestTypesInJSON: a variable's type is text in JSON, and no template.
func TestTypesInJSON(t *testing.T) {
	const text = `{"variable": {"nics": {"type": "map(object({ netdev = string }))", "default": {"r": {"netdev": "e"}}}, "name": {"type": "string", "default": "a"}},
		"host": {"a": {"nic": {"r": {"for_each": "${var.nics}", "netdev": "${each.value.netdev}"}}}}}`
	f := good(t, "f.hcl.json", text, Options{})
	if got := f.Hosts[0].NICs[0].Netdev; got != "e" {
		t.Fatal(got)
	}
	for _, bad := range []string{`"maps(string)"`, `"${"`, `7`, `null`, `["string"]`} {
		_, _, d := Load(write(t, "f.hcl.json", `{"variable": {"v": {"type": `+bad+`, "default": 1}}}`), Options{})
		if !d.HasErrors() || d[0].Subject == nil {
			t.Errorf("%s: %v", bad, d)
		}
	}
}

// TestSameFilesSameWords: no message depends on the iteration order of a map.
func TestSameFilesSameWords(t *testing.T) {
	files, err := filepath.Glob("testdata/diagnostics/*.hcl")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(file, "bomb") {
			continue
		}
		first := ""
		for range 5 {
			_, _, d := Load(file, outside(t, file))
			text := ""
			for _, x := range d {
				text += x.Error() + "\n"
			}
			if first == "" {
				first = text
			}
			if text != first {
				t.Errorf("%s: %s", file, cmp.Diff(first, text))
			}
		}
	}
}

// fleet is a fabric of n hosts with two NICs and one network each for the rails.
func fleet(n int) string {
	return fmt.Sprintf(`
locals {
  hosts = { for i in range(%d) : format("h%%05d", i) => i + 1 }
}
host "h" {
  for_each = local.hosts
  nic "rail" {
    for_each    = { rail0 = "eth0", rail1 = "eth1" }
    netdev      = each.value
    host_number = self.value
    mtu         = 9000
  }
}
network "rail" {
  for_each = { rail0 = "10.0.0.0/16", rail1 = "10.1.0.0/16" }
  members  = [for h in values(host.h) : h.nic.rail[each.key]]
  subnet   = each.value
}
`, n)
}

// blockwise is the same fleet with a block for each host, as a program may write it.
func blockwise(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "host \"h%05d\" {\n  nic \"r\" {\n    netdev    = \"eth0\"\n    addresses = [\"10.%d.%d.1/24\"]\n  }\n}\n", i, i/250, i%250)
	}
	return b.String()
}

// BenchmarkLoad shows the cost for each host: it must not grow with their number.
func BenchmarkLoad(b *testing.B) {
	for kind, make := range map[string]func(int) string{"for_each": fleet, "blocks": blockwise} {
		for _, n := range []int{1000, 5000, 20000} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				path := write(b, "f.hcl", make(n))
				for b.Loop() {
					if f, _, d := Load(path, Options{}); d.HasErrors() || len(f.Hosts) != n {
						b.Fatal(d)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/host")
			})
		}
	}
}

func FuzzLoad(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) { Load(write(t, "f.hcl", string(src)), Options{}) })
}

func FuzzLoadJSON(f *testing.F) {
	f.Add([]byte(`{"host": {"a": {"nic": {"r": {"netdev": "e${1}", "addresses": ["10.0.0.1/24"]}}}}}`))
	f.Add([]byte(`{"locals": [{"a": "${[for x in [1] : x]}"}], "link": {"l": {"endpoints": "${[]}"}}}`))
	f.Fuzz(func(t *testing.T, src []byte) { Load(write(t, "f.hcl.json", string(src)), Options{}) })
}

func FuzzVariable(f *testing.F) {
	f.Add(`["a"]`)
	f.Add(`[for i in range(9) : "${i}"]`)
	path := filepath.Join(f.TempDir(), "f.hcl")
	if err := os.WriteFile(path, []byte("variable \"v\" {\n  type = list(string)\n}\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, v string) { Load(path, Options{Inputs: []Input{{Var: "v=" + v}}}) })
}

// TestADirectoryOfSeveralFabricsIsSaidToBeOne: each block of one fabric would be a mistake in the others.
func TestADirectoryOfSeveralFabricsIsSaidToBeOne(t *testing.T) {
	_, _, diags := Load("../examples", Options{})
	if len(diags) != 1 || diags[0].Summary != "Several fabrics in one directory" || !strings.Contains(diags[0].Detail, `roce-pair.hcl declares "roce-pair"`) {
		t.Error(diags)
	}
}

// TestAMissingBundleIsFoundByValidate: other commands need no bundle unless they install it.
func TestAMissingBundleIsFoundByValidate(t *testing.T) {
	dir := t.TempDir()
	path, name := filepath.Join(dir, "f.hcl"), "MLNX_OFED_LINUX-24.10-2.1.8.0-ubuntu22.04-x86_64.tgz"
	text := "host \"a\" {\n  address = \"10.0.0.1\"\n  ofed {\n    stack  = \"mlnx_ofed\"\n    bundle = \"" + name + "\"\n  }\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, diags := Load(path, Options{}); diags.HasErrors() {
		t.Error(diags)
	}
	if _, _, diags := Load(path, Options{Validating: true}); len(diags) != 1 || diags[0].Summary != "Bundle not found" || diags[0].Subject == nil || diags[0].Subject.Start.Line != 5 {
		t.Error(diags)
	}
	if _, _, diags := Load(dir, Options{Validating: true}); len(diags) != 1 || diags[0].Summary != "Bundle not found" {
		t.Error(diags)
	}
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, diags := Load(path, Options{Validating: true}); diags.HasErrors() {
		t.Error(diags)
	}
}
