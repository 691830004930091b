package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fabricform/fabricform/view"
)

// openFlags take values that nobody can list: files, numbers, times and text of the user.
var openFlags = []string{"listen", "chdir", "confirm-timeout", "fabric", "file", "for", "keep-connections", "lease", "max-drained", "node", "out", "packets", "parallelism", "report",
	"rows", "slurm", "sshd", "takeover", "var", "var-file"}

// completed returns the words that the program completes, without descriptions, and the number that tells the shell what to do.
func completed(t *testing.T, words ...string) (out []string, directive string) {
	t.Helper()
	var said, complaints bytes.Buffer
	a := &app{out: view.New(&said), err: view.New(&complaints)}
	if err := a.execute(t.Context(), append([]string{cobra.ShellCompNoDescRequestCmd}, words...)); err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	if complaints.Len() > 0 {
		t.Errorf("%q prints %q", words, complaints.String())
	}
	all := strings.Split(strings.TrimSuffix(said.String(), "\n"), "\n")
	return all[:len(all)-1], all[len(all)-1]
}

// TestEachFlagIsCompletedOrOpen: who adds a flag with a closed set of values completes it. The values are those that the command
// names in its error for another value.
func TestEachFlagIsCompletedOrOpen(t *testing.T) {
	t.Chdir(t.TempDir())
	a := &app{}
	root := rootCommand(a)
	a.completeBelow(root, closed())
	found, table := map[string]bool{}, closed()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			path := strings.TrimPrefix(c.CommandPath(), "fabricform ")
			found[flag.Name], found["-"+flag.Name], found[path+" -"+flag.Name] = true, true, true
			_, completes := c.GetFlagCompletionFunc(flag.Name)
			if is := flag.NoOptDefVal == "true" || slices.Contains(openFlags, flag.Name); is == completes {
				t.Errorf("%s -%s: completed %v, but free of choice %v", path, flag.Name, completes, is)
			}
			if table[path+" -"+flag.Name] == nil && table["-"+flag.Name] == nil {
				return
			}
			words, _ := completed(t, append(strings.Fields(path), "-"+flag.Name+"=")...)
			line := append(strings.Fields(path), "-"+flag.Name+"=zz")
			if path == "capture" {
				line = append(line, ".", "rail0")
			}
			err := (&app{}).execute(t.Context(), line)
			if err == nil {
				t.Fatalf("%q is accepted", line)
			}
			_, list, _ := strings.Cut(err.Error(), "use one of ")
			accepted := strings.Fields(strings.NewReplacer(",", " ", " and ", " ", " or ", " ").Replace(list))
			if !slices.Equal(words, accepted) || len(words) < 2 {
				t.Errorf("%s -%s: completes %q, but the command says: %v", path, flag.Name, words, err)
			}
		})
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" && sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	walk(root)
	for _, name := range openFlags {
		if !found[name] {
			t.Errorf("no command has the flag -%s", name)
		}
	}
	for name := range table {
		if !found[name] {
			t.Errorf("no command has the flag %s", name)
		}
	}
}

const completable = `
variable "rack" {}
locals {
  nasty = ["r 1", "r\t2", "r;reboot", "$(reboot)", "` + "`reboot`" + `", "\u001b[2J", "'", "\"", "r*", "-x", "_activeHelp_ x", ""]
}
host "gpu0" {
  address = "10.0.0.1"
  labels  = { rack = "r1", "a=b" = "c" }
  nic "rail0" {
    netdev = "eth1"
  }
  nic "rail1" {
    netdev      = "eth2"
    host_number = 1
  }
}
host "gpu1" {
  address = "10.0.0.2"
  labels  = { rack = "r2", zone = "eu:1" }
  nic "rail0" {
    netdev = "eth1"
  }
  nic "rail1" {
    netdev      = "eth2"
    host_number = 2
  }
}
host "nasty" {
  for_each = { for i, text in local.nasty : i => text }
  address  = "10.0.1.${each.key}"
  labels   = { bad = each.value }
}
link "rail0" {
  endpoints = [host.gpu0.nic.rail0, host.gpu1.nic.rail0]
  subnet    = "10.1.0.0/31"
}
network "store" {
  members = [host.gpu0.nic.rail1, host.gpu1.nic.rail1]
  subnet  = "10.2.0.0/24"
}
output "mtu" { value = 9000 }
`

// TestNamesOfTheFilesAreCompleted for all flags and arguments that take them, although a variable has no value yet.
func TestNamesOfTheFilesAreCompleted(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	for path, text := range map[string]string{"f.hcl": completable, "sub/g.hcl": "host \"other\" {\n  address = \"10.0.0.9\"\n}\n",
		"state/fabricform/lab/store/lab.json": "{}", "state/fabricform/lab/old/transactions/x": ""} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"plan -host gp":                       "gpu0 gpu1 :4",
		"plan -host=gpu0,gp":                  "gpu0,gpu0 gpu0,gpu1 :4",
		"show -exclude rack":                  "rack=r1 rack=r2 :4",
		"show -host zone=eu:":                 "zone=eu:1 :4",
		"plan -host a":                        ":4",        // -host cannot name the label a=b
		"plan -host bad":                      "bad=-x :4", // the others are not words to a shell
		"plan sub -host ":                     "other :4",
		"-chdir sub plan -host o":             "other :4",
		"plan -host x none.hcl":               ":0",
		"verify -link ":                       "store rail0 store:gpu0-gpu1 :4",
		"verify f.hcl -lab=":                  "store :4",
		"verify -only ping,t":                 "ping,tcp :4",
		"capture f.hcl ":                      "rail0 store:gpu0-gpu1 :4",
		"capture f.hcl rail0 -at gpu":         "gpu0 gpu1 :4",
		"capture f.hcl rail0 ":                ":4",
		"lab exec f.hcl g":                    "gpu0 gpu1 :4",
		"lab exec f.hcl gpu0 -- ":             ":0",
		"lab exec f.hcl gpu0 -- ip -":         ":0",
		"lab reboot -hard f.hcl gpu1":         "gpu1 :4",
		"lab reboot f.hcl gpu1 ":              ":4",
		"lab fault ":                          ":0",
		"lab fault f.hcl ":                    "rail0 store:gpu0 store:gpu1 :4",
		"lab fault f.hcl rail0 ":              "cut swap=rail0 swap=store:gpu0 swap=store:gpu1 limit= delay= jitter= loss= remark= no-vlan= pause= none :4",
		"lab fault f.hcl rail0 de":            "delay= :6",
		"output ":                             "mtu :0",
		"output f.hcl m":                      "mtu :4",
		"output f":                            ":0",
		"plan -ho":                            "-host :4",
		"plan --ho":                           "--host :4",
		"plan -j":                             "-json :4",
		"lab f":                               "fault :4",
		"aply ":                               ":0",
		"render nccl -format torc":            "torchrun :4",
		"rollback -allow foreign,half":        "foreign,half-links :4",
		"lab up -backend vm -owner ":          "ifupdown netplan-networkd netplan-networkmanager networkd networkmanager :4",
		"apply -on-failure roll -on-failure=": "rollback-all rollback-host stop :4",
	} {
		t.Chdir(dir)
		words, directive := completed(t, strings.Split(line, " ")...)
		if got := strings.Join(append(words, directive), " "); got != want {
			t.Errorf("%q: %s", line, got)
		}
	}
}

// TestABrokenFabricCompletesNothing and prints nothing.
func TestABrokenFabricCompletesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, text := range []string{"host \"a\" {", completable + "host \"x\" { nonsense = 1 }\n", "\x00\xff", "fabricform plan 3 12ab\n{}"} {
		if err := os.WriteFile("f.hcl", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"plan -host ", "lab fault f.hcl ", "lab exec f.hcl ", "verify -link ", "capture f.hcl "} {
			if words, directive := completed(t, strings.Split(line, " ")...); len(words) > 0 || directive != ":4" {
				t.Errorf("%s: %q %s", line, words, directive)
			}
		}
	}
}
