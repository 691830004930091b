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
	result := func(item Item, line int) Result {
		return Result{Check: CheckNCCL, Item: item, Subject: onHost(h.Name), Host: h.Name, Place: &Place{File: at, Line: line}, Verdict: Pass}
	}
	found, there := snap.Files[at]
	if file != "" {
		derived, _ := nccl.Derive(f, h, nccl.Settled(h, snap))
		out = compareConf(result(ConfVariable, 0), derived, found.Text)
	}
	switch {
	case !there:
		return out
	case file != "" && len(out) == 0:
		res := result(ConfFile, 0)
		res.Found = "as derived"
		return []Result{res}
	}
	report := explain.Explain(at, found.Text, f)
	said, more := 0, report.More
	for _, finding := range report.Findings {
		switch {
		case finding.Severity == env.Note:
		case said == maxSaid:
			more++
		default:
			said++
			res := result(ConfFinding, finding.Line)
			res.Verdict, res.Object, res.Found, res.Cause, res.Cure = Warn, finding.Name, finding.Summary, finding.Trouble(), finding.Instead
			out = append(out, res)
		}
	}
	if more > 0 {
		res := result(ConfFinding, 0)
		res.Verdict, res.Values = Warn, []Measurement{{Name: MetricFindingsOmitted, Value: float64(more)}}
		res.Cure = "copy the file and run `fabricform explain` on it"
		out = append(out, res)
	}
	return out
}

// compareConf are the variables in which a file is not what is derived, as NCCL reads it.
func compareConf(res Result, derived nccl.Env, text string) (out []Result) {
	fail := func(variable, found, wanted, cause string) {
		r := res
		r.Object, r.Found, r.Wanted = variable, found, wanted
		out = append(out, r.fails(cause, "run fabricform apply: it writes what is derived"))
	}
	live := map[string]string{}
	for _, s := range env.ReadConf(text) {
		live[s.Name] = s.Value
	}
	for _, s := range derived {
		v, set := live[s.Name]
		delete(live, s.Name)
		if !set {
			fail(s.Name, "not set", fmt.Sprintf("%q", s.Value), s.Reason)
		} else if v != s.Value {
			fail(s.Name, fmt.Sprintf("%q", v), fmt.Sprintf("%q", s.Value), s.Reason)
		}
	}
	for _, s := range env.ReadConf(text) {
		if v, more := live[s.Name]; more {
			delete(live, s.Name)
			fail(s.Name, fmt.Sprintf("%q", v), "not set", "nothing derives it, and nccl.env does not name it")
		}
	}
	return out
}
