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
	for _, want := range []string{"eno1 carries your connection: it is never imported", "bond0 carries your connection", "br0 is a bridge: not imported", "ib0 is no Ethernet port",
		"idle is down and has no settings", "veth0 is a veth: not imported", "it has addresses from DHCP or router advertisements",
		`"x${y}" is a name that no file can declare`, `"bond:1" is a name that no file can declare`, "it is down, and its cable was found"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not among\n%s", want, said.String())
		}
	}
}
