package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// note is hosts that a field note describes, and what an import must say of them.
type note struct {
	hosts  []string
	nics   []string             // netdevs of each host
	cables string               // HCL of the links and networks
	build  func(i int) []string // commands on the i-th host
	says   []string             // in the file
	lacks  []string             // not in the file
	warns  []string             // said by the plan
}

// TestHostsOfTheFieldNotesAreImported: built by hand as notes 001, 002 and 004 say, traps included; notes 000 and 003 are in
// TestHandMadeHostsAreImportedWithTheirTraps. What a namespace cannot have is not built: GPUs and torch (001), RDMA devices (002, 004), and the
// virtual machines and packages of note 004, whose Soft-RoCE device TestSoftRoCE has.
func TestHostsOfTheFieldNotesAreImported(t *testing.T) {
	together(t)
	for name, n := range map[string]note{
		"001-spark-pair": {
			hosts: []string{"spark-1", "spark-2"}, nics: []string{"enp1s0f0np0"},
			cables: `link "x" { endpoints = [host.spark-1.nic.n0, host.spark-2.nic.n0] }`,
			build: func(i int) []string {
				return []string{fmt.Sprintf("ip addr add 192.168.100.%d/24 dev enp1s0f0np0", 10+i), "ip link set enp1s0f0np0 up",
					"printf 'NCCL_SOCKET_IFNAME=enp1s0f0np0\nMASTER_ADDR=192.168.100.10\nMASTER_PORT=12355\nNCCL_DEBUG=INFO\nNCCL_NTHREADS=512\nNCCL_IB_DISABLE=0\n' > /etc/nccl.conf"}
			},
			says: []string{`link "spark-1-spark-2-rail0"`, `addresses = ["192.168.100.11/24"]`, "write = false leaves it to them",
				"Half of a port: On a DGX Spark, enp1s0f0np0 is one of the two functions of a port; the other is enP2p1s0f0np0",
				"MASTER_ADDR in /etc/nccl.conf: NCCL does not read it, so that no file of a fabric needs its value", "NCCL_SOCKET_IFNAME selects the interface for bootstrap, not the devices that carry data", `NCCL_IB_DISABLE = "0" is NCCL's default. Remove it.`},
			lacks: []string{"192.168.100.10\"", "12355"},
			warns: []string{"without =, a name matches all names that begin with it"},
		},
		"002-training-cluster": {
			hosts: []string{"node1", "node2"}, nics: []string{"eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "eth7", "eth8", "eth9"},
			cables: func() string {
				var b strings.Builder
				for i := range 10 {
					fmt.Fprintf(&b, "network \"x%d\" { members = [host.node1.nic.n%[1]d, host.node2.nic.n%[1]d] }\n", i)
				}
				return b.String()
			}(),
			build: func(i int) []string {
				out := []string{fmt.Sprintf("ip addr add 10.0.9.%d/24 dev eth0", i+1)}
				for n := range 10 {
					if n > 0 && n < 8 { // eth8 has none, and eth9 is not among the devices of NCCL
						out = append(out, fmt.Sprintf("ip addr add 10.1.%d.%d/24 dev eth%[1]d", n, i+1))
					}
					out = append(out, fmt.Sprintf("ip link set eth%d up", n))
				}
				return append(out, `cat > /etc/nccl.conf <<X
export NCCL_IBEXT_DISABLE="1"
export NCCL_IB_DISABLE="0"
export NCCL_IB_GID_INDEX="3"
export NCCL_IB_HCA="mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1,mlx5_8:1"
export NCCL_IB_PCI_RELAXED_ORDERING="1"
export NCCL_IB_RETRY_CNT="7"
export NCCL_IB_TIMEOUT="23"
export NCCL_SOCKET_IFNAME="eth0"  # MUST
X`)
			},
			says: []string{`line 4 of /etc/nccl.conf: NCCL takes "export NCCL_IB_HCA" for the whole name of a variable, so that the line has no effect`, `rail7 = { netdev = "eth7", subnet = "10.1.7.0/24" }`, `host "node" {`,
				"  nic \"rail8\" {\n    netdev = \"eth8\"\n  }\n", `network "rail8" {`},
			lacks: []string{"NCCL_IB_HCA ", "env"},
		},
		"004-soft-roce-lab": {
			hosts: []string{"rdma-node-1", "rdma-node-2"}, nics: []string{"enp0s3"},
			cables: `network "x" { members = [host.rdma-node-1.nic.n0, host.rdma-node-2.nic.n0] }`,
			build: func(i int) []string { // of the router's DHCP, by the bridged adapter
				return []string{"ip link set enp0s3 up", fmt.Sprintf("ip addr add 192.168.1.%d/24 dev enp0s3 valid_lft 86400 preferred_lft 86400", 101+i),
					"ip route add default via 192.168.1.1 dev enp0s3 proto dhcp metric 100"}
			},
			says: []string{`network "rail0" {`, "rail0: it has addresses with a lifetime, as from DHCP or router advertisements, which are left to them",
				"route 0.0.0.0/0 via 192.168.1.1 dev enp0s3 metric 100: it was learned (protocol 16)"},
			lacks: []string{"192.168.1.101", "addresses =", "route \""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			bare := filepath.Join(dir, "bare.hcl")
			text := fmt.Sprintf("fabric %q {}\n", "note-"+name)
			for i, host := range n.hosts {
				text += fmt.Sprintf("host %q {\n  address = \"10.0.0.1%d\"\n", host, i)
				for j, netdev := range n.nics {
					text += fmt.Sprintf("  nic \"n%d\" { netdev = %q }\n", j, netdev)
				}
				text += "}\n"
			}
			if err := os.WriteFile(bare, []byte(text+n.cables), 0o600); err != nil {
				t.Fatal(err)
			}
			state := labUpFor(t, bare)
			for i, host := range n.hosts {
				inside(t, state, bare, host, "sh", "-ec", strings.Join(n.build(i), "\n"))
			}
			to := filepath.Join(dir, "imported")
			try(t, state, "import", "-lab", "-listen=2s", "-out", to, bare).want(t, 0, "Wrote ")
			raw, err := os.ReadFile(filepath.Join(to, "fabric.hcl"))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s", raw)
			for _, want := range n.says {
				if !strings.Contains(string(raw), want) {
					t.Errorf("%q is not in the file", want)
				}
			}
			for _, wrong := range n.lacks {
				if strings.Contains(string(raw), wrong) {
					t.Errorf("%q is in the file", wrong)
				}
			}
			try(t, state, "plan", "-lab=note-"+name, "-detailed-exitcode", to).want(t, 0, append(n.warns, "No changes")...)
			try(t, state, "fmt", "-check", to).want(t, 0)
		})
	}
}
