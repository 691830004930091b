package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// derived are the variables that fabricform reads itself.
var derived = []string{"NCCL_IB_DISABLE", "NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"}

// environments checks every nccl.env against the table of NCCL's variables.
func (l *loader) environments() {
	said := map[string]bool{} // all instances of a block have the same problems
	for _, h := range l.f.Hosts {
		l.checkEnvironment(h.NCCL, l.f.NCCLOf(h).Version, false, said)
	}
	l.checkEnvironment(l.f.NCCL, l.f.NCCL.Version, len(l.f.Hosts) > 1, said)
	l.checkTransport()
	l.checkClasses()
}

// checkTransport reports a transport that nccl.env contradicts, once for each place.
func (l *loader) checkTransport() {
	const name = "NCCL_IB_DISABLE"
	said := map[hcl.Range]bool{}
	for _, h := range l.f.Hosts {
		n := l.f.NCCLOf(h)
		value, set := n.Env[name]
		off := env.ParseNumber(value).Value != 0
		contradicts := n.Transport == "ib" && off || n.Transport == "socket" && !off
		if !set || !contradicts || fabric.IsSensitive(value) {
			continue
		}
		r := l.variablePlace(h, name)
		if said[r] {
			continue
		}
		said[r] = true
		l.errorf(r, "Contradicting transport", "%s = %s contradicts transport = %q of host %s. Remove one of them: %s is derived from transport.",
			name, value, n.Transport, h.Name, name)
	}
}

func (l *loader) checkEnvironment(n fabric.NCCL, version string, fleet bool, said map[string]bool) {
	if n.Invalid {
		return
	}
	at, err := env.ParseVersion(version)
	if err != nil {
		at = env.Version{} // not set, or already reported as invalid
	}
	context := env.Context{Version: at, Fleet: fleet, Declared: true, IsNetdev: l.f.UsesNetdev}
	var all []env.Set
	var found []env.Finding
	for _, name := range slices.Sorted(maps.Keys(n.Env)) {
		value := n.Env[name]
		if !fabric.IsSensitive(value) {
			all = append(all, env.Set{Name: name, Value: value})
			found = append(found, env.Check(name, value, context)...)
			continue
		}
		if slices.Contains(derived, name) {
			found = append(found, env.Finding{Severity: env.Error, Name: name, Summary: "Sensitive value",
				Wrong:   "fabricform's checks show what " + name + " selects, so its value must not be sensitive.",
				Instead: "If the value may be shown, write nonsensitive(…)."})
		}
		for _, f := range env.Check(name, l.f.Secrets.Value(value), context) {
			found = append(found, env.Finding{Severity: f.Severity, Name: name, Summary: f.Summary,
				Wrong: "The value of " + name + " is sensitive, so no more is shown."})
		}
	}
	for _, f := range append(found, env.CheckTogether(all)...) {
		r := l.keyRange(n.Block, "env", f.Name)
		if env.Lookup(f.Name) == nil && f.Severity == env.Note { // nccl.conf is read after the program has started
			f.Severity = env.Warning
		}
		if key := f.Detail() + r.String(); f.Severity == env.Note || said[key] {
			continue
		} else {
			said[key] = true
		}
		severity := hcl.DiagWarning
		if f.Severity == env.Error {
			severity = hcl.DiagError
		}
		l.diags = append(l.diags, &hcl.Diagnostic{Severity: severity, Summary: f.Summary, Detail: f.Detail(), Subject: &r})
		if key := r; strings.HasPrefix(string(r.SliceBytes(l.files[r.Filename].Bytes)), f.Name) {
			key.End.Line, key.End.Column, key.End.Byte = key.Start.Line, key.Start.Column+len(f.Name), key.Start.Byte+len(f.Name)
			l.suggested(key, f.Near)
		}
	}
}
