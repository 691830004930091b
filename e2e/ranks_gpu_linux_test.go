//go:build linux

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
	"github.com/fabricform/fabricform/nccl/explain"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/validators"
)

// quirks is an nccl.conf of what people write and NCCL reads in its own way.
const quirks = "# a comment in the first column\n" +
	"NCCL_SOCKET_NTHREADS=010\n" +
	"NCCL_NSOCKS_PERTHREAD=0x2\n" +
	"NCCL_BUFFSIZE=4194304 # four MiB\n" +
	"NCCL_CROSS_NIC=true\n" +
	"NCCL_MIN_NCHANNELS= 2\n" +
	"NCCL_MAX_NCHANNELS=5abc\n" +
	"NCCL_CUMEM_ENABLE=99999999999999999999\n" +
	"export NCCL_IB_TC=160\n" +
	"NCCL_IB_SL = 3\n" +
	" # NCCL_IB_HCA=indented\n" +
	"NCCL_NET_GDR_LEVEL=\"PIX\"\n" +
	"NCCL_IB_TIMEOUT=21\r\n" +
	"NCCL_IB_RETRY_CNT=6\n" +
	"NCCL_IB_RETRY_CNT=5\n" +
	"NCCL_SOCKET_IFNAME==lo\n"

// oneRank starts NCCL alone and says what its environment is then, by C's getenv: what NCCL took from files.
const oneRank = `
import ctypes, json, os, sys
import torch, torch.distributed as dist
torch.cuda.set_device(0)
store = dist.TCPStore("127.0.0.1", 29500, 1, True)
dist.init_process_group("nccl", store=store, rank=0, world_size=1)
x = torch.ones(1024, device="cuda")
dist.all_reduce(x)
torch.cuda.synchronize()
get = ctypes.CDLL(None).getenv
get.restype, get.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
names = ["NCCL_SOCKET_NTHREADS", "NCCL_BUFFSIZE", "NCCL_MIN_NCHANNELS", "NCCL_IB_TC", "export NCCL_IB_TC", "NCCL_IB_SL", "NCCL_IB_SL ", " # NCCL_IB_HCA", "NCCL_NET_GDR_LEVEL", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", "NCCL_SOCKET_IFNAME"]
print("ENVIRONMENT " + json.dumps({n: (get(n.encode()) or b"(unset)").decode("latin-1") for n in names}))
print("NCCL_IS " + ".".join(str(n) for n in torch.cuda.nccl.version()))
sys.stdout.flush()
os._exit(0)
`

// gpus is a run on a machine with two GPUs, whose files stay below OUT.
type gpus struct {
	*rankFleet
	python string
}

// prove runs the checks, writes them down and says what is not as it should be.
func (g *gpus) prove(t *testing.T, name, attributes string, fails bool, want ...string) *fabric.Fabric {
	t.Helper()
	f := railFabric(t, g.python, attributes)
	g.judge(t, name, f, fails, want...)
	return f
}

// judge does so for a fabric.
func (g *gpus) judge(t *testing.T, name string, f *fabric.Fabric, fails bool, want ...string) {
	t.Helper()
	g.name = name
	got := verdicts(validators.Run(t.Context(), f, g, validators.Options{Only: []validators.Check{validators.CheckNCCL}}))
	t.Log(name + ":\n" + got)
	g.write(t, name+"-verdicts.txt", got)
	if failed := strings.Contains(got, "fail "); failed != fails {
		t.Errorf("%s: failed is %v", name, failed)
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: it does not say %q", name, w)
		}
	}
}

func (g *gpus) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.out, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// log is what a rank logged in a case.
func (g *gpus) log(t *testing.T, name, host string, rank int) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(g.out, fmt.Sprintf("%s-%s-rank%d.log", name, host, rank)))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// over fails unless a rank's log shows that NCCL took this interface, and no other.
func (g *gpus) over(t *testing.T, name, netdev string) {
	t.Helper()
	for i, host := range []string{"a", "b"} {
		log := g.log(t, name, host, i)
		more := regexp.MustCompile(`NET/Socket : Using \[0\]` + netdev + `:[^ ]+ \[1\]`)
		if !strings.Contains(log, "NET/Socket : Using [0]"+netdev+":10.") || more.MatchString(log) {
			t.Errorf("%s: the log of %s does not show %s alone", name, host, netdev)
		}
	}
}

// file writes each host's nccl.conf as it is rendered, or removes it.
func (g *gpus) file(t *testing.T, f *fabric.Fabric) {
	t.Helper()
	for host, etc := range g.etc {
		at := filepath.Join(etc, "nccl.conf")
		if f == nil {
			_ = os.Remove(at)
			continue
		}
		snap, err := g.Snapshot(t.Context(), host)
		if err != nil {
			t.Fatal(err)
		}
		settings, problems := nccl.Derive(f, f.Host(host), snap)
		text, err := nccl.RenderConf(settings)
		if err != nil || problems != nil {
			t.Fatal(problems, err)
		}
		g.write(t, host+"-nccl.conf", string(text))
		if err := os.WriteFile(at, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// force runs the ranks although the checks say no, and meets over meet0; the answer is all logs' findings.
func (g *gpus) force(t *testing.T, name string, f *fabric.Fabric, settings map[string]string) string {
	t.Helper()
	g.name = name
	has, err := probe.InspectCollective.Call(t.Context(), g, "a", probe.CollectiveLook{Python: g.python})
	if err != nil || has.Problem != "" {
		t.Fatal(has.Problem, err)
	}
	j := collective.Job{World: 2, Master: netip.AddrPortFrom(netip.MustParseAddr("10.78.0.1"), has.Port), Count: 1000, Sizes: []int64{1024}, MeetSeconds: 20, Seconds: 20, BudgetSeconds: 1}
	var both sync.WaitGroup
	for i, host := range []string{"a", "b"} {
		both.Go(func() {
			_, err := probe.RunCollective.Call(t.Context(), g, host, probe.CollectiveSpec{ID: name, Python: g.python, Job: j, First: i, Ranks: 1, Limit: 75 * time.Second, Env: settings})
			if err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	var out strings.Builder
	for i, host := range []string{"a", "b"} {
		for _, found := range explain.Explain("rank.log", g.log(t, name, host, i), f, fabric.Invocation{}).Findings {
			fmt.Fprintf(&out, "%s %s:%d: %s: %s\n", found.Severity, host, found.Line, found.Summary, found.Detail())
		}
	}
	t.Log(name + " from the logs:\n" + out.String())
	g.write(t, name+"-findings.txt", out.String())
	return out.String()
}

// TestNCCLOnTwoGPUs is real NCCL: two ranks on one machine, each in namespaces of its own, over sockets. It
// needs root, two GPUs and a python3 with torch, and says with FABRICFORM_GPU_TEST=2 that it has them. FABRICFORM_GPU_OUT names a
// folder for the logs.
func TestNCCLOnTwoGPUs(t *testing.T) {
	if os.Getenv("FABRICFORM_GPU_TEST") == "" {
		t.Skip("needs two GPUs, and FABRICFORM_GPU_TEST=2 says that they are there")
	}
	// NVLink multicast needs rights that containers often lack.
	t.Setenv("NCCL_NVLS_ENABLE", "0")
	python := pythonWithTorch(t)
	g := &gpus{python: python, rankFleet: twoHosts(t, gpuLogins(t, 1))}
	if out := os.Getenv("FABRICFORM_GPU_OUT"); out != "" {
		g.out = out
	}
	good := []string{"pass a ranks: 2 on 2 hosts", "pass a all_reduce values", "pass a broadcast values", "pass a send_recv values", "GB/s bus bandwidth at"}

	t.Run("environment", func(t *testing.T) {
		g.prove(t, "environment", "write = false\n  socket_ifname = \"rail1\"", false, good...)
		g.over(t, "environment", "rail1")
		if log := g.log(t, "environment", "a", 0); !strings.Contains(log, "NCCL_NVLS_ENABLE set by environment to 0") {
			t.Error("the log does not show that the login's own settings were kept")
		}
	})
	t.Run("file", func(t *testing.T) {
		for _, rail := range []string{"rail1", "rail0"} { // the second shows that it is the file that decides
			attributes := "socket_ifname = \"" + rail + "\""
			g.file(t, railFabric(t, python, attributes))
			g.prove(t, "file-"+rail, attributes, false, good...)
			g.over(t, "file-"+rail, rail)
		}
		g.file(t, nil)
	})
	t.Run("wrong interface", func(t *testing.T) {
		f := g.prove(t, "wrong-interface", `socket_ifname = "rail7"`, true, `"rail7", but this host has no such interface`, "skip a collectives")
		if got := g.force(t, "wrong-interface", f, map[string]string{"NCCL_SOCKET_IFNAME": "=rail7"}); !strings.Contains(got, "error a") || !strings.Contains(got, "No interface for bootstrap") {
			t.Error("the log's cause is not named")
		}
	})
	t.Run("wrong subnet", func(t *testing.T) {
		g.address(t, "b", "rail0", "10.77.9.2/30")
		defer g.address(t, "b", "rail0", "10.77.0.2/30")
		f := g.prove(t, "wrong-subnet", "write = false\n  socket_ifname = \"rail0\"", true, "fail a collectives: not measured", "10.77.0.2")
		if got := g.force(t, "wrong-subnet", f, map[string]string{"NCCL_SOCKET_IFNAME": "=rail0"}); !strings.Contains(got, "error b") || !strings.Contains(got, "The peer cannot be reached") {
			t.Error("the log's cause is not named")
		}
	})
	t.Run("typo", func(t *testing.T) {
		f := railFabric(t, python, `socket_ifname = "rail1"`)
		const text = "NCCL_SOCKET_IFNAM==rail1\n"
		before := fmt.Sprintf("%+v", explain.Explain("nccl.conf", text, f, fabric.Invocation{}).Findings)
		g.write(t, "typo-before.txt", before)
		if !strings.Contains(before, "NCCL_SOCKET_IFNAME") {
			t.Error("the typo is not named before the run: " + before)
		}
		for _, etc := range g.etc {
			if err := os.WriteFile(filepath.Join(etc, "nccl.conf"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		defer g.file(t, nil)
		if got := g.force(t, "typo", f, nil); !strings.Contains(got, "Bootstrap over another interface") {
			t.Error("the log's cause is not named")
		}
	})
	t.Run("parser", func(t *testing.T) { parserAgainstNCCL(t, g.out, python) })
}

// TestNCCLOnFourGPUs is real NCCL on hosts of several GPUs, and on more than two hosts.
func TestNCCLOnFourGPUs(t *testing.T) {
	if n, _ := strconv.Atoi(os.Getenv("FABRICFORM_GPU_TEST")); n < 4 {
		t.Skip("needs four GPUs, and FABRICFORM_GPU_TEST=4 says that they are there")
	}
	t.Setenv("NCCL_NVLS_ENABLE", "0")
	python := pythonWithTorch(t)
	run := fmt.Sprintf("run = \"torch\"\n    python = %q", python)
	third, _, _ := strings.Cut(switched[strings.Index(switched, "host \"c\""):], "network")
	four := strings.Replace(switched, third, third+strings.NewReplacer(`"c"`, `"d"`, "= 3", "= 4").Replace(third), 1)
	four = strings.Replace(four, "host.c.nic.rail0", "host.c.nic.rail0, host.d.nic.rail0", 1)
	for name, c := range map[string]struct {
		hosts, rail, ranks string
		start              func(t *testing.T) *rankFleet
	}{
		"two hosts with two GPUs": {rails, "rail1", "pass a ranks: 4 on 2 hosts", func(t *testing.T) *rankFleet { return twoHosts(t, gpuLogins(t, 2)) }},
		"four hosts": {four, "rail0", "pass a ranks: 4 on 4 hosts", func(t *testing.T) *rankFleet {
			names := []string{"a", "b", "c", "d"}
			return someHosts(t, names, gpuLogins(t, 1), func(f *rankFleet) { plug(t, f, names) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &gpus{python: python, rankFleet: c.start(t)}
			f := fabricOf(t, c.hosts, run, fmt.Sprintf("write = false\n  socket_ifname = %q", c.rail))
			g.judge(t, "torch", f, false, c.ranks, "sockets on "+c.rail, "pass a all_reduce values", "pass a broadcast values", "pass a send_recv values", "GB/s bus bandwidth at")
		})
	}
}

func pythonWithTorch(t *testing.T) string {
	t.Helper()
	if python := os.Getenv("FABRICFORM_GPU_PYTHON"); python != "" {
		return python
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	return python
}

// gpuLogins are logins of hosts with so many GPUs of this machine each.
func gpuLogins(t *testing.T, each int) func(host int) []string {
	t.Helper()
	devices := strings.Split(os.Getenv("CUDA_VISIBLE_DEVICES"), ",")
	return func(host int) []string {
		var own []string
		for i := host * each; i < (host+1)*each; i++ {
			device := strconv.Itoa(i)
			if len(devices) > i && devices[i] != "" {
				device = devices[i]
			}
			own = append(own, device)
		}
		// Otherwise ranks on one machine find each other, and use no network.
		return []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(own, ","), "NCCL_HOSTID=" + string("abcd"[host]), "NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1", "NCCL_NVLS_ENABLE=0"}
	}
}

// parserAgainstNCCL has NCCL read quirks as its file, and compares what its log and its environment show
// with what package env and package explain say of the same text.
func parserAgainstNCCL(t *testing.T, out, python string) {
	etc := ownEtc(t)
	if err := os.WriteFile(filepath.Join(etc, "nccl.conf"), []byte(quirks), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd, begin := startHost(t, "c", etc, []string{"NCCL_DEBUG=INFO", "NCCL_NVLS_ENABLE=0", "LC_ALL=C"}, "--", python, "-c", oneRank)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	context.AfterFunc(ctx, func() {
		if ctx.Err() == context.DeadlineExceeded {
			_ = cmd.Process.Kill()
		}
	})
	begin()
	raw, err := cmd.CombinedOutput()
	log := string(raw)
	if err := os.WriteFile(filepath.Join(out, "parser.log"), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	wrote := map[string]string{}
	for line := range strings.Lines(quirks) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		if wrote[name] == "" {
			wrote[name] = value
		}
	}
	compared := 0
	for _, m := range regexp.MustCompile(`(NCCL_\w+) set by environment to (-?\d+)\.`).FindAllStringSubmatch(log, -1) {
		text, ours := wrote[m[1]]
		if n := env.ParseNumber(text); ours && strconv.FormatInt(n.Value, 10) != m[2] {
			t.Errorf("%s=%s: NCCL reads %s, package env %d", m[1], text, m[2], n.Value)
		} else if ours {
			compared++
		}
	}
	t.Logf("%d numbers compared", compared)
	if compared < 3 {
		t.Errorf("NCCL's log shows %d of the numbers", compared)
	}
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "ENVIRONMENT ") || strings.HasPrefix(line, "NCCL_IS ") {
			t.Log(line)
		}
	}
}

// The fixture beside NCCL's log is the file that NCCL read.
func TestQuirksAreTheFixture(t *testing.T) {
	raw, err := os.ReadFile("../nccl/explain/testdata/nccl-2.28.9-quirks.conf")
	if err != nil || string(raw) != quirks {
		t.Errorf("%v\n%s", err, raw)
	}
}
