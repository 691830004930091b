package main

import (
	"bytes"
	"encoding/json"
	"io"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/view"
)

// TestABuildNamesItsOrigin: what the linker set, what `go install MODULE@VERSION` recorded, what `go build` in a checkout
// recorded, and a build without any of them.
func TestABuildNamesItsOrigin(t *testing.T) {
	installed := func(version, sum string) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.0", Path: "m/cmd/fabricform", Main: debug.Module{Path: "m", Version: version, Sum: sum}}
	}
	checkout := installed("v0.0.0-20261123164113-89b95901d2f3", "")
	checkout.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: "89b95901d2f3aa"}}
	for name, c := range map[string]struct {
		linked origin
		info   *debug.BuildInfo
		want   origin
	}{
		"stamped":  {origin{"0.2.0", "abc", "12"}, checkout, origin{"0.2.0", "abc", "12"}},
		"checkout": {origin{}, checkout, origin{"0.0.0-20261123164113-89b95901d2f3", "89b95901d2f3aa", ""}},
		"no VCS":   {origin{}, installed("(devel)", ""), origin{version: "dev"}},
		"no info":  {origin{}, nil, origin{version: "dev"}},
	} {
		if got := originOf(c.linked, c.info); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	a, b := originOf(origin{}, installed("v0.1.0", "h1:a")), originOf(origin{}, installed("v0.1.0", "h1:b"))
	if a.version != "0.1.0" || len(a.id) != 16 || a.id == b.id {
		t.Errorf("go install: %+v, and with other files %+v", a, b)
	}
}

func TestAMissingHelperNamesWhereItIs(t *testing.T) {
	installed := &debug.BuildInfo{Path: "m/cmd/fabricform", Main: debug.Module{Path: "m", Version: "v0.1.0", Sum: "h1:a"}}
	for _, c := range []struct {
		linked string
		info   *debug.BuildInfo
		want   string
	}{
		{"12", installed, "the package fabricform and the archives of the release contain it"},
		{"", installed, "GOOS=linux GOARCH=arm64 go install m/cmd/fabricform@v0.1.0"},
		{"", &debug.BuildInfo{}, "a plain go build has no helpers"},
		{"", nil, "a plain go build has no helpers"},
	} {
		if got := cureFor("arm64", c.linked, c.info); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestVersionAnswersInEachForm: the command, the flag that other programs have, and JSON.
func TestVersionAnswersInEachForm(t *testing.T) {
	say := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		root := rootCommand(&app{out: view.New(&out), err: view.New(io.Discard)})
		root.SetArgs(longFlags(args))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	line := say("version")
	if !strings.HasPrefix(line, "fabricform ") || strings.Count(line, "\n") != 1 {
		t.Errorf("version: %q", line)
	}
	for _, flag := range []string{"-version", "--version"} {
		if got := say(flag); got != line {
			t.Errorf("%s: %q, version: %q", flag, got, line)
		}
	}
	var b view.Build
	if err := json.Unmarshal([]byte(say("version", "-json")), &b); err != nil || b.Version == "" || b.ID == "" || !strings.Contains(line, b.ID) {
		t.Errorf("%+v, %v", b, err)
	}
	if help := say(); !strings.Contains(help, "Exit codes:") {
		t.Errorf("without a command: %s", help)
	}
}
