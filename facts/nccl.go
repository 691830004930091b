package facts

import (
	"context"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// NCCLPlace is a place beside /etc/nccl.conf that NCCL takes settings from before it, for those who
// log in or for one user alone: a home's .nccl.conf, and variables of /etc/environment
// (initEnv in NCCL's src/misc/param.cc: the process's environment, then the user's file, then /etc's).
type NCCLPlace struct {
	Path    string   `json:"path"`
	Sets    []string `json:"sets,omitempty"`    // NAME=VALUE of /etc/environment; a home's file is not read
	Unknown bool     `json:"unknown,omitempty"` // the home does not answer: whether the file is there is not known
}

// ncclLogin finds what is set for all who log in.
func ncclLogin(ctx context.Context, r host.Reader) []NCCLPlace {
	const login = "/etc/environment"
	var sets []string
	for line := range strings.Lines(host.Text(ctx, r, login)) {
		name, value, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if found && strings.HasPrefix(name, "NCCL_") {
			sets = append(sets, name+"="+strings.Trim(value, `"'`)) // pam_env(8) takes quotes away
		}
	}
	if sets == nil {
		return nil
	}
	return []NCCLPlace{{Path: login, Sets: sets}}
}
