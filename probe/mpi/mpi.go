// Package mpi reads what MPI's launchers print: the release of an mpirun or of srun, and why its ranks ended.
package mpi

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// The supported kinds of MPI.
const (
	OpenMPI = "Open MPI"
	MPICH   = "MPICH"
	Slurm   = "Slurm" // starts the ranks of any MPI that has PMIx
)

// Release is the kind and version of a launcher.
type Release struct {
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

func (r Release) String() string { return r.Kind + " " + r.Version }

var (
	// Release 4 prints OpenRTE if it is called by another name than mpirun.
	openVersion = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^\S+ \((?:Open MPI|OpenRTE)\) ([0-9][0-9A-Za-z.]{0,20})`)
	})
	hydraVersion = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^HYDRA build details:\s*\n\s+Version:\s+([0-9][0-9A-Za-z.]{0,20})`)
	})
)

// ParseRelease parses the output of `mpirun --version`.
func ParseRelease(out []byte) (Release, error) {
	if m := openVersion().FindSubmatch(out); m != nil {
		return Release{OpenMPI, string(m[1])}, nil
	}
	if m := hydraVersion().FindSubmatch(out); m != nil {
		return Release{MPICH, string(m[1])}, nil
	}
	return Release{}, fmt.Errorf("it belongs neither to Open MPI nor to MPICH")
}

// slurmVersion matches what srun says; "slurm-wlm" is Debian's name.
var slurmVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^slurm(?:-wlm)? ([0-9][0-9A-Za-z.-]{0,20})\n`) })

// ParseSlurm parses the output of `srun --version`.
func ParseSlurm(out []byte) (Release, error) {
	if m := slurmVersion().FindSubmatch(out); m != nil {
		return Release{Slurm, string(m[1])}, nil
	}
	return Release{}, fmt.Errorf("it is not Slurm's srun")
}

// unbound matches srun's remark where slurmd binds no ranks to processors (TaskPlugin=task/none), as the script asks.
var unbound = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^srun: cluster configuration lacks support for cpu binding\n`)
})

// notHere matches Open MPI's warning about networks of other hosts that this host does not have. There can be so
// many that they would hide why the ranks ended.
var notHere = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`WARNING: An invalid value was given for [a-z_]*_if_include\.\s+This\s+value will be ignored\.\s+` +
			`Local host: .*\s+Value: .*\s+Message: +Did not find interface matching this subnet\n`)
})

// aborted matches a line of a rank that ends because another one did, which Open MPI 5 prints before its launcher says which.
var aborted = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\[[^\]\n]*\] \*\*\* .*\n`) })

// Reason returns in one line why ranks ended, as mpirun or its daemons report it. Hydra prints the reason among the
// ranks' output, in a frame of equals signs.
func Reason(stdout, stderr []byte, most int) string {
	var out []string
	for line := range strings.Lines(clean(stdout)) {
		if text, framed := strings.CutPrefix(line, "=   "); framed && len(out) < 3 {
			out = append(out, text)
		}
	}
	if out == nil {
		said := unbound().ReplaceAllString(notHere().ReplaceAllString(clean(stderr), ""), "")
		if cause := aborted().ReplaceAllString(said, ""); strings.Trim(cause, "-=* \n") != "" {
			said = cause
		}
		for line := range strings.Lines(said) {
			if strings.Trim(line, "-=* \n") != "" {
				out = append(out, line)
			}
		}
	}
	text := strings.Join(strings.Fields(strings.Join(out, " ")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// clean replaces control characters with spaces, except newlines.
func clean(text []byte) string {
	return strings.Map(func(c rune) rune {
		if c != '\n' && (c < ' ' || c >= 0x7f && c < 0xa0) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(string(text), "�"))
}
