package transport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

// configured makes ssh read this configuration, in place of the user's and the system's, and returns what says how it was called.
func configured(t *testing.T, text string) (calls func() []string) {
	t.Helper()
	real, err := exec.LookPath("ssh")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("CI has no ssh: install openssh-client")
		}
		t.Skip("no ssh here: install openssh-client")
	}
	dir := t.TempDir()
	files := map[string]string{"config": text, "ssh": fmt.Sprintf("#!/bin/sh\necho \"$*\" >> %s/calls\nexec %s -F %[1]s/config \"$@\"\n", dir, real), "calls": ""}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() []string {
		raw, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(strings.NewReplacer(" ", "_", "-v_", "").Replace(string(raw)))
	}
}

// someHosts are told apart by some configurations. The others are tried with them in the long run.
var (
	someHosts  = []Target{{Address: "gpu01"}, {Address: "gpu02"}, {Address: "gpu03", User: "root"}, {Address: "gpu01.example.com"}, {Address: "10.0.0.1"}}
	otherHosts = []Target{
		{Address: "gate"}, {Address: "GPU05"}, {Address: "gpu02.example.com"}, {Address: "gpu04", User: "root"}, {Address: "gpu02", Port: 2222},
		{Address: "gpu04", Port: 2222}, {Address: "gate", User: "admin"}, {Address: "10.0.0.2"}, {Address: "10.1"}, {Address: "0x7f.1"},
		{Address: "1gpu"}, {Address: "fd00::1"}, {Address: "fd00::2"}, {Address: "FD00::1"}, {Address: "gpu77"}, {Address: "cluster"}}
)

// resolveAll resolves the targets with one Dialer, the first of them first.
func resolveAll(d *Dialer, targets []Target) []string {
	out := make([]string, len(targets))
	var all sync.WaitGroup
	for i, to := range targets {
		all.Go(func() {
			r, err := d.resolve(context.Background(), to)
			var key string // of a kept connection, which must be the same in every command
			if err == nil {
				key, err = (&Keeping{files: map[string]string{}}).key([]resolved{r})
			}
			r.read, r.from = nil, hop{}
			out[i] = fmt.Sprintf("%+v %s", r, key)
			if err != nil {
				out[i] = err.Error()
			}
		})
		if i == 0 {
			all.Wait()
		}
	}
	all.Wait()
	return out
}

// resolveAsShared resolves the targets with one Dialer, and compares what it gets with the answers of one call for each: those that it
// made, and further ones for the targets about which it asked nothing. It returns how many calls the Dialer made.
func resolveAsShared(t *testing.T, targets []Target, calls func() []string) int {
	t.Helper()
	before := len(calls())
	shared := resolveAll(&Dialer{SSHConfig: true}, targets)
	made := calls()[before:]
	for i, to := range targets {
		call := "-G_"
		if to.User != "" {
			call += "-l_" + to.User + "_"
		}
		if to.Port != 0 {
			call += fmt.Sprintf("-p_%d_", to.Port)
		}
		if slices.Contains(made, call+"--_"+to.Address) {
			continue
		}
		if alone := resolveAll(&Dialer{SSHConfig: true}, []Target{to})[0]; shared[i] != alone {
			t.Errorf("%s %s %d: shared\n%s\nalone\n%s", to.Address, to.User, to.Port, shared[i], alone)
		}
	}
	return len(made)
}

// TestHostsThatShareAnAnswerGetTheirOwn compares the answers with those of one `ssh -G` for each host. Each file says in its first line
// how many calls the Dialer makes for these hosts; 0 if that depends on the version of ssh.
func TestHostsThatShareAnAnswerGetTheirOwn(t *testing.T) {
	files, err := filepath.Glob("testdata/sshconfig/*.conf")
	if err != nil || len(files) < 40 {
		t.Fatal(err, files)
	}
	included := t.TempDir()
	if err := os.CopyFS(included, os.DirFS("testdata/sshconfig")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gpu", "all"} { // which ssh refuses if a group may write to them
		if err := os.Chmod(filepath.Join(included, "include", name+".conf"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".conf"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want int
			if _, err := fmt.Sscanf(string(raw), "# calls: %d", &want); err != nil {
				t.Fatal(err)
			}
			calls := configured(t, strings.ReplaceAll(string(raw), "@DIR@", included))
			if got := resolveAsShared(t, someHosts, calls); got != want && want != 0 {
				t.Errorf("%d calls, expected %d", got, want)
			}
			if os.Getenv("FABRICFORM_LONG") != "" {
				resolveAsShared(t, slices.Concat(someHosts, otherHosts), calls)
			}
		})
	}
}

// TestRandomConfigurationsGetTheirOwnAnswers is the same with configurations that nobody wrote.
func TestRandomConfigurationsGetTheirOwnAnswers(t *testing.T) {
	seeds, hosts := 8, someHosts
	if os.Getenv("FABRICFORM_LONG") != "" {
		seeds, hosts = 400, slices.Concat(someHosts, otherHosts)
	}
	for seed := range seeds {
		text := randomConfig(rand.New(rand.NewPCG(uint64(seed), 18)))
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			resolveAsShared(t, hosts, configured(t, text))
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

func randomConfig(r *rand.Rand) string {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	pattern := func() string {
		return one("", "", "", "!") + one("gpu01", "gpu0?", "gpu*", "*", "*.example.com", "10.0.0.*", "10.0.0.1", "g*1", "GPU*", "\"gpu02\"", "fd00::?", "gate", "cluster", "?pu02*")
	}
	list := func(apart string) string {
		s := pattern()
		for range r.IntN(3) {
			s += apart + pattern()
		}
		return s
	}
	var b strings.Builder
	for range 2 + r.IntN(9) {
		switch r.IntN(5) {
		case 0:
			fmt.Fprintf(&b, "%s%s%s\n", one("Host", "host", "HOST"), one(" ", "=", " = ", "\t"), list(" "))
		case 1:
			fmt.Fprintf(&b, "Match %s%s%s%s\n", one("", "", "!"), one("host ", "originalhost ", "host=", "user "), list(","), one("", "", " user root", " final", " localuser root", " !user root # and so on"))
		default:
			value := one("x", "x", "y", "%h", "%n", "a%%b", "%d")
			fmt.Fprintf(&b, "  %s\n", one("HostName "+one("cluster", "gpu02", "10.0.0.9", "%h.example.com", "GPU77"), "User "+one("root", "ann"), "Port "+one("22", "2222"), "IdentityFile ~/"+value,
				"UserKnownHostsFile ~/"+value, "IdentityAgent /"+value, "HostKeyAlias "+one("x", "y"), "ProxyJump "+one("gate", "admin@gate:2222", "none", "cluster"), "ProxyCommand nc %h "+value, "ControlPath /"+value,
				"# Host gpu01", "SendEnv LC_* # gpu"))
		}
	}
	return b.String()
}

// TestFilesThatCannotBeReadShareNothing: what ssh says it has read is all that is known of its files.
func TestFilesThatCannotBeReadShareNothing(t *testing.T) {
	readable := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(readable, []byte("Host *\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := "/" + strings.Repeat("x", 199)
	for said, unclear := range map[string]bool{
		"debug1: Reading configuration data " + readable + "\r\n": false,
		"": true,
		"debug1: Reading configuration data /no/such/file\r\n":                                                       true,
		"debug1: Reading configuration data " + readable + "\r\ndebug1: Reading configuration data " + long + "\r\n": true,
	} {
		d := searchFiles(said)
		if _, known := d.group(question{name: "gpu01"}); known == unclear {
			t.Errorf("%q: group is %v", said, known)
		}
		conf := map[string][]string{"ciphers": {"aes256-ctr"}}
		if d.drop(conf); (len(conf) > 0) != unclear { // a file that was not read may set it
			t.Errorf("%q: left is %v", said, conf)
		}
	}
}

func TestPatternsMatchAsThoseOfSSH(t *testing.T) {
	for pattern, want := range map[string][]string{
		"": {""}, "*": {"", "a", "ab", "a*"}, "?": {"a"}, "a*": {"a", "ab", "a*"}, "*b": {"ab"}, "a?": {"ab", "a*"}, "?*?": {"ab", "a*"}, "**b*": {"ab"}, "*a*b": {"ab"}, "b": nil,
	} {
		var got []string
		for _, s := range []string{"", "a", "ab", "a*"} {
			if matchPattern(s, pattern) {
				got = append(got, s)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, expected %q", pattern, got, want)
		}
	}
}

func FuzzSearchConfiguration(f *testing.F) {
	f.Add("Host a b*\nMatch host \"x,y\" exec z\nUser %h\n")
	f.Fuzz(func(t *testing.T, text string) {
		d := &differences{names: map[string]bool{}, sets: map[string]bool{}}
		d.search(text)
		d.group(question{name: "gpu01"})
	})
}
