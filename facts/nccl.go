package facts

import (
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// NCCLPlace is a place beside /etc/nccl.conf that NCCL takes settings from before it, for those who
// log in or for one user alone: a home's .nccl.conf, and variables of /etc/environment
// (initEnv in NCCL's src/misc/param.cc: the process's environment, then the user's file, then /etc's).
type NCCLPlace struct {
	Path string   `json:"path"`
	Sets []string `json:"sets,omitempty"` // NAME=VALUE of /etc/environment; a home's file is not read
}

// maxHomes bounds how many homes are looked into.
const maxHomes = 200

// ncclElse looks into the homes of local users. What cannot be read is no place.
func ncclElse(r host.Reader) (out []NCCLPlace) {
	const login = "/etc/environment"
	var sets []string
	for line := range strings.Lines(text(r, login)) {
		name, value, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if found && strings.HasPrefix(name, "NCCL_") {
			sets = append(sets, name+"="+strings.Trim(value, `"'`)) // pam_env(8) takes quotes away
		}
	}
	if sets != nil {
		out = append(out, NCCLPlace{Path: login, Sets: sets})
	}
	for _, home := range homes(text(r, "/etc/passwd")) {
		at := path.Join(home, ".nccl.conf")
		if stat, err := r.Stat(at); err == nil && !stat.Mode.IsDir() {
			out = append(out, NCCLPlace{Path: at})
		}
	}
	return out
}

// homes are the home folders of root and of people, sorted: other local users run no jobs.
func homes(passwd string) (out []string) {
	for line := range strings.Lines(passwd) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 7 || len(out) >= maxHomes {
			continue
		}
		home := fields[5]
		if path.Clean(home) == home && (home == "/root" || strings.HasPrefix(home, "/home/")) {
			out = append(out, home)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
