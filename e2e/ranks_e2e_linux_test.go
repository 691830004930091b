//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/validators"
)

// rails is a pair of hosts with two cables, and what a case adds.
const rails = `
host "a" {
  nic "rail0" { netdev = "rail0" }
  nic "rail1" { netdev = "rail1" }
}
host "b" {
  nic "rail0" { netdev = "rail0" }
  nic "rail1" { netdev = "rail1" }
}
link "rail0" {
  endpoints  = [host.a.nic.rail0, host.b.nic.rail0]
  subnet     = "10.77.0.0/30"
  speed_gbps = 25
}
link "rail1" {
  endpoints  = [host.a.nic.rail1, host.b.nic.rail1]
  subnet     = "10.77.1.0/30"
  speed_gbps = 25
}
validate {
  nccl {
    %s
  }
}
nccl {
  %s
}
`

// switched is three hosts on one network.
const switched = `
host "a" {
  nic "rail0" {
    netdev      = "rail0"
    host_number = 1
  }
}
host "b" {
  nic "rail0" {
    netdev      = "rail0"
    host_number = 2
  }
}
host "c" {
  nic "rail0" {
    netdev      = "rail0"
    host_number = 3
  }
}
network "rail0" {
  members = [host.a.nic.rail0, host.b.nic.rail0, host.c.nic.rail0]
  subnet  = "10.77.0.0/24"
  role    = "training"
}
validate {
  nccl {
    %s
  }
}
nccl {
  %s
}
`

// railFabric is rails with a Python and the attributes of its nccl block.
func railFabric(t *testing.T, python, nccl string) *fabric.Fabric {
	t.Helper()
	return fabricOf(t, rails, fmt.Sprintf("run = \"torch\"\n    python = %q", python), nccl)
}

// fabricOf is a fabric with what runs collectives and the attributes of its nccl block.
func fabricOf(t *testing.T, hosts, run, nccl string) *fabric.Fabric {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rails.hcl")
	text := strings.NewReplacer(`{ netdev`, "{\n    netdev", `" }`, "\"\n  }").Replace(hosts)
	if err := os.WriteFile(path, fmt.Appendf(nil, text, run, nccl), 0o600); err != nil {
		t.Fatal(err)
	}
	f, _, d := config.Load(path, config.Options{})
	if d.HasErrors() {
		t.Fatal(d)
	}
	return f
}

// The torch of this test is a stand-in, so that it says nothing of NCCL. The helper, its Python, the
// script, the namespaces, the checks before and the counters after are real.
func TestCollectivesWithAStandInForTorch(t *testing.T) {
	together(t)
	modules, err := filepath.Abs("../probe/collective/testdata/standin")
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(t.TempDir(), "python3")
	text := fmt.Sprintf("#!/bin/sh\nPYTHONPATH='%s' PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 \"$@\"\n", modules)
	if err := os.WriteFile(python, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	const alone = "write = false\n  socket_ifname = " // the stand-in reads no files
	fleet := twoHosts(t, func(int) []string { return nil })
	check := func(name, nccl string, fails bool, want ...string) {
		t.Helper()
		fleet.name = name
		got := verdicts(validators.Run(t.Context(), railFabric(t, python, nccl), fleet, validators.Options{Only: []validators.Check{validators.CheckNCCL}, Lab: true}))
		t.Log(name + ":\n" + got)
		if failed := strings.Contains(got, "fail "); failed != fails {
			t.Errorf("%s: failed is %v", name, failed)
		}
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: it does not say %q", name, w)
			}
		}
	}
	check("right", alone+`"rail0"`, false, "pass a ranks: 2 on 2 hosts, torch 0+standin", "pass a all_reduce values", "pass a broadcast values", "pass a send_recv values", "GB/s bus bandwidth at ")
	log, err := os.ReadFile(filepath.Join(fleet.out, "right-b-rank1.log"))
	if err != nil || !strings.Contains(string(log), "=rail0") {
		t.Errorf("the rank was not told its interface: %s %v", log, err)
	}
	check("missing-interface", `socket_ifname = "rail7"`, true, `NCCL_SOCKET_IFNAME is "rail7", but this host has no such interface`, "skip a collectives: ", "cannot work")
	fleet.address(t, "b", "rail0", "10.77.9.2/30")
	check("wrong-subnet", alone+`"rail0"`, true, "fail a collectives: not measured", "10.77.0.2")
	fleet.address(t, "b", "rail0", "10.77.0.2/30")
	check("right-again", alone+`"rail1"`, false, "sockets on rail1")
}
