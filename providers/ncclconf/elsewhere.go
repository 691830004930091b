package ncclconf

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// Part is the part of a snapshot with the places of NCCL settings other than the file. It is also empty if nobody looked
// for them.
const Part = facts.Part[[]SettingsSource]("nccl")

// SettingsSource is a place whose settings NCCL prefers to those of /etc/nccl.conf, for all logins or for one user: variables
// of /etc/environment, and the .nccl.conf of a home (initEnv in NCCL's src/misc/param.cc: the process's environment,
// then the user's file, then the file in /etc).
type SettingsSource struct {
	Path    string   `json:"path"`
	Sets    []string `json:"sets,omitempty"`    // NAME=VALUE in /etc/environment; the file of a home is not read
	Unknown bool     `json:"unknown,omitempty"` // the home does not answer, so the file may exist
}

// login returns the settings for all logins.
func login(ctx context.Context, r host.Reader) []SettingsSource {
	const login = "/etc/environment"
	var sets []string
	for line := range strings.Lines(host.Text(ctx, r, login)) {
		name, value, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if found && strings.HasPrefix(name, "NCCL_") {
			sets = append(sets, name+"="+strings.Trim(value, `"'`)) // pam_env(8) removes quotes
		}
	}
	if sets == nil {
		return nil
	}
	return []SettingsSource{{Path: login, Sets: sets}}
}

// elsewhere reports settings that override the file. NCCL reads the environment of the process, then the file that
// NCCL_CONF_FILE names or else .nccl.conf of the home, then /etc/nccl.conf.
func elsewhere(snap *facts.Snapshot, file string) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	named := ""
	for _, p := range Part.Of(snap) {
		for _, s := range p.Sets {
			name, value, _ := strings.Cut(s, "=")
			if name == "NCCL_CONF_FILE" {
				named = value
			} else {
				say("%s sets %s to %q, which overrides %s for all users who log in", p.Path, name, value, file)
			}
		}
	}
	switch {
	case named != "" && named != file:
		say("NCCL_CONF_FILE is %q for all users who log in, and NCCL reads that file before %s", named, file)
	case named == "" && file != fabric.NCCLConf:
		say("NCCL reads %s only if NCCL_CONF_FILE names it: set NCCL_CONF_FILE in /etc/environment, or in the environment of the job", file)
	}
	var silent []string
	for _, p := range Part.Of(snap) {
		switch {
		case len(p.Sets) > 0 || named != "":
		case p.Unknown:
			silent = append(silent, path.Dir(p.Path))
		default:
			say("%s exists: its settings override %s for its user", p.Path, file)
		}
	}
	if more := len(silent) - maxNamed; more > 0 { // all homes of a file server are silent together
		silent = append(silent[:maxNamed], fmt.Sprintf("%d more", more))
	}
	if silent != nil {
		say("no answer from %s: cannot tell whether an .nccl.conf there overrides %s for its user", strings.Join(silent, ", "), file)
	}
	return out
}

// maxNamed is how many of the homes that do not answer a note names.
const maxNamed = 3
