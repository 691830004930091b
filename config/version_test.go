package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRequiredVersion: releases and release candidates are held to it; builds between releases satisfy every constraint.
func TestRequiredVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.hcl")
	if err := os.WriteFile(file, []byte("fabric \"f\" {\n  required_version = \">= 0.2.0, < 1.0.0\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]bool{
		"0.2.0": true, "0.2.1-rc.1": true, "0.2.0-rc.1": true, "0.1.9": false, "1.0.0": false, "0.1.0-rc.1": false,
		"": true, "dev": true, "0.0.0-20261123164113-89b95901d2f3": true, "0.1.1-0.20261123164113-89b95901d2f3": true,
		"0.1.0-rc.1.0.20261123164113-89b95901d2f3+dirty": true, "0.1.0+dirty": true,
	} {
		if _, _, d := Load(file, Options{Version: version}); d.HasErrors() == want {
			t.Errorf("%q satisfies the constraint: %v, want %v", version, !want, want)
		}
	}
}
