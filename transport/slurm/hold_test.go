//go:build linux

package slurm

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/transport"
)

// TestReportsOfAHold: only the lines of its own holders count, which begin with its word; prologs and plug-ins print what they like. The version of
// the helper becomes part of the holder's script.
func TestReportsOfAHold(t *testing.T) {
	f := newFake(t, "1")
	f.write("srun", strings.Replace(fakeHold, "exec cat", `echo "a prolog 77 yes x86_64"; echo "$word b 78 yes x86_64 and more"; echo "$word b x yes x86_64"
exec cat`, 1))
	rs := []*request{{ctx: t.Context(), to: transport.Target{Name: "a", Slurm: &transport.Slurm{}}, node: node{name: "a"}}}
	h, reports, err := startHold(rs, "0123456789abcdef", "")
	if err != nil {
		t.Fatal(err)
	}
	h.end()
	if r := reports["a"]; len(reports) != 1 || r.job != h.job || h.job == "77" || !r.ready || r.goarch != "amd64" {
		t.Errorf("job %s, and the reports are %+v", h.job, reports)
	}
	f.write("srun", strings.Replace(fakeHold, "word=", "echo \"said a 77 yes x86_64\"; word=", 1))
	if h, reports, err = startHold(rs, "0123456789abcdef", ""); err != nil {
		t.Fatal(err)
	}
	h.end()
	if h.job == "77" || reports["a"].job == "77" {
		t.Errorf("a line of somebody else is taken for a report: %+v", reports)
	}
	for _, version := range []string{"", "x", "0123", "01234567; reboot", "01234567\n", "../../etc/01234567", strings.Repeat("a", 65)} {
		if _, _, err := startHold(rs, version, ""); err == nil || !strings.Contains(err.Error(), "is not hexadecimal") {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if asked := f.read("asked"); strings.Count(asked, "\n") != strings.Count(asked, "--job-name=fabricform ") || strings.Count(asked, "--export=PATH=/usr/sbin:/usr/bin:/sbin:/bin ") != 2 {
		t.Errorf("srun was asked %q", asked)
	}
}
