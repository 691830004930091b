package fabricform_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/fabricform/fabricform/"

// allowed is the house's import table: a room may import what its row names and nothing else of
// ours. docs/architecture.md shows the same table; change both together.
var allowed = map[string]struct {
	rooms []string
	why   string
}{
	"fabric":             {nil, "the model is pure: what it means cannot depend on how it is read or made"},
	"host":               {[]string{"host/file", "host/process"}, "what code may touch on a machine has no opinion about fabrics"},
	"host/clock":         {nil, "the time since boot is asked of the kernel alone"},
	"host/dcb":           {nil, "the language of dcbnl is pure: bytes mean the same whoever asks the kernel"},
	"host/file":          {nil, "whole files are written in one way, whoever writes them"},
	"host/lock":          {nil, "a lock between processes is a file's"},
	"host/process":       {[]string{"host/file", "retry"}, "programs are started and ended in one place; of host/file, the folder of what we unpacked"},
	"parallel":           {nil, "many calls at the same time are the same whatever they do"},
	"retry":              {nil, "waiting is the same whatever is waited for"},
	"transport":          {nil, "a stream to a host is the same whatever is said over it"},
	"transport/slurm":    {[]string{"transport"}, "another way to the same stream: of transport, the target and the helper's builds"},
	"packagemanager":     {[]string{"host"}, "what a package manager says and is asked has no opinion about driver stacks"},
	"facts":              {[]string{"agent/decode", "host", "host/process"}, "facts are read through host.Reader only, so that gathering cannot change anything"},
	"resource":           {[]string{"facts", "fabric", "host", "host/process"}, "the vocabulary joins wanted (fabric), found (facts) and changed (host); of host/process, the name of a process in an installation's journal"},
	"resource/kindtest":  {[]string{"resource", "fabric", "facts", "host"}, "what every kind promises is one test, which each kind's own tests run"},
	"nccl/env":           {nil, "the table of NCCL's variables and NCCL's parsers are pure: files and hosts are held against the same ones"},
	"nccl":               {[]string{"facts", "fabric", "host", "nccl/env", "widearea"}, "derivation is pure: model and facts in, settings out; of host, the plain types of links; of widearea, timeouts that fit a distance"},
	"nccl/launch":        {[]string{"nccl", "fabric", "facts", "host/file"}, "what starts a job is written from derived settings, and starts nothing"},
	"nccl/explain":       {[]string{"nccl", "nccl/env", "fabric", "facts"}, "what others wrote is read as text, and held against the table and the model"},
	"widearea":           {[]string{"fabric", "facts", "nccl/env"}, "what a long link does is computed from numbers: files and measurements give them, and it asks nobody; of facts, the RDMA MTU"},
	"config":             {[]string{"fabric", "nccl/env", "widearea"}, "files become a model; config never sees a provider or a host; of NCCL, the table that nccl.env is checked against; of widearea, what is wrong with declared distances"},
	"netmanager":         {[]string{"facts", "host", "providers/netif"}, "a network manager is told what netif declares for a NIC, and knows no plan and no other kind"},
	"providers/ofed":     {[]string{"resource", "host", "facts", "fabric", "packagemanager"}, "a provider knows its kind and nothing of plans"},
	"providers/persist":  {[]string{"resource", "host", "facts", "fabric", "netmanager", "providers/netif", "providers/qos", "providers/rxe", "retry"}, "what is kept is what the neighbouring rooms declare, in the words of network managers"},
	"providers/ncclconf": {[]string{"resource", "host", "facts", "fabric", "nccl", "nccl/env"}, "a provider knows its kind and nothing of plans; what it writes is derived and read by NCCL's rooms"},
	"providers/qos":      {[]string{"resource", "host", "host/dcb", "facts", "fabric", "retry"}, "it asks the kernel by dcbnl; otherwise as any provider"},
	"providers/*":        {[]string{"resource", "host", "facts", "fabric", "retry"}, "a provider knows its kind and nothing of plans"},
	"providers":          {[]string{"resource", "facts", "fabric", "providers/*"}, "the explicit table of kinds"},
	"planner":            {[]string{"resource", "fabric", "facts"}, "the planner is pure and is handed the table of kinds: no provider, no transport, no host"},
	"probe":              {[]string{"agent", "host/dcb", "host/process", "probe/perftest", "probe/collective", "probe/mpi", "retry"}, "a measurement knows addresses and devices, not fabrics; it declares the call that asks for it"},
	"cabling":            {[]string{"agent", "facts", "host", "parallel", "probe", "probe/lldp", "retry"}, "which port is cabled to which is found out without a fabric: from facts and through one method, agent.Caller"},
	"draft":              {[]string{"cabling", "fabric", "resource"}, "the writer is pure: models of hosts in, text of files out"},
	"probe/collective":   {nil, "the language of a rank is pure: what it prints means the same wherever it ran"},
	"probe/lldp":         {nil, "decoding is pure: frames mean the same wherever they were heard"},
	"probe/mpi":          {nil, "the language of launchers is pure: what they print means the same wherever they run"},
	"probe/perftest":     {nil, "the language of a program is pure: what it prints means the same wherever it ran"},
	"probe/roce":         {nil, "decoding is pure: packets mean the same wherever they were captured"},
	"checkpoint":         {[]string{"host", "host/clock", "host/file", "host/lock", "host/process", "resource", "retry"}, "how a host reverts: each package of providers restores its own state, by its resource.Restorer"},
	"agent":              {[]string{"agent/decode"}, "a conversation over any stream does not know what is asked: probe and agent/calls declare that, each beside its types"},
	"agent/decode":       {nil, "answers are decoded within limits"},
	"agent/calls":        {[]string{"agent", "resource", "host", "facts", "fabric", "checkpoint"}, "apply and agent/helper share requests and answers, so that apply does not import what changes a host, and measurements do not import what a change is"},
	"agent/helper":       {[]string{"agent", "agent/calls", "resource", "host", "host/clock", "host/file", "host/lock", "host/process", "facts", "probe", "checkpoint", "retry"}, "the other side of the conversation, on the host itself; only cmd starts it"},
	"validators":         {[]string{"agent", "cabling", "fabric", "facts", "nccl", "nccl/env", "nccl/explain", "nccl/launch", "probe", "probe/collective", "probe/mpi", "probe/perftest", "host", "parallel", "retry", "widearea"}, "judgement measures through one method, agent.Caller; of host, the plain types of links"},
	"apply":              {[]string{"planner", "agent", "agent/calls", "checkpoint", "transport", "validators", "resource", "facts", "fabric", "host/file", "nccl", "parallel", "probe", "probe/perftest", "probe/roce", "retry"}, "the engine: it is handed kinds, labs and whom to tell; of host, how a file is replaced; of nccl, which device a NIC is"},
	"health":             {[]string{"planner", "resource", "facts", "host", "checkpoint"}, "a host compares itself by the planner that plans an apply; it knows no client, and Slurm by its programs alone"},
	"lab/site":           {[]string{"host/file", "retry"}, "what every lab has, whatever it is made of"},
	"lab/netns":          {[]string{"fabric", "lab/site", "retry"}, "a lab is built from the model alone"},
	"lab/vm":             {[]string{"fabric", "host/file", "lab/site", "parallel", "retry"}, "a lab is built from the model alone"},
	"lab":                {[]string{"fabric", "lab/site", "lab/netns", "lab/vm"}, "one face for the kinds of labs"},
	"view":               {[]string{"cabling", "planner", "apply", "validators", "resource", "facts", "fabric", "lab/site", "probe/roce", "host", "nccl/explain", "nccl/env", "widearea", "health"}, "views get values from anywhere below; of host, the plain types of links"},
	"habits":             {[]string{"nccl/env"}, "words of other tools are text"},
	"lsp":                {[]string{"config", "fabric"}, "an editor is told of files and the language, never of hosts"},
	"cmd/fabricform":     {[]string{"*"}, "the wiring"},
	"e2e":                {nil, "tests alone: it has nothing that others could import"},
}

func TestImportsRunDownwards(t *testing.T) {
	all := rooms(t)
	for room, files := range all {
		for _, file := range files {
			checkFile(t, room, file)
		}
	}
	for room := range allowed {
		if all[room] == nil && path.Base(room) != "*" {
			t.Errorf("the table has a row for %s, which does not exist", room)
		}
	}
}

// rooms are the folders with Go files, tests aside.
func rooms(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.WalkDir(".", func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && at != ".") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(at, ".go") && !strings.HasSuffix(at, "_test.go") {
			room := filepath.ToSlash(filepath.Dir(at))
			out[room] = append(out[room], at)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// anyOf is the row of all rooms beside a room that have none of their own.
func anyOf(room string) string { return path.Join(path.Dir(room), "*") }

func checkFile(t *testing.T, room, path string) {
	t.Helper()
	rule, ok := allowed[room]
	if !ok {
		rule, ok = allowed[anyOf(room)]
	}
	if !ok {
		t.Errorf("%s has no row in the import table", room)
		return
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		ours, found := strings.CutPrefix(name, module)
		if found && !slices.Contains(rule.rooms, ours) && !slices.Contains(rule.rooms, anyOf(ours)) && !slices.Contains(rule.rooms, "*") {
			t.Errorf("%s imports %s: not allowed, because %s", path, ours, rule.why)
		}
		if name == "os/exec" && !slices.Contains([]string{"host/process", "transport", "transport/slurm", "lab/netns", "lab/vm"}, room) {
			t.Errorf("%s imports os/exec: programs are started in host/process, transport and labs only", path)
		}
	}
}

func TestArchitecturePageShowsTheTable(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for room, rule := range allowed {
		row := "| `" + room + "` | " + strings.Join(rule.rooms, ", ") + " |"
		if rule.rooms == nil {
			row = "| `" + room + "` | nothing |"
		}
		if room == "cmd/fabricform" {
			row = "| `cmd/fabricform` | everything |"
		}
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/architecture.md lacks the row %q", row)
		}
	}
}

// The page is read before anything else, in a quarter of an hour. A kind's folder may be named by the row for all of them.
func TestArchitecturePageIsShortAndNamesEveryRoom(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(page))); n > 2500 {
		t.Errorf("docs/architecture.md has %d words, and may have 2,500", n)
	}
	for room := range rooms(t) {
		if !strings.Contains(string(page), "`"+room+"`") && !strings.Contains(string(page), "`"+anyOf(room)+"`") {
			t.Errorf("docs/architecture.md does not name %s", room)
		}
	}
}
