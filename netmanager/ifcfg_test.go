package netmanager

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers/netif"
)

// rail has what testdata/ifcfg configures.
func rail() Link {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	return Link{
		Fabric: "lab", Manager: ifcfg, Link: host.Link{Name: "ens1f0", MAC: "02:00:00:aa:00:02", PermMAC: "02:00:00:aa:00:02"},
		NIC: NIC{Name: "rail0",
			NICSpec: netif.NICSpec{MTU: 9000, Up: true, AddressesSet: true, Addresses: []netip.Prefix{
				prefix("10.20.0.1/24"), prefix("10.20.9.1/32"), prefix("fd00:20::1/64"), prefix("fd00:20::2/64"), prefix("fd00:21::1/64")}},
			Routes: []netif.RouteSpec{{To: prefix("10.30.0.0/16"), Via: addr("10.20.0.254"), Metric: 50}, {To: prefix("fd00:30::/48"), Via: addr("fd00:20::fe")}},
			Policies: []netif.PolicyRouteSpec{
				{From: prefix("10.20.0.1/32"), Table: 101, Priority: 10101, Routes: []netif.RouteSpec{
					{To: prefix("10.20.0.0/24"), Src: addr("10.20.0.1")}, {To: prefix("10.0.0.0/8"), Via: addr("10.20.0.254"), Src: addr("10.20.0.1")}}},
				{From: prefix("fd00:20::1/128"), To: prefix("fd00::/16"), Table: 101, Priority: 10102},
			}},
	}
}

// assignments are an ifcfg file's, each in one form: a mask becomes a prefix, the first address has the
// number 0, MACs are of small letters, and the name that only people read goes.
func assignments(text string) map[string]string {
	out := map[string]string{}
	for key, value := range ifcfgValues(text) {
		switch key {
		case "NAME":
			continue
		case "IPADDR", "PREFIX", "ARPCHECK":
			key += "0"
		case "NETMASK":
			ones, _ := net.IPMask(net.ParseIP(value).To4()).Size()
			key, value = "PREFIX0", fmt.Sprint(ones)
		case "HWADDR":
			value = strings.ToLower(value)
		}
		out[key] = value
	}
	return out
}

// arguments are the lines of a route or rule file; the order of ip's words does not matter.
func arguments(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words)%2 == 1 {
			words = append([]string{"to"}, words...)
		}
		var pairs []string
		for i := 0; i < len(words); i += 2 {
			pairs = append(pairs, words[i]+" "+words[i+1])
		}
		slices.Sort(pairs)
		out = append(out, strings.Join(pairs, " "))
	}
	return out
}

// TestIfcfgSaysWhatPeopleWrite compares our files with those in testdata/ifcfg, which have the forms that
// administrators' files in public repositories have.
func TestIfcfgSaysWhatPeopleWrite(t *testing.T) {
	theirs, err := filepath.Glob("testdata/ifcfg/*")
	if err != nil {
		t.Fatal(err)
	}
	files := ifcfg.Render([]Link{rail()})
	if len(files) != len(theirs) || len(files) != 5 {
		t.Fatalf("%d files of ours, %d of others", len(files), len(theirs))
	}
	for _, f := range files {
		kind, config, _ := strings.Cut(filepath.Base(f.Path), "-")
		if config != "fabricform-lab-ens1f0" {
			t.Errorf("%s: the scripts look for routes and rules by the name of the ifcfg file", f.Path)
		}
		raw, err := os.ReadFile(filepath.Join("testdata/ifcfg", kind+"-ens1f0"))
		if err != nil {
			t.Fatal(err)
		}
		if kind == "ifcfg" {
			if got, want := assignments(f.Text), assignments(string(raw)); !maps.Equal(got, want) {
				t.Errorf("%s:\ngot  %v\nwant %v", kind, got, want)
			}
		} else if got, want := arguments(f.Text), arguments(string(raw)); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", kind, got, want)
		}
	}
}

// TestNamesThatTheScriptsPassOver are never names of ours.
func TestNamesThatTheScriptsPassOver(t *testing.T) {
	l := rail()
	l.Fabric, l.Link.Name = "two-range", "ens1f0.bak"
	config := strings.TrimPrefix(filepath.Base(ifcfg.File(l)), "ifcfg-")
	if config != "fabricform-two_range-ens1f0_bak" || ifcfgPassedOver(config) || !ifcfgPassedOver(l.Stem()) {
		t.Error(config)
	}
}
