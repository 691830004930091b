package config

import (
	"testing"
)

func TestLoadRepeatsHostsAndNICs(t *testing.T) {
	f, _, d := Load("testdata/grid", Options{})
	if len(d) != 0 {
		t.Fatal(d)
	}
	if len(f.Hosts) != 3 || f.Hosts[2].Policy[1].From.String() != "10.10.1.3/32" || f.Hosts[2].Policy[1].Priority != 10101 {
		t.Fatalf("%+v", f.Hosts[2].Policy[1])
	}
}

func TestLoadReportsMistakes(t *testing.T) {
	_, _, d := Load("testdata/mistakes", Options{})
	for _, x := range d {
		t.Log(x)
	}
	if len(d) < 2 || d[0].Summary != "Unknown name" && d[1].Summary != "Unknown name" {
		t.Fatal(d)
	}
}
