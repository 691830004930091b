package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/health"
)

// TestJudge: whatever becomes of the check, the caller has a verdict, and only a check that ended well has one that counts.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		script, want string
		state        health.State
	}{
		"healthy":                     {`echo '{"state":"healthy","compared":2}'`, "", health.Healthy},
		"unhealthy":                   {`echo '{"state":"unhealthy","problems":["x"]}'`, "x", health.Unhealthy},
		"unknown":                     {`echo '{"state":"unknown","problems":["y"]}'`, "y", health.Unknown},
		"crash":                       {`kill -SEGV $$`, "the check was killed", health.Unknown},
		"panic":                       {`echo 'panic: nil' >&2; exit 2`, "the check failed: panic: nil", health.Unknown},
		"unhealthy, and then a crash": {`echo '{"state":"unhealthy","problems":["x"]}'; exit 2`, "the check failed: exit code 2", health.Unknown},
		"hangs":                       {`sleep 60`, "the check took longer than 1s", health.Unknown},
		"no verdict":                  {`echo '{}'`, "the check printed no verdict: impossible state", health.Unknown},
		"no JSON":                     {`echo fine`, "the check printed no verdict", health.Unknown},
		"nothing":                     {`true`, "the check printed no verdict", health.Unknown},
		"half":                        {`printf '{"state":"unhealthy","prob'`, "the check printed no verdict", health.Unknown},
	} {
		path := filepath.Join(t.TempDir(), "check")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		v := judge(t.Context(), path, time.Second)
		if v.State != c.state || !strings.HasPrefix(strings.Join(v.Problems, "; "), c.want) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := judge(t.Context(), "/no/such/program", time.Second); v.State != health.Unknown {
		t.Errorf("%+v", v)
	}
}
