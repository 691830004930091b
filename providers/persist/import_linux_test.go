package persist

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/resource"
)

// soft is a host with a Soft-RoCE device on a NIC.
func soft(nic, device bool) (*fabric.Fabric, *fabric.Host) {
	h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{{Name: "rail0", Host: "a", Netdev: "eth1", Persist: nic}},
		RXE: []*fabric.RXE{{Name: "rxe0", NIC: fabric.NICRef{Host: "a", NIC: "rail0"}, Persist: device}}}
	return &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{h}}, h
}

// TestNothingIsKeptOfADeviceThatIsNotPersistent: neither it nor its module, which no other device needs.
func TestNothingIsKeptOfADeviceThatIsNotPersistent(t *testing.T) {
	for _, c := range []struct {
		nic, device bool
		want        string
	}{{true, true, "rdma_rxe rxe0"}, {true, false, ""}, {false, true, ""}, {false, false, ""}} {
		f, h := soft(c.nic, c.device)
		got := ""
		for _, r := range Desired(f, h) {
			if s := decode[Spec](r); r.Addr.Kind == Kind {
				got = strings.Join(s.Modules, " ")
				for _, x := range s.RXE {
					got += " " + x.Device
				}
			}
		}
		if got != c.want {
			t.Errorf("NIC %v, device %v: %q is kept, want %q", c.nic, c.device, got, c.want)
		}
	}
}

// TestAnImportLeavesBootsToWhoDoesThem: with its reason, unless the files are to keep what they declare.
func TestAnImportLeavesBootsToWhoDoesThem(t *testing.T) {
	files := map[string]string{
		"/etc/netplan/99-hand.yaml":        "network:\n  ethernets:\n    eth1:\n      mtu: 9000\n\n      addresses: [10.0.0.1/24]\n    eth2: {}\n",
		"/etc/security/limits.conf":        "#*  soft memlock 1\n* soft memlock 64\n* hard memlock 64\nroot - memlock 7\n",
		"/etc/security/limits.d/rdma.conf": "* - memlock unlimited # of the NICs' vendor\n",
	}
	draft := func(persist bool) *resource.Draft {
		_, h := soft(true, true)
		h.NICs = append(h.NICs, &fabric.NIC{Name: "rail1", Host: "a", Netdev: "eth2", Persist: true})
		h.Sysctl = map[string]string{"net.ipv4.ip_forward": "1"}
		snap := &facts.Snapshot{Links: []host.Link{{Index: 1, Name: "eth1"}, {Index: 2, Name: "eth2"}}}
		h.NICs[0].Addresses, h.NICs[0].AddressesSet = []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}, true
		netmanager.Part.Put(snap, netmanager.Found{Active: []string{"netplan", "systemd-networkd"}, Behind: "systemd-networkd",
			Claims: map[string]netmanager.Claim{"eth1": {Manager: "netplan", File: "/run/systemd/network/10-netplan-eth1.network", Exact: true}}})
		d := &resource.Draft{Snapshot: snap, Host: h, Persist: persist}
		if err := (provider{}).Import(t.Context(), machine(t, files), d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := draft(false)
	if d.Host.NICs[0].Persist || d.Host.NICs[1].Persist || d.Host.RXE[0].Persist || len(d.Host.Sysctl) > 0 || d.Host.Memlock != "" || len(d.Remarks) != 4 ||
		d.Remarks[0] != (resource.Remark{NIC: "rail0", Text: "not persistent here: /etc/netplan/99-hand.yaml configures it, a file of netplan"}) || !d.Remarks[2].Left ||
		d.Remarks[2].Text != `memlock = "unlimited": /etc/security/limits.d/rdma.conf sets it and keeps it` || !d.Remarks[3].Left {
		t.Errorf("%+v, remarks %+v", d.Host, d.Remarks)
	}
	if got := Desired(&fabric.Fabric{Name: "f"}, d.Host); len(got) > 0 {
		t.Errorf("the first plan would keep %v", got)
	}
	d = draft(true)
	if !d.Host.NICs[0].Persist || !d.Host.NICs[1].Persist || !d.Host.RXE[0].Persist || len(d.Host.Sysctl) != 1 || len(d.Remarks) != 1 ||
		d.Host.Memlock != "unlimited" || !d.Remarks[0].Before || d.Remarks[0].Text != "before the first apply, remove lines 3 to 6 of /etc/netplan/99-hand.yaml, a file of netplan, then run `netplan generate`" {
		t.Errorf("%+v, remarks %+v", d.Host, d.Remarks)
	}
}

// TestAnImportKeepsWhatOurFilesKeep: a fabric that was applied here is continued, with -persist or without.
func TestAnImportKeepsWhatOurFilesKeep(t *testing.T) {
	for _, persist := range []bool{false, true} {
		_, h := soft(true, true)
		h.RXE = append(h.RXE, &fabric.RXE{Name: "rxe1", NIC: h.RXE[0].NIC, Persist: true})
		h.NICs = append(h.NICs, &fabric.NIC{Name: "rail1", Host: "a", Netdev: "eth2", Persist: true})
		h.Sysctl = map[string]string{"net.ipv4.ip_forward": "1", "net.ipv4.tcp_sack": "0"}
		snap := &facts.Snapshot{Links: []host.Link{{Index: 1, Name: "eth1"}, {Index: 2, Name: "eth2"}}}
		netmanager.Part.Put(snap, netmanager.Found{Claims: map[string]netmanager.Claim{
			"eth1": {Manager: "systemd-networkd", File: "/etc/systemd/network/05-fabricform-f-eth1.network", Exact: true},
			"eth2": {Manager: "systemd-networkd", File: "/etc/systemd/network/10-hand.network", Exact: true}}})
		d := &resource.Draft{Snapshot: snap, Host: h, Persist: persist}
		err := (provider{}).Import(t.Context(), machine(t, map[string]string{
			sysctlsPath("f"): netmanager.Header("f") + "-net/ipv4/tcp_sack = 0\nnet/ipv4/ip_forward = 1\n",
			"/etc/security/limits.d/fabricform-f.conf":          netmanager.Header("f") + "* soft memlock 2048\n* hard memlock 2048\nroot soft memlock 1\n",
			"/etc/security/limits.d/hand.conf":                  "* - memlock unlimited\n",
			"/etc/systemd/system/fabricform-f-rxe-rxe0.service": "",
			"/etc/systemd/system/somebody-rxe-rxe1.service":     "",
		}), d)
		if err != nil {
			t.Fatal(err)
		}
		if !h.NICs[0].Persist || h.NICs[1].Persist != persist || !h.RXE[0].Persist || h.RXE[1].Persist != persist || h.Memlock != "2097152" || h.Sysctl["net.ipv4.ip_forward"] != "1" ||
			(h.Sysctl["net.ipv4.tcp_sack"] == "0") != persist {
			t.Errorf("persist %v: %+v, %+v", persist, h, d.Remarks)
		}
		for _, r := range d.Remarks {
			if r.NIC == "rail0" {
				t.Errorf("persist %v: %+v", persist, r)
			}
		}
	}
}

// TestTheLimitOfLockedMemoryIsThatOfPAM: the last line of all users counts, and only if both limits agree.
func TestTheLimitOfLockedMemoryIsThatOfPAM(t *testing.T) {
	for text, want := range map[string]string{
		"* - memlock unlimited": "unlimited", "* soft memlock infinity\n* hard memlock -1": "unlimited", "* - memlock 64": "65536", "* - memlock 64\n* - memlock unlimited": "unlimited",
		"* hard memlock unlimited": "", "* soft memlock unlimited": "", "* soft memlock 64\n* hard memlock 128": "", "root - memlock unlimited": "", "* - nofile 64": "",
		"* - memlock lots": "", "#* - memlock unlimited": "", "": "",
	} {
		if limit, _ := memlockNow(t.Context(), machine(t, map[string]string{"/etc/security/limits.conf": text})); limit != want {
			t.Errorf("%q: %q, want %q", text, limit, want)
		}
	}
}

// TestOnlyWhatWouldOverrideOursIsRemoved: a file goes on that configures a NIC by DHCP, or by a pattern that sorts after our file.
func TestOnlyWhatWouldOverrideOursIsRemoved(t *testing.T) {
	address := netip.MustParsePrefix("10.0.0.1/24")
	const folder = "/etc/systemd/network/"
	exact := netmanager.Claim{Manager: "systemd-networkd", File: folder + "20-rails.network", Exact: true}
	pattern := netmanager.Claim{Manager: "systemd-networkd", File: folder + "80-all.network"}
	for name, c := range map[string]struct {
		claims  map[string]netmanager.Claim
		active  []string
		learned bool // the second NIC has its addresses by DHCP
		want    string
		chosen  string
	}{
		"one file of both": {map[string]netmanager.Claim{"eth1": exact, "eth2": exact}, nil, false, "rail0: before the first apply, remove " + exact.File + ", a file of systemd-networkd", ""},
		"and one by DHCP":  {map[string]netmanager.Claim{"eth1": exact, "eth2": exact}, nil, true, "rail0: before the first apply, remove eth1 from " + exact.File + ", a file of systemd-networkd", ""},
		"by DHCP":          {map[string]netmanager.Claim{"eth2": exact}, nil, true, "", ""},
		"a later pattern":  {map[string]netmanager.Claim{"eth1": pattern, "eth2": pattern}, nil, false, "", ""},
		"an earlier pattern": {map[string]netmanager.Claim{"eth1": {Manager: "systemd-networkd", File: folder + "00-all.network"}}, nil, false,
			"rail0: before the first apply, exclude eth1 from the pattern in " + folder + "00-all.network, a file of systemd-networkd, or rename the file so that it sorts after ours", ""},
		"nobody's": {nil, nil, false, "", ""},
		"two managers": {nil, []string{"networkmanager", "systemd-networkd"}, false,
			": before the first apply, nic rail0: several network managers are active, and none configures eth1 yet: networkmanager, systemd-networkd; choose one with `network_manager` on the host", ""},
		"two managers, and one has both files": {map[string]netmanager.Claim{"eth1": exact, "eth2": exact}, []string{"networkmanager", "systemd-networkd"}, false,
			"rail0: before the first apply, remove " + exact.File + ", a file of systemd-networkd", "systemd-networkd"},
	} {
		t.Run(name, func(t *testing.T) {
			_, h := soft(true, true)
			h.NICs[0].Addresses, h.NICs[0].AddressesSet = []netip.Prefix{address}, true
			h.NICs = append(h.NICs, &fabric.NIC{Name: "rail1", Host: "a", Netdev: "eth2", Persist: true, AddressesSet: !c.learned})
			snap := &facts.Snapshot{Links: []host.Link{{Index: 1, Name: "eth1"}, {Index: 2, Name: "eth2"}}}
			if c.active == nil {
				c.active = []string{"systemd-networkd"}
			}
			netmanager.Part.Put(snap, netmanager.Found{Active: c.active, Claims: c.claims})
			d := &resource.Draft{Snapshot: snap, Host: h, Persist: true}
			if err := (provider{}).Import(t.Context(), machine(t, nil), d); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range d.Remarks {
				got = append(got, r.NIC+": "+r.Text)
			}
			if strings.Join(got, "; ") != c.want || h.NetworkManager != c.chosen {
				t.Errorf("%q, want %q; the manager is %q, want %q", got, c.want, h.NetworkManager, c.chosen)
			}
		})
	}
}

// TestAnImportLeavesLinkLocalAddressesToTheirManager: the mode none tells nothing of a link that NetworkManager manages.
func TestAnImportLeavesLinkLocalAddressesToTheirManager(t *testing.T) {
	for _, persist := range []bool{false, true} {
		nic := func(name, netdev, linkLocal string) *fabric.NIC {
			return &fabric.NIC{Name: name, Host: "a", Netdev: netdev, Persist: true, IPv6LinkLocal: linkLocal, Addresses: prefixes("10.0.0.1/24"), AddressesSet: true}
		}
		h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{nic("managed", "ens1f0", "none"), nic("other", "ens2f0", "none"), nic("kernel", "ens-3.7", "eui64")}}
		snap := snapshot(networkManager)
		found(snap, func(f *netmanager.Found) { f.InCharge = []string{"ens1f0", "ens-3.7"} })
		d := &resource.Draft{Snapshot: snap, Host: h, Persist: persist}
		if err := (provider{}).Import(t.Context(), machine(t, nil), d); err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"keep", "none", "eui64"} {
			if got := h.NICs[i].IPv6LinkLocal; got != want {
				t.Errorf("persist %v, %s: %q, want %q", persist, h.NICs[i].Name, got, want)
			}
		}
	}
}
