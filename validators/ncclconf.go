package validators

import (
	"fmt"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/nccl/env"
	"github.com/fabricform/fabricform/nccl/explain"
)

// maxSaid limits the number of findings in one file.
const maxSaid = 10

// confFile checks the file that NCCL reads on a host, and parses it as NCCL does. A file that the fabric
// wrote must have the derived values; for a file of someone else it reports findings only.
func confFile(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot, by fabric.Invocation) (out []Result) {
	file := f.NCCLFile(h)
	at := file
	if at == "" {
		at = fabric.NCCLConf
	}
	result := func(item Item, line int) Result {
		return Result{Check: CheckNCCL, Item: item, Subject: onHost(h.Name), Host: h.Name, Place: &FileLine{File: at, Line: line},
			Verdict: Pass}
	}
	found, there := snap.Files[at]
	if file != "" {
		derived, _ := nccl.Derive(f, h, nccl.AfterApply(h, snap))
		out = compareConf(result(ConfVariable, 0), derived, f.Secrets, found.Text, "run "+by.Hint("apply")+" to write the derived values")
	}
	switch {
	case !there:
		return out
	case file != "" && len(out) == 0:
		res := result(ConfFile, 0)
		res.Found = "as derived"
		return []Result{res}
	}
	report := explain.OfHost(h, found.Text, f, by)
	said, more := 0, report.More
	for _, finding := range report.Findings {
		switch {
		case finding.Severity == env.Note:
		case said == maxSaid:
			more++
		default:
			said++
			res := result(ConfFinding, finding.Line)
			res.Verdict, res.Object, res.Found, res.Cause, res.Cure = Warn, finding.Name, finding.Summary, finding.Trouble(),
				finding.Instead
			out = append(out, res)
		}
	}
	if more > 0 {
		res := result(ConfFinding, 0)
		res.Verdict, res.Values = Warn, []Measurement{{Name: MetricFindingsOmitted, Value: float64(more)}}
		res.Cure = by.Fill("copy the file here and run `fabricform explain nccl.conf`")
		out = append(out, res)
	}
	return out
}

// compareConf returns the variables whose value in the file, as NCCL reads it, is not the derived one.
func compareConf(res Result, derived nccl.Env, secrets fabric.Secrets, text, cure string) (out []Result) {
	hidden := facts.SensitiveIn(text)
	for _, s := range derived {
		if fabric.IsSensitive(s.Value) {
			hidden[s.Name] = ""
		}
	}
	shown := func(variable, value string) string {
		if _, hide := hidden[variable]; hide {
			return fabric.Sensitive
		}
		return fmt.Sprintf("%q", value)
	}
	fail := func(variable, found, wanted, cause string) {
		r := res
		r.Object, r.Found, r.Wanted = variable, found, wanted
		out = append(out, r.fails(cause, cure))
	}
	live := map[string]string{}
	for _, s := range env.ReadConf(text) {
		live[s.Name] = s.Value
	}
	for _, s := range derived {
		v, set := live[s.Name]
		delete(live, s.Name)
		if !set {
			fail(s.Name, "not set", shown(s.Name, s.Value), s.Reason)
		} else if v != secrets.Value(s.Value) {
			fail(s.Name, shown(s.Name, v), shown(s.Name, s.Value), s.Reason)
		}
	}
	for _, s := range env.ReadConf(text) {
		if v, more := live[s.Name]; more {
			delete(live, s.Name)
			fail(s.Name, shown(s.Name, v), "not set", "it is neither derived nor declared in nccl.env")
		}
	}
	return out
}
