//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBenchAnsible stands beside Ansible doing the same job, tuned: 50 forks, pipelining, one
// connection a host for the whole run with the quick key exchange, no facts but the network's, no
// search for Python. Both begin without connections. It takes minutes.
func TestBenchAnsible(t *testing.T) {
	benchmark(t, "ansible-playbook")
	if !full() {
		t.Skip("left out: it takes minutes; run `make long STEP=bench`")
	}
	for _, n := range benchSizes() {
		t.Run(fmt.Sprintf("%d hosts", n), func(t *testing.T) {
			b := newBenchLab(t, n)
			run := b.ansible(t)
			rounds := max(48/n, 1)
			run(t, "--check") // its bytecode is in place now
			var s series
			pair := func(what string, ours, ansible []string, changed string) {
				for range rounds {
					took, cpu := b.program(t, ours...)
					theirs, theirCPU, said := run(t, ansible...)
					if strings.Count(said, changed) != n {
						t.Fatalf("%s: Ansible did another job:\n%s", what, said)
					}
					s.add(what+": Ansible / fabricform", theirs.Seconds()/took.Seconds())
					s.add(what+", client CPU: Ansible / fabricform", theirCPU.Seconds()/cpu.Seconds())
				}
			}
			pair("plan (≥ 50, CPU ≥ 200)", []string{"plan", "-lab"}, []string{"--check"}, "skipped=3 ")
			try(t, b.state, "apply", "-lab", "-auto-approve", "-no-verify", b.fabric).want(t, 0)
			pair("no-change apply (≥ 35)", []string{"apply", "-lab", "-auto-approve", "-no-verify"}, nil, "changed=0 ")
			s.log(t, fmt.Sprintf("%d hosts", n))
		})
	}
}

// ansible answers how to run the playbook on the lab's hosts.
func (b *benchLab) ansible(t *testing.T) func(t *testing.T, args ...string) (took, cpu time.Duration, said string) {
	t.Helper()
	home, err := os.MkdirTemp("", "ff-bench") // control sockets want a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	inventory := ""
	for _, h := range b.model.Hosts {
		to := b.target(h)
		inventory += fmt.Sprintf("%s ansible_host=%s ansible_user=root ansible_ssh_private_key_file=%s rail=%s\n", h.Name, to.Address, to.IdentityFile, h.NICs[0].Addresses[0])
	}
	hosts := filepath.Join(home, "hosts")
	if err := os.WriteFile(hosts, []byte(inventory), 0o600); err != nil {
		t.Fatal(err)
	}
	known := b.target(b.model.Hosts[0]).KnownHosts
	runs := 0
	env := append(os.Environ(), "HOME="+home, "ANSIBLE_FORKS=50", "ANSIBLE_PIPELINING=1", "ANSIBLE_PYTHON_INTERPRETER=/usr/bin/python3", "ANSIBLE_NOCOLOR=1",
		"ANSIBLE_SSH_ARGS=-F none -o ControlMaster=auto -o ControlPersist=60s -o KexAlgorithms=curve25519-sha256 -o UserKnownHostsFile="+known)
	return func(t *testing.T, args ...string) (time.Duration, time.Duration, string) {
		t.Helper()
		cmd := b.operator(append([]string{"ansible-playbook", "-i", hosts, "testdata/bench/playbook.yml"}, args...)...)
		runs++
		cmd.Env = append(env, fmt.Sprintf("ANSIBLE_SSH_CONTROL_PATH_DIR=%s/c%d", home, runs))
		start := time.Now()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("ansible-playbook: %v: %s", err, out)
		}
		return time.Since(start), processorTime(cmd), string(out)
	}
}
