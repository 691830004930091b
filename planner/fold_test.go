package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/resource"
)

func TestNames(t *testing.T) {
	for want, in := range map[string][]string{
		"gpu[00-03]":            {"gpu00", "gpu01", "gpu02", "gpu03"},
		"a, b":                  {"b", "a"},
		"gpu1, gpu2":            {"gpu1", "gpu2"},
		"gpu[1-3], gpu5":        {"gpu5", "gpu3", "gpu2", "gpu1"},
		"h9, h[10-12]":          {"h10", "h11", "h12", "h9"},
		"x99999999999999999999": {"x99999999999999999999"},
	} {
		if got := Names(in); got != want {
			// "h10" sorts before "h9" as text: the ranges are what matters.
			if want != "h9, h[10-12]" || got != "h[10-12], h9" {
				t.Errorf("%v: %s, want %s", in, got, want)
			}
		}
	}
}

func TestEqualHostsFold(t *testing.T) {
	p := &Plan{}
	for i := range 4 {
		mtu := resource.Change{Attribute: "mtu", From: "1500", To: "9000"}
		if i == 3 {
			mtu.Attribute = "state"
		}
		p.Hosts = append(p.Hosts, HostPlan{Name: fmt.Sprintf("h%d", i), Actions: []Action{{Op: Update, Resource: resource.Resource{Addr: resource.Addr{Kind: "nic", Name: "r"}},
			Changes: []resource.Change{mtu, {Attribute: "address", To: fmt.Sprintf("10.0.0.%d/24", i)}}}}})
	}
	g := p.Groups()
	if len(g) != 2 || Names(g[0].Hosts) != "h[0-2]" || g[0].Actions[0].Changes[1].To != "10.0.0.0/24 … 10.0.0.2/24" || g[0].Actions[0].Changes[1].Hosts != nil || g[0].Actions[0].Changes[0].Hosts != nil {
		t.Fatalf("%+v", g)
	}
	if g[1].Management == nil || g[1].Management.Name != "h3" {
		t.Fatalf("%+v", g[1])
	}
	p.Hosts[0].Management.Unknown = "the login passed none" // h0 is as good as its neighbours, but for what is known of it
	if g := p.Groups(); len(g) != 3 || Names(g[0].Hosts) != "h0" || g[0].UnknownPath == "" || Names(g[1].Hosts) != "h1, h2" || g[1].UnknownPath != "" {
		t.Fatalf("%+v", g)
	}
}

// TestFoldingNamesWhatDiffers: only equal values fold, and those that rise by one step from host to host.
func TestFoldingNamesWhatDiffers(t *testing.T) {
	change := func(attribute, from, to string) resource.Change {
		return resource.Change{Attribute: attribute, From: from, To: to}
	}
	each := func(n int, of func(i int) resource.Change) (out []resource.Change) {
		for i := range n {
			out = append(out, of(i))
		}
		return out
	}
	addressed := func(last ...int) []resource.Change {
		return each(len(last), func(i int) resource.Change { return change("address", "", fmt.Sprintf("10.0.0.%d/24", last[i])) })
	}
	for _, c := range []struct {
		name string
		of   []resource.Change // of h0, h1 and so on
		want []string
	}{
		{"equal", each(8, func(int) resource.Change { return change("mtu", "1500", "9000") }), []string{"mtu 1500 > 9000 on "}},
		{"one other value before", each(8, func(i int) resource.Change {
			return change("arp_ignore", map[bool]string{true: "0", false: "1"}[i == 5], "2")
		}), []string{"arp_ignore 1 > 2 on h[0-4], h6, h7", "arp_ignore 0 > 2 on h5"}},
		{"addresses in a row", addressed(7, 8, 9, 10, 11), []string{"address  > 10.0.0.7/24 … 10.0.0.11/24 on "}},
		{"addresses in steps of four", addressed(1, 5, 9, 13), []string{"address  > 10.0.0.1/24 … 10.0.0.13/24 on "}},
		{"across a byte", each(3, func(i int) resource.Change {
			return change("address", "", []string{"10.0.0.255/16", "10.0.1.0/16", "10.0.1.1/16"}[i])
		}), []string{"address  > 10.0.0.255/16 … 10.0.1.1/16 on "}},
		{"IPv6", each(4, func(i int) resource.Change { return change("address", "", fmt.Sprintf("fd00::%x/64", 8+i)) }), []string{"address  > fd00::8/64 … fd00::b/64 on "}},
		{"one other address", addressed(1, 2, 3, 99, 5, 6), []string{"address  > 10.0.0.1/24 … 10.0.0.3/24 on h[0-2]", "address  > 10.0.0.99/24 on h3", "address  > 10.0.0.5/24 … 10.0.0.6/24 on h4, h5"}},
		{"the last is the other one", addressed(1, 2, 3, 4, 77), []string{"address  > 10.0.0.1/24 … 10.0.0.4/24 on h[0-3]", "address  > 10.0.0.77/24 on h4"}},
		{"a pair in a row", addressed(1, 2), []string{"address  > 10.0.0.1/24 … 10.0.0.2/24 on "}},
		{"a pair of unlike addresses", addressed(1, 50), []string{"address  > 10.0.0.1/24 on h0", "address  > 10.0.0.50/24 on h1"}},
		{"backwards", addressed(3, 2, 1), []string{"address  > 10.0.0.3/24 on h0", "address  > 10.0.0.2/24 on h1", "address  > 10.0.0.1/24 on h2"}},
		{"another prefix length", each(3, func(i int) resource.Change {
			return change("address", "", []string{"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/16"}[i])
		}), []string{"address  > 10.0.0.1/24 … 10.0.0.2/24 on h0, h1", "address  > 10.0.0.3/16 on h2"}},
		{"devices that only look alike", each(2, func(i int) resource.Change { return change("route", "dev "+[]string{"eth1", "enp1s0"}[i], "") }),
			[]string{"route dev eth1 >  on h0", "route dev enp1s0 >  on h1"}},
		{"names in a row", each(3, func(i int) resource.Change { return change("route", "", fmt.Sprintf("dev eth%d proto 251", i+1)) }), []string{"route  > dev eth1 proto 251 … dev eth3 proto 251 on "}},
		{"digests, and one other mode", each(4, func(i int) resource.Change {
			return change("file", "", fmt.Sprintf("sha256:%d%d,%s", i, i, []string{"0644", "0644", "0644", "0600"}[i]))
		}), []string{"file  > digests that differ,0644 on h[0-2]", "file  > sha256:33,0600 on h3"}},
		{"the first digest comes again", each(3, func(i int) resource.Change {
			return change("file", []string{"sha256:aa,0644", "sha256:bb,0644", "sha256:aa,0644"}[i], fmt.Sprintf("sha256:%d,0644", i))
		}), []string{"file digests that differ,0644 > digests that differ,0644 on "}},
		{"ten hosts are counted, not spelled", addressed(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), []string{"address  > 10.0.0.0/24 … 10.0.0.11/24 on "}},
	} {
		p := &Plan{}
		for i, change := range c.of {
			p.Hosts = append(p.Hosts, HostPlan{Name: fmt.Sprintf("h%d", i), Actions: []Action{{Op: Update, Resource: resource.Resource{Addr: resource.Addr{Kind: "nic", Name: "r"}}, Changes: []resource.Change{change}}}})
		}
		slices.SortFunc(p.Hosts, func(a, b HostPlan) int { return strings.Compare(a.Name, b.Name) }) // as config sorts them
		groups := p.Groups()
		if len(groups) != 1 {
			t.Fatalf("%s: %d groups", c.name, len(groups))
		}
		var got []string
		for _, g := range groups[0].Actions[0].Changes {
			got = append(got, fmt.Sprintf("%s %s > %s on %s", g.Attribute, g.From, g.To, Names(g.Hosts)))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// TestWhatIsLeftIsNamed: in full where it is the same on all hosts.
func TestWhatIsLeftIsNamed(t *testing.T) {
	of := func(host, dst string, more ...resource.Change) HostPlan {
		return HostPlan{Name: host, Actions: []Action{{Resource: resource.Resource{Addr: resource.Addr{Host: host, Kind: "policy_route", Name: "101"}}, Op: Undo,
			Adopted: append([]resource.Change{{Attribute: "route " + dst}, {Attribute: "route 10.9.0.0/16"}, {Attribute: "rule"}}, more...)}}}
	}
	for want, hosts := range map[string][]HostPlan{
		"route 10.1.0.0/16, route 10.9.0.0/16, rule": {of("a", "10.1.0.0/16"), of("b", "10.1.0.0/16")},
		"route (2 on each host), rule":               {of("a", "10.1.0.0/16"), of("b", "10.2.0.0/16")},
	} {
		groups := (&Plan{Hosts: hosts}).Groups()
		if len(groups) != 1 || strings.Join(groups[0].Actions[0].Adopted, ", ") != want {
			t.Errorf("want %s: %+v", want, groups)
		}
	}
	more := &Plan{Hosts: []HostPlan{of("a", "10.1.0.0/16"), of("b", "10.1.0.0/16", resource.Change{Attribute: "route 10.2.0.0/16"})}}
	if groups := more.Groups(); len(groups) != 2 {
		t.Errorf("a host of which more is left: %+v", groups)
	}
}

// TestAListWithoutOneselfFolds: hosts of a login_mesh have an entry for each of the others, so that one entry is at different places of their lists.
func TestAListWithoutOneselfFolds(t *testing.T) {
	p := &Plan{}
	for i := range 4 {
		var changes []resource.Change
		for k := range 4 {
			if k != i {
				changes = append(changes, resource.Change{Attribute: fmt.Sprintf("entry n%d", k+1), To: fmt.Sprintf("SHA256:%c", "xqbm"[k])})
			}
		}
		p.Hosts = append(p.Hosts, HostPlan{Name: fmt.Sprintf("n%d", i+1), Actions: []Action{{Op: Create, Resource: resource.Resource{Addr: resource.Addr{Kind: "login_mesh", Name: "m"}}, Changes: changes}}})
	}
	var got []string
	for _, c := range p.Groups()[0].Actions[0].Changes {
		got = append(got, c.Attribute+" "+c.To+" on "+Names(c.Hosts))
	}
	slices.Sort(got)
	want := []string{"entry n1 SHA256:x on n[2-4]", "entry n2 SHA256:q on n1, n3, n4", "entry n3 SHA256:b on n1, n2, n4", "entry n4 SHA256:m on n[1-3]"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
