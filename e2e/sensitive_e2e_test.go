//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestASensitiveValueIsOnlyInItsFile: a value goes through plan, apply, confirm, checks, reports and removal, and only
// the file that it configures has it, and what only root can read on the host.
func TestASensitiveValueIsOnlyInItsFile(t *testing.T) {
	together(t)
	if _, err := os.Lstat(confFile); err == nil {
		t.Skipf("%s is there on this machine, and a lab's hosts see it", confFile)
	}
	const secret, other = "hunter2-of-anna", "hunter3-of-anna"
	state := labUpFor(t, pair)
	declared := confFabric(t, "nccl {\n  env = { NCCL_DEBUG_FILE = \"/tmp/${local.text}.%h\" }\n}\nlocals {\n  text = lower(format(\"of-%s\", var.token))\n}\n"+
		"variable \"token\" {\n  sensitive = true\n}\noutput \"token\" {\n  value     = [local.text]\n  sensitive = true\n}\n")
	dir := filepath.Dir(declared)
	in := func(name string) string { return filepath.Join(dir, name) }
	given := func(value string, args ...string) *exec.Cmd {
		return exec.Command("env", append([]string{"FABRICFORM_VAR_token=" + value, bin}, args...)...)
	}
	hidden := func(what, text string) {
		t.Helper()
		if strings.Contains(text, secret) || strings.Contains(text, other) {
			t.Errorf("%s shows a sensitive value:\n%s", what, text)
		}
	}
	say := func(value string, code int, want string, args ...string) {
		t.Helper()
		a := tryCommand(t, state, given(value, args...))
		a.want(t, code, want)
		hidden(strings.Join(args, " "), a.out+a.err)
	}
	sh := func(script string) string { return inside(t, state, pair, "a", "sh", "-c", script) }

	plan := in("p.plan")
	say(secret, 2, "NCCL_DEBUG_FILE", "plan", "-lab", "-detailed-exitcode", "-out", plan, declared)
	say(secret, 0, `"to":"(sensitive)"`, "plan", "-lab", "-json", declared)
	say(secret, 0, "(sensitive)", "plan", "-lab", "-markdown", declared)
	for _, form := range [][]string{nil, {"-json"}, {"-markdown"}} {
		say("", 0, "(sensitive)", append(append([]string{"show"}, form...), plan)...)
	}
	say(other, 1, "the sensitive value of nccl.env.NCCL_DEBUG_FILE is not the one that was planned", "apply", "-lab", "-auto-approve", plan)
	try(t, state, "apply", "-lab", "-auto-approve", plan).want(t, 1, "Set it with -var token=…", "p.plan has no sensitive values; they are taken from "+declared)

	say(secret, 0, "fabricform confirm", "apply", "-lab", "-auto-approve", "-no-verify", "-confirm", "manual", "-confirm-timeout", "10m", "-report", in("r.json"), plan)
	say(secret, 0, "a", "pending", "-lab", declared)
	hidden("a process", sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))
	say(other, 1, "is not the one that was planned: confirm with the values that were applied", "confirm", "-lab", declared)
	say(secret, 0, "committed", "confirm", "-lab", declared)
	sh("grep -qx NCCL_DEBUG_FILE=/tmp/of-" + secret + ".%h " + confFile)

	say(secret, 0, "No changes", "plan", "-lab", "-detailed-exitcode", declared)
	say(other, 2, "(sensitive) → (sensitive)", "plan", "-lab", "-detailed-exitcode", declared)
	say(secret, 0, confFile, "verify", "-lab", "-only", "nccl", "-report", in("r.md"), declared)
	say(other, 3, "(sensitive)", "verify", "-lab", "-only", "nccl", "-json", "-report", in("verify.json"), declared)
	for _, format := range []string{"conf", "shell", "mpirun", "slurm-prolog", "kubernetes"} {
		say(secret, 0, "Left out, because their values are sensitive: NCCL_DEBUG_FILE", "render", "nccl", "-lab", "-host", "a", "-format", format, declared)
	}
	say(secret, 0, "owns", "show", "-lab", declared)
	say(secret, 0, "NCCL_DEBUG_FILE=(sensitive)", "show", "-lab", "-json", declared)
	say(secret, 0, "apply", "history", "-lab", declared)

	say(secret, 0, "token = (sensitive)", "output", declared)
	say(secret, 0, "(sensitive)", "output", declared, "token")
	for _, form := range []string{"-json", "-raw"} {
		a := tryCommand(t, state, given(secret, "output", form, declared, "token"))
		if a.want(t, 0); !strings.Contains(a.out, "of-"+secret) {
			t.Errorf("output %s prints %s", form, a.out)
		}
	}

	say(other, 0, "✓ a.nccl.file", "apply", "-lab", "-auto-approve", "-no-verify", "-report", in("r2.json"), declared)
	say(other, 0, "reverted", "rollback", "-lab", "-auto-approve", declared)
	none := confFabric(t, "nccl {}\n")
	say("", 0, "NCCL_DEBUG_FILE", "apply", "-lab", "-auto-approve", "-no-verify", "-report", in("r3.json"), none)
	say("", 0, "reverted", "rollback", "-lab", "-auto-approve", none)
	say(secret, 0, "destroy: restored", "destroy", "-lab", "-auto-approve", "-report", in("r4.json"), declared)
	if left := strings.TrimSpace(sh("grep -rlE 'hunter[23]-of-anna' /etc /run || true")); left != "" {
		t.Errorf("%s has the value after destroy", left)
	}
	if open := strings.TrimSpace(sh("find $(grep -rlE 'hunter[23]-of-anna' /var/lib/fabricform) \\( -perm /077 -o ! -user 0 \\)")); open != "" {
		t.Errorf("not only root can read %s", open)
	}

	for _, root := range []string{state, dir} {
		err := filepath.WalkDir(root, func(at string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.Contains(at, "/lab/") {
				return err
			}
			text, err := os.ReadFile(at)
			hidden(at, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
