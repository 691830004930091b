package explain

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
)

var update = flag.Bool("update", false, "rewrite expected files; read the diff")

// asText returns an explanation as text, for comparison.
func asText(r Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n%s\n", r.Kind, r.Version, r.Read)
	if c := r.Read.Computed; c.Count > 0 {
		fmt.Fprintf(&b, "computed %d: %s\n", c.Count, c)
	}
	if u := r.Read.Unknown; u.Count > 0 {
		fmt.Fprintf(&b, "not_understood %d: %s\n", u.Count, u)
	}
	if r.Nothing != "" {
		fmt.Fprintf(&b, "nothing: %s\n", r.Nothing)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "\nline %d: %s: %s %s\n  %s\n", f.Line, f.Severity, f.Name, f.Summary, strings.Join([]string{f.Wrong, f.Costs, f.Instead}, "\n  "))
	}
	return b.String()
}

// inputs are the files of testdata but for what is expected of them.
func inputs(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && !strings.HasSuffix(e.Name(), ".txt") {
			out = append(out, filepath.Join("testdata", e.Name()))
		}
	}
	notes, err := filepath.Glob("testdata/field-notes/*.txt")
	if err != nil || len(out) < 8 || len(notes) != 5 {
		t.Fatal(out, notes, err)
	}
	return append(out, notes...)
}

func load(t testing.TB, example string) *fabric.Fabric {
	t.Helper()
	if example == "" {
		return nil
	}
	f, _, d := config.Load("../../examples/"+example+".hcl", config.Options{Version: "0.1.0"})
	if d.HasErrors() {
		t.Fatal(d)
	}
	return f
}

// fabrics are the examples against which files are held.
var fabrics = map[string]string{
	"000-roce-pair.txt": "roce-pair", "001-spark-pair.txt": "spark-pair", "002-training-cluster.txt": "training-cluster", "003-policy-routed-cluster.txt": "policy-routed",
	"handmade-2.21-roce.log": "spark-pair",
}

func TestFilesExplained(t *testing.T) {
	files := inputs(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		got := asText(Explain(name, string(text), load(t, fabrics[name]), fabric.Invocation{}))
		golden := file + ".txt"
		if strings.HasSuffix(file, ".txt") {
			golden = file + ".explained"
		}
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestEachTrapOfTheNotesIsNamed: testdata/field-notes has notes of the field as they were written. A person who knows the
// field finds these mistakes in them, by line, and none of the sentences in the second list is true of them.
func TestEachTrapOfTheNotesIsNamed(t *testing.T) {
	for file, traps := range map[string][]string{
		"000-roce-pair.txt": {"10 Changes firmware", "15 transport and LID", "16 transport and LID", "22 Until the next reboot", "24 Two NICs in one subnet", "37 Ethernet-only cards", "61 Not bound to a NIC", "66 Limited by compression",
			"71 Names differ between hosts", "72 Latency in milliseconds", "73 RDMA is disabled", "89 One number proves little", "99 rdma-core does not identify"},
		"001-spark-pair.txt": {"57 No list of devices", "57 Half of a port", "115 Not a network setting", "116 Equal to NCCL's default"},
		"002-training-cluster.txt": {"38 Not NCCL's own variable", "39 Equal to NCCL's default", "40 GID index is pinned", "42 NCCL_IB_PCI_RELAXED_ORDERING", "43 Equal to NCCL's default", "44 NCCL_IB_TIMEOUT is high", "45 Bootstrap over a NIC with RDMA",
			"41 Not set on the other hosts", "44 Not set on the other hosts", "53 Runs as root", "55 Set twice", "57 Same value for all hosts", "58 Number instead of a level", "60 Traffic class", "54 Set in one of two places", "63 Step instead of iterations"},
		"003-policy-routed-cluster.txt": {"11 Until the next reboot", "11 Host bits set", "11 Gateway far from the source", "11 Public address", "11 Rule that no command adds", "35 GID index is pinned", "37 Options of client and server differ",
			"41 Priority that nothing asks for", "51 Runs as root", "58 Same value for all hosts", "59 Same value for all hosts", "62 GID index is pinned", "63 Results are not checked", "63 Threads instead of ranks", "76 Equal to NCCL's default",
			"76 Names an interface, not an RDMA device", "78 memlock of the container alone"},
		"004-soft-roce-lab.txt": {"143 Until the next reboot", "158 Until the next reboot", "168 transport and LID", "193 No GID index"},
	} {
		text, err := os.ReadFile("testdata/field-notes/" + file)
		if err != nil {
			t.Fatal(err)
		}
		report := Explain(file, string(text), load(t, fabrics[file]), fabric.Invocation{})
		for _, trap := range traps {
			line, summary, _ := strings.Cut(trap, " ")
			if !slices.ContainsFunc(report.Findings, func(f Finding) bool {
				return fmt.Sprint(f.Line) == line && strings.Contains(f.Name+" "+f.Summary, summary)
			}) {
				t.Errorf("%s: %q is not named in\n%s", file, trap, asText(report))
			}
		}
		for _, wrong := range []string{"mst_pci", "line 27:", "Table without a rule", "of container", "xgbe0 is the step", "Unknown NCCL variable", "Set twice, differently"} {
			if strings.Contains(asText(report), wrong) {
				t.Errorf("%s: %q is false:\n%s", file, wrong, asText(report))
			}
		}
	}
}

func TestKindsAreTold(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Kind
	}{
		{"x", "NCCL_DEBUG=INFO\n", Conf}, {"nccl.conf", "export A=b\n", Conf}, {"/root/.nccl.conf", "# none yet\n", Conf}, {"x", "export A=b\n", Commands}, {"x", "A=b mpirun -x A ls\n", Commands},
		{"x", "a:1:2 [0] NCCL INFO Using network IB\n", Log}, {"x", "\tGPU0\tmlx5_0\nGPU0\t X \tPIX\n", Topology}, {"x", " \n", Empty}, {"nccl.conf", "", Empty},
		{"/bin/ls", "\x7fELF\x02\x01", Binary}, {"job.log.gz", "\x1f\x8b\x08", Binary}, {"x", "\x00\x01\x02NCCL_DEBUG=INFO\n", Binary}, {"job.log", strings.Repeat("\x00", 9) + strings.Repeat("a:1:2 [0] NCCL INFO Using network IB\n", 9), Log},
		{"train.env", "NCCL_DEBUG=\"INFO\"\n", Environment}, {".deepspeed_env", "NCCL_DEBUG=INFO\n", Environment}, {"-", "PATH=/bin\nNCCL_DEBUG=INFO\nHOME=/root\n", Environment},
		{"x", "#!/bin/bash\n#SBATCH --nodes=2\nexport NCCL_DEBUG=INFO\n", Slurm}, {"a.sh", "A=b\n", Commands}, {"Dockerfile", "FROM x\nENV NCCL_DEBUG=INFO\n", Dockerfile},
		{"x.yaml", "apiVersion: v1\nkind: Pod\n", Kubernetes}, {"compose.yaml", "services:\n", Compose}, {"x.yml", "a: b\n", YAML}, {"x.json", "{}", JSON}, {"x.py", "import os\n", Python}, {"x", "import os\nos.environ['A'] = '1'\n", Python},
		{"README.md", "# x\n", Notes}, {"x", "Run:\n```\nexport A=b\n```\n", Notes}, {"x", "服务器A：torchrun\n", Notes},
	} {
		if got := Explain(c.name, c.text, nil, fabric.Invocation{}).Kind; got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}

// TestWhatIsNotUnderstoodHasNoTick: each of these is without a finding, and none of it is sound.
func TestWhatIsNotUnderstoodHasNoTick(t *testing.T) {
	for _, c := range []struct {
		text, want string
		failed     bool
	}{
		{"", "the input is empty", true},
		{"\x7fELF\x02", "the input is not text", true},
		{"hello\nworld\n", "concerns NCCL (lines: 2)", true},
		{"#!/bin/bash\n#SBATCH --nodes=2\nsrun ./a\n", "concerns NCCL (lines: 3)", true},
		{"a:1:2 [0] NCCL INFO Using network IB\na:1:2 [0] NCCL INFO transport/net.cc:345 -> 2\n", "not_understood 1: 2", false},
		{"a:1:2 [0] NCCL INFO Using network IB\nsomething failed in a new way\n", "not_understood 1: 2", false},
		{"export NCCL_DEBUG=INFO\necho don't\nexport NCCL_CROSS_NIC=0\n", "not_understood 1: 2", false},
		{"export NCCL_DEBUG=$LEVEL\n", "computed 1: 1", false},
	} {
		r := Explain("x", c.text, nil, fabric.Invocation{})
		if text := asText(r); len(r.Findings) != 0 || r.Sound() || r.Failed() != c.failed || !strings.Contains(text, c.want) {
			t.Errorf("%q: %s", c.text, text)
		}
	}
	if r := Explain("x", "\x7fELF\n\n\x01\n", nil, fabric.Invocation{}); r.Read.Lines != 0 {
		t.Error("a binary file has no lines:", asText(r))
	}
	r := Explain("x", "a:1:2 [0] NCCL INFO Using network IB\na:1:2 [0] NCCL INFO Channel 00/02 : 0 1\nstep 1: loss 2.5\n", nil, fabric.Invocation{})
	if !r.Sound() || r.Read.Log != 2 || r.Read.Other != 1 {
		t.Error(asText(r))
	}
}

// TestProseHasNoTick: text that people wrote may tell of a problem, and the title of a thread is not a comment of a script.
func TestProseHasNoTick(t *testing.T) {
	for text, want := range map[string]string{
		"# torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/3 clients joined.\nset -x\n":                                           "error:  Ranks did not all come",
		"when I run\n`./build/all_reduce_perf -b 8 -e 128M -f 2 -g 8`\nit is slow,\nand nobody knows why\n":                                                             "",
		"here is the yaml\n```\napiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - args: [mpirun a]\n    resources:\n      limits:\n        nvidia.com/gpu: 8\n```\n": "it has 64 MiB there",
		"# Timed out waiting\nexport NCCL_DEBUG=INFO\n# torchrun ended with: Watchdog caught collective operation timeout\n":                                            "",
		"It hangs:\n       GPU0   GPU1\tCPU Affinity\nGPU0\t X    NODE   0,2\nGPU1\tNODE   X    0,2\nand nothing more\nhappens\n":                                       "",
	} {
		r := Explain("x.txt", text, nil, fabric.Invocation{})
		if got := asText(r); !strings.Contains(got, want) || strings.Contains(got, "Not a topology") || want == "" && r.Failed() || r.Sound() && r.Kind != Topology && !strings.HasPrefix(text, "# Timed") {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestALoneQuoteSwallowsNothing: what follows it is read, and so are the lines of a quoted script.
func TestALoneQuoteSwallowsNothing(t *testing.T) {
	for _, text := range []string{
		"echo it's late\nexport NCCL_IB_DISABLE=true\n", "say \"hello\nexport NCCL_IB_DISABLE=true\n", "It don't work.\nI can't, won't, and don't.\n$ export NCCL_IB_DISABLE=true\nThat's it.\n",
		"bash -c '\nexport NCCL_IB_DISABLE=true\ntorchrun train.py'\n", "ssh a \"cd b\n  export NCCL_IB_DISABLE=true \\\n NCCL_DEBUG=INFO\"\n",
	} {
		r := Explain("x", text, nil, fabric.Invocation{})
		if !strings.Contains(asText(r), "Not a number for NCCL") || r.Read.Unknown.Count == 0 {
			t.Errorf("%q: %s", text, asText(r))
		}
	}
	r := Explain("x", "export NCCL_SOCKET_IFNAME='=a b' NCCL_IB_HCA=\"=mlx5_0,\\\nmlx5_1\" # it's\n", nil, fabric.Invocation{})
	if r.Read.Unknown.Count != 0 || r.Read.Settings != 2 || !strings.Contains(asText(r), "Space in an NCCL list") {
		t.Error(asText(r))
	}
}

func TestWhatIsRightIsLeftAlone(t *testing.T) {
	for name, text := range map[string]string{
		"nccl.conf": "# the fabric's NICs\nNCCL_IB_HCA==mlx5_0,mlx5_1\nNCCL_SOCKET_IFNAME==ens19f0np0\nNCCL_CROSS_NIC=0\n",
		"run.sh":    "export NCCL_IB_HCA='=mlx5_0,mlx5_1' NCCL_SOCKET_IFNAME==ens19f0np0\nexport NCCL_CROSS_NIC=0 # stay\ntorchrun train.py \"$@\"\n",
	} {
		if r := Explain(name, text, load(t, "roce-pair"), fabric.Invocation{}); len(r.Findings) != 0 {
			t.Errorf("%s", asText(r))
		}
	}
}

func TestTheFabricIsHeldAgainst(t *testing.T) {
	f := load(t, "roce-pair")
	for text, want := range map[string]string{
		"NCCL_IB_HCA==mlx5_0\nNCCL_CROSS_NIC=0\n":                        "Part of the fabric is unused",
		"NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2\nNCCL_CROSS_NIC=0\n":          "Devices outside the fabric",
		"NCCL_IB_HCA==mlx5_0,mlx5_1\n":                                   "Traffic may cross rails",
		"NCCL_IB_HCA==a,b\nNCCL_SOCKET_IFNAME==eno1\nNCCL_CROSS_NIC=0\n": "Not a NIC of the fabric",
		"NCCL_IB_HCA==ens19f0np0,ens19f1np1\nNCCL_CROSS_NIC=0\n":         "Interface instead of an RDMA device",
	} {
		r := Explain("nccl.conf", text, f, fabric.Invocation{})
		if len(r.Findings) == 0 || !strings.Contains(asText(r), want) {
			t.Errorf("%q: %s", text, asText(r))
		}
	}
	f.Hosts[1].NICs[0].Netdev = "other0"
	if r := Explain("nccl.conf", "NCCL_IB_HCA==a,b\nNCCL_SOCKET_IFNAME==ens19f0np0\nNCCL_CROSS_NIC=0\n", f, fabric.Invocation{}); !r.Failed() || !strings.Contains(asText(r), "Not on every host") {
		t.Error(asText(r))
	}
}

// TestTheFileOfAHostIsHeldAgainstItsOwnNICs: a host with fewer of them uses all that it has, also where it is not the first.
func TestTheFileOfAHostIsHeldAgainstItsOwnNICs(t *testing.T) {
	f := load(t, "roce-pair")
	const text = "NCCL_IB_HCA==mlx5_0,mlx5_1\nNCCL_CROSS_NIC=0\n"
	f.Hosts[0].NICs[0].Match.RDMA = "other_0"
	for i, wrong := range []bool{true, false} {
		if r := OfHost(f.Hosts[i], text, f, fabric.Invocation{}); strings.Contains(asText(r), "A rail is missing") != wrong {
			t.Errorf("%s: %s", f.Hosts[i].Name, asText(r))
		}
	}
	f.Hosts[1].NICs[0].Netdev, f.Hosts[1].NICs[1].Netdev = "other0", "other1"
	if r := OfHost(f.Hosts[1], text+"NCCL_SOCKET_IFNAME==ens19f0np0\n", f, fabric.Invocation{}); !strings.Contains(asText(r), "matches no NIC of host "+f.Hosts[1].Name+".") {
		t.Error(asText(r))
	}
}

// TestTheClassIsHeldAgainst the fabric's, whose map says which priority a traffic class is.
func TestTheClassIsHeldAgainst(t *testing.T) {
	f := load(t, "roce-pair")
	dscp, priority := 40, 3
	f.Classes = []*fabric.QoS{{Name: "lossless", DSCP: &dscp, Priority: &priority}}
	f.Hosts[0].NICs[0].QoS = f.Classes[0]
	for text, want := range map[string]string{
		"NCCL_IB_TC=104\n": "error: NCCL_IB_TC Contradicts the fabric",
		"NCCL_IB_SL=5\n":   "error: NCCL_IB_SL Contradicts the fabric",
		"NCCL_IB_TC=160\n": "note: NCCL_IB_TC Traffic class\n  NCCL_IB_TC = 160 is DSCP 40, which qos.lossless leads to priority 3.",
	} {
		got := asText(Explain("nccl.conf", text, f, fabric.Invocation{}))
		if !strings.Contains(got, want) || strings.Contains(got, "Contradicts") != strings.Contains(want, "Contradicts") {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestLaunchersOfOtherKinds(t *testing.T) {
	for text, want := range map[string]string{
		"srun --export=ALL,NCCL_IB_HCA==a,b ./x":                                                             "Comma inside an exported value",
		"docker run -e NCCL_IB_HCA=mlx5_1 image":                                                             "memlock is limited",
		"docker run -e NCCL_IB_HCA==mlx5_1 --ulimit memlock=-1 image":                                        "No RDMA devices in the container",
		"export NCCL_IB_HCA = mlx5_0":                                                                        "Space around =",
		"mpirun --mca btl_tcp_if_include mlx5_0 -x A=b x":                                                    "RDMA device instead of an interface",
		"export NCCL_IB_TC=106\nmpirun -H a,b -x NCCL_IB_TC=160 ./x":                                         "Set twice, differently",
		"mpirun -genv NCCL_IB_DISABLE true ./x":                                                              "Not a number for NCCL",
		"setenv NCCL_IB_DISABLE yes\nexport B=c":                                                             "Not a number for NCCL",
		"sudo rdma link add rxe0 type rxe netdev eth0\n":                                                     "Until the next reboot",
		"sudo ip rule add from 10.0.0.1 lookup 7\nip route add 10.0.0.0/8 via 10.0.0.2 src 10.0.0.1 table 7": "Until the next reboot",
	} {
		if r := Explain("x", text, nil, fabric.Invocation{}); !strings.Contains(asText(r), want) {
			t.Errorf("%q: %s", text, asText(r))
		}
	}
	if r := Explain("x", "NCCL_IB_HCA=$HCA ./job\n", nil, fabric.Invocation{}); r.Failed() {
		t.Errorf("a shell decides over the value: %s", asText(r))
	}
}

func FuzzExplain(f *testing.F) {
	for _, file := range inputs(f) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(filepath.Base(file), string(text))
	}
	f.Add("x", "\tGPU0\tNIC0\nGPU0\t X \tSYS\nNIC0: mlx5_0\n")
	f.Add("x", "NCCL WARN ")
	f.Add("x", gids+"10000: from 10.0.0.1 lookup 100\nmlx5_0 port 1 ==> eth0 (Down)\nexport NCCL_IB_GID_INDEX=2 NCCL_IB_HCA=mlx5_0\n")
	f.Add("x.yaml", "apiVersion: v1\nkind: Pod\n- name: NCCL_A\n  value: 1\n- {name: NCCL_B, value: 'c'}\n")
	f.Add("x.py", "os.environ[\"NCCL_A\"] = \"b\"\nt = torch.ones(1)\ndist.all_reduce(t)\n")
	f.Add("x", "sh -c \"sh -c 'sh -c NCCL_A=b'\"\n| NCCL_A | `b` |\na:1:2 [0] INFO NET : Using interface \nLast error:\n")
	f.Add("x", "a 'b \\\n c\" $(d) `e` # f\n")
	model := load(f, "roce-pair")
	f.Fuzz(func(t *testing.T, name, text string) {
		for _, against := range []*fabric.Fabric{nil, model} {
			lines := strings.Count(text, "\n") + 1
			for _, found := range Explain(name, text, against, fabric.Invocation{}).Findings {
				if found.Line < 0 || found.Line > lines || found.Summary == "" || found.Wrong == "" {
					t.Fatalf("%+v", found)
				}
			}
		}
	})
}

func TestUnknownNamesAreCounted(t *testing.T) {
	var text strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&text, "export NCCL_NO_SUCH_%d=1\n", i)
	}
	r := Explain("x", text.String(), nil, fabric.Invocation{})
	if len(r.Findings) != maxUnknown || r.More != 1200-maxUnknown {
		t.Errorf("%d findings, and %d more", len(r.Findings), r.More)
	}
}

func TestEqualFilesAreExplainedAlike(t *testing.T) {
	text := ""
	for i := range 50 {
		text += fmt.Sprintf("ip route add 10.0.0.0/8 dev eth0 table %d; ", 100+i)
	}
	first := asText(Explain("x", text, nil, fabric.Invocation{}))
	for range 5 {
		if again := asText(Explain("x", text, nil, fabric.Invocation{})); again != first {
			t.Fatal(cmp.Diff(first, again))
		}
	}
}

func TestLongCommandsAreCutBetweenLetters(t *testing.T) {
	for pad := range 4 {
		r := Explain("x", "modprobe rdma_rxe "+strings.Repeat("x", pad)+strings.Repeat("€", 100)+"\n", nil, fabric.Invocation{})
		if len(r.Findings) != 1 || !utf8.ValidString(r.Findings[0].Wrong) || len(r.Findings[0].Wrong) > 150 {
			t.Errorf("%+v", r.Findings)
		}
	}
}

// TestLongFilesTakeLinearTime: eight times the text takes some eight times the time, not 64 times. What else the
// machine does makes a measurement longer, never shorter, so that the best of many is taken where the first does not do.
func TestLongFilesTakeLinearTime(t *testing.T) {
	lines := 2_500
	if os.Getenv("FABRICFORM_LONG") != "" {
		lines = 10_000
	}
	for name, line := range map[string]string{
		"nccl.conf": "NCCL_NO_SUCH_THING_%d=1\n", "export": "export NCCL_NO_SUCH_THING_%d=1 X%[1]d=2\n", "mpirun": "-x NCCL_IB_TC=%d \\\n", "ip": "ip addr add 10.0.0.1/24 dev eth%d\n",
		"perftest": "ib_write_bw -x %d\n", "log": "h%d:1:2 [0] NCCL INFO NCCL_X%[1]d set by environment to 1\n", "warn": "h%d:1:2 [0] NCCL WARN w%[1]d\n", "quotes": "'%d\"\n", "mentions": "- NCCL_X_%d=1|", "rows": "d%d 1 3 0:0:0:0:0:ffff:0a00:1 v2 e\n",
	} {
		measure := func(lines int) time.Duration {
			var b strings.Builder
			if name == "mpirun" {
				b.WriteString("mpirun \\\n")
			}
			for i := range lines {
				fmt.Fprintf(&b, line, i)
			}
			runtime.GC() // what this one finds to collect is its own
			start := processorTime(t)
			Explain(name, b.String(), nil, fabric.Invocation{})
			return processorTime(t) - start
		}
		small, large := time.Hour, time.Hour
		for try := 0; try < 25 && (try == 0 || large > 24*small); try++ {
			small, large = min(small, measure(lines)), min(large, measure(8*lines))
		}
		t.Logf("%s: %s and %s", name, small, large)
		if large > 24*small {
			t.Errorf("%s: %s for %d lines, %s for %d", name, small, lines, large, 8*lines)
		}
	}
}

// processorTime is what this process used so far: how long a busy machine lets it wait is no part of it.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestWhatIsRenderedIsRight: our own files have nothing that this room would blame.
func TestWhatIsRenderedIsRight(t *testing.T) {
	for _, format := range []string{"conf", "shell", "torchrun", "docker"} {
		files, err := filepath.Glob("../launch/testdata/*/" + format + ".txt")
		if err != nil || len(files) < 7 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for part := range strings.SplitSeq(strings.TrimPrefix(string(text), "-- "), "\n-- ") {
				name, part, _ := strings.Cut(part, " --\n")
				if strings.Contains(part, "NCCL must not use the fabric's NICs") {
					continue // no NIC for collectives: RDMA is disabled for NCCL, which is worth a note
				}
				if r := Explain(name, part+"\n", load(t, filepath.Base(filepath.Dir(file))), fabric.Invocation{}); len(r.Findings) > 0 {
					t.Errorf("%s: %s", file, asText(r))
				}
			}
		}
	}
}

func TestLinesOfRealLogs(t *testing.T) {
	for text, want := range map[string]string{
		"vm-host40:34002:34044 [1] NCCL INFO NET/IB : Using [0]mlx5_bond_6:1/RoCE [1]mlx5_bond_7:1/RoCE [RO]; OOB docker0:30.159.184.22<0>":                          "Bootstrap over a local interface",
		"NCCL INFO NET/IB : Using [0]rocep1s0f1:1/RoCE ; OOB enp1s0f1np1:192.168.100.11<0>":                                                                          "roceP2p1s0f1",
		"[2025-08-15 10:00:00] gpu-a3:47021:47095 [0] init.cc:1 NCCL WARN Mismatched NCCL version detected":                                                          "Hosts have different versions of NCCL",
		"gpu-a3:47021:47088 [0] NCCL INFO NCCL version 2.20.5+cuda12.4\ngpu-a3:47021:47088 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>": "NCCL does not choose a GID",
		"node:1:1 [0] NCCL INFO NET/IB: GPU Direct RDMA Disabled for HCA 0 'mlx5_0'":                                                                                 "No GPUDirect RDMA",
		"a:1:1 [0] NCCL INFO Using network Socket\nb:1:1 [0] NCCL INFO Using network Socket":                                                                         "b uses TCP sockets",
	} {
		if r := Explain("log", text+"\n", nil, fabric.Invocation{}); r.Kind != Log || !strings.Contains(asText(r), want) {
			t.Errorf("%q: %s", text, asText(r))
		}
	}
	// A log's middle may be gone, and half of a line with it.
	f := load(t, "roce-pair")
	f.NCCL.SocketIfname = "eno1"
	if r := Explain("log", "a:1:1 [0] NCCL INFO NET/Socket : Using [\na:1:1 [0] NCCL INFO Bootstrap : Using [0]\n", f, fabric.Invocation{}); len(r.Findings) > 0 {
		t.Errorf("%s", asText(r))
	}
	quiet := "a:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\na:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>\na:1:1 [0] NCCL INFO Using network Socket\n"
	if r := Explain("log", quiet, nil, fabric.Invocation{}); r.Failed() {
		t.Errorf("sockets were asked for: %s", asText(r))
	}
}

// TestCommandsNameTheFabric: what is told to run can be pasted.
func TestCommandsNameTheFabric(t *testing.T) {
	r := Explain("x", "rsync -z a b:\n", nil, fabric.Invocation{Flags: []string{"-var=n=1"}, Path: "f.hcl"})
	if !strings.Contains(asText(r), "`fabricform verify -var=n=1 f.hcl`") {
		t.Error(asText(r))
	}
}

// TestNoFindingShowsASensitiveValue: neither of the variable that has it, nor where a log quotes it.
func TestNoFindingShowsASensitiveValue(t *testing.T) {
	f := &fabric.Fabric{Secrets: fabric.Secrets{}}
	f.NCCL.Env = map[string]string{"NCCL_BUFFSIZE": f.Secrets.Hide("hunter2,x", strings.Repeat("1", 32))}
	for name, text := range map[string]string{"nccl.conf": "NCCL_BUFFSIZE=hunter2,x\nNCCL_NTHREADS=hunter2,x\n", "run.sh": "export NCCL_BUFFSIZE=hunter2,x\n"} {
		for _, finding := range Explain(name, text, f, fabric.Invocation{}).Findings {
			if shown := fmt.Sprintf("%+v", finding); strings.Contains(shown, "hunter") {
				t.Errorf("%s: %s", name, shown)
			}
		}
		if len(Explain(name, text, f, fabric.Invocation{}).Findings) == 0 {
			t.Errorf("%s: nothing is found", name)
		}
	}
}
