//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// madeTrace is what a host has of bonds, VLANs, Soft-RoCE devices, addresses, routes and rules, without its hardware addresses, what changes by
// itself, and who added a route.
const madeTrace = `for d in eth1 eth2 bond0 bond0.200 storage; do
  ip -d link show dev $d; ip addr show dev $d; cat /proc/sys/net/ipv6/conf/$d/accept_ra
done 2>/dev/null | sed -E 's/^[0-9]+: //; s/ (state|mode) [A-Z]+//g; s/promiscuity [0-9]+ //; s/,?(LOWER_UP|NO-CARRIER),?//g; s/[0-9a-f]{2}(:[0-9a-f]{2}){5}/MAC/g
  s/ad_[a-z_]+ [^ ]+ ?//g; s/(perm_hwaddr|permaddr) [^ ]+ ?//g; s/mii_status [A-Z]+//; s/ ?parentbus.*//; s/link_failure_count [0-9]+//; /valid_lft/d; /inet6 fe80/d; s/ +$//'
ip route show table all | grep -E 'bond0|storage' | grep -Ev 'fe80|ff00' | sed -E 's/ proto [^ ]+//; s/ linkdown//' | sort
ip rule | sed 's/ proto .*//'; rdma link show | sed -E 's/ state .*netdev/ netdev/'
for d in eth1 eth2; do for of in pfc app apptrust; do dcb $of show dev $d; done; done`

// TestABondMadeByHandIsImported: two machines with a bond of two cables, a lossless class, VLANs with a rule, memlock, and Soft-RoCE, all made by
// hand. The plan of the imported files is empty. With -persist, the first plan has files alone, and after it the hosts are imported again with
// an empty plan. On fresh machines the files make the same.
func TestABondMadeByHandIsImported(t *testing.T) {
	long(t)
	dir := t.TempDir()
	bare := filepath.Join(dir, "bare.hcl")
	text := "fabric \"bare\" {}\n"
	for i, host := range []string{"node1", "node2"} {
		text += fmt.Sprintf("host %q {\n  address = \"192.168.1.10%d\"\n  nic \"p0\" { netdev = \"eth1\" }\n  nic \"p1\" { netdev = \"eth2\" }\n}\n", host, i+1)
	}
	for _, nic := range []string{"p0", "p1"} {
		text += fmt.Sprintf("link %q { endpoints = [host.node1.nic.%[1]s, host.node2.nic.%[1]s] }\n", nic)
	}
	if err := os.WriteFile(bare, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	state := vmLabFor(t, bare)
	was := map[string]string{}
	for i, host := range []string{"node1", "node2"} {
		inside(t, state, bare, host, "sh", "-ec", strings.Join([]string{
			"modprobe -a bonding 8021q rdma_rxe",
			`for d in eth1 eth2; do ethtool -A $d rx off tx off || true; dcb dcbx set dev $d host ieee; dcb pfc set dev $d prio-pfc all:off 5:on
dcb app replace dev $d dscp-prio 40:5; dcb apptrust set dev $d order dscp
dcb ets set dev $d tc-tsa all:strict 0:ets 5:ets tc-bw all:0 0:40 5:60 prio-tc 0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7; done`,
			"ip link add bond0 type bond mode 802.3ad miimon 100 lacp_rate fast xmit_hash_policy layer3+4",
			"for d in eth1 eth2; do ip link set $d down; ip link set $d master bond0; done",
			"ip link set bond0 up mtu 4200",
			fmt.Sprintf("ip addr add 10.40.0.%d/30 brd + dev bond0", i+1),
			"ip link add link bond0 name bond0.200 type vlan id 200 egress-qos-map 4:3",
			"ip link set bond0.200 up mtu 1500",
			fmt.Sprintf("ip addr add 10.2.0.%d/24 brd + dev bond0.200", i+1),
			"ip link add link bond0 name storage type vlan id 300",
			fmt.Sprintf("ip link set storage up; ip addr add 10.3.0.%d/24 brd + dev storage", i+1),
			"for d in bond0 bond0.200 storage; do echo 0 > /proc/sys/net/ipv6/conf/$d/accept_ra; done",
			"ip route add 10.9.0.0/16 via 10.2.0.254 dev bond0.200 table 200",
			fmt.Sprintf("ip rule add priority 10200 from 10.2.0.%d lookup 200", i+1),
			"rdma link add rxe0 type rxe netdev bond0",
			"mkdir -p /etc/security/limits.d; echo '* - memlock unlimited' > /etc/security/limits.d/hand.conf",
		}, "\n"))
	}
	time.Sleep(5 * time.Second) // LACP and duplicate address detection
	for _, host := range []string{"node1", "node2"} {
		was[host] = inside(t, state, bare, host, "sh", "-c", madeTrace)
	}
	to := filepath.Join(dir, "handmade")
	a := try(t, state, "import", "-lab", "-listen=5s", "-out", to, bare)
	raw, err := os.ReadFile(filepath.Join(to, "fabric.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", raw)
	a.want(t, 0, "2 hosts, 3 links", "fabricform plan -lab=bare "+to)
	for _, want := range []string{`qos      = qos.lossless`, `dscp     = 40`, `ets      = { 0 = 40, 5 = 60 }`, `link "node1-node2-bond0"`, `link "node1-node2-vlan200"`, `link "node1-node2-storage"`, `on           = bond.bond0`, `from  = vlan.vlan200.ip`,
		`nic     = bond.bond0`, `memlock = "unlimited": /etc/security/limits.d/hand.conf sets it and keeps it`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%q is not in the file", want)
		}
	}
	try(t, state, "plan", "-lab=bare", "-detailed-exitcode", to).want(t, 0, "No changes")
	try(t, state, "fmt", "-check", to).want(t, 0)
	for _, host := range []string{"node1", "node2"} {
		if is := inside(t, state, bare, host, "sh", "-c", madeTrace); is != was[host] {
			t.Errorf("the import changed %s:\n%s\n%s", host, was[host], is)
		}
	}

	t.Run("with -persist", func(t *testing.T) {
		kept := filepath.Join(dir, "kept")
		try(t, state, "import", "-lab", "-persist", "-listen=1s", "-out", kept, bare).want(t, 0, "Wrote ")
		raw, err := os.ReadFile(filepath.Join(kept, "fabric.hcl"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), `memlock  = "unlimited"`) && !strings.Contains(string(raw), `memlock = "unlimited"`) {
			t.Errorf("memlock is not declared:\n%s", raw)
		}
		p := try(t, state, "plan", "-lab=bare", "-detailed-exitcode", kept)
		p.want(t, 2, "/etc/security/limits.d/fabricform-kept.conf")
		for line := range strings.Lines(p.out) {
			sign, of, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.Contains("~+-✗", sign) && sign != "" && !slices.ContainsFunc([]string{"persist.files", "program.boot", "file ", "folder ", "/usr/local/lib/fabricform/"}, func(own string) bool { return strings.HasPrefix(of, own) }) {
				t.Errorf("the plan has more than files: %s", line)
			}
		}
		try(t, state, "apply", "-lab=bare", "-auto-approve", "-no-verify", kept).want(t, 0, "✓ node1.persist.files")
		inside(t, state, bare, "node1", "sh", "-c", "cat /etc/sysctl.d/99-z-fabricform-kept.conf")
		again := filepath.Join(dir, "again") // the hosts belong to that fabric now, and it is continued
		try(t, state, "import", "-lab", "-listen=1s", "-out", again, bare).want(t, 0, "Wrote ")
		raw, err = os.ReadFile(filepath.Join(again, "fabric.hcl"))
		if err != nil || strings.Contains(string(raw), "persist = false") || !strings.Contains(string(raw), `fabric "kept" {}`) {
			t.Errorf("%v\n%s", err, raw)
		}
		t.Logf("%s", raw)
		try(t, state, "plan", "-lab=bare", "-detailed-exitcode", again).want(t, 0, "No changes")
	})
	t.Run("on fresh machines", func(t *testing.T) {
		try(t, state, "lab", "down", bare).want(t, 0)
		state := vmLabFor(t, to)
		for _, host := range []string{"node1", "node2"} {
			inside(t, state, to, host, "modprobe", "-a", "bonding", "8021q", "rdma_rxe")
		}
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", to).want(t, 0, "✓ node1.bond.bond0", "✓ node2.rxe.rxe0")
		time.Sleep(5 * time.Second)
		for _, host := range []string{"node1", "node2"} {
			if is := inside(t, state, to, host, "sh", "-c", madeTrace); is != was[host] {
				t.Errorf("%s was\n%s\nand is\n%s", host, was[host], is)
			}
		}
	})
}
