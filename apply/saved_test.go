package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
)

// TestASavedPlanIsWrittenThroughNoLink: another user may have put a link to a file of the operator there.
func TestASavedPlanIsWrittenThroughNoLink(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("mine"), []byte("mine"), 0o644), os.Symlink("mine", at("link")), os.Symlink("none", at("dangling")), os.WriteFile(at("old.plan"), []byte("old"), 0o644), os.Mkdir(at("folder"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, written := range map[string]bool{"link": false, "dangling": false, "folder": false, "old.plan": true, "new.plan": true} {
		if err := WriteSaved(at(name), &planner.Saved{}); (err == nil) != written {
			t.Errorf("%s: %v", name, err)
		}
		if st, err := os.Stat(at(name)); written && (err != nil || st.Mode().Perm() != 0o600) {
			t.Errorf("%s: %v %v", name, st, err)
		}
	}
	if text, err := os.ReadFile(at("mine")); err != nil || string(text) != "mine" {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := os.Lstat(at("none")); err == nil {
		t.Error("a dangling link was followed")
	}
}

// TestASavedPlanIsAppliedOnceAndAsItWas: hosts that moved since are left as they are.
func TestASavedPlanIsAppliedOnceAndAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.fabric.Links = nil
		saved := y.save(t.Context(), nil)
		y.hosts["b"].value = "7"
		r := y.runSaved(t.Context(), saved)
		if r.Ending != Stale || r.Err != nil || y.values() != "27" {
			t.Errorf("ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
		for _, h := range r.Plan.Hosts {
			if (h.Name == "b") != (len(h.Stale) > 0) {
				t.Errorf("host %s is stale: %q", h.Name, h.Stale)
			}
		}
		if slices.Contains(y.hosts["b"].asked, "enrol") {
			t.Error("the roster was written on a host that was left out")
		}
		y.hosts["a"].value, y.hosts["b"].value = "1", "1"
		r = y.runSaved(t.Context(), saved)
		if r.Ending != Stale || r.Err == nil || !strings.Contains(r.Err.Error(), "this plan was already applied at") || r.Plan != nil || y.values() != "11" {
			t.Errorf("again: ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
	})
}

// TestASavedPlanTouchesNoHostThatItDoesNotHold: fault 27. Such a host is not even asked.
func TestASavedPlanTouchesNoHostThatItDoesNotHold(t *testing.T) {
	for _, c := range []struct {
		name   string
		save   func(y *toys, ctx context.Context) *planner.Saved
		ending Ending
	}{
		{"b was unreachable when the plan was made", func(y *toys, ctx context.Context) *planner.Saved {
			y.hosts["b"].down = true
			defer func() { y.hosts["b"].down = false }()
			return y.save(ctx, nil)
		}, HostsUnreachable},
		{"b was not chosen", func(y *toys, ctx context.Context) *planner.Saved {
			return y.save(ctx, map[string]bool{"a": true})
		}, Done},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				y.fabric.Links = nil
				saved := c.save(y, t.Context())
				y.hosts["a"].asked, y.hosts["b"].asked = nil, nil
				r := y.runSaved(t.Context(), saved)
				if r.Ending != c.ending || r.Err != nil || y.values() != "21" {
					t.Errorf("ending %d, want %d: %v, values %s", r.Ending, c.ending, r.Err, y.values())
				}
				if asked := y.hosts["b"].asked; len(asked) > 0 {
					t.Errorf("b was asked for %v", asked)
				}
				if why := r.Plan.Unreachable()["b"]; (why != "") != (c.ending == HostsUnreachable) || why != "" && !strings.Contains(why, "unreachable when the plan was saved") {
					t.Errorf("b is unreachable: %q", why)
				}
			})
		})
	}
}

// TestASavedPlanNamesItsFilesFromEverywhere: apply may run in another directory than plan.
func TestASavedPlanNamesItsFilesFromEverywhere(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	by := fabric.Invocation{Flags: []string{"-var=n=1", "-var-file=site.fabricvars"}, Path: "f.hcl"}
	s := &Session{Fabric: &fabric.Fabric{Name: "f"}}
	saved := s.Save(&planner.Plan{Fabric: "f", Invocation: by})
	want := fabric.Invocation{Flags: []string{"-var=n=1", "-var-file=" + filepath.Join(here, "site.fabricvars")}, Path: filepath.Join(here, "f.hcl")}
	if d := cmp.Diff(want, saved.Plan.Invocation); d != "" {
		t.Error(d)
	}
	if by.Flags[1] != "-var-file=site.fabricvars" {
		t.Errorf("the plan that was saved has now %q", by.Flags)
	}
}

// TestASavedPlanIsForTheHostsThatItWasMadeOn: the real ones, or those of one lab.
func TestASavedPlanIsForTheHostsThatItWasMadeOn(t *testing.T) {
	for _, c := range []struct{ saved, lab, says string }{
		{"", "pair", "made for the declared hosts, not for lab \"pair\": run it without -lab"},
		{"pair", "", "made for lab \"pair\", not for the declared hosts: run it with -lab=pair"},
		{"pair", "other", "made for lab \"pair\", not for lab \"other\": run it with -lab=pair"},
	} {
		y := newToys(t)
		saved := y.save(t.Context(), nil)
		saved.Lab = c.saved
		o := y.options()
		o.Tokens.Lab = c.lab
		if _, err := OpenSaved(t.Context(), saved, o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a plan of %q on %q: %v", c.saved, c.lab, err)
		}
	}
}
