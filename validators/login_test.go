package validators

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/probe"
)

// logins returns a mesh of hosts a to d, and the results of its check. states has what a login ends with, by "FROM TO"; the others work.
func logins(t *testing.T, states map[string]probe.LoginResult, o Options, barriers ...probe.LoginBarrier) []Result {
	t.Helper()
	f, w := two(), newWires()
	mesh := &fabric.LoginMesh{Name: "train", User: "ann"}
	for i, h := range []string{"a", "b", "c", "d"} {
		if f.Host(h) == nil {
			f.Hosts = append(f.Hosts, &fabric.Host{Name: h})
			w.snaps[h] = &facts.Snapshot{}
		}
		w.snaps[h].Management.Dialled = netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
		mesh.Hosts = append(mesh.Hosts, fabric.HostRef(h))
	}
	f.LoginMeshes = []*fabric.LoginMesh{mesh}
	on(w.fake, probe.TryLogins, func(_ context.Context, from string, s probe.LoginSpec) (out []probe.LoginResult, err error) {
		if s.User != "ann" || s.Key != "fabricform_train" {
			t.Errorf("%+v", s)
		}
		for _, p := range s.Peers {
			if p.Name == "a" && fmt.Sprint(p.Addrs) != "[10.0.0.1 192.168.88.1 192.168.88.5]" {
				t.Errorf("a has %v", p.Addrs)
			}
			r, special := states[from+" "+p.Name]
			if r.State == "short" {
				return nil, nil
			}
			if !special {
				r.State = probe.LoginWorks
			}
			out = append(out, r)
		}
		return out, nil
	})
	asked := map[string]int{}
	on(w.fake, probe.InspectLogin, func(_ context.Context, h string, s probe.LoginInspection) ([]probe.LoginBarrier, error) {
		if asked[h]++; asked[h] > 1 || !s.From.IsValid() {
			t.Errorf("%s was asked %d times: %v", h, asked[h], s)
		}
		return barriers, nil
	})
	o.Only = []Check{CheckLogin}
	return measure(t, f, w, o)
}

// summary has the results as "verdict host>peer hosts found cause".
func summary(results []Result) string {
	var out strings.Builder
	for _, r := range results {
		fmt.Fprintf(&out, "%s %s>%s [%s] %s %s\n", r.Verdict, r.Host, r.Peer, strings.Join(r.Hosts, " "), values(r), r.Cause)
	}
	return out.String()
}

func TestEachHostOfAMeshLogsInToTheOthers(t *testing.T) {
	want := "pass a> [b c d] logins 3 of 3 \npass b> [a c d] logins 3 of 3 \npass c> [a b d] logins 3 of 3 \npass d> [a b c] logins 3 of 3 \n"
	if got := summary(logins(t, nil, Options{})); got != want {
		t.Errorf("%s", got)
	}
}

// TestLoginsThatFailAreGroupedByCause: by the peer that refuses, which is asked once why, or by the host that cannot log in.
func TestLoginsThatFailAreGroupedByCause(t *testing.T) {
	states := map[string]probe.LoginResult{"d b": {State: probe.LoginTimedOut}, "a c": {State: probe.LoginPrints, Said: "hello"}}
	for _, h := range []string{"a", "b", "c"} {
		states[h+" d"] = probe.LoginResult{State: probe.LoginKeyRefused, Said: "Permission denied"}
	}
	for _, h := range []string{"a", "b", "d"} {
		states["c "+h] = probe.LoginResult{State: probe.LoginKeyMissing}
	}
	states["c d"] = probe.LoginResult{State: probe.LoginKeyMissing}
	results := logins(t, states, Options{}, probe.LoginBarrier{What: "AllowUsers", Value: "bob"})
	got := summary(results)
	for _, want := range []string{
		"pass a> [b c] logins 2 of 3 \npass b> [a c] logins 2 of 3 \npass d> [a c] logins 2 of 3 \n",
		"fail d>b [] timed_out b did not answer in time",
		"warn a>c [] shell_prints the shell of ann on c prints text",
		"fail c> [a b d] key_missing ~/.ssh/fabricform_train of ann is missing on c",
		"fail >d [a b] key_refused the SSH server of d refuses the key; d has AllowUsers bob (\"Permission denied\")",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if len(results) != 7 {
		t.Errorf("%d results", len(results))
	}
}

// TestLoginsOfHostsThatAreAwayAreSkipped: nobody tries to reach them, and the others are judged.
func TestLoginsOfHostsThatAreAwayAreSkipped(t *testing.T) {
	got := summary(logins(t, map[string]probe.LoginResult{"a b": {}}, Options{Unreachable: map[string]string{"b": "no answer"}, OmitHost: func(h string) string { return map[string]string{"c": "left"}[h] }}))
	if want := "skip b> []  host b could not be reached: no answer\nskip c> []  left\npass a> [d] logins 1 of 1 \npass d> [a] logins 1 of 1 \n"; got != want {
		t.Error(got)
	}
	if got := summary(logins(t, map[string]probe.LoginResult{"a b": {}}, Options{OmitLogins: "keys only"})); strings.Count(got, "skip") != 4 || strings.Count(got, "\n") != 4 {
		t.Error(got)
	}
	results := measure(t, two(), newWires(), Options{Only: []Check{CheckLogin}})
	if len(results) != 1 || results[0].Skipped != NotDeclared {
		t.Error(results)
	}
}

// TestLoginsUseTheAddressesOfTheMesh: those that its files have, and no other. A peer is asked about the address that it saw. A host
// without an address fails no check of the other hosts.
func TestLoginsUseTheAddressesOfTheMesh(t *testing.T) {
	address := netip.MustParseAddr
	mesh := func(change func(f *fabric.Fabric, snaps map[string]*facts.Snapshot)) (tried map[string]string, asked, text string) {
		f, w := two(), newWires()
		f.LoginMeshes = []*fabric.LoginMesh{{Name: "train", User: "ann", Hosts: []fabric.HostRef{"a", "b"}}}
		w.snaps["a"].Management.Dialled, w.snaps["b"].Management.Dialled = address("2001:db8::1"), address("10.0.0.2")
		change(f, w.snaps)
		tried = map[string]string{}
		on(w.fake, probe.TryLogins, func(_ context.Context, from string, s probe.LoginSpec) (out []probe.LoginResult, err error) {
			for _, p := range s.Peers {
				tried[p.Name] = fmt.Sprint(p.Addrs)
				out = append(out, probe.LoginResult{State: probe.LoginKeyRefused})
			}
			return out, nil
		})
		on(w.fake, probe.InspectLogin, func(_ context.Context, h string, s probe.LoginInspection) ([]probe.LoginBarrier, error) {
			if h == "b" {
				asked = s.From.String()
			}
			return nil, nil
		})
		return tried, asked, summary(measure(t, f, w, Options{Only: []Check{CheckLogin}}))
	}
	tried, asked, _ := mesh(func(f *fabric.Fabric, snaps map[string]*facts.Snapshot) {
		nic := f.Host("a").NICs[0]
		nic.Addresses = append(nic.Addresses, netip.MustParsePrefix("fe80::5/64"), netip.MustParsePrefix("10.0.0.2/32")) // b may have it
	})
	if tried["a"] != "[2001:db8::1 192.168.88.1 192.168.88.5]" || tried["b"] != "[192.168.88.2 192.168.88.6]" || asked != "192.168.88.1" {
		t.Errorf("%v, %s", tried, asked)
	}
	tried, _, text := mesh(func(f *fabric.Fabric, snaps map[string]*facts.Snapshot) {
		for _, n := range f.Host("b").NICs {
			n.Addresses = nil
		}
		snaps["b"].Management.Dialled = netip.Addr{}
	})
	if want := "skip b> []  no address of b is known, so that apply does not enter it: declare an address of one of its NICs\n"; text != want || len(tried) > 0 {
		t.Errorf("%q, %v", text, tried)
	}
}

// TestAnswersAboutLoginsAreBounded: an unknown state is a failure, and a long text is cut.
func TestAnswersAboutLoginsAreBounded(t *testing.T) {
	results := logins(t, map[string]probe.LoginResult{"a b": {State: "\x1b[2J", Said: strings.Repeat("\x1b", 1<<16)}, "d a": {State: "short"}}, Options{})
	i := slices.IndexFunc(results, func(r Result) bool { return r.Verdict == Fail && r.Peer == "b" })
	if i < 0 || results[i].Found != string(probe.LoginOtherFailure) || len(results[i].Cause) > 1000 || strings.Contains(results[i].Cause, "\x1b") {
		t.Errorf("%+v", results)
	}
	if i := slices.IndexFunc(results, func(r Result) bool { return r.Host == "d" }); !results[i].Unmeasured {
		t.Errorf("%+v", results[i])
	}
}
