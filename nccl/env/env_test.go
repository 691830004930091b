package env

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTableIsWhole(t *testing.T) {
	if n := len(Names()); n < 280 || n != strings.Count(source, "\n")-1 {
		t.Fatalf("%d variables from %d rows", n, strings.Count(source, "\n")-1)
	}
	types := []Type{Int, Bool, Enum, Level, Devices, Interfaces, List, CIDR, Path, Merge, Text}
	for _, name := range Names() {
		v := Lookup(name)
		if !slices.Contains(types, v.Type) || !slices.Contains([]Status{Documented, Undocumented, Removed, External}, v.Status) {
			t.Errorf("%s: type %q, status %q", name, v.Type, v.Status)
		}
		if (v.Type == Enum || v.Type == Level || v.Type == Bool) && v.Words == nil {
			t.Errorf("%s has no words", name)
		}
		if v.Last.Known() && v.Last.Before(v.First) || Newest.Before(v.First) {
			t.Errorf("%s: from %s to %s", name, v.First, v.Last)
		}
		if v.Status == Removed && !v.Last.Known() || v.Source == "" {
			t.Errorf("%s: removed without a last version, or without a source", name)
		}
		for i, d := range v.defaults {
			if i > 0 && !v.defaults[i-1].from.Before(d.from) {
				t.Errorf("%s: defaults are not in the order of versions", name)
			}
			if d.known && d.value >= 0 && (d.value < v.Min || d.value > v.Max) {
				t.Errorf("%s: default %d is out of range", name, d.value)
			}
		}
	}
}

func TestNumbersAreReadAsNCCLDoes(t *testing.T) {
	for text, want := range map[string]Number{
		"1": {Value: 1, Digits: true}, "true": {Rest: "true"}, "yes": {Rest: "yes"}, "010": {Value: 8, Digits: true, Octal: true}, "0": {Digits: true},
		"0xA0": {Value: 160, Digits: true}, "0x": {Digits: true, Rest: "x"}, "160 # x": {Value: 160, Digits: true, Rest: " # x"}, "5abc": {Value: 5, Digits: true, Rest: "abc"},
		" -1": {Value: -1, Digits: true}, "+7": {Value: 7, Digits: true}, "-": {Rest: "-"}, "": {}, "089": {Digits: true, Rest: "89"},
		"9223372036854775808": {Value: 9223372036854775807, Digits: true, Overflow: true}, "1e3": {Value: 1, Digits: true, Rest: "e3"},
	} {
		if got := ParseNumber(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestListsAreReadAsNCCLDoes(t *testing.T) {
	for _, c := range []struct {
		list, yes, no string
	}{
		{"mlx5_1", "mlx5_1 mlx5_10 mlx5_19", "mlx5_2"}, {"=mlx5_1", "mlx5_1", "mlx5_10"}, {"=mlx5_1:2", "mlx5_1:2", "mlx5_1:1"},
		{"mlx5_0, mlx5_1", "mlx5_0", "mlx5_1"}, {"=a,=b", "a", "b"}, {"^=eth0", "eth1 eth00", "eth0"}, {"^eth", "ib0", "eth0 eth9"},
		{"=^eth0", "", "eth0 eth1"}, {"", "any", ""}, {"^", "", "any"}, {",,x", "x", "y"}, {"=a:1:0:2", "a:1", "a:2"},
	} {
		l := ParseList(c.list)
		for want, names := range map[bool]string{true: c.yes, false: c.no} {
			for n := range strings.FieldsSeq(names) {
				name, port, found := strings.Cut(n, ":")
				p := -1
				if found {
					p = atoi(port)
				}
				if l.Selects(name, p) != want {
					t.Errorf("%q selects %s: %v", c.list, n, !want)
				}
			}
		}
	}
	if e := ParseList("=mlx5_0:1:3:2").Entries[0]; e != (Entry{"mlx5_0", 1, 3, 2}) {
		t.Errorf("%+v", e)
	}
}

func TestLegacyLevels(t *testing.T) {
	for text, want := range map[string]string{"0": "LOC", "1": "PIX", "2": "PXB", "3": "PHB", "4": "SYS", "99": "SYS", "PXB": "", "": "", "010": "SYS"} {
		if got := legacyLevel(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// cases are values with the summaries of what is wrong with them; none: all is well.
var cases = []struct {
	name, value string
	c           Context
	want        string
}{
	{"NCCL_IB_DISABLE", "1", Context{}, ""},
	{"NCCL_IB_DISABLE", "0", Context{}, "Equal to NCCL's default"},
	{"NCCL_IB_DISABLE", "true", Context{}, "Not a number for NCCL"},
	{"NCCL_IB_TC", "0xA0", Context{}, "Traffic class"},
	{"NCCL_IB_TC", "160 # x", Context{}, "Text after a number; Traffic class"},
	{"NCCL_IB_TIMEOUT", "22", Context{}, ""},
	{"NCCL_IB_TIMEOUT", "23", Context{}, "NCCL_IB_TIMEOUT is high"},
	{"NCCL_IB_TIMEOUT", "2", Context{}, "NCCL_IB_TIMEOUT is low"}, // areal-project/AReaL/pull/640
	{"NCCL_IB_TIMEOUT", "14", Context{}, ""},
	{"NCCL_IB_TIMEOUT", "18", Context{Version: Version{2, 18, 1}}, "Equal to NCCL's default"},
	{"NCCL_IB_TIMEOUT", "20", Context{Version: Version{2, 18, 1}}, ""},
	{"NCCL_IB_TIMEOUT", "40", Context{}, "Value out of NCCL's range"},
	{"NCCL_IB_RETRY_CNT", "7", Context{}, "Equal to NCCL's default"},
	{"NCCL_IB_HCA", "=mlx5_1,mlx5_2", Context{}, ""},
	{"NCCL_IB_HCA", "mlx5_1:1,mlx5_2:1", Context{}, "Prefix match"},
	{"NCCL_IB_HCA", "mlx5_0/1,bnxt_re0", Context{}, "Not a name"},
	{"NCCL_IB_HCA", "=mlx5_0;mlx5_1", Context{}, "Not a name"},
	{"NCCL_SOCKET_IFNAME", "=10.0.0.0/24", Context{}, "Address instead of a name"},
	{"NCCL_IB_HCA", "^mlx5_9", Context{}, ""},
	{"NCCL_IB_HCA", "=mlx5", Context{}, "No device has this name"},
	{"NCCL_SOCKET_IFNAME", "=eth,ib", Context{}, "Probably no interface has this name; Probably no interface has this name"},
	{"NCCL_SOCKET_IFNAME", "=mgmt", Context{}, ""},
	{"NCCL_IB_HCA", "=mlx5_1, mlx5_2", Context{}, "Space in an NCCL list"},
	{"NCCL_IB_HCA", "=,", Context{}, "Empty list"},
	{"NCCL_IB_HCA", "=" + strings.Repeat("a,", 33), Context{}, "List too long"},
	{"NCCL_IB_HCA", "=a,=b", Context{}, "Prefix inside an NCCL list"},
	{"NCCL_IB_HCA", "=xgbe0", Context{}, "Interface instead of an RDMA device"},
	{"NCCL_IB_HCA", "=rail0", Context{IsNetdev: func(n string) bool { return n == "rail0" }}, "Interface instead of an RDMA device"},
	{"NCCL_IB_HCA", "=mlx5_0", Context{Fleet: true}, "Same value for all hosts"},
	{"NCCL_SOCKET_IFNAME", "=eth0", Context{Fleet: true}, "Same value for all hosts"},
	{"NCCL_SOCKET_IFNAME", "en", Context{Fleet: true}, "Prefix match"},
	{"NCCL_IB_HCA", "mlx5_", Context{Fleet: true}, "Prefix match"},
	{"NCCL_SOCKET_IFNAME", "=mlx5_0", Context{}, "RDMA device instead of an interface"},
	{"NCCL_SOCKET_IFNAME", "192.168.99.", Context{}, "Address instead of a name"},
	{"NCCL_SOCKET_IFNAME", "=ibp3s0", Context{}, ""},
	{"NCCL_SOCKET_IFNAME", "=eth0", Context{Version: Version{2, 2, 13}}, ""},
	{"NCCL_SOCKET_IFNAME", "e", Context{}, "Value that NCCL ignores"},
	{"NCCL_IB_GID_INDEX", "3", Context{}, "GID index is pinned"},
	{"NCCL_IB_GID_INDEX", "-1", Context{}, "Equal to NCCL's default"},
	{"NCCL_NET_GDR_LEVEL", "PHB", Context{}, ""},
	{"NCCL_NET_GDR_LEVEL", "2", Context{}, "Number instead of a level"},
	{"NCCL_NET_MERGE_LEVEL", "2", Context{}, "Unknown word"},
	{"NCCL_P2P_LEVEL", "phb", Context{}, "Unknown word"},
	{"NCCL_DEBUG", "info", Context{}, ""},
	{"NCCL_SOCKET_FAMILY", "af_inet", Context{}, "Unknown word"},
	{"NCCL_IB_ADDR_FAMILY", "AF_INET", Context{}, "Equal to NCCL's default"},
	{"NCCL_IB_ADDR_RANGE", "10.0.0.0", Context{}, "Not a network"},
	{"NCCL_IB_ADDR_RANGE", "10.0.0.1/8", Context{}, "Host bits set in a network"},
	{"NCCL_IB_ADDR_RANGE", "10.0.0.0/8", Context{Version: Version{2, 20, 5}}, "Variable that this NCCL does not read"},
	{"NCCL_IB_ADDR_RANGE", "", Context{}, "Empty value"},
	{"NCCL_IB_CUDA_SUPPORT", "1", Context{}, "Variable that NCCL no longer reads"},
	{"NCCL_MAX_NCHANNELS", "4", Context{}, "Variable is deprecated"},
	{"NCCL_IB_PCI_RELAXED_ORDERING", "1", Context{}, "Required instead of automatic"},
	{"NCCL_IBEXT_DISABLE", "1", Context{}, "Not NCCL's own variable"},
	{"NCCL_PLUGIN_P2P", "ucx", Context{}, "Not NCCL's own variable"},
	{"NCCL_FASTRAK_NUM_FLOWS", "2", Context{}, "Not NCCL's own variable"},
	{"NCCL_P2P_DISABLE", "1", Context{}, "Direct paths between GPUs are disabled"},
	{"NCCL_SHM_DISABLE", "1", Context{}, "Shared memory is disabled"},
	{"NCCL_ALGO", "Tree", Context{}, "Choice is pinned"},
	{"NCCL_NTHREADS", "256", Context{}, "Not a network setting"},
	{"NCCL_TOPO_FILE", "~/x", Context{}, "Path with ~"},
	{"NCCL_IB_HCAS", "x", Context{}, "Unknown NCCL variable"},
	{"NCCL_SOCKET_IFNAME", "^docker0", Context{}, "lo is not excluded"}, // aws/deep-learning-containers/issues/4756
	{"NCCL_SOCKET_IFNAME", "^=docker0,l", Context{}, "lo is not excluded"},
	{"NCCL_SOCKET_IFNAME", "^docker0,lo", Context{}, ""},
	{"NCCL_SOCKET_IFNAME", "^docker,l", Context{}, ""},
	{"LD_LIBRARY_PATH", "/x", Context{}, "Not an NCCL variable"},
}

// TestWordsForOnAndOffAreTurnedIntoDigits: the cure is the digit that was meant, not both.
func TestWordsForOnAndOffAreTurnedIntoDigits(t *testing.T) {
	for value, want := range map[string]string{"true": "Write 1.", "Yes": "Write 1.", "off": "Write 0.", "FALSE": "Write 0.", "maybe": "Write 0 or 1."} {
		if f := Check("NCCL_IB_DISABLE", value, Context{}); len(f) != 1 || f[0].Instead != want {
			t.Errorf("%s: %+v, want %s", value, f, want)
		}
	}
	if f := Check("NCCL_IB_TIMEOUT", "true", Context{}); len(f) != 1 || f[0].Instead != "Write 0 to 31." {
		t.Errorf("the cure of a number names its range: %+v", f)
	}
}

func TestCheckFindsWhatNCCLReadsDifferently(t *testing.T) {
	for _, c := range cases {
		if got := summaries(Check(c.name, c.value, c.c)); got != c.want {
			t.Errorf("%s = %q: %q, want %q", c.name, c.value, got, c.want)
		}
	}
	for name, want := range map[string]Severity{"NCCL_IB_HCA": Error, "NCCL_SOCKET_IFNAME": Warning} { // an interface may be named so
		if got := Check(name, "=ib", Context{}); len(got) != 1 || got[0].Severity != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for want, all := range map[string][]Set{
		"No effect with NCCL_IB_DISABLE":    {{"NCCL_IB_DISABLE", "1"}, {"NCCL_IB_HCA", "=a"}},
		"No effect with a pinned GID index": {{"NCCL_IB_GID_INDEX", "3"}, {"NCCL_IB_ADDR_RANGE", "10.0.0.0/8"}},
		"Too many sockets":                  {{"NCCL_SOCKET_NTHREADS", "16"}, {"NCCL_NSOCKS_PERTHREAD", "8"}},
		"":                                  {{"NCCL_IB_DISABLE", "true"}, {"NCCL_IB_HCA", "=a"}, {"NCCL_IB_GID_INDEX", "-1"}, {"NCCL_IB_ADDR_RANGE", "10.0.0.0/8"}},
	} {
		if got := summaries(CheckTogether(all)); got != want {
			t.Errorf("%v: %q", all, got)
		}
	}
}

func summaries(found []Finding) string {
	var out []string
	for _, f := range found {
		out = append(out, f.Summary)
	}
	return strings.Join(out, "; ")
}

// TestEverySummaryIsShown: a finding that no case has is one that nobody has seen.
func TestEverySummaryIsShown(t *testing.T) {
	shown := ""
	for _, c := range cases {
		shown += c.want + "; "
	}
	for _, file := range []string{"check.go", "values.go", "lists.go", "special.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`c\.add\(\w+, "([^"]+)"|k\.add\(\w+, "([^"]+)"|Summary[:=] *"([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			if s := m[1] + m[2] + m[3]; !strings.Contains(shown, s+";") {
				t.Errorf("no case shows %q", s)
			}
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, c := range cases {
		f.Add(c.name, c.value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		for _, found := range Check(name, value, Context{Fleet: true, Version: Newest}) {
			if found.Name != name || found.Summary == "" || found.Wrong == "" {
				t.Fatalf("%+v", found)
			}
		}
		CheckTogether([]Set{{name, value}, {"NCCL_IB_DISABLE", value}, {"NCCL_NSOCKS_PERTHREAD", value}})
		ParseList(value).Selects(name, 1)
		legacyLevel(value)
	})
}

func FuzzVersion(f *testing.F) {
	f.Add("2.30.7+cuda13.0")
	f.Add("2.21.5-1")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVersion(s)
		if again, _ := ParseVersion(v.String()); err == nil && again != v {
			t.Fatal(v)
		}
	})
}

// TestNearestNamesOneErrorInTwoLetters: a short name is not like another one that shares a letter with it.
func TestNearestNamesOneErrorInTwoLetters(t *testing.T) {
	for name, want := range map[string]string{"abcd": "abxy", "bacd": "", "abyx": "abxy", "ABXY": "abxy", "abx": "abxy", "ax": "", "": ""} {
		if got := Nearest(name, []string{"abxy"}); got != want {
			t.Errorf("%q is near %q, want %q", name, got, want)
		}
	}
}
