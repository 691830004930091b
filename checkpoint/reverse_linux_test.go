package checkpoint

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/resource"
)

const rpFilter = "/proc/sys/net/ipv4/conf/ff0/rp_filter"

func setRPFilter(t *testing.T, value string) {
	t.Helper()
	if err := os.WriteFile(rpFilter, []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ours is what the transactions of these tests set: an address, and an MTU below 1280, at which the kernel removes all of IPv6.
var ours = []resource.Atom{"nic ff0 mtu", "nic ff0 address 10.0.5.1/24"}

func makeOurs(t *testing.T) { ip(t, "addr add 10.0.5.1/24 dev ff0", "link set ff0 mtu 1000") }

// theirs are changes by another hand. The first address is secondary to ours.
func makeTheirs(t *testing.T) {
	ip(t, "addr add 10.0.5.9/24 dev ff0", "addr add 10.0.6.1/24 dev ff0", "route add 10.7.0.0/16 via 10.0.0.9 metric 3")
	setRPFilter(t, "2")
}

// withBackup begins a transaction with a backup of what ours can affect.
func withBackup(t *testing.T, h host.Host, s *Store, path *ManagementPath) *Transaction {
	t.Helper()
	tx := must[*Transaction](t)(s.Begin(Request{Fabric: "f", Plan: "p", Holder: anna}))
	backup := must[*Backup](t)(TakeBackup(t.Context(), h, providers.Kinds(), ours, nil))
	backup.Path = path
	return must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, backup))
}

// changedAndCommitted makes ours in a transaction that commits.
func changedAndCommitted(t *testing.T, h host.Host, s *Store) *Transaction {
	t.Helper()
	tx := withBackup(t, h, s, &ManagementPath{})
	makeOurs(t)
	for _, step := range []func(string, string) (*Transaction, error){prepareTo(s), s.Persist} {
		tx = must[*Transaction](t)(step(tx.ID, tx.Token))
	}
	now := must[*Backup](t)(must[*Backup](t)(s.ReadBackup(tx)).Again(t.Context(), h, providers.Kinds()))
	return must[*Transaction](t)(s.Commit(tx.ID, tx.Token, now))
}

func restorer(h host.Host) RestoreFunc {
	return func(ctx context.Context, b *Backup) ([]string, error) { return b.Restore(ctx, h, providers.Kinds()) }
}

func asText(changes []resource.Change) (out []string) {
	for _, c := range changes {
		out = append(out, fmt.Sprintf("%s: %s → %s", c.Attribute, c.From, c.To))
	}
	return out
}

// sorted is what the host has, whatever the order of the kernel's own routes is.
func sorted(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, c := range []string{"-o link", "-o addr", "route show table all", "-6 route show table all", "rule", "-6 rule"} {
		out = append(out, strings.Split(string(must[[]byte](t)(exec.Command("ip", strings.Fields(c)...).Output())), "\n")...)
	}
	slices.Sort(out)
	return out
}

// differs returns how the host differs from before. The kernel brings back what belongs to IPv6 addresses in a work queue
// (net/ipv6/addrconf.c, addrconf_dad_work), so it has ten seconds.
func differs(t *testing.T, before []string) string {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if d := cmp.Diff(before, sorted(t)); d == "" || time.Now().After(end) {
			return d
		}
	}
}

// has expects lines of ip to be there or not.
func has(t *testing.T, command string, there map[string]bool) {
	t.Helper()
	text := string(must[[]byte](t)(exec.Command("ip", strings.Fields(command)...).Output()))
	for want, is := range there {
		if strings.Contains(text, want) != is {
			t.Errorf("ip %s: %q is there: %v\n%s", command, want, !is, text)
		}
	}
}

// TestRollbackKeepsWhatOthersChanged: fault 33. What the kernel removed because of our change comes back.
func TestRollbackKeepsWhatOthersChanged(t *testing.T) {
	h := machine(t)
	ip(t, "rule add pref 5000 from 10.0.5.1 lookup 78") // before our address is there: nobody changes it
	before := sorted(t)
	s := NewStore(quick(t), Now)
	for _, foreign := range []bool{false, true} {
		tx := changedAndCommitted(t, h, s)
		if tx.CommittedHash == "" {
			t.Fatal("the state at the commit was not stored")
		}
		makeTheirs(t)
		ip(t, "rule add pref 5001 from 10.0.5.1 lookup 78")
		b := must[*Backup](t)(s.ReadBackup(tx))
		b.Foreign = foreign
		shown := must[Reversal](t)(b.Reverse(t.Context(), h, providers.Kinds()))
		theirs := []string{"address:  → 10.0.5.9/24", "address:  → 10.0.6.1/24", "route:  → 10.7.0.0/16 via 10.0.0.9 table 254 metric 3 proto 3 dev ff0", "rule:  → 5001 from 10.0.5.1/32 to 0.0.0.0/0 lookup 78", "sysctl ipv4.conf.rp_filter: 0 → 2"}
		if d := cmp.Diff(map[bool][]string{false: theirs}[foreign], asText(shown.Kept)); d != "" {
			t.Error("kept:", d)
		}
		changes := asText(shown.Changes)
		for _, want := range []string{"mtu: 1000 → 1500", "address: 10.0.5.1/24 → ", "address:  → fd00::1/64"} {
			if !strings.Contains(strings.Join(changes, "\n")+"\n", want+"\n") {
				t.Errorf("%q is not shown: %q", want, changes)
			}
		}
		if err := s.WillRollBack(tx.ID, Rollback{By: "bert@desk", Foreign: foreign}); err != nil {
			t.Fatal(err)
		}
		got := must[*Transaction](t)(s.Revert(t.Context(), tx.ID, RollBack, "rollback by bert@desk", restorer(h)))
		if got.State != Reverted || len(got.Unrestored) > 0 {
			t.Fatalf("%s: %q", got.State, got.Unrestored)
		}
		if d := cmp.Diff(asText(shown.Kept), asText(got.Kept)); d != "" {
			t.Error("the record says otherwise:", d)
		}
		has(t, "addr show dev ff0", map[string]bool{"10.0.5.1/24": false, "10.0.5.9/24": !foreign, "10.0.6.1/24": !foreign, "fd00::1/64": true, "mtu 1500": true})
		has(t, "route show", map[string]bool{"10.7.0.0/16": !foreign, "10.9.0.0/16": true})
		has(t, "rule show", map[string]bool{"5000:": true, "5001:": !foreign})
		if raw, err := os.ReadFile(rpFilter); err != nil || (strings.TrimSpace(string(raw)) == "2") == foreign {
			t.Errorf("rp_filter is %s, %v", raw, err)
		}
		if !foreign {
			ip(t, "addr del 10.0.5.9/24 dev ff0", "addr del 10.0.6.1/24 dev ff0", "route del 10.7.0.0/16 metric 3", "rule del pref 5001")
			setRPFilter(t, "0")
		}
		if d := differs(t, before); d != "" {
			t.Errorf("foreign is %v: not as before: %s", foreign, d)
		}
	}
}

// TestDevicesOfOthersThatGoDownAreNamed: in what a rollback shows, and in the record of a revert that nobody was asked about.
// They were above our NIC before, or somebody added them since.
func TestDevicesOfOthersThatGoDownAreNamed(t *testing.T) {
	h := machine(t)
	s := NewStore(quick(t), Now)
	ip(t, "link set ff0 down", "link add link ff0 name old0 type macvlan")
	tx := must[*Transaction](t)(s.Begin(Request{Fabric: "f", Plan: "p", Holder: anna}))
	backup := must[*Backup](t)(TakeBackup(t.Context(), h, providers.Kinds(), []resource.Atom{"nic ff0 state"}, nil))
	tx = must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, backup))
	ip(t, "link set ff0 up", "link add link ff0 name new0 type macvlan")
	want := []string{"old0 on ff0 is not ours and goes down with it", "new0 on ff0 is not ours and goes down with it"}
	shown := must[Reversal](t)(must[*Backup](t)(s.ReadBackup(tx)).Reverse(t.Context(), h, providers.Kinds()))
	if d := cmp.Diff(want, shown.Disturbed); d != "" {
		t.Error("shown:", d)
	}
	got := must[*Transaction](t)(s.Revert(t.Context(), tx.ID, Revert, "it failed", restorer(h)))
	if got.State != Reverted || got.Why != "it failed; "+strings.Join(want, "; ") {
		t.Errorf("%s: %s", got.State, got.Why)
	}
}

// TestWhatCannotStayIsNamed: a route that prefers our address cannot exist without it.
func TestWhatCannotStayIsNamed(t *testing.T) {
	h := machine(t)
	s := NewStore(quick(t), Now)
	tx := changedAndCommitted(t, h, s)
	ip(t, "route add 10.6.0.0/16 via 10.0.0.9 src 10.0.5.1")
	shown := must[Reversal](t)(must[*Backup](t)(s.ReadBackup(tx)).Reverse(t.Context(), h, providers.Kinds()))
	if len(shown.Kept) != 0 || len(shown.Overwritten) != 1 || !strings.HasPrefix(shown.Overwritten[0].From, "10.6.0.0/16 ") || !shown.Overwritten[0].Drift {
		t.Errorf("kept %q, overwritten %q", asText(shown.Kept), asText(shown.Overwritten))
	}
}

// TestAnExpiredLeaseLeavesWhatOthersAdded: nobody can be asked, so only things that were absent stay, and nothing on the
// operator's path. The record says which.
func TestAnExpiredLeaseLeavesWhatOthersAdded(t *testing.T) {
	h := machine(t)
	before := sorted(t)
	for _, path := range []*ManagementPath{{}, {Devices: []string{"ff0"}}, {Unknown: true}, nil} {
		s := NewStore(quick(t), Now)
		tx := withBackup(t, h, s, path)
		makeOurs(t)
		makeTheirs(t)
		stays := path != nil && !path.Unknown && len(path.Devices) == 0
		got := must[*Transaction](t)(s.Revert(t.Context(), tx.ID, Revert, "the lease of 1m0s expired", restorer(h)))
		if got.State != Reverted || len(got.Unrestored) > 0 {
			t.Fatalf("path %+v: %s: %q", path, got.State, got.Unrestored)
		}
		has(t, "addr show dev ff0", map[string]bool{"10.0.5.1/24": false, "10.0.5.9/24": stays, "10.0.6.1/24": stays, "fd00::1/64": true, "mtu 1500": true})
		has(t, "route show", map[string]bool{"10.7.0.0/16": stays})
		var kept, overwritten []string
		switch {
		case stays:
			kept = []string{"address:  → 10.0.5.9/24", "address:  → 10.0.6.1/24", "route:  → 10.7.0.0/16 via 10.0.0.9 table 254 metric 3 proto 3 dev ff0"}
			overwritten = []string{"sysctl ipv4.conf.rp_filter: 2 → 0"}
			ip(t, "addr del 10.0.5.9/24 dev ff0", "addr del 10.0.6.1/24 dev ff0", "route del 10.7.0.0/16 metric 3")
		case path != nil:
			overwritten = []string{"address: 10.0.5.9/24 → ", "address: 10.0.6.1/24 → ", "route: 10.7.0.0/16 via 10.0.0.9 table 254 metric 3 proto 3 dev ff0 → ", "sysctl ipv4.conf.rp_filter: 2 → 0"}
		}
		if d := cmp.Diff([][]string{kept, overwritten}, [][]string{asText(got.Kept), asText(got.Overwritten)}); d != "" {
			t.Errorf("path %+v: %s", path, d)
		}
		if d := differs(t, before); d != "" {
			t.Errorf("path %+v: not as before: %s", path, d)
		}
		all := must[map[string][]resource.HistoryEntry](t)(s.Histories())["f"]
		if len(all) != 1 || all[0].Command != resource.RevertCommand || all[0].Plan != "p" || all[0].Changes == 0 || len(all[0].Kept) != len(kept) {
			t.Errorf("history %+v", all)
		}
	}
}

// TestHistoryIsBounded: nothing but age removes an entry.
func TestHistoryIsBounded(t *testing.T) {
	s, _ := newFake(t)
	if err := s.AdoptHistory("f", []resource.HistoryEntry{{Changes: -1}}); err != nil {
		t.Fatal(err)
	}
	if err := s.AdoptHistory("f", nil); err != nil {
		t.Fatal(err)
	}
	for n := range keptEntries + 7 {
		if err := s.Enter("f", resource.HistoryEntry{Changes: n, Time: time.Unix(int64(n), 0)}); err != nil {
			t.Fatal(err)
		}
	}
	all := must[map[string][]resource.HistoryEntry](t)(s.Histories())
	if h := all["f"]; len(all) != 1 || len(h) != 200 || h[0].Changes != 7 {
		t.Errorf("%d entries, the oldest %+v", len(h), h[0])
	}
	if err := s.Enter("../f", resource.HistoryEntry{}); err == nil {
		t.Error("a history outside of the folder was written")
	}
	if _, err := os.Stat(filepath.Join(s.dir, "f"+historySuffix)); err != nil {
		t.Error(err)
	}
}

// confFile is a host whose nccl.conf stays in memory.
type confFile struct {
	host.Host
	text   *string
	writes *int
}

func (c confFile) Stat(_ context.Context, path string) (host.FileStat, error) {
	if path == host.NCCLConf {
		return host.FileStat{Mode: 0o644}, nil
	}
	return host.FileStat{}, fs.ErrNotExist
}

func (c confFile) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if path == host.NCCLConf {
		return []byte(*c.text), nil
	}
	return c.Host.ReadFile(ctx, path)
}

func (c confFile) PutFile(_ string, text []byte, _ fs.FileMode) error {
	*c.text = string(text)
	*c.writes++
	return nil
}

func (c confFile) RemoveFile(string) error { return nil }

// TestHandEditsOfAPendingApplyAreNamed: while a transaction waits for its confirmation, others change values that it set,
// remove what was there, and edit a file that it has not written yet. The file stays as it is, and the record names the
// rest.
func TestHandEditsOfAPendingApplyAreNamed(t *testing.T) {
	h := machine(t)
	const edited = "NCCL_FOO=1\nNCCL_DEBUG=INFO\n"
	ip(t, "addr add 10.0.4.1/24 dev ff0")
	before := sorted(t)
	for _, writing := range []bool{false, true} {
		text, writes := "NCCL_DEBUG=WARN\n", 0
		conf := confFile{h, &text, &writes}
		s := NewStore(quick(t), Now)
		tx := must[*Transaction](t)(s.Begin(Request{Fabric: "f", Plan: "p", Holder: anna}))
		atoms := []resource.Atom{"nic ff0 mtu", "nic ff0 address 10.0.5.1/24", "nic ff0 address 10.0.4.1/24", "nccl file " + host.NCCLConf}
		backup := must[*Backup](t)(TakeBackup(t.Context(), conf, providers.Kinds(), atoms, nil))
		backup.Path = &ManagementPath{Unknown: true}
		must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, backup))
		ip(t, "addr add 10.0.5.1/24 dev ff0", "link set ff0 mtu 4000")
		must[*Transaction](t)(s.Prepare(tx.ID, tx.Token, must[*Backup](t)(backup.Again(t.Context(), conf, providers.Kinds()))))
		ip(t, "link set ff0 mtu 3000", "addr del 10.0.4.1/24 dev ff0", "addr del 10.0.5.1/24 dev ff0")
		setRPFilter(t, "2")
		if writing {
			must[*Transaction](t)(s.Persist(tx.ID, tx.Token))
		}
		text = edited
		got := must[*Transaction](t)(s.Revert(t.Context(), tx.ID, Revert, "the lease of 1m0s expired", restorer(conf)))
		if got.State != Reverted || len(got.Unrestored) > 0 {
			t.Fatalf("%s: %q", got.State, got.Unrestored)
		}
		if writing != (writes > 0) || !writing && text != edited || writing && text != "NCCL_DEBUG=WARN\n" {
			t.Errorf("writing is %v: written %d times: %q", writing, writes, text)
		}
		kept := []string{"NCCL_DEBUG: WARN → INFO", "NCCL_FOO:  → 1"}
		if writing { // the lines may be those of the transaction
			kept = nil
		}
		overwritten := []string{"address:  → 10.0.4.1/24", "mtu: 3000 → 1500", "sysctl ipv4.conf.rp_filter: 2 → 0"}
		if d := cmp.Diff([][]string{kept, overwritten}, [][]string{asText(got.Kept), asText(got.Overwritten)}); d != "" {
			t.Errorf("writing is %v: %s", writing, d)
		}
		if d := differs(t, before); d != "" {
			t.Errorf("not as before: %s", d)
		}
	}
}
