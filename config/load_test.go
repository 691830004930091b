package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadReadsTheExamplePair(t *testing.T) {
	f, _, d := Load("../examples/roce-pair.hcl", Options{Version: "dev"})
	if len(d) != 0 {
		t.Fatal(d)
	}
	if len(f.Hosts) != 2 || len(f.Links) != 2 || f.Links[0].Endpoints[0].String() != "a.rail0" || f.Links[0].ExpectGbps != 25 {
		t.Fatalf("%+v", f)
	}
}

func TestLoadRefusesTwoCablesInOneSubnet(t *testing.T) {
	f, _, d := Load("../examples/broken/one-subnet.hcl", Options{})
	if f != nil || len(d) != 2 || d[0].Summary != "Two direct links in one subnet" || d[0].Subject == nil {
		t.Fatal(d)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`host "a" {}`))
	f.Add([]byte("locals {\n a = " + strings.Repeat("(", 1000) + "\n}"))
	f.Add([]byte("locals {\n a = 1e10000000\n}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		name := filepath.Join(t.TempDir(), "f.hcl")
		if err := os.WriteFile(name, src, 0o600); err != nil {
			t.Fatal(err)
		}
		Load(name, Options{})
	})
}
