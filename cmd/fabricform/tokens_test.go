package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/checkpoint"
)

// TestTokensGoWithTheirTransactions: only where one has ended, and the file with the last.
func TestTokensGoWithTheirTransactions(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	k := tokenStore{fabric: "f"}
	w := tokens{ID: "1", Fabric: "f", Plan: "p", Hosts: map[string]agent.TxRef{"a": {ID: "1", Token: "x"}, "b": {ID: "2", Token: "y"}, "c": {ID: "3", Token: "z"}}}
	if err := k.save(w); err != nil {
		t.Fatal(err)
	}
	k.follow(w, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})("b", agent.TxRef{ID: "2", Token: "moved"})
	forget := func(ended func(string, agent.TxRef) bool, want map[string]agent.TxRef) {
		t.Helper()
		if err := k.forget(ended); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, heldBy(t, k)); d != "" {
			t.Error(d)
		}
	}
	info := func(id string, state checkpoint.State) agent.TxInfo {
		return agent.TxInfo{TxRef: agent.TxRef{ID: id}, State: state}
	}
	forget(endedBy(nil), map[string]agent.TxRef{"a": {ID: "1", Token: "x"}, "b": {ID: "2", Token: "moved"}, "c": {ID: "3", Token: "z"}})
	forget(endedBy(map[string]apply.HostOutcome{"a": {Fate: apply.Reverted}, "b": {}, "c": {Fate: apply.Lost}}), map[string]agent.TxRef{"b": {ID: "2", Token: "moved"}, "c": {ID: "3", Token: "z"}})
	forget(endedIn(map[string][]agent.TxInfo{"b": {info("1", checkpoint.Reverted), info("2", checkpoint.Armed)}}), map[string]agent.TxRef{"b": {ID: "2", Token: "moved"}, "c": {ID: "3", Token: "z"}})
	forget(endedIn(map[string][]agent.TxInfo{"b": {info("2", checkpoint.Reverted), info("9", checkpoint.Armed)}}), map[string]agent.TxRef{"c": {ID: "3", Token: "z"}})
	forget(endedBy(map[string]apply.HostOutcome{"c": {Fate: apply.RevertFailed}}), map[string]agent.TxRef{})
	path, err := k.path(w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty file is left: %v", err)
	}
}

// TestAppliesSideBySideKeepTheirTokens: one's tokens are none of the other's business, but those of
// its own hosts are dead. A host that is lost may still be told to go back.
func TestAppliesSideBySideKeepTheirTokens(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	k := tokenStore{fabric: "f"}
	began := func(hosts map[string]agent.TxRef) (*job, func()) {
		r := jobOn(t, new(bytes.Buffer))
		tx := r.s.fleet.Resume(t.Context(), "f", hosts)
		t.Cleanup(tx.Close)
		return r, r.keepTokens(tx)
	}
	wants := func(hosts map[string]agent.TxRef) {
		t.Helper()
		if d := cmp.Diff(hosts, heldBy(t, k)); d != "" {
			t.Error(d)
		}
	}
	began(map[string]agent.TxRef{"a": {ID: "1", Token: "dead"}, "b": {ID: "1", Token: "of one that was killed"}})
	r, drop := began(map[string]agent.TxRef{"a": {ID: "2", Token: "x"}, "c": {ID: "1", Token: "y"}, "d": {ID: "1", Token: "z"}})
	wants(map[string]agent.TxRef{"a": {ID: "2", Token: "x"}, "b": {ID: "1", Token: "of one that was killed"}, "c": {ID: "1", Token: "y"}, "d": {ID: "1", Token: "z"}})
	r.report.Outcomes = []apply.HostOutcome{{Host: "a", Fate: apply.Reverted}, {Host: "c", Fate: apply.Lost}, {Host: "d", Fate: apply.Waiting}}
	drop()
	wants(map[string]agent.TxRef{"b": {ID: "1", Token: "of one that was killed"}, "c": {ID: "1", Token: "y"}})
	if got := heldBy(t, tokenStore{fabric: "f", lab: true}); len(got) != 0 {
		t.Errorf("a lab's hosts are held by tokens of the real ones: %v", got)
	}
}

// TestTokensThatCannotBeReadSayWhatToDo: a torn file of this machine must not end in a dead end.
func TestTokensThatCannotBeReadSayWhatToDo(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	k, w := tokenStore{fabric: "f"}, tokens{ID: "1", Fabric: "f", Hosts: map[string]agent.TxRef{"a": {}}}
	if err := k.save(w); err != nil {
		t.Fatal(err)
	}
	path, err := k.path(w)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"fabric": "f`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.held(""); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("got %v", err)
	}
}

func heldBy(t *testing.T, k tokenStore) map[string]agent.TxRef {
	t.Helper()
	got, err := k.held("")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// tokenFiles are a fabric's on the operator's machine: of applies that run or died, or that wait.
func tokenFiles(t *testing.T, state, fabric string, running bool) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "fabricform", "transactions", fabric, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, ".running.json") == running {
			out = append(out, f)
		}
	}
	return out
}

// tokenFile is the only one.
func tokenFile(t *testing.T, state, fabric string, running bool) string {
	t.Helper()
	files := tokenFiles(t, state, fabric, running)
	if len(files) != 1 {
		t.Fatalf("there are %d files of tokens: %v", len(files), files)
	}
	return files[0]
}
