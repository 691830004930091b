package persist

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
)

// TestTheLinkLocalAddressOfTheManagerStays: NetworkManager sets the kernel's mode none and makes the address itself. What it does with our file, it
// goes on doing while the port has no carrier, and so no address.
func TestTheLinkLocalAddressOfTheManagerStays(t *testing.T) {
	const derived, stable = "fe80::ff:fe00:2/64", "fe80::8c1:2af3:77d0:91be/64" // of 02:00:00:00:00:02
	no, yes := false, true
	for name, c := range map[string]struct {
		mode, declared string
		addresses      []string // of the link
		global         string   // the declared ones
		ra             *bool
		want           string // the method and how it makes addresses, for NetworkManager
		netplan        string // for netplan before it
	}{
		"from the MAC address":                {mode: "1", addresses: []string{derived}, want: "link-local eui64", netplan: "[ipv6] "},
		"from a secret":                       {mode: "1", addresses: []string{stable}, want: "link-local stable-privacy", netplan: "[ipv6] "},
		"and another one":                     {mode: "1", addresses: []string{"fe80::1/64", derived}, want: "link-local eui64", netplan: "[ipv6] "},
		"beside an address, from the MAC":     {mode: "1", addresses: []string{derived}, global: "fd00::1/64", want: "manual eui64", netplan: "[ipv6] eui64"},
		"beside an address, from a secret":    {mode: "1", addresses: []string{stable}, global: "fd00::1/64", want: "manual stable-privacy", netplan: "[ipv6] stable-privacy"},
		"none":                                {mode: "1", want: "disabled ", netplan: "[] "},
		"none, although there is one":         {mode: "1", declared: "none", addresses: []string{derived}, want: "disabled ", netplan: "[] "},
		"the kernel's":                        {mode: "0", addresses: []string{derived}, want: "ignore ", netplan: "[ipv6] "},
		"the kernel's, declared":              {mode: "1", declared: "eui64", addresses: []string{stable}, want: "ignore ", netplan: "[ipv6] "},
		"with advertisements, for the kernel": {mode: "1", addresses: []string{derived}, ra: &yes, want: "ignore ", netplan: "[ipv6] "},
		"without them":                        {mode: "1", addresses: []string{derived}, ra: &no, want: "link-local eui64", netplan: "[ipv6] "},
		"none, but one of IPv4":               {mode: "1", addresses: []string{"169.254.0.1/16"}, want: "disabled ", netplan: "[] "},
	} {
		for _, manager := range []string{networkManager, netplan} {
			s := Spec{Fabric: "lab", NICs: rich().NICs[1:2]}
			n := &s.NICs[0]
			n.Select, n.Up, n.AcceptRA, n.IPv6LinkLocal = facts.Selector{Netdev: "ens1f0"}, true, c.ra, c.declared
			if c.global != "" {
				n.Addresses = prefixes(c.global)
			}
			snap := snapshot(slices.Compact([]string{manager, networkManager})...)
			found(snap, func(f *netmanager.Found) { f.Behind = networkManager })
			snap.Sysctls["net/ipv6/conf/ens1f0/addr_gen_mode"] = c.mode
			for _, a := range append(c.addresses, c.global) {
				if p, err := netip.ParsePrefix(a); err == nil {
					snap.Addrs = append(snap.Addrs, host.Addr{Index: 2, Prefix: p})
				}
			}
			snap.Addrs = append(snap.Addrs, host.Addr{Index: 3, Prefix: netip.MustParsePrefix("fe80::5/64")})
			render := func() (path, text string) {
				ls, err := withManagers(snap, s)
				if err != nil {
					t.Fatal(err)
				}
				f := ls[0].Manager.Render(ls)[0]
				return f.Path, f.Text
			}
			path, text := render()
			want := c.want
			if manager == netplan {
				want = c.netplan
			}
			if got := method6(text); got != want {
				t.Errorf("%s, %s: %q, want %q, in\n%s", name, manager, got, want, text)
			}
			snap.Files = map[string]facts.File{path: {Text: text}}
			if _, again := render(); again != text {
				t.Errorf("%s, %s: with our file, it is\n%s\nand was\n%s", name, manager, again, text)
			}
			modes := []string{c.mode}
			if !strings.HasPrefix(name, "none") {
				modes = append(modes, "0") // as NetworkManager may leave it
			}
			for _, mode := range modes {
				snap.Addrs, snap.Sysctls["net/ipv6/conf/ens1f0/addr_gen_mode"] = nil, mode
				if _, again := render(); again != text {
					t.Errorf("%s, %s: without a carrier, with the mode %s, it is\n%s\nand was\n%s", name, manager, mode, again, text)
				}
			}
		}
	}
}

// method6 returns the IPv6 method in a file of NetworkManager or netplan, and how the link-local address is made.
func method6(text string) string {
	first, second := "method=", "addr-gen-mode="
	if _, after, is := strings.Cut(text, "[ipv6]\n"); is && strings.Contains(text, "[connection]") {
		text = after
	} else {
		first, second = "link-local: ", "ipv6-address-generation: "
	}
	value := func(key string) string {
		_, after, _ := strings.Cut(text, key)
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	return value(first) + " " + value(second)
}
