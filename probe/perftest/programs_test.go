package perftest

import (
	"bytes"
	"errors"
	"net/netip"
	"os/exec"
	"testing"
	"time"
)

// The programs check their options before they look for a device, and there is none of this name.
func TestTheProgramsTakeOurArguments(t *testing.T) {
	if _, err := exec.LookPath(WriteBW.Program()); err != nil {
		t.Skip("needs perftest (apt-get install perftest)")
	}
	run := func(s Spec, e End) Failure {
		t.Helper()
		args, err := Args(s, e)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		cmd.Dir = t.TempDir()
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) {
			t.Fatalf("%q: %v", args, err)
		}
		f, _ := Classify(ProgramRun{}, ProgramRun{Stdout: out.Bytes(), Stderr: stderr.Bytes(), Exit: exit.ExitCode()})
		return f
	}
	for _, test := range Tests() {
		specs := []Spec{
			{Test: test, Size: 2, Iterations: 5, TrafficClass: 106, ControlPort: 18599},
			{Test: test, Size: 65536, Duration: 2 * time.Second, ControlPort: 18599},
		}
		if test.Bandwidth() {
			specs = append(specs, Spec{Test: test, Size: 1 << 20, Iterations: 5000, QPs: 4, Bidirectional: true, ControlPort: 18599},
				Spec{Test: test, Size: 1 << 20, Duration: 5 * time.Second, QPs: 2, Bidirectional: true, ControlPort: 18599})
		}
		for _, s := range specs {
			for _, e := range []End{{Device: "nosuch0", Port: 1, GIDIndex: 1}, {Device: "nosuch0", Port: 2, GIDIndex: 64, Peer: netip.MustParseAddr("127.0.0.1"), JSONFile: "x.json"}} {
				if f := run(s, e); f.Cause != NoDevices && f.Cause != NoSuchDevice {
					t.Errorf("%+v %+v: %+v", s, e, f)
				}
			}
		}
	}
}

func TestTheProgramTellsItsVersion(t *testing.T) {
	path, err := exec.LookPath(WriteBW.Program())
	if err != nil {
		t.Skip("needs perftest (apt-get install perftest)")
	}
	out, _ := exec.CommandContext(t.Context(), path, "--version").Output() // it ends with 1
	if v, err := ParseVersion(out); err != nil || v.Major < 5 {
		t.Errorf("%q: %v %v", out, v, err)
	}
}
