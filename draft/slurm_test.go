package draft

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// slurmNodes is what `scontrol show node` of Slurm 22.05 prints, with texts that nodes and users set.
const slurmNodes = `NodeName=gpu002 Arch=x86_64 CoresPerSocket=1 
   CPUAlloc=0 CPUTot=16 CPULoad=0.01
   NodeAddr=10.0.0.2 NodeHostName=gpu002 Version=22.05.8
   OS=Linux 6.1.0 #1 SMP NodeAddr=10.9.9.9 
   Comment=${file("/etc/shadow")} " } host "evil" {
   Reason=x NodeName=evil NodeAddr=evil [root@2026-11-27T14:00:00]

NodeName=gpu001 Arch=x86_64 CoresPerSocket=1 NodeAddr=gpu001 NodeHostName=gpu001 Version=22.05.8 Reason="${x}"
NodeName=a${b} Arch=x86_64 NodeAddr=10.0.0.3
NodeName=gpu003 Arch=x86_64 NodeAddr=-oProxyCommand=x
NodeName=gpu004 Arch=x86_64 NodeAddr=\x1b[31m
NodeName=gpu005 Arch=x86_64 NodeAddr=${file("/etc/shadow")}"
NodeName=gpu006 Arch=x86_64 NodeAddr=fd00::6 NodeHostName=gpu006
NodeName=gpu006 Arch=x86_64 NodeAddr=10.0.0.6
`

// TestSlurmNodes: names and addresses, of which no text is an expression of the file.
func TestSlurmNodes(t *testing.T) {
	for _, text := range []string{slurmNodes, strings.ReplaceAll(slurmNodes, "\n   ", " ")} {
		hosts, left, err := SlurmNodes(text)
		if err != nil {
			t.Fatal(err)
		}
		got := string(Write(Input{Fabric: "f", Hosts: hosts, Origin: "Nodes."}))
		const want = `# Nodes.
fabric "f" {}

host "gpu001" {}

host "gpu002" {
  address = "10.0.0.2"
}

host "gpu006" {
  address = "fd00::6"
}
`
		if got != want {
			t.Errorf("%s", got)
		}
		const why = `node "a${b}": files cannot declare a host of this name
node gpu003: its address "-oProxyCommand=x" is neither an IP address nor a name
node gpu004: its address "\\x1b[31m" is neither an IP address nor a name
node gpu005: its address "${file(\"/etc/shadow\")}\"" is neither an IP address nor a name
node gpu006: it is listed twice`
		if strings.Join(left, "\n") != why {
			t.Error(strings.Join(left, "\n"))
		}
	}
	for _, text := range []string{"", "\n\n", "slurm_load_node error: Unable to contact slurm controller", "NodeName=", "NodeName=a", "NodeName=a b", "PartitionName=x"} {
		if _, _, err := SlurmNodes(text); err == nil || !strings.Contains(err.Error(), "not the output of `scontrol show node`") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzSlurmNodes: what comes is a file of plain strings, or an error.
func FuzzSlurmNodes(f *testing.F) {
	f.Add(slurmNodes)
	f.Fuzz(func(t *testing.T, text string) {
		hosts, _, err := SlurmNodes(text)
		if err != nil {
			return
		}
		file, diags := hclwrite.ParseConfig(Write(Input{Fabric: "f", Hosts: hosts, Flat: true}), "f.hcl", hcl.InitialPos)
		if diags.HasErrors() || len(file.Body().Blocks()) != 1+len(hosts) {
			t.Errorf("%q: %v", text, diags)
		}
	})
}
