package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/apply"
)

// TestTokensGoWithTheirTransactions: only where one has ended, and the file with the last.
func TestTokensGoWithTheirTransactions(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	w := tokens{Fabric: "f", Plan: "p", Hosts: map[string]agent.TxRef{"a": {ID: "1", Token: "x"}, "b": {ID: "2", Token: "y"}, "c": {ID: "3", Token: "z"}}}
	if err := w.save(tokensRunning); err != nil {
		t.Fatal(err)
	}
	w.follow(tokensRunning, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})("b", agent.TxRef{ID: "2", Token: "moved"})
	drop := func(fates map[string]apply.HostOutcome, want map[string]agent.TxRef) {
		t.Helper()
		if err := dropTokens("f", fates, tokensWaiting, tokensRunning); err != nil {
			t.Fatal(err)
		}
		got, err := heldHere("f", "")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	drop(nil, map[string]agent.TxRef{"a": {ID: "1", Token: "x"}, "b": {ID: "2", Token: "moved"}, "c": {ID: "3", Token: "z"}})
	drop(map[string]apply.HostOutcome{"a": {Fate: apply.Reverted}, "c": {Fate: apply.Lost}}, map[string]agent.TxRef{"b": {ID: "2", Token: "moved"}, "c": {ID: "3", Token: "z"}})
	drop(map[string]apply.HostOutcome{"b": {Fate: apply.Committed}, "c": {Fate: apply.RevertFailed}}, map[string]agent.TxRef{})
	path, err := tokensFile("f", tokensRunning)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty file is left: %v", err)
	}
}

// TestTokensThatCannotBeReadSayWhatToDo: a torn file of this machine must not end in a dead end.
func TestTokensThatCannotBeReadSayWhatToDo(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if err := (tokens{Fabric: "f", Hosts: map[string]agent.TxRef{"a": {}}}).save(tokensRunning); err != nil {
		t.Fatal(err)
	}
	path, err := tokensFile("f", tokensRunning)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"fabric": "f`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := heldHere("f", ""); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("got %v", err)
	}
}
