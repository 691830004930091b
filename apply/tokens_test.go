package apply

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/fabric"
)

// TestTokensGoWithTheirTransactions: the file is removed once all its transactions have ended, and not
// before: without one of its hosts, the others could be committed.
func TestTokensGoWithTheirTransactions(t *testing.T) {
	info := func(id string, state checkpoint.State) calls.TxInfo {
		return calls.TxInfo{TxRef: calls.TxRef{ID: id}, State: state}
	}
	type told = map[string][]calls.TxInfo
	type fates = map[string]HostOutcome
	for name, c := range map[string]struct {
		ended func(string, calls.TxRef) bool
		kept  bool
	}{
		"nothing is known":            {endedBy(nil), true},
		"one is back":                 {endedBy(fates{"a": {Fate: Reverted}, "b": {}}), true},
		"one is lost":                 {endedBy(fates{"a": {Fate: Reverted}, "b": {Fate: Lost}}), true},
		"all have ended":              {endedBy(fates{"a": {Fate: Reverted}, "b": {Fate: RevertFailed}}), false},
		"one is open":                 {endedIn(told{"a": {info("1", checkpoint.Reverted)}, "b": {info("1", checkpoint.Reverted), info("2", checkpoint.Armed)}}), true},
		"one does not answer":         {endedIn(told{"a": {info("1", checkpoint.Reverted)}}), true},
		"all are back":                {endedIn(told{"a": {info("1", checkpoint.Reverted)}, "b": {info("2", checkpoint.Reverted), info("9", checkpoint.Armed)}}), false},
		"one was followed by another": {replacedIn(told{"a": {info("1", checkpoint.Reverted), info("2", checkpoint.Armed)}, "b": {info("2", checkpoint.Reverted)}}), true},
		"all were":                    {replacedIn(told{"a": {info("2", checkpoint.Committed)}, "b": {}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			k := storeIn(t.TempDir())
			w := tokens{ID: "1", Fabric: "f", Plan: "p", Hosts: map[string]calls.TxRef{"a": {ID: "1", Token: "x"}, "b": {ID: "2", Token: "y"}}}
			saveTokens(t, k, w)
			k.follow(w, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})("b", calls.TxRef{ID: "2", Token: "moved"})
			all, err := k.all("")
			if err != nil {
				t.Fatal(err)
			}
			late := tokens{ID: "2", Fabric: "f", Hosts: map[string]calls.TxRef{"c": {ID: "1"}}}
			saveTokens(t, k, late) // an apply that opens meanwhile: what was asked for is not of it
			if err := k.removeEnded(all, c.ended); err != nil {
				t.Fatal(err)
			}
			want := map[string]calls.TxRef{"c": {ID: "1"}}
			if c.kept {
				want["a"], want["b"] = calls.TxRef{ID: "1", Token: "x"}, calls.TxRef{ID: "2", Token: "moved"}
			}
			if d := cmp.Diff(want, heldBy(t, k)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestAnApplyThatWaitsKeepsAllOfItsHosts: changes that one host has reverted must not be kept on the
// others. Only hosts that have committed leave the file, so that the rest can still be confirmed.
func TestAnApplyThatWaitsKeepsAllOfItsHosts(t *testing.T) {
	k := storeIn(t.TempDir())
	hosts := func() map[string]calls.TxRef {
		return map[string]calls.TxRef{"a": {ID: "1", Token: "x"}, "b": {ID: "1", Token: "y"}}
	}
	w := tokens{ID: "1", Fabric: "f", Hosts: hosts(), Waits: &pendingApply{Fabric: &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{{Name: "a"}, {Name: "b"}}}}}
	saveTokens(t, k, w)
	r := runOn(k)
	tx := r.s.resume(t.Context(), "f", map[string]calls.TxRef{"a": {ID: "2", Token: "z"}})
	t.Cleanup(tx.Close)
	drop := r.saveTokens(tx)
	r.report.Outcomes = []HostOutcome{{Host: "a", Fate: Committed}}
	drop()
	if d := cmp.Diff(hosts(), heldBy(t, k)); d != "" {
		t.Error(d)
	}
	type fates = map[string]HostOutcome
	for name, c := range map[string]struct {
		fates    fates
		replaced bool // on a
		left     map[string]calls.TxRef
	}{
		"kept on one":            {fates{"a": {Fate: Committed}, "b": {Fate: Lost}}, false, map[string]calls.TxRef{"b": {ID: "1", Token: "y"}}},
		"kept on all":            {fates{"a": {Fate: Committed}, "b": {Fate: Committed}}, false, map[string]calls.TxRef{}},
		"back on one":            {fates{"a": {Fate: Reverted}, "b": {Fate: Lost}}, false, hosts()},
		"back on all":            {fates{"a": {Fate: Reverted}, "b": {Fate: Reverted}}, false, map[string]calls.TxRef{}},
		"one gone on, one back":  {fates{"b": {Fate: Reverted}}, true, map[string]calls.TxRef{}},
		"one gone on, one lost":  {fates{"b": {Fate: Lost}}, true, hosts()},
		"lost on all, as before": {fates{"a": {Fate: Lost}, "b": {Fate: Lost}}, false, hosts()},
	} {
		w.Hosts = hosts()
		saveTokens(t, k, w)
		if err := k.saveRest(w, c.fates, func(host string, _ calls.TxRef) bool { return c.replaced && host == "a" }); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(c.left, heldBy(t, k)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestTokensAreOfOneLab: its hosts have the names of the real ones, and of another lab's.
func TestTokensAreOfOneLab(t *testing.T) {
	k := storeIn(t.TempDir())
	for _, lab := range []string{"", "f", "other"} {
		k.Lab = lab
		if got := heldBy(t, k); len(got) != 0 {
			t.Errorf("lab %q: held by tokens of others: %v", lab, got)
		}
		saveTokens(t, k, tokens{ID: "1", Fabric: "f", Hosts: map[string]calls.TxRef{"a": {ID: lab}}})
	}
}

// TestAppliesSideBySideKeepTheirTokens: an apply does not touch the tokens of another apply, and
// removes those of its own hosts. A lost host can still be asked to revert.
func TestAppliesSideBySideKeepTheirTokens(t *testing.T) {
	k := storeIn(t.TempDir())
	began := func(hosts map[string]calls.TxRef) (*run, func()) {
		r := runOn(k)
		tx := r.s.resume(t.Context(), "f", hosts)
		t.Cleanup(tx.Close)
		return r, r.saveTokens(tx)
	}
	wants := func(hosts map[string]calls.TxRef) {
		t.Helper()
		if d := cmp.Diff(hosts, heldBy(t, k)); d != "" {
			t.Error(d)
		}
	}
	began(map[string]calls.TxRef{"a": {ID: "1", Token: "dead"}})
	began(map[string]calls.TxRef{"b": {ID: "1", Token: "of one that was killed"}})
	r, drop := began(map[string]calls.TxRef{"a": {ID: "2", Token: "x"}, "c": {ID: "1", Token: "y"}, "d": {ID: "1", Token: "z"}})
	wants(map[string]calls.TxRef{"a": {ID: "2", Token: "x"}, "b": {ID: "1", Token: "of one that was killed"}, "c": {ID: "1", Token: "y"}, "d": {ID: "1", Token: "z"}})
	r.report.Outcomes = []HostOutcome{{Host: "a", Fate: Reverted}, {Host: "c", Fate: Lost}, {Host: "d", Fate: Waiting}}
	drop()
	wants(map[string]calls.TxRef{"b": {ID: "1", Token: "of one that was killed"}, "c": {ID: "1", Token: "y"}})
}

// TestTokensThatCannotBeReadSayWhatToDo: a torn file of this machine must not end in a dead end, nor a
// hostile one in a panic.
func TestTokensThatCannotBeReadSayWhatToDo(t *testing.T) {
	k, w := storeIn(t.TempDir()), tokens{ID: "1", Fabric: "f", Hosts: map[string]calls.TxRef{"a": {}}}
	saveTokens(t, k, w)
	path, err := k.path(w)
	if err != nil {
		t.Fatal(err)
	}
	const whole = `{"id": "1", "fabric": "f", "hosts": {"a": {}}`
	for text, says := range map[string]string{
		``:              "unexpected end",
		`{"fabric": "f`: "unexpected end",
		`null`:          "the file belongs to fabric",
		`[]`:            "cannot unmarshal",
		`{"id": "1", "fabric": "g", "hosts": {"a": {}}}`:             `the file belongs to fabric "g", not "f"`,
		`{"fabric": "f", "hosts": 1}`:                                "cannot unmarshal",
		`{"fabric": "f", "hosts": {"a": {}}}`:                        "the apply's id or its hosts are missing",
		`{"id": "1", "fabric": "f"}`:                                 "the apply's id or its hosts are missing",
		`{"id": "1", "fabric": "f", "hosts": {}, "waits": {}}`:       "the apply's id or its hosts are missing",
		whole + `, "waits": {}}`:                                     "the applied fabric is missing",
		whole + `, "waits": {"fabric": null}}`:                       "the applied fabric is missing",
		whole + `, "waits": {"fabric": {"Hosts": [null]}}}`:          "the token file is corrupt: its fabric has null in a list of blocks",
		whole + `, "waits": {"fabric": {}}}`:                         `the applied fabric has no host "a"`,
		whole + `, "waits": {"fabric": {"Hosts": [{"Name": "b"}]}}}`: `the applied fabric has no host "a"`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := k.all(""); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := k.pending(path, nil, fabric.Invocation{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s, when named: %v", text, err)
		}
	}
}

// TestConfirmSaysWhatEndsAnApplyThatDoesNotWait: one that runs, or whose program has died.
func TestConfirmSaysWhatEndsAnApplyThatDoesNotWait(t *testing.T) {
	k, w := storeIn(t.TempDir()), tokens{ID: "1", Fabric: "f", Hosts: map[string]calls.TxRef{"a": {}}}
	saveTokens(t, k, w)
	path, err := k.path(w)
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.pending(path, nil, fabric.Invocation{Path: "f.hcl"})
	if want := path + " belongs to an apply that is not pending. To roll it back, run `fabricform rollback -takeover " + path + " f.hcl`"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// storeIn keeps tokens of fabric f below a folder.
// TestTokensThatCannotBeSavedAreReported: without them, another run cannot end the transaction before its lease.
func TestTokensThatCannotBeSavedAreReported(t *testing.T) {
	y := newToys(t)
	if err := os.WriteFile(filepath.Join(y.state, "transactions"), nil, 0o600); err != nil { // no directory can be made there
		t.Fatal(err)
	}
	if r := y.run(t.Context(), Options{}); r.Ending != Done {
		t.Errorf("ending %d, %v", r.Ending, r.Err)
	}
	if !slices.ContainsFunc(y.heard.lines, func(l string) bool { return strings.HasPrefix(l, "warn: warning: save the transaction's tokens: ") }) {
		t.Errorf("%q", y.heard.lines)
	}
}

func storeIn(dir string) TokenStore {
	return TokenStore{Fabric: "f", State: func() (string, error) { return dir, nil }}
}

func saveTokens(t *testing.T, k TokenStore, w tokens) {
	t.Helper()
	if err := k.save(w); err != nil {
		t.Fatal(err)
	}
}

func heldBy(t *testing.T, k TokenStore) map[string]calls.TxRef {
	t.Helper()
	all, err := k.all("")
	if err != nil {
		t.Fatal(err)
	}
	return openRefs(all, endedBy(nil))
}
