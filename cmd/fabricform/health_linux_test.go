package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// TestTheLastVerdictIsRoots: a verdict is read only from a regular file of root that nobody else can write. Other files, such as a FIFO, are ignored
// at once.
func TestTheLastVerdictIsRoots(t *testing.T) {
	const good = `{"state":"healthy","compared":2}`
	write := func(text string, mode os.FileMode) func(path string) error {
		return func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode))
		}
	}
	for name, c := range map[string]struct {
		make func(path string) error
		want bool
	}{
		"own":           {write(good, 0o600), true},
		"for a group":   {write(good, 0o620), false},
		"for all":       {write(good, 0o602), false},
		"of another":    {func(path string) error { return errors.Join(write(good, 0o600)(path), os.Chown(path, 64123, 0)) }, false},
		"a link":        {func(path string) error { return errors.Join(write(good, 0o600)(path+"x"), os.Symlink(path+"x", path)) }, false},
		"a pipe":        {func(path string) error { return syscall.Mkfifo(path, 0o600) }, false},
		"a folder":      {func(path string) error { return os.Mkdir(path, 0o700) }, false},
		"huge":          {write(good+strings.Repeat(" ", 1<<20), 0o600), false},
		"half":          {write(good[:9], 0o600), false},
		"impossible":    {write(`{"state":"healthy","compared":0}`, 0o600), false},
		"there is none": {func(string) error { return nil }, false},
	} {
		if name == "of another" && os.Getuid() != 0 {
			continue
		}
		path := filepath.Join(t.TempDir(), "health.json")
		if err := c.make(path); err != nil {
			t.Fatal(name, err)
		}
		if v := lastTold(path); (v != nil) != c.want {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestSlurmsProgramsAreThoseOfPATH: with the configuration that the environment names, and with what they say when they fail.
func TestSlurmsProgramsAreThoseOfPATH(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("SLURM_CONF", "/opt/slurm/etc/slurm.conf")
	t.Setenv("SLURM_CLUSTERS", "another")
	if _, err := runSlurm(t.Context(), "sinfo-of-nobody"); err == nil || !strings.Contains(err.Error(), "sinfo-of-nobody is not in PATH") {
		t.Error(err)
	}
	for text, want := range map[string]string{`echo "$SLURM_CONF$SLURM_CLUSTERS $1"`: "/opt/slurm/etc/slurm.conf -h\n", "echo down >&2; echo more >&2; exit 1": "sinfo -h: down", "kill -9 $$": "sinfo -h: killed"} {
		if err := os.WriteFile(filepath.Join(dir, "sinfo"), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := runSlurm(t.Context(), "sinfo", "-h")
		if err != nil {
			out = err.Error()
		}
		if out != want {
			t.Errorf("%s: %q, want %q", text, out, want)
		}
	}
}
