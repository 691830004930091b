//go:build linux

package slurm

import (
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestProgramsHaveNoSettingsOfOthers: what an allocation or a script has set for its own programs does not reach ours.
func TestProgramsHaveNoSettingsOfOthers(t *testing.T) {
	for _, name := range []string{"SLURM_JOB_ID", "SLURMD_NODENAME", "SLURM_EXCLUSIVE", "SRUN_CPUS_PER_TASK", "SBCAST_FORCE", "SBATCH_PARTITION", "SALLOC_QOS", "SQUEUE_FORMAT",
		"SINFO_FORMAT", "SCONTROL_FUTURE", "SCANCEL_USER", "SLURM_CONF", "OWN"} {
		t.Setenv(name, "x")
	}
	got := slices.DeleteFunc(environment(), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return value != "x" && name != "SLURM_TIME_FORMAT"
	})
	slices.Sort(got)
	if want := []string{"OWN=x", "SLURM_CONF=x", "SLURM_TIME_FORMAT=standard"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestProgramsAreBounded: what they print, and the text that is kept of it.
func TestProgramsAreBounded(t *testing.T) {
	l := &limited{most: 4}
	for _, c := range []struct {
		text, kept string
		over       bool
	}{{"abc", "abc", false}, {"d", "abcd", false}, {"", "abcd", false}, {"efg", "abcd", true}} {
		if n, err := l.Write([]byte(c.text)); n != len(c.text) || err != nil || l.String() != c.kept || l.over != c.over {
			t.Errorf("%q: %d, %v, %q, %v", c.text, n, err, l.String(), l.over)
		}
	}
	var last tail
	for range 100 {
		if _, err := last.Write([]byte(strings.Repeat("x", 999) + "y")); err != nil {
			t.Fatal(err)
		}
	}
	if got := last.String(); len(got) != 4<<10 || !strings.HasSuffix(got, "xy") {
		t.Errorf("%d bytes are kept", len(got))
	}
	if got, want := neutral("a\x1b[31m\x9bb\u0085\tc\nd\x7f "), "a�[31m�b� c d�"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAnInterruptDoesNotReachPrograms: it goes to the process group of the terminal.
func TestAnInterruptDoesNotReachPrograms(t *testing.T) {
	p, err := start([]string{"cat"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	group, err := syscall.Getpgid(p.cmd.Process.Pid)
	if own := syscall.Getpgrp(); err != nil || group == own {
		t.Errorf("the program is in group %d, this one in %d: %v", group, own, err)
	}
}

// TestWhyEachHelperEndedIsKept: also if all nodes say so at once, and srun reports connections of strangers in between.
func TestWhyEachHelperEndedIsKept(t *testing.T) {
	p, err := start([]string{"sh", "-c", `for n in 1 2 3 4 5 6 7 8 9; do
  echo "error: fabricform-failed n$n decode:	$n" >&2
  for i in 1 2 3 4 5 6 7 8 9; do echo "srun: error: io_init_msg_read_from_fd: reading slurm_io_init_msg failed: No error, and a long line after that" >&2; done
done
echo "fabricform-failed n1 again" >&2
printf "fabricform-failed n10 no end of the line" >&2`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.wait()
	for node, want := range map[string]string{"n1": "decode: 1", "n9": "decode: 9", "n10": "", "n": "", "": ""} {
		if said := p.failures.of(node); said != want {
			t.Errorf("%q said %q, want %q", node, said, want)
		}
	}
}
