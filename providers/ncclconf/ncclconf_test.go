package ncclconf

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/resource/kindtest"
)

// fake is a host of files alone, whose failAt-th change fails. The kernel's own are tested in a lab.
type fake struct {
	host.Host
	files         map[string]facts.File
	count, failAt int
}

var errInjected = errors.New("injected")

func (f *fake) step() error {
	f.count++
	if f.count == f.failAt {
		return errInjected
	}
	return nil
}

func (f *fake) Links(_ context.Context) ([]host.Link, error)     { return nil, nil }
func (f *fake) Addrs(_ context.Context) ([]host.Addr, error)     { return nil, nil }
func (f *fake) Routes(_ context.Context) ([]host.Route, error)   { return nil, nil }
func (f *fake) Rules(_ context.Context) ([]host.Rule, error)     { return nil, nil }
func (f *fake) Readlink(context.Context, string) (string, error) { return "", fs.ErrNotExist }

func (f *fake) ReadFile(_ context.Context, p string) ([]byte, error) {
	if file, there := f.files[p]; there {
		return []byte(file.Text), nil
	}
	return nil, fs.ErrNotExist
}

func (f *fake) ReadDir(_ context.Context, dir string) (names []string, err error) {
	for p := range f.files {
		if path.Dir(p) == dir {
			names = append(names, path.Base(p))
		}
	}
	if names == nil && dir != "/etc" {
		return nil, fs.ErrNotExist
	}
	return names, nil
}

func (f *fake) Stat(_ context.Context, p string) (host.FileStat, error) {
	if file, there := f.files[p]; there {
		return file.FileStat, nil
	}
	return host.FileStat{}, fs.ErrNotExist
}

func (f *fake) PutFile(p string, text []byte, perm fs.FileMode) error {
	if err := errors.Join(host.OwnFile(p), f.step()); err != nil {
		return err
	}
	f.files[p] = facts.File{FileStat: host.FileStat{Mode: perm}, Text: string(text)}
	return nil
}

func (f *fake) RemoveFile(p string) error {
	if err := errors.Join(host.OwnFile(p), f.step()); err != nil {
		return err
	}
	delete(f.files, p)
	return nil
}

func newFake(files map[string]string) *fake {
	f := &fake{files: map[string]facts.File{}}
	for p, text := range files {
		f.files[p] = facts.File{FileStat: host.FileStat{Mode: 0o640}, Text: text}
	}
	return f
}

func (f *fake) snapshot(t *testing.T) *facts.Snapshot {
	t.Helper()
	snap, err := resource.Gather(t.Context(), f, provider{}, Spec{File: host.NCCLConf, Sources: true})
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

const theirs = "NCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5_0, mlx5_1\nNCCL_IB_HCA=late\n"

func wanted() Spec {
	return Spec{Fabric: "lab", File: host.NCCLConf, Env: nccl.Env{{Name: "NCCL_IB_HCA", Value: "=mlx5_0,mlx5_1", Reason: "the fabric's NICs"}, {Name: "NCCL_CROSS_NIC", Value: "0", Reason: "rails"}}}
}

func kind(t *testing.T, s Spec) (resource.Kind, json.RawMessage) {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return Kinds()[0], raw
}

// plan is the difference on a host.
func (f *fake) plan(t *testing.T, s Spec) resource.Difference {
	t.Helper()
	k, raw := kind(t, s)
	d, err := k.Plan(f.snapshot(t), raw)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func lines(changes []resource.Change) (out []string) {
	for _, c := range changes {
		out = append(out, c.Attribute+": "+c.From+" > "+c.To)
	}
	return out
}

func TestConformance(t *testing.T) {
	for name, before := range map[string]map[string]string{
		"nothing there": nil, "theirs there": {host.NCCLConf: theirs}, "an empty file": {host.NCCLConf: ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, want := newFake(before), wanted()
			was := maps.Clone(f.files)
			want.Replace = true
			kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: Kind, Host: f, Spec: want, There: before != nil, Equal: func() bool { return maps.Equal(f.files, was) }})
		})
	}
}

// TestOursIsNotReplaced: the second apply needs no leave, and the same text is kept once.
func TestOursIsNotReplaced(t *testing.T) {
	f, want := newFake(map[string]string{host.NCCLConf: theirs, host.NCCLConf + ".before-fabricform": theirs}), wanted()
	was := f.files[host.NCCLConf]
	want.Replace = true
	k, raw := kind(t, want)
	d := f.plan(t, want)
	if err := k.Apply(t.Context(), f, raw, d.Changes); err != nil {
		t.Fatal(err)
	}
	want.Replace = false // it is ours by now
	if d := f.plan(t, want); len(d.Changes) != 0 || f.files[host.NCCLConf].Mode != mode {
		t.Errorf("after apply: %v", lines(d.Changes))
	}
	if err := k.ApplyUndo(t.Context(), f, f.snapshot(t), d.Changes[0].Atom, d.Changes[0].From); err != nil || !maps.Equal(f.files, map[string]facts.File{host.NCCLConf: was}) {
		t.Errorf("given back: %v, %v", f.files, err)
	}
}

func TestChangesAreVariablesAsNCCLReadsThem(t *testing.T) {
	got := lines(newFake(map[string]string{host.NCCLConf: theirs}).plan(t, wanted()).Changes)
	want := []string{"NCCL_IB_HCA: mlx5_0, mlx5_1 > =mlx5_0,mlx5_1", "NCCL_CROSS_NIC:  > 0", "NCCL_DEBUG: INFO > "}
	if !slices.Equal(got[1:], want) || !strings.HasPrefix(got[0], "file /etc/nccl.conf: sha256:") {
		t.Errorf("%q", got)
	}
}

// TestWhatOthersWroteIsRefused: by the plan, and by the helper should the file have come since.
func TestWhatOthersWroteIsRefused(t *testing.T) {
	f := newFake(map[string]string{host.NCCLConf: theirs})
	c := f.plan(t, wanted()).Changes
	for _, says := range []string{`"NCCL_DEBUG, NCCL_IB_HCA"`, "nccl.replace = true", "before-fabricform"} {
		if !strings.Contains(c[0].Refusal, says) {
			t.Errorf("%q lacks %q", c[0].Refusal, says)
		}
	}
	k, raw := kind(t, wanted())
	if err := k.Apply(t.Context(), f, raw, c); err == nil || f.count != 0 {
		t.Errorf("%v after %d changes", err, f.count)
	}
	f = newFake(map[string]string{host.NCCLConf: mark("lab") + "# A line for readers, of another build.\nNCCL_DEBUG=INFO\n"})
	if c := f.plan(t, wanted()).Changes; c[0].Refusal != "" {
		t.Errorf("ours, changed by hand: %q", c[0].Refusal)
	}
	f = newFake(map[string]string{host.NCCLConf: header("other")})
	if c := f.plan(t, wanted()).Changes; c[0].Refusal == "" {
		t.Error("another fabric's is taken")
	}
}

// TestWhatIsKeptIsNeverOverwritten: theirs is replaced, and somebody writes over ours.
func TestWhatIsKeptIsNeverOverwritten(t *testing.T) {
	f, want := newFake(map[string]string{host.NCCLConf: theirs}), wanted()
	was := maps.Clone(f.files)
	want.Replace = true
	k, raw := kind(t, want)
	first := f.plan(t, want).Changes
	if err := k.Apply(t.Context(), f, raw, first); err != nil {
		t.Fatal(err)
	}
	later := facts.File{FileStat: host.FileStat{Mode: 0o640}, Text: "NCCL_DEBUG=TRACE\n"}
	f.files[host.NCCLConf], f.count = later, 0
	c := f.plan(t, want).Changes
	if says := host.NCCLConf + ".before-fabricform is the backup of an earlier file"; !strings.Contains(c[0].Refusal, says) {
		t.Errorf("%q lacks %q", c[0].Refusal, says)
	}
	if err := k.Apply(t.Context(), f, raw, c); err == nil || f.count != 0 {
		t.Errorf("%v after %d changes", err, f.count)
	}
	delete(f.files, host.NCCLConf) // as it says: moved away
	if err := k.Apply(t.Context(), f, raw, f.plan(t, want).Changes); err != nil {
		t.Fatal(err)
	}
	if err := k.ApplyUndo(t.Context(), f, f.snapshot(t), atom(host.NCCLConf), first[0].From); err != nil || !maps.Equal(f.files, was) {
		t.Errorf("given back: %v, %v", f.files, err)
	}
}

func TestWhatCannotBeWrittenIsSaid(t *testing.T) {
	stat := func(s host.FileStat) map[string]facts.File {
		return map[string]facts.File{host.NCCLConf: {FileStat: s}}
	}
	edit := func(do func(*Spec)) Spec { s := wanted(); do(&s); return s }
	for says, c := range map[string]struct {
		want  Spec
		files map[string]facts.File
	}{
		"not a regular file":                        {wanted(), stat(host.FileStat{Mode: fs.ModeSymlink})},
		"belongs to user 7":                         {edit(func(s *Spec) { s.Replace = true }), stat(host.FileStat{UID: 7})},
		"settings cannot work: rail0: no":           {edit(func(s *Spec) { s.Wrong = []string{"rail0: no"} }), nil},
		"line break":                                {edit(func(s *Spec) { s.Env[0].Value = "a\nB=1" }), nil},
		"not a variable name":                       {edit(func(s *Spec) { s.Env[0].Name = "A=B" }), nil},
		"not one of fabricform's own configuration": {edit(func(s *Spec) { s.File = "/etc/passwd" }), nil},
	} {
		k, raw := kind(t, c.want)
		f := &fake{files: c.files}
		if _, err := k.Plan(f.snapshot(t), raw); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		if err := k.Apply(t.Context(), f, raw, nil); err == nil || f.count != 0 {
			t.Errorf("%s: applied, %v", says, err)
		}
	}
}

// TestFailingAnywhereGoesBackExactly: the way back is from every step.
func TestFailingAnywhereGoesBackExactly(t *testing.T) {
	want := wanted()
	want.Replace = true
	k, raw := kind(t, want)
	// fails says whether there is such a step.
	fails := func(f *fake, failAt int) bool {
		was := maps.Clone(f.files)
		part, err := k.Restorer.Save(t.Context(), f, []resource.Atom{atom(host.NCCLConf)})
		if err != nil {
			t.Fatal(err)
		}
		f.failAt = failAt
		failed := k.Apply(t.Context(), f, raw, nil)
		f.failAt = 0
		left, err := k.Restorer.Restore(context.Background(), f, part)
		if err != nil || len(left) > 0 || !maps.Equal(f.files, was) {
			t.Errorf("failed at %d: %v %v: %v", failAt, err, left, f.files)
		}
		return failed != nil
	}
	for _, start := range []map[string]string{{host.NCCLConf: theirs}, {host.NCCLConf: theirs, host.NCCLConf + ".before-fabricform": theirs}, {host.NCCLConf + ".before-fabricform": "older"}} {
		for failAt := 1; fails(newFake(start), failAt); failAt++ {
			continue
		}
	}
}

// TestOnlyWhatIsThereIsGivenBack: a copy of others' that was lost is said.
func TestOnlyWhatIsThereIsGivenBack(t *testing.T) {
	k, _ := kind(t, wanted())
	if _, err := k.Restorer.Save(t.Context(), newFake(nil), []resource.Atom{"nccl file /etc/passwd"}); err == nil {
		t.Error("a snapshot of what is not ours")
	}
	f := newFake(map[string]string{host.NCCLConf: "ours"})
	err := k.ApplyUndo(t.Context(), f, f.snapshot(t), atom(host.NCCLConf), "sha256:0,0644")
	if err == nil || f.count != 0 {
		t.Errorf("given back what is not there: %v", err)
	}
}

// TestOnlyTheFileHasASensitiveValue: no change shows it, also where it is replaced or removed, and equal values make equal
// files although each load of the fabric has another salt.
func TestOnlyTheFileHasASensitiveValue(t *testing.T) {
	load := func(value, salt string) (Spec, fabric.Secrets) {
		f, h := softPair()
		f.Secrets = fabric.Secrets{}
		f.NCCL.Env = map[string]string{"NCCL_DEBUG_FILE": f.Secrets.Hide(value, strings.Repeat(salt, 32))}
		return derived(t, f, h, bare()), f.Secrets
	}
	f := newFake(nil)
	plan := func(value, salt string) (shown string, spec json.RawMessage, changes []resource.Change) {
		want, secrets := load(value, salt)
		k, raw := kind(t, want)
		if strings.Contains(string(raw), value) || strings.Contains(string(fabric.Mask(raw)), strings.Repeat(salt, 32)) {
			t.Errorf("the spec has the value, or is shown with the salt: %s", raw)
		}
		spec = secrets.Reveal(raw)
		d, err := k.Plan(f.snapshot(t), spec)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines(d.Changes), "\n"), spec, d.Changes
	}
	apply := func(value, salt, says string) {
		t.Helper()
		shown, spec, changes := plan(value, salt)
		if !strings.Contains(shown, "NCCL_DEBUG_FILE: "+says) || strings.Contains(shown, "hunter") {
			t.Errorf("the plan shows %s", shown)
		}
		if err := Kinds()[0].Apply(t.Context(), f, spec, changes); err != nil {
			t.Fatal(err)
		}
		if text := f.files[host.NCCLConf].Text; !strings.Contains(text, "\nNCCL_DEBUG_FILE="+value+"\n") {
			t.Errorf("the file is %s", text)
		}
		if shown, _, _ := plan(value, "f"); shown != "" {
			t.Errorf("it is not as declared: %s", shown)
		}
	}
	shownNow := func(salt string) (out []string) {
		_, _, changes := plan("hunter2", salt)
		for _, c := range changes {
			out = append(out, c.Unsalted().String())
		}
		return out
	}
	if one, other := shownNow("1"), shownNow("2"); !slices.Equal(one, other) || one[0] != "file "+host.NCCLConf+" (sensitive),0644 is missing" {
		t.Errorf("two plans of the same files show\n%q\n%q", one, other)
	}
	apply("hunter2", "1", " > (sensitive)")
	guess := f.files[host.NCCLConf]
	guess.Text = strings.ReplaceAll(guess.Text, strings.Repeat("1", 32), strings.Repeat("2", 32))
	if guess.Digest() == f.files[host.NCCLConf].Digest() {
		t.Error("the digest has no salt")
	}
	apply("hunter3", "2", "(sensitive) > (sensitive)")
	masked := f.snapshot(t).Masked(func(text string) string { return text }).Files[host.NCCLConf].Text
	if strings.Contains(masked, "hunter") || strings.Contains(masked, strings.Repeat("1", 32)) || !strings.Contains(masked, "NCCL_DEBUG_FILE=(sensitive)\n") || !strings.Contains(masked, "NCCL_IB_HCA==rxe0\n") {
		t.Errorf("facts are shown with %s", masked)
	}
	if shown := strings.Join(lines(f.plan(t, Spec{Fabric: "lab", File: host.NCCLConf}).Changes), "\n"); !strings.Contains(shown, "NCCL_DEBUG_FILE: (sensitive) > ") || strings.Contains(shown, "hunter") {
		t.Errorf("its removal shows %s", shown)
	}
}
