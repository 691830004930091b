package validators

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl/launch"
)

func TestTheLiveFileIsReadAsNCCLReadsIt(t *testing.T) {
	const good = "# by us\nNCCL_IB_DISABLE=1\nNCCL_SOCKET_IFNAME==eth0\nNCCL_CROSS_NIC=0\n"
	for name, c := range map[string]struct {
		managed bool
		text    *string
		want    []string // verdicts with what was measured
	}{
		"as derived":                       {true, new(good), []string{"pass as derived"}},
		"comments are not settings":        {true, new(good + "# more\n"), []string{"pass as derived"}},
		"a value that NCCL reads as 0":     {true, new(strings.Replace(good, "=1", "=true", 1)), []string{`fail NCCL_IB_DISABLE is "true"`, "warn "}},
		"a second line does nothing":       {true, new("NCCL_IB_DISABLE=0\n" + good), []string{`fail NCCL_IB_DISABLE is "0"`, "warn Set twice", "warn No list of devices", "warn Equal to NCCL's default"}},
		"a quoted value":                   {true, new(strings.Replace(good, "==eth0", "='=eth0'", 1)), []string{`fail NCCL_SOCKET_IFNAME is "'=eth0'"`, "warn Quotes become"}},
		"gone":                             {true, nil, []string{"fail NCCL_IB_DISABLE is not set", "fail NCCL_SOCKET_IFNAME is not set", "fail NCCL_CROSS_NIC is not set"}},
		"line ends of Windows":             {true, new(strings.Replace(good, "=1\n", "=1\r\n", 1)), []string{`fail NCCL_IB_DISABLE is "1\r"`, "warn Windows line endings"}},
		"one more":                         {true, new(good + "NCCL_IB_GID_INDEX=3\n"), []string{`fail NCCL_IB_GID_INDEX is "3"`}},
		"others' own, and wrong":           {false, new("export NCCL_DEBUG=INFO\n"), []string{"warn Invalid variable name"}},
		"others' own, and nothing wrong":   {false, new("NCCL_DEBUG=WARN\n"), nil},
		"nobody asks and nothing is there": {false, nil, nil},
	} {
		f := two()
		if c.managed {
			f.NCCL.Pos = fabric.Pos{File: "f.hcl", Line: 1}
		}
		snap := newWires().snaps["a"]
		if c.text != nil {
			snap.Files = map[string]facts.File{fabric.NCCLConf: {Text: *c.text}}
		}
		var got []string
		for _, r := range confFile(f, f.Host("a"), snap, fabric.Invocation{}) {
			text := string(r.Verdict) + " " + r.Found
			if r.Item == ConfVariable {
				text = fmt.Sprintf("%s %s is %s", r.Verdict, r.Object, r.Found)
			}
			got = append(got, text)
		}
		for i, w := range c.want {
			if i >= len(got) || !strings.HasPrefix(got[i], w) {
				t.Errorf("%s: %q, want %q", name, got, c.want)
				break
			}
		}
		if len(c.want) == 0 && len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Notes are left out, and take no warning's place. Of what a report had no room for, nobody knows the kind.
func TestManyFindingsAreCounted(t *testing.T) {
	notes := "NCCL_NTHREADS=128\nNCCL_TESTS_SPLIT=x\nNCCL_TESTS_SPLIT_MASK=x\nNCCL_BLOCKING_WAIT=1\nNCCL_ASYNC_ERROR_HANDLING=1\n"
	for wrong, want := range map[int]string{0: "", 3: "1 2 3 ", 10: "1 2 3 4 5 6 7 8 9 10 ", 13: "1 2 3 4 5 6 7 8 9 10 3 more findings ", 1100: "1 2 3 4 5 6 7 8 9 10 1095 more findings "} {
		lines := notes
		for i := range wrong {
			lines += fmt.Sprintf("line without a sign %d\n", i+1)
		}
		snap := newWires().snaps["a"]
		snap.Files = map[string]facts.File{fabric.NCCLConf: {Text: lines}}
		got := ""
		for _, r := range confFile(two(), two().Host("a"), snap, fabric.Invocation{}) {
			if r.Place.Line > 0 {
				got += strconv.Itoa(r.Place.Line-strings.Count(notes, "\n")) + " "
			} else {
				got += fmt.Sprintf("%g more findings ", r.Values[0].Value)
			}
		}
		if got != want {
			t.Errorf("%d wrong lines: %q, want %q", wrong, got, want)
		}
	}
}

// TestMissingRDMAIsAWarning: unless sockets are declared, or the lab cannot have any.
func TestMissingRDMAIsAWarning(t *testing.T) {
	for name, c := range map[string]struct {
		transport string
		options   Options
		want      Verdict
	}{
		"nothing declared": {"", Options{}, Warn},
		"sockets declared": {"socket", Options{}, Skip},
		"a namespace lab":  {"", Options{Lab: true, LabCapGbps: 1}, Skip},
		"virtual machines": {"", Options{Lab: true}, Warn},
	} {
		f := two()
		f.NCCL.Transport = c.transport
		c.options.Only = []Check{CheckNCCL}
		n := 0
		for _, r := range measure(t, f, newWires(), c.options) {
			if r.Item != NCCLPort {
				continue
			}
			if lab := r.Skipped == InLab; lab != (name == "a namespace lab") {
				t.Errorf("%s: skipped, because %q", name, r.Skipped)
			}
			if n++; r.Verdict != c.want || (r.Cure != "") != (c.want == Warn) {
				t.Errorf("%s: %s %s: %s; %s", name, r.Host, r.Verdict, r.Cause, r.Cure)
			}
		}
		if n == 0 {
			t.Errorf("%s: no port was checked", name)
		}
	}
	for cure, change := range map[string]func(*facts.Snapshot){
		"install the card's driver": func(*facts.Snapshot) {},
		"make sure that eth0 is up and has a carrier": func(s *facts.Snapshot) {
			s.RDMA = []facts.RDMADevice{{Name: "mlx5_0", Port: 1, Netdev: "eth0", State: "DOWN"}}
		},
		"run `fabricform plan`": func(s *facts.Snapshot) { s.Links[0].Name = "eth9" },
	} {
		w, said := newWires(), ""
		change(w.snaps["a"])
		for _, r := range measure(t, two(), w, Options{Only: []Check{CheckNCCL}}) {
			if r.Item == NCCLPort && r.Host == "a" {
				said += r.Cure + "\n"
			}
		}
		if !strings.Contains(said, cure) {
			t.Errorf("%q is missing in\n%s", cure, said)
		}
	}
}

// TestNoResultShowsASensitiveValue: neither what was found nor what was wanted, also of a variable that is not declared
// any more; and a job without a file gets the value itself.
func TestNoResultShowsASensitiveValue(t *testing.T) {
	f := two()
	f.NCCL.Pos, f.Secrets = fabric.Pos{File: "f.hcl", Line: 1}, fabric.Secrets{}
	f.NCCL.Env = map[string]string{"NCCL_BUFFSIZE": f.Secrets.Hide("hunter2", strings.Repeat("1", 32))}
	const good = facts.SensitiveMark + "NCCL_OLD salt\nNCCL_IB_DISABLE=1\nNCCL_SOCKET_IFNAME==eth0\nNCCL_CROSS_NIC=0\n"
	snap := newWires().snaps["a"]
	for text, want := range map[string]int{good + "NCCL_BUFFSIZE=hunter2\n": 0, good + "NCCL_BUFFSIZE=hunter3\n": 1, good: 1, good + "NCCL_BUFFSIZE=hunter2\nNCCL_OLD=hunter4\n": 1} {
		snap.Files = map[string]facts.File{fabric.NCCLConf: {Text: text}}
		variables := 0
		for _, r := range confFile(f, f.Host("a"), snap, fabric.Invocation{}) {
			if shown := fmt.Sprintf("%+v", r); strings.Contains(shown, "hunter") {
				t.Errorf("%q: %s", text, shown)
			}
			if r.Item == ConfVariable {
				variables++
			}
		}
		if variables != want {
			t.Errorf("%q: %d wrong variables, want %d", text, variables, want)
		}
	}
	j := &job{run: &run{fabric: f}}
	if got := j.settings(launch.NewHost(f, f.Host("a"), &facts.Snapshot{}, nil)); len(got) != 0 {
		t.Errorf("the job has %v, and the file", got)
	}
	no := false
	f.NCCL.Write = &no
	if got := j.settings(launch.NewHost(f, f.Host("a"), &facts.Snapshot{}, nil)); got["NCCL_BUFFSIZE"] != "hunter2" {
		t.Errorf("the job has %v", got)
	}
}

// TestCablesInAnotherOrderThanPCIAreNamed: the files cannot know it, and NCCL connects the wrong NICs.
func TestCablesInAnotherOrderThanPCIAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		b         [2]string // the PCI addresses of b's NICs
		transport string
		wrong     bool
	}{
		"the same order":         {[2]string{"0000:09:00.0", "0000:1a:00.0"}, "", false},
		"another order":          {[2]string{"0000:1a:00.0", "0000:09:00.0"}, "", true},
		"another, for sockets":   {[2]string{"0000:1a:00.0", "0000:09:00.0"}, "socket", false},
		"not known on one host":  {[2]string{"", ""}, "", false},
		"a host is not answered": {[2]string{"-"}, "", false},
	} {
		v, f := newVerbs(), rdmaFabric()
		f.NCCL.Transport = c.transport
		for i := range 2 {
			v.snaps["a"].Links[i].PCI, v.snaps["b"].Links[i].PCI = []string{"0000:01:00.0", "0000:02:00.0"}[i], c.b[i]
		}
		o := Options{Only: []Check{CheckNCCL}}
		if c.b[0] == "-" {
			o.Unreachable = map[string]string{"b": "no answer"}
		}
		if got := failed(measure(t, f, v, o)); strings.Contains(got, "joined in another order than that of their PCI addresses") != c.wrong || !c.wrong && got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
