package validators

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/probe"
)

// The items of the check.
const (
	LoginsWork  Item = "logins" // of a host to the others
	LoginFailed Item = "login"  // to a host, with the same result from several hosts

	MetricLogins Metric = "logins"
)

// logins has each host of a mesh log in to each other host, by the host's own ssh and as the mesh's user.
func (r *run) logins(ctx context.Context, _ []*trial) (out []Result) {
	if len(r.fabric.LoginMeshes) == 0 && slices.Contains(r.options.Only, CheckLogin) {
		res := Result{Check: CheckLogin, Subject: Subject{Kind: SubjectHosts}}
		return []Result{res.skips(NotDeclared, "no login_mesh is declared")}
	}
	for _, m := range r.fabric.LoginMeshes {
		r.options.progress(fmt.Sprintf("%s: login_mesh %s, %d hosts", CheckLogin, m.Name, len(m.Hosts)))
		out = append(out, r.mesh(ctx, m)...)
	}
	return out
}

// attempt is a login that is worth a result of its own.
type attempt struct {
	from, to string
	result   probe.LoginResult
}

// atHome are the states that have their cause on the host that logs in; the others have it on the peer, or on the way there.
var atHome = []probe.LoginState{probe.LoginKeyMissing, probe.LoginNotSetUp, probe.LoginRedirected,
	probe.LoginNoClient, probe.LoginUserMissing}

// refused are the states that the peer may know more about.
var refused = []probe.LoginState{probe.LoginKeyRefused, probe.LoginNoShell, probe.LoginClosed}

// mesh tries the logins of one mesh, with one call to each host.
func (r *run) mesh(ctx context.Context, m *fabric.LoginMesh) (out []Result) {
	var hosts []string
	for _, ref := range m.Hosts {
		name := string(ref)
		res := Result{Check: CheckLogin, Item: LoginsWork, Subject: onHost(name), Host: name, Object: m.Name}
		switch {
		case r.options.excluded(name):
		case r.snapshots[name] == nil:
			out = append(out, res.skips(HostUnreachable, "host "+name+" could not be reached: "+r.options.Unreachable[name]))
		case r.options.OmitLogins != "":
			out = append(out, res.skips(NotApplied, r.options.OmitLogins))
		case r.options.omitsHost(name) != "":
			out = append(out, res.skips(NotApplied, r.options.omitsHost(name)))
		default:
			hosts = append(hosts, name)
		}
	}
	at := r.loginAddresses()
	hosts = slices.DeleteFunc(hosts, func(name string) bool {
		if len(at[name]) > 0 {
			return false
		}
		res := Result{Check: CheckLogin, Item: LoginsWork, Subject: onHost(name), Host: name, Object: m.Name}
		out = append(out, res.skips(NoAddressPair, "no address of "+name+" is known, so that apply does not enter it: "+
			"declare an address of one of its NICs"))
		return true
	})
	slices.Sort(hosts)
	if len(hosts) < 2 {
		return out
	}
	var mu sync.Mutex
	var failed []attempt
	worked := make([]Result, len(hosts))
	parallel.Each(0, hosts, func(i int, from string) {
		res := Result{Check: CheckLogin, Item: LoginsWork, Subject: onHost(from), Host: from, Object: m.Name, Verdict: Pass}
		peers := slices.Concat(hosts[i+1:], hosts[:i]) // each host begins with another peer
		got, err := r.tryLogins(ctx, m, from, peers, at)
		if err != nil {
			worked[i] = res.unmeasured(err.Error(), "")
			return
		}
		for n, to := range peers {
			if got[n].State == probe.LoginWorks || got[n].State == probe.LoginPrints {
				res.Hosts = append(res.Hosts, to)
			}
			if got[n].State != probe.LoginWorks {
				mu.Lock()
				failed = append(failed, attempt{from, to, got[n]})
				mu.Unlock()
			}
		}
		slices.Sort(res.Hosts)
		res.Values = []Measurement{{Name: MetricLogins, Value: float64(len(res.Hosts)), OutOf: float64(len(peers))}}
		worked[i] = res
	})
	for _, res := range worked {
		if res.Unmeasured || len(res.Hosts) > 0 {
			out = append(out, res)
		}
	}
	return append(out, r.judgeLogins(ctx, m, failed)...)
}

// tryLogins returns the results of logins by the hosts' names, in the order of the peers.
func (r *run) tryLogins(ctx context.Context, m *fabric.LoginMesh, from string, peers []string,
	at map[string][]netip.Prefix) ([]probe.LoginResult, error) {
	var all []probe.LoginPeer
	for _, to := range peers {
		all = append(all, probe.LoginPeer{Name: to, Addrs: onlyAddresses(at[to]), Port: r.snapshots[to].Management.Port})
	}
	return r.tryPeers(ctx, m, from, all)
}

// tryPeers returns the results in the order of the peers. It checks the host's answer.
func (r *run) tryPeers(ctx context.Context, m *fabric.LoginMesh, from string, peers []probe.LoginPeer) ([]probe.LoginResult, error) {
	s := probe.LoginSpec{User: m.User, Key: fabric.LoginKey(m.Name), Peers: peers}
	got, err := probe.TryLogins.Call(ctx, r.fleet, from, s)
	if err == nil && len(got) != len(peers) {
		err = fmt.Errorf("host %s answered for %d peers instead of %d", from, len(got), len(peers))
	}
	for i := range got {
		if !slices.Contains(probe.LoginStates, got[i].State) {
			got[i].State = probe.LoginOtherFailure
		}
		got[i].Said = got[i].Said[:min(len(got[i].Said), probe.MaxLoginSaid)]
	}
	return got, err
}

// loginAddresses returns the addresses by which the others know each host that was reached, as the files of a mesh have them.
func (r *run) loginAddresses() map[string][]netip.Prefix {
	owners := r.fabric.AddressOwners(func(host string) (dialled netip.Addr) {
		if snap := r.snapshots[host]; snap != nil {
			dialled = snap.Management.Dialled
		}
		return dialled
	})
	out := map[string][]netip.Prefix{}
	for name, snap := range r.snapshots {
		out[name] = owners.Logins(r.hosts[name], snap.DialledNetwork())
	}
	return out
}

func onlyAddresses(all []netip.Prefix) (out []netip.Addr) {
	for _, p := range all {
		out = append(out, p.Addr())
	}
	return out
}

// barriers asks each peer that refused logins for the settings that refuse them. It asks about one of the logins, from the address that
// the peer saw: settings may differ by it.
func (r *run) barriers(ctx context.Context, m *fabric.LoginMesh, failed []attempt) map[string]string {
	from, at := map[string]netip.Addr{}, r.loginAddresses()
	for _, a := range failed {
		if slices.Contains(refused, a.result.State) {
			from[a.to], _ = fabric.LoginPath(at[a.from], at[a.to])
		}
	}
	var mu sync.Mutex
	out := map[string]string{}
	parallel.Each(0, slices.Collect(maps.Keys(from)), func(_ int, to string) {
		got, err := probe.InspectLogin.Call(ctx, r.fleet, to, probe.LoginInspection{User: m.User, From: from[to]})
		var texts []string
		for _, b := range got[:min(len(got), 8)] {
			texts = append(texts, strings.TrimSpace(fmt.Sprintf("%.60s %.200s", b.What, b.Value)))
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			out[to] = strings.Join(texts, ", ")
		}
	})
	return out
}

// judgeLogins returns one result for each host and reason, however many logins failed for it.
func (r *run) judgeLogins(ctx context.Context, m *fabric.LoginMesh, failed []attempt) (out []Result) {
	slices.SortFunc(failed, func(a, b attempt) int {
		return cmp.Or(strings.Compare(a.from, b.from), strings.Compare(a.to, b.to))
	})
	barriers := r.barriers(ctx, m, failed)
	type same struct {
		host   string // that has the cause
		result probe.LoginResult
	}
	var order []same
	others := map[same][]string{}
	for _, a := range failed {
		k, other := same{a.to, a.result}, a.from
		if slices.Contains(atHome, a.result.State) {
			k, other = same{a.from, a.result}, a.to
		}
		if others[k] == nil {
			order = append(order, k)
		}
		others[k] = append(others[k], other)
	}
	slices.SortStableFunc(order, func(a, b same) int { return strings.Compare(a.host, b.host) })
	for _, k := range order {
		res := Result{Check: CheckLogin, Item: LoginFailed, Subject: onHost(k.host), Object: m.Name, Found: string(k.result.State)}
		one, other := &res.Peer, &res.Host
		if slices.Contains(atHome, k.result.State) {
			one, other = other, one
		}
		if *one, res.Hosts = k.host, others[k]; len(res.Hosts) == 1 {
			*other, res.Hosts = res.Hosts[0], nil
		}
		cause, cure := r.whyLogin(m, k.host, k.result.State)
		if slices.Contains(refused, k.result.State) && barriers[k.host] != "" {
			cause += "; " + k.host + " has " + barriers[k.host]
		}
		if k.result.Said != "" {
			cause += fmt.Sprintf(" (%q)", k.result.Said)
		}
		if res = res.fails(cause, cure); k.result.State == probe.LoginPrints {
			res.Verdict = Warn
		}
		out = append(out, res)
	}
	return out
}

// whyLogin explains a state to people. host has the cause.
func (r *run) whyLogin(m *fabric.LoginMesh, host string, state probe.LoginState) (cause, cure string) {
	switch state {
	case probe.LoginPrints:
		return "the shell of " + m.User + " on " + host +
				" prints text before the output of a command, which breaks scp, rsync and some MPI launchers",
			"make ~/.bashrc on " + host + ", and the files that it reads, print only in interactive shells"
	case probe.LoginNoShell:
		return host + " accepts the login, but the shell of " + m.User + " did not run a command",
			"give the user a login shell on " + host + ": usermod -s /bin/bash " + m.User
	case probe.LoginKeyRefused:
		return "the SSH server of " + host + " refuses the key",
			r.reapply() + "; if the plan is empty, the log of sshd on " + host + " has the reason"
	case probe.LoginKeyMissing:
		return "~/.ssh/" + fabric.LoginKey(m.Name) + " of " + m.User + " is missing on " + host + ", or cannot be used", r.reapply()
	case probe.LoginHostUnknown:
		return "the host key of " + host + " is not in the known_hosts of the mesh", r.reapply()
	case probe.LoginHostChanged:
		return "the host key of " + host + " differs from the one in the known_hosts of the mesh",
			"if the key was replaced on purpose, " + r.reapply()
	case probe.LoginNotSetUp:
		return "ssh on " + host + " does not use the mesh's key and address", r.reapply()
	case probe.LoginRedirected:
		return "~/.ssh/config of " + m.User + " on " + host +
			" sends ssh to another address or port than the fabric means, as another user, through a proxy, " +
			"or with other known hosts", "remove the names of the fabric's hosts from ~/.ssh/config"
	case probe.LoginUnconnected:
		return "nothing listens on the SSH port of " + host + ", or a firewall refuses it", "start sshd on this address, or allow the port"
	case probe.LoginNoRoute:
		return "no route leads to " + host, "declare a network that has both hosts, or a route"
	case probe.LoginTimedOut:
		return host + " did not answer in time: a firewall that drops packets, or a busy host",
			"allow the SSH port between the hosts of the mesh"
	case probe.LoginClosed:
		return host + " closed the connection before the login",
			"read the log of sshd on " + host + "; MaxStartups limits simultaneous logins"
	case probe.LoginNoClient:
		return host + " has no ssh client", "install OpenSSH's client"
	case probe.LoginUserMissing:
		return host + " has no user " + m.User, "create the user, with the same name on all hosts"
	}
	return "ssh to " + host + " failed", "run ssh " + host + " by hand as " + m.User + " to see the error"
}
