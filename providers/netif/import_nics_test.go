package netif

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// bare is a host without sysctls.
type bare struct{ host.Reader }

func (bare) ReadDir(context.Context, string) ([]string, error) { return nil, fs.ErrNotExist }

func (bare) Dump(context.Context, uint16) ([][]byte, error) { return nil, nil }

func (bare) Sysctl(context.Context, string) (string, error) { return "", errors.New("no such key") }

// TestWhichNICsAreImported: Ethernet ports that are up or have a setting, by PCI address; never one that carries the operator's connection, and
// no address that the host made for a time.
func TestWhichNICsAreImported(t *testing.T) {
	link := func(index int, name, pci string, change ...func(*host.Link)) host.Link {
		l := host.Link{Index: index, Name: name, PCI: pci, MAC: "02:00:00:00:00:01", MTU: 1500, Up: true}
		for _, c := range change {
			c(&l)
		}
		return l
	}
	down := func(l *host.Link) { l.Up = false }
	snap := &facts.Snapshot{Management: facts.Management{Devices: []string{"bond0", "eno1"}}, Links: []host.Link{
		link(1, "lo", "", func(l *host.Link) { l.Loopback = true }),
		link(2, "eno1", "0000:01:00.0"),
		link(3, "ens9", "0000:03:00.0"),
		link(4, "ens8", "0000:02:00.0", func(l *host.Link) { l.MTU = 9000 }),
		link(5, "bond0", "", func(l *host.Link) { l.Kind = "bond" }),
		link(6, "br0", "", func(l *host.Link) { l.Kind = "bridge" }),
		link(7, "ib0", "0000:04:00.0", func(l *host.Link) { l.MAC = strings.Repeat("02:", 19) + "02" }),
		link(8, "idle", "0000:05:00.0", down),
		link(9, "planned", "0000:06:00.0", down, func(l *host.Link) { l.MTU = 4200 }),
		link(10, "veth0", "", func(l *host.Link) { l.Kind = "veth" }),
		link(11, "x${y}", "0000:07:00.0"),
		link(12, "cabled", "0000:08:00.0", down),
		link(13, "bond:1", "", func(l *host.Link) { l.Kind = "bond" }),
	}, Addrs: []host.Addr{
		{Index: 4, Prefix: netip.MustParsePrefix("10.0.0.1/24")},
		{Index: 3, Prefix: netip.MustParsePrefix("2001:db8::1/64"), Temporary: true},
		{Index: 2, Prefix: netip.MustParsePrefix("192.0.2.1/24")},
		{Index: 1, Prefix: netip.MustParsePrefix("127.0.0.1/8"), Scope: 254},
		{Index: 1, Prefix: netip.MustParsePrefix("10.9.9.9/32")},
	}}
	d := &resource.Draft{Snapshot: snap, Host: &fabric.Host{}, Cabled: []string{"cabled", "eno1", "veth0"}}
	if err := (nic{}).Import(t.Context(), bare{}, d); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range d.Host.NICs {
		got = append(got, n.Name+"="+n.Netdev)
		if n.AddressesSet != (n.Netdev == "ens8") {
			t.Errorf("%s: addresses %v", n.Netdev, n.Addresses)
		}
	}
	if text := strings.Join(got, " "); text != "rail0=ens8 rail1=ens9 rail2=planned rail3=cabled" {
		t.Errorf("imported: %s", text)
	}
	var said strings.Builder
	for _, r := range d.Remarks {
		said.WriteString(r.Text + "\n")
	}
	if strings.Contains(said.String(), "127.0.0.1") {
		t.Errorf("the kernel's own address is among\n%s", said.String())
	}
	for _, want := range []string{"eno1 carries your connection: it is never imported", "bond0 carries your connection", "br0 is a bridge: not imported", "ib0 is not an Ethernet port",
		"idle is down and has no settings", "address 10.9.9.9/32 of lo: the loopback device is not imported\n", "veth0 is a veth: not imported", "it has addresses with a lifetime, as from DHCP or router advertisements",
		`"x${y}" is a name that no file can declare`, `"bond:1" is a name that no file can declare`, "it is down, and its cable was found"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not among\n%s", want, said.String())
		}
	}
}

// files is a host with these files below /proc/sys.
type files struct {
	bare
	of map[string]string
}

func (f files) ReadDir(_ context.Context, dir string) (names []string, err error) {
	for path := range f.of {
		if name, is := strings.CutPrefix("/proc/sys/"+path, dir+"/"); is {
			names = append(names, name)
		}
	}
	return names, nil
}

func (f files) Sysctl(_ context.Context, path string) (string, error) {
	value, is := f.of[path]
	if !is {
		return "", fs.ErrNotExist
	}
	return value, nil
}

// TestIPv6OfANICIsImported: that it is off, except on members of bonds, and how its link-local address is made, if a word says so.
func TestIPv6OfANICIsImported(t *testing.T) {
	h := files{of: map[string]string{
		"net/ipv6/conf/default/disable_ipv6": "0", "net/ipv6/conf/eth0/disable_ipv6": "1", "net/ipv6/conf/eth1/disable_ipv6": "0",
		"net/ipv6/conf/default/addr_gen_mode": "0", "net/ipv6/conf/eth0/addr_gen_mode": "3", "net/ipv6/conf/eth1/addr_gen_mode": "1",
	}}
	for _, c := range []struct {
		link           host.Link
		off, mode, say string
	}{
		{host.Link{Index: 2, Name: "eth0"}, "1", "keep", "ipv6.conf.addr_gen_mode = 3: ipv6_link_local has no word for it"},
		{host.Link{Index: 2, Name: "eth0", Master: 9}, "", "keep", "ipv6.conf.addr_gen_mode = 3: ipv6_link_local has no word for it"},
		{host.Link{Index: 3, Name: "eth1"}, "", "none", ""},
	} {
		d := &resource.Draft{Snapshot: &facts.Snapshot{Links: []host.Link{c.link}}, Host: &fabric.Host{}}
		n := &fabric.NIC{Name: "rail0", Netdev: c.link.Name, IPv6LinkLocal: "keep"}
		if err := draftSysctls(t.Context(), h, d, n, c.link); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for _, r := range d.Remarks {
			said.WriteString(r.Text)
		}
		if n.Sysctl["ipv6.conf.disable_ipv6"] != c.off || n.IPv6LinkLocal != c.mode || said.String() != c.say {
			t.Errorf("%+v: %v, %s, %q", c.link, n.Sysctl, n.IPv6LinkLocal, said.String())
		}
	}
}
