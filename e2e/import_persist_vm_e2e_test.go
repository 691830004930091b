//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// ofRails has for each network manager what a person has written for two rails, the second one with a table of its own, and how the manager
// was told; for NetworkManager also a VLAN and a bond. %[1]d is the number of the host.
var ofRails = map[string]string{
	"networkd": `cat > /etc/systemd/network/20-rail0.network <<END
[Match]
Name=eth1
[Link]
MTUBytes=4200
[Network]
Address=10.20.0.%[1]d/24
IPv6AcceptRA=no
END
cat > /etc/systemd/network/21-rail1.network <<END
[Match]
Name=eth2
[Network]
Address=10.20.1.%[1]d/24
Address=fd00:20::%[1]d/64
IPv6AcceptRA=no
[Route]
Destination=10.98.0.0/16
Gateway=10.20.1.9
Table=102
[RoutingPolicyRule]
From=10.20.1.%[1]d
Table=102
Priority=10102
END
networkctl reload`,
	"networkmanager": `nmcli connection add type ethernet ifname eth1 con-name rail0 802-3-ethernet.mtu 4200 ipv4.method manual ipv4.addresses 10.20.0.%[1]d/24 ipv6.method link-local
nmcli connection add type ethernet ifname eth2 con-name rail1 ipv4.method manual ipv4.addresses 10.20.1.%[1]d/24 ipv4.routes "10.98.0.0/16 10.20.1.9 table=102" \
  ipv4.routing-rules "priority 10102 from 10.20.1.%[1]d table 102" ipv6.method manual ipv6.addresses fd00:20::%[1]d/64
nmcli connection add type vlan ifname eth2.100 con-name storage dev eth2 id 100 vlan.egress 5:3 ipv4.method manual ipv4.addresses 10.20.2.%[1]d/24 ipv6.method link-local
nmcli connection add type bond ifname bond0 con-name pair bond.options mode=active-backup,miimon=200 ipv4.method manual ipv4.addresses 10.20.3.%[1]d/24 ipv6.method disabled
for d in eth3 eth4; do nmcli connection add type ethernet ifname $d con-name pair-$d master bond0 slave-type bond; nmcli connection up pair-$d; done
nmcli connection up rail0; nmcli connection up rail1; nmcli connection up storage`,
	"netplan-networkd": `umask 077; cat > /etc/netplan/60-rails.yaml <<END
# The rails of this host.
network:
  version: 2
  ethernets:
    eth1:
      mtu: 4200
# what follows was once another address
      addresses: [10.20.0.%[1]d/24]
      accept-ra: false

    second:
      match: {name: eth2}
      accept-ra: false
      addresses:
        - 10.20.1.%[1]d/24
        - fd00:20::%[1]d/64
      routes:
        - {to: 10.98.0.0/16, via: 10.20.1.9, table: 102}
      routing-policy:
        - {from: 10.20.1.%[1]d, table: 102, priority: 10102}
END
netplan apply`,
	"ifupdown": `cat >> /etc/network/interfaces <<END

auto eth1 eth2
iface eth1 inet static
  address 10.20.0.%[1]d/24
  mtu 4200

iface eth2 inet static
  address 10.20.1.%[1]d/24
  up ip route add 10.98.0.0/16 via 10.20.1.9 dev eth2 table 102
  up ip rule add from 10.20.1.%[1]d table 102 priority 10102
iface eth2 inet6 static
  address fd00:20::%[1]d/64
  accept_ra 0
END
ifup eth1 eth2`,
}

// bondOfNetplan is what a person has written for a bond and a VLAN, after the rails.
const bondOfNetplan = `    eth3: {}
    eth4: {}
  bonds:
    bond0:
      interfaces: [eth3, eth4]
      parameters: {mode: active-backup, mii-monitor-interval: 200}
      addresses: [10.20.3.%[1]d/24]
      link-local: []
      accept-ra: false
  vlans:
    eth2.100: {id: 100, link: second, accept-ra: false, addresses: [10.20.2.%[1]d/24]}
`

// removal is what import says of one file on some hosts.
var removal = regexp.MustCompile("(?m)^! ([^:]+): before the first apply, remove (?:(lines? .*) of )?(/[^ ,]+), a file of [^ ,]+(?:, then run `([^`]*)`)?$")

// TestRemovedAsImportSays: hosts whose rails a person configured, with one network manager after the other. Without the lines and files that
// import -persist names, and nothing else, the plan has our files alone. After them, after a reboot, a rollback and a destroy, the hosts are as before,
// with the same link-local addresses.
func TestRemovedAsImportSays(t *testing.T) {
	long(t)
	for _, o := range owners {
		t.Run(o.name, func(t *testing.T) { removedAsImportSays(t, o.name) })
	}
}

func removedAsImportSays(t *testing.T, owner string) {
	dir := t.TempDir()
	bare, state := filepath.Join(dir, "bare.hcl"), t.TempDir()
	hand, ports := ofRails[owner], 2
	if owner == "netplan-networkmanager" {
		hand = strings.Replace(ofRails["netplan-networkd"], "END\nnetplan", bondOfNetplan+"END\nnetplan", 1)
	}
	if strings.Contains(hand, "bond0") {
		ports = 4
	}
	text := "fabric \"bare\" {}\n"
	for i, host := range []string{"node1", "node2"} {
		text += fmt.Sprintf("host %q {\n  address = \"192.168.1.10%d\"\n", host, i+1)
		for port := range ports {
			text += fmt.Sprintf("  nic \"p%d\" { netdev = \"eth%d\" }\n", port, port+1)
		}
		text += "}\n"
	}
	for port := range ports {
		text += fmt.Sprintf("link \"p%d\" { endpoints = [host.node1.nic.p%[1]d, host.node2.nic.p%[1]d] }\n", port)
	}
	if err := os.WriteFile(bare, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { try(t, state, "lab", "down", bare) })
	try(t, state, "lab", "up", "-backend", "vm", "-owner", owner, bare).want(t, 0, "is up")
	on := func(host, script string) string { return inside(t, state, bare, host, "sh", "-ec", script) }
	t.Cleanup(func() {
		if t.Failed() {
			logConsoles(t, state)
			for _, host := range []string{"node1", "node2"} {
				t.Log(on(host, "free -m; ps -eo pid,rss,etimes,args --sort=-rss | head -20; journalctl --no-pager -n 400 -u NetworkManager -u systemd-networkd -u networking; "+
					"ip rule; ip route show table all; ip -d addr; nmcli device || true; nmcli connection || true"))
			}
		}
	})
	// What the kernel has of the rails, without who added it and what changes by itself.
	const now = `for d in eth1 eth2 $(ls /sys/class/net | grep -E '^(eth2[.]100|bond0|eth[34])$'); do
  echo $d $(cat /sys/class/net/$d/mtu) $(ip -d link show dev $d | grep -oE 'master bond0|vlan protocol 802.1Q id 100|\{ 5:3 \}|active-backup|miimon 200'); ip -br addr show dev $d | grep -o '[0-9a-f.:]*/[0-9]*' | sort
done
ip route show table all | grep -E 'dev (eth[12]|bond0)' | grep -v -e fe80 -e ff00 -e anycast -e '^local' -e broadcast -e multicast | sed -E 's/ (proto|metric|pref|scope) [^ ]+//g; s/ +$//' | sort
ip rule | grep 10102: | sed 's/ proto .*//'`
	want := map[string]string{}
	for i, host := range []string{"node1", "node2"} {
		on(host, fmt.Sprintf(hand, i+1))
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
			want[host] = on(host, now)
			there := []string{"eth1 4200\n10.20.0.", "fd00:20::", "10.98.0.0/16", "10102:", "\nfe80:", "\nfe80:"}
			if ports > 2 {
				there = append(there, "\nfe80:", "eth2.100 1500 vlan protocol 802.1Q id 100", "\n10.20.2.", "bond0 1500 active-backup miimon 200\n10.20.3.", "eth3 1500 master bond0", "eth4 1500 master bond0")
			}
			if owner == "networkmanager" {
				there = append(there, "{ 5:3 }")
			}
			left, all := want[host], true
			for _, part := range there {
				all = all && strings.Contains(left, part)
				left = strings.Replace(left, part, "", 1)
			}
			if all {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s does not configure %s:\n%s", owner, host, want[host])
			}
		}
	}
	to := filepath.Join(dir, "kept")
	a := try(t, state, "import", "-lab", "-persist", "-listen=1s", "-out", to, bare)
	raw, err := os.ReadFile(filepath.Join(to, "fabric.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", raw)
	a.want(t, 0, fmt.Sprintf("2 hosts, %d links", ports))
	removals := removal.FindAllStringSubmatch(a.out, -1)
	if len(removals) == 0 || strings.Count(a.out, "before the first apply") != len(removals) {
		t.Fatalf("%d removals are understood", len(removals))
	}
	for _, r := range removals {
		script := "rm " + r[3]
		if r[2] != "" {
			edits := regexp.MustCompile(`lines? `).ReplaceAllString(strings.NewReplacer(" and ", "d;", " to ", ",").Replace(r[2]), "") + "d"
			script = fmt.Sprintf("sed -i '%s' %s", edits, r[3])
		}
		if r[4] != "" {
			script += "; " + r[4]
		}
		for host := range strings.SplitSeq(r[1], ", ") {
			t.Logf("%s\n%s", script, on(host, script+"; ! [ -e "+r[3]+" ] || cat "+r[3]))
		}
	}
	if left := on("node1", "grep -rE 'eth[1-4]|bond0' /etc/systemd/network /etc/netplan /etc/network /etc/NetworkManager 2>/dev/null | grep -v lab-eth || true"); left != "" {
		t.Errorf("files still name the rails:\n%s", left)
	}
	p := try(t, state, "plan", "-lab=bare", "-json", "-detailed-exitcode", to)
	p.want(t, 2)
	files := 0
	for line := range strings.Lines(p.out) {
		var of struct {
			Host struct {
				Actions []struct {
					Resource struct{ Addr struct{ Kind, Name string } }
				}
			}
		}
		if err := json.Unmarshal([]byte(line), &of); err != nil {
			t.Fatal(err)
		}
		for _, action := range of.Host.Actions {
			switch kind := action.Resource.Addr.Kind; kind {
			case "persist":
				files++
			case "manager": // NetworkManager lets go of a NIC that it has no file for
			default:
				t.Errorf("the plan has a change of %s.%s", kind, action.Resource.Addr.Name)
			}
		}
	}
	if files != 2 {
		t.Errorf("the plan has the files of %d hosts", files)
	}
	if t.Failed() {
		t.FailNow()
	}
	settled := func() {
		t.Helper()
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end) && try(t, state, "plan", "-lab=bare", "-detailed-exitcode", to).code != 0; {
			time.Sleep(2 * time.Second)
		}
		try(t, state, "plan", "-lab=bare", "-detailed-exitcode", to).want(t, 0, "No changes")
		for host, was := range want {
			if is := on(host, now); is != was {
				t.Errorf("%s was\n%s\nand is\n%s", host, was, is)
			}
		}
	}
	// From here on, what NetworkManager does when it waits for DHCP in vain must not happen: it would remove all addresses after 45 s.
	stays := func() {
		t.Helper()
		for _, wait := range []time.Duration{0, time.Minute} {
			if wait == 0 || strings.HasSuffix(owner, "networkmanager") {
				time.Sleep(wait)
				for host, was := range want {
					if is := on(host, now); is != was {
						t.Errorf("%s was\n%s\nand %s later is\n%s", host, was, wait, is)
					}
				}
			}
		}
	}
	for host := range want {
		on(host, "systemd-run --quiet --unit=rules sh -c 'exec ip -o monitor rule address > /root/rules'; sleep 1; "+
			"ip rule add priority 9999 table 9; ip rule del priority 9999; ip addr add 10.99.9.9/32 dev lo; ip addr del 10.99.9.9/32 dev lo")
	}
	apply := func() {
		t.Helper()
		try(t, state, "apply", "-lab=bare", "-auto-approve", "-no-verify", to).want(t, 0, "✓ node1.persist.files", "✓ node2.persist.files")
		settled()
	}
	apply()
	for host := range want {
		if text := on(host, "cat /root/rules"); leastRules(text) < 1 || removedAddress.MatchString(text) || !strings.Contains(text, "Deleted 9999:") || !strings.Contains(text, "inet 10.99.9.9/32") {
			t.Errorf("%s had no rule for a moment, or lost an address, or nothing was watched:\n%s", host, text)
		}
	}
	try(t, state, "rollback", "-lab=bare", "-auto-approve", to).want(t, 0, "node1, node2  reverted")
	stays()
	apply()
	try(t, state, "lab", "reboot", bare, "node1").want(t, 0)
	settled()
	try(t, state, "verify", "-lab=bare", "-only", "ping", to).want(t, 0, "Verified (ping)")
	try(t, state, "destroy", "-lab=bare", "-auto-approve", to).want(t, 0)
	stays()
	for host := range want {
		if files := on(host, "find /etc -name '*fabricform*'"); files != "" {
			t.Errorf("destroy leaves on %s:\n%s", host, files)
		}
		t.Logf("%s: %d rules at the least, from the first apply to the end", host, leastRules(on(host, "cat /root/rules 2>/dev/null || true")))
	}
}

// removedAddress is what ip monitor says of an address of the rails that is removed, even for a moment.
var removedAddress = regexp.MustCompile(`(?m)^Deleted .* inet6? (10\.20\.|fd00:20:)`)

// leastRules is the smallest number of rules of priority 10102 that there were, from what ip monitor said since there was one.
func leastRules(monitored string) int {
	n, least := 1, 1
	for line := range strings.Lines(monitored) {
		switch {
		case strings.HasPrefix(line, "Deleted 10102:"):
			n--
		case strings.HasPrefix(line, "10102:"):
			n++
		}
		least = min(least, n)
	}
	return least
}
