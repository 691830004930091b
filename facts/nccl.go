package facts

import (
	"context"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// NCCLPlace is a place whose settings NCCL prefers to those of /etc/nccl.conf, for all logins or for one user: variables
// of /etc/environment, and the .nccl.conf of a home (initEnv in NCCL's src/misc/param.cc: the process's environment,
// then the user's file, then the file in /etc).
type NCCLPlace struct {
	Path    string   `json:"path"`
	Sets    []string `json:"sets,omitempty"`    // NAME=VALUE in /etc/environment; the file of a home is not read
	Unknown bool     `json:"unknown,omitempty"` // the home does not answer, so the file may exist
}

// ncclLogin returns the settings for all logins.
func ncclLogin(ctx context.Context, r host.Reader) []NCCLPlace {
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
	return []NCCLPlace{{Path: login, Sets: sets}}
}
