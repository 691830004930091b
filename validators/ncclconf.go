package validators

import (
	"fmt"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
	"github.com/fabricform/fabricform/nccl/explain"
)

// maxSaid bounds what is said of one file.
const maxSaid = 10

// confFile judges the file that NCCL reads on a host, by NCCL's own reading of it: what the fabric has
// written must say what is derived; what others wrote is looked through, and is theirs.
func confFile(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) (out []Result) {
	file := f.NCCLFile(h)
	at := file
	if at == "" {
		at = fabric.NCCLConf
	}
	add := func(v Verdict, what, measured, expected, cause string) {
		out = append(out, Result{Check: "nccl", Host: h.Name, Verdict: v, What: what, Measured: measured, Expected: expected, Cause: cause})
	}
	found, there := snap.Files[at]
	var differs int
	if file != "" {
		derived, _ := nccl.Derive(f, h, nccl.Settled(h, snap))
		differs = compareConf(at, derived, found.Text, add)
	}
	switch {
	case !there:
		return out
	case file != "" && differs == 0:
		add(Pass, at, "as derived", "", "")
	default:
		report := explain.Explain(at, found.Text, f)
		said, more := 0, report.More
		for _, finding := range report.Findings {
			switch {
			case finding.Severity == env.Note:
			case said == maxSaid:
				more++
			default:
				said++
				add(Warn, fmt.Sprintf("%s:%d", at, finding.Line), finding.Summary, "", finding.Wrong+" "+finding.Costs+" "+finding.Instead)
			}
		}
		if more > 0 {
			add(Warn, at, fmt.Sprintf("%d more findings", more), "", "`fabricform explain FILE` tells all of a copy of it")
		}
	}
	return out
}

// compareConf counts the variables in which a file is not what is derived, as NCCL reads it.
func compareConf(at string, derived nccl.Env, text string, add func(v Verdict, what, measured, expected, cause string)) (differs int) {
	const cause = "apply writes what is derived"
	live := map[string]string{}
	for _, s := range env.ReadConf(text) {
		live[s.Name] = s.Value
	}
	for _, s := range derived {
		v, set := live[s.Name]
		delete(live, s.Name)
		switch {
		case !set:
			add(Fail, at, s.Name+" is not set", fmt.Sprintf("%q: %s", s.Value, s.Reason), cause)
		case v != s.Value:
			add(Fail, at, fmt.Sprintf("%s is %q", s.Name, v), fmt.Sprintf("%q: %s", s.Value, s.Reason), cause)
		default:
			continue
		}
		differs++
	}
	for _, s := range env.ReadConf(text) {
		if v, more := live[s.Name]; more {
			delete(live, s.Name)
			add(Fail, at, fmt.Sprintf("%s is %q", s.Name, v), "not set: nothing derives it, and nccl.env does not name it", cause)
			differs++
		}
	}
	return differs
}
