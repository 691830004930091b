//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

const gitops = "../examples/gitops/"

// ciStep is one step of a job of GitHub.
type ciStep struct {
	Uses, Run, If string
	Env, With     map[string]any
}

// ciJob is a job of a pipeline: Steps at GitHub, scripts at GitLab.
type ciJob struct {
	If          string
	Environment any
	Steps       []ciStep
	Script      []string
	AfterScript []string `json:"after_script"`
	Rules       []struct{ If string }
	Artifacts   struct{ Paths []string }
}

// readYAML decodes a file of YAML.
func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	v, err := ctyyaml.Unmarshal(src, cty.DynamicPseudoType)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ctyjson.Marshal(v, v.Type())
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// ci runs the jobs of a pipeline as a runner would, in the lab's management network. Its gh and glab only record what is posted,
// and hand out the artifact that a job left.
type ci struct {
	*outside
	work string // the checkout; its parent has bin/, store/ and posted
	env  []string
}

func newCI(o *outside, name string) *ci {
	c := &ci{outside: o, work: filepath.Join(o.dir, name, "checkout")}
	above := filepath.Dir(c.work)
	c.do("mkdir -p %[1]s/checkout/ci %[1]s/checkout/fabric %[1]s/bin %[1]s/store %[1]s/tmp && cp %[2]sfabric-ci %[1]s/checkout/ci/ && "+
		"ln -s %[3]s %[1]s/bin/fabricform && cp testdata/gitops/forge %[1]s/bin/gh && cp testdata/gitops/forge %[1]s/bin/glab && cp %[4]s/known_hosts %[1]s/checkout/fabric/",
		above, gitops, bin, o.dir)
	key, err := os.ReadFile(filepath.Join(o.dir, "id_ed25519"))
	if err != nil {
		o.t.Fatal(err)
	}
	c.env = []string{"PATH=" + above + "/bin:" + os.Getenv("PATH"), "HOME=" + above, "STORE=" + above + "/store", "TMPDIR=" + above + "/tmp", "FABRIC_SSH_KEY=" + string(key)}
	return c
}

func (c *ci) do(format string, args ...any) {
	c.t.Helper()
	if out, err := exec.Command("sh", "-c", fmt.Sprintf(format, args...)).CombinedOutput(); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
}

// declare writes the fabric of the checkout.
func (c *ci) declare(mtu int) {
	c.t.Helper()
	text := "ssh {\n  user        = \"tutu\"\n  known_hosts = \"./known_hosts\"\n}\n"
	for i, host := range []string{"a", "b"} {
		text += fmt.Sprintf("\nhost %q {\n  address = %q\n\n  nic \"rail0\" {\n    netdev    = \"ens19f0np0\"\n    addresses = [\"192.168.88.%d/30\"]\n    mtu       = %d\n  }\n}\n",
			host, c.addr[host], i+1, mtu)
	}
	if err := os.WriteFile(filepath.Join(c.work, "fabric", "fabric.hcl"), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// shell runs one script as the runner does, and returns whether it succeeded.
func (c *ci) shell(options, script string, env ...string) bool {
	c.t.Helper()
	cmd := exec.Command("nsenter", "--target", fmt.Sprint(c.netPID), "--net", "--", "bash", "--noprofile", "--norc", "-c", "set "+options+"\n"+script)
	cmd.Dir = c.work
	cmd.Env = append(append([]string{"NO_COLOR=1", "XDG_STATE_HOME=" + c.state}, c.env...), env...)
	out, err := cmd.CombinedOutput()
	c.t.Logf("$ %s\n%s%v", script, out, err)
	return err == nil
}

// posted returns what the jobs have posted since the last call.
func (c *ci) posted() string {
	c.t.Helper()
	file := filepath.Join(filepath.Dir(c.work), "store", "posted")
	raw, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	_ = os.Remove(file)
	return string(raw)
}

var ciExpression = regexp.MustCompile(`\$\{\{ *([^ }]*) *\}\}`)

// github runs a job of GitHub's workflow: `uses` is what the test stands in for, `run` is run as it is written.
func (c *ci) github(job ciJob, known map[string]string) bool {
	c.t.Helper()
	vars := filepath.Join(filepath.Dir(c.work), "vars")
	c.do(": > %s", vars)
	ok := true
	for _, s := range job.Steps {
		if always := s.If == "always()"; s.If == "failure()" && ok || !ok && s.If == "" || s.If != "" && !always && s.If != "failure()" {
			continue
		}
		if strings.HasPrefix(s.Uses, "actions/upload-artifact@") {
			c.do("cp %s/%s %s/store/", c.work, s.With["path"], filepath.Dir(c.work))
		}
		set, err := os.ReadFile(vars)
		if err != nil {
			c.t.Fatal(err)
		}
		env := append(strings.Fields(string(set)), "GITHUB_ENV="+vars, "GITHUB_STEP_SUMMARY="+vars+".md", "GITHUB_REPOSITORY=fleet/fabric", "GITHUB_SHA=5e4a")
		for name, value := range s.Env {
			env = append(env, name+"="+ciExpression.ReplaceAllStringFunc(value.(string), func(e string) string {
				v, is := known[ciExpression.FindStringSubmatch(e)[1]]
				if !is {
					c.t.Errorf("%s: the test does not know %s", name, e)
				}
				return v
			}))
		}
		if s.Run != "" {
			ok = c.shell("-e", s.Run, env...) && ok
		}
	}
	return ok
}

// gitlab runs a job of GitLab's pipeline.
func (c *ci) gitlab(job ciJob) bool {
	c.t.Helper()
	env := []string{"CI_PROJECT_ID=7", "CI_MERGE_REQUEST_IID=12", "CI_COMMIT_SHA=5e4a", "CI_SERVER_URL=https://gitlab.example", "CI_JOB_STATUS=success"}
	ok := c.shell("-eo pipefail", strings.Join(job.Script, "\n"), env...)
	if !ok {
		env[4] = "CI_JOB_STATUS=failed"
	}
	c.shell("-eo pipefail", strings.Join(job.AfterScript, "\n"), env...)
	for _, file := range job.Artifacts.Paths {
		if ok {
			c.do("cp %s/%s %s/store/", c.work, file, filepath.Dir(c.work))
		}
	}
	return ok
}

// TestPipelinesApplyTheReviewedPlan runs the jobs of examples/gitops: each step as it is written, against a lab.
func TestPipelinesApplyTheReviewedPlan(t *testing.T) {
	together(t)
	o := reachFromOutside(t)
	var hub struct{ Jobs map[string]ciJob }
	var lab map[string]json.RawMessage
	readYAML(t, gitops+"github.yml", &hub)
	readYAML(t, gitops+"gitlab.yml", &lab)
	t.Run("GitHub", func(t *testing.T) {
		o.t = t
		c := newCI(o, "github")
		pipeline(t, c, 4000, func(name string) bool {
			return c.github(hub.Jobs[name], map[string]string{"secrets.FABRIC_SSH_KEY": strings.TrimPrefix(c.env[4], "FABRIC_SSH_KEY="),
				"github.event.pull_request.number": "12"})
		})
	})
	t.Run("GitLab", func(t *testing.T) {
		o.t = t
		c := newCI(o, "gitlab")
		c.env[4] = "FABRIC_SSH_KEY=" + filepath.Join(o.dir, "id_ed25519") // a variable of the type File
		pipeline(t, c, 5000, func(name string) bool {
			var job ciJob
			if err := json.Unmarshal(lab[name], &job); err != nil {
				t.Fatal(err)
			}
			return c.gitlab(job)
		})
	})
}

// pipeline is the life of a pull request: planned, refused because a host has changed, applied, and compared every night.
func pipeline(t *testing.T, c *ci, mtu int, run func(job string) bool) {
	t.Helper()
	want := func(job string, ok bool, texts ...string) {
		t.Helper()
		if run(job) != ok {
			t.Fatalf("%s succeeded: %t, want %t", job, !ok, ok)
		}
		got := c.posted()
		if len(texts) == 0 && got != "" {
			t.Fatalf("%s posted:\n%s", job, got)
		}
		for _, text := range texts {
			if !strings.Contains(got, text) {
				t.Fatalf("%s does not say %q:\n%s", job, text, got)
			}
		}
		above := filepath.Dir(c.work)
		c.do("! ls %[1]s/checkout/fabric.plan %[1]s/tmp/ssh-* %[1]s/.ssh/agent/* 2>/dev/null", above) // no plan, no agent
		c.do("! grep -rq 'OPENSSH PRIVATE KEY' %s", above)
	}
	mtuOf := func(host string) string {
		return inside(t, c.state, pair, host, "cat", "/sys/class/net/ens19f0np0/mtu")
	}

	c.declare(0) // refused by validate
	want("plan", false, "12", "### ❌ fabricform: plan failed (exit 1)", "    Error: ", "mtu")
	c.declare(mtu)
	want("apply", false, "Not applied: ") // nothing was planned
	want("plan", true, "12", "### 📋 fabricform: ", fmt.Sprint(mtu))

	c.do("mkdir -p %s/other", c.work)
	other := fmt.Sprintf("fabric \"other\" {}\nhost \"a\" {\n  address = %q\n  sysctl  = { \"net.ipv4.tcp_mtu_probing\" = 2 }\n  ssh {\n    user          = \"tutu\"\n"+
		"    known_hosts   = \"../fabric/known_hosts\"\n    identity_file = %q\n  }\n}\n", c.addr["a"], filepath.Join(c.dir, "id_ed25519"))
	if err := os.WriteFile(filepath.Join(c.work, "other", "other.hcl"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if !c.shell("-e", "fabricform apply -auto-approve -no-verify -confirm manual -confirm-timeout 10m other/") {
		t.Fatal("the other apply failed")
	}
	want("apply", false, "12", "| exit code | 8 |", "❌ nothing was changed: host a: a transaction of fabric") // as if another job were at work on a host
	if !c.shell("-e", "fabricform rollback -auto-approve other/") {
		t.Fatal("the other apply was not rolled back")
	}

	before, b := mtuOf("a"), c.addr["b"]
	c.addr["b"] = "192.0.2.1" // no route leads there
	c.declare(mtu)
	want("apply", false, "12", "### ❌ fabricform: apply failed (exit 4)", "b: unreachable")
	c.addr["b"] = b
	c.declare(mtu)
	c.script("a", "ip link set ens19f0np0 mtu 2000")
	want("apply", false, "12", "not applied, because the plan is no longer the reviewed one", "Nothing was changed",
		"nic.rail0", fmt.Sprintf("%s → %d\n", strings.TrimSpace(before), mtu), fmt.Sprintf("2000 → %d  on a\n", mtu))
	if mtuOf("a") != "2000\n" || mtuOf("b") != before {
		t.Fatal("a refused apply changed a host")
	}
	c.script("a", "ip link set ens19f0np0 mtu "+before)
	want("apply", true, "12", "# fabricform apply of default", "✅ `a.nic.rail0` done", "✅ `b.nic.rail0` done")
	if want := fmt.Sprintln(mtu); mtuOf("a") != want || mtuOf("b") != want {
		t.Fatal("the reviewed plan was not applied")
	}

	want("drift", true)
	c.script("b", "ip link set ens19f0np0 mtu 2000")
	want("drift", false, "fabric: drift", "(drifted)", fmt.Sprintf("2000 → %d", mtu))
	want("drift", false, "3", "(drifted)") // the issue is open
	c.script("b", fmt.Sprint("ip link set ens19f0np0 mtu ", mtu))
}

// TestPipelinesKeepKeysFromForks: no job with a key runs for a fork, and the key is a secret of an environment, which forks do not get.
func TestPipelinesKeepKeysFromForks(t *testing.T) {
	raw, err := os.ReadFile(gitops + "github.yml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "pull_request_target") {
		t.Error("pull_request_target gives secrets to what a fork wrote")
	}
	if strings.Contains(string(raw), "concurrency:") {
		t.Error("GitHub cancels a waiting job of a concurrency group without a word")
	}
	var hub struct{ Jobs map[string]ciJob }
	readYAML(t, gitops+"github.yml", &hub)
	events := map[string]string{
		"plan":  "github.event_name == 'pull_request' && github.event.pull_request.head.repo.full_name == github.repository",
		"apply": "github.event_name == 'push'", "drift": "github.event_name == 'schedule'",
	}
	for name, j := range hub.Jobs {
		if j.If == "" || j.If != events[name] || j.Environment == nil {
			t.Errorf("job %s: if %q, environment %v", name, j.If, j.Environment)
		}
	}
	var lab map[string]json.RawMessage
	readYAML(t, gitops+"gitlab.yml", &lab)
	own := map[string]string{
		"plan":  `$CI_PIPELINE_SOURCE == "merge_request_event" && $CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID`,
		"apply": `$CI_PIPELINE_SOURCE == "push" && $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH`, "drift": `$CI_PIPELINE_SOURCE == "schedule"`,
	}
	for name, raw := range lab {
		if slices.Contains([]string{"workflow", "default", "variables"}, name) {
			continue // no jobs
		}
		var j ciJob
		if err := json.Unmarshal(raw, &j); err != nil || len(j.Rules) != 1 || j.Rules[0].If == "" || j.Rules[0].If != own[name] || j.Environment == nil {
			t.Errorf("job %s: %v, rules %v, environment %v", name, err, j.Rules, j.Environment)
		}
	}
}
