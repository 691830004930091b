package planner

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

// A saved plan begins with a line of this kind and version, and the SHA-256 of what follows.
const (
	savedKind    = fabric.SavedPlan
	savedVersion = "3"
)

// Saved is a saved plan: the fabric as it was read, and the difference as it was found. Apply compares it
// with the live difference, and makes no other change. The hosts of the plan are all that it may change: a host
// of the fabric that is not in the plan was not chosen.
type Saved struct {
	ID      string    `json:"id"`
	Build   string    `json:"build"`
	Created time.Time `json:"created"`
	User    string    `json:"user"` // user@machine who made the plan
	Source  string    `json:"source"`
	Lab     string    `json:"lab,omitempty"` // the lab whose hosts were read; "" for the declared hosts
	Destroy bool      `json:"destroy,omitempty"`
	// Management is -allow=management.
	Management bool           `json:"management,omitempty"`
	Fabric     *fabric.Fabric `json:"fabric"`
	Plan       *Plan          `json:"plan"`
}

// Encode returns the text of a saved plan's file. The file holds addresses of hosts: only its owner may read it.
func (p *Saved) Encode() ([]byte, error) {
	raw, err := json.Marshal(p)
	return seal(raw), err
}

// seal puts the first line before a plan. Its digest detects accidents, such as an edit or a copy that was cut off.
// It is no signature: whoever can write the file can also write the digest.
func seal(raw []byte) []byte {
	return append(fmt.Appendf(nil, "%s%s %x\n", savedKind, savedVersion, sha256.Sum256(raw)), raw...)
}

// maxSaved bounds a saved plan: 10,000 hosts are about 100 MiB.
const maxSaved = 512 << 20

// ErrNotSaved says that the text is not a saved plan. The caller reads it as a fabric's file instead.
var ErrNotSaved = errors.New("this is not a saved plan")

// ReadSaved reads a saved plan that this build wrote, and checks it as config checks files. It returns ErrNotSaved if the
// text is something else, such as a fabric.
func ReadSaved(from io.Reader, build string) (*Saved, error) {
	text := bufio.NewReader(from)
	if kind, err := text.Peek(len(savedKind)); err != nil || string(kind) != savedKind {
		return nil, ErrNotSaved
	}
	head, err := text.ReadSlice('\n')
	var version, digest string
	if _, scan := fmt.Sscanf(string(head), savedKind+"%s %s\n", &version, &digest); err != nil || version != savedVersion || scan != nil {
		return nil, errors.New("this plan was saved by another version of fabricform: save it again with fabricform plan -out")
	}
	raw, err := io.ReadAll(io.LimitReader(text, maxSaved))
	if err != nil {
		return nil, fmt.Errorf("read the saved plan: %w", err)
	}
	if digest != fmt.Sprintf("%x", sha256.Sum256(raw)) {
		return nil, errors.New("the saved plan is not as it was saved: it was edited, or is incomplete. " +
			"Change the fabric's files instead, and save it again with fabricform plan -out")
	}
	// Another build's types may differ in anything but this.
	var by struct {
		Build string `json:"build"`
	}
	if err := json.Unmarshal(raw, &by); err == nil && by.Build != "" && by.Build != build {
		return nil,
			fmt.Errorf("this plan was saved by another build of fabricform (%s): "+
				"save it again with fabricform plan -out of this build (%s)", by.Build, build)
	}
	var p Saved
	err = json.Unmarshal(raw, &p)
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return nil, fmt.Errorf("the saved plan is corrupt: %w; save it again with fabricform plan -out", err)
	}
	return &p, nil
}

// check returns an error if the plan does not belong to its fabric, or if the fabric's files would not have
// passed.
func (p *Saved) check() error {
	if p.Fabric == nil || p.Plan == nil || p.ID == "" {
		return errors.New("it is incomplete")
	}
	if err := p.Fabric.CheckEntries(); err != nil {
		return err
	}
	if p.Plan.Fabric != p.Fabric.Name {
		return fmt.Errorf("it plans fabric %q, but holds the files of %q", p.Plan.Fabric, p.Fabric.Name)
	}
	declared := map[string]bool{}
	for _, h := range p.Fabric.Hosts {
		declared[h.Name] = true
	}
	for _, h := range p.Plan.Hosts {
		if !declared[h.Name] {
			return fmt.Errorf("it plans host %q, which is not declared in its files or is planned twice", h.Name)
		}
		declared[h.Name] = false
		for _, a := range h.Actions {
			if a.Resource.Addr.Host != h.Name {
				return fmt.Errorf("it plans %s on host %q", a.Resource.Addr, h.Name)
			}
		}
	}
	for _, problem := range fabric.Check(p.Fabric) {
		if problem.Severity == fabric.Error {
			return fmt.Errorf("%s:%d: %s: %s", problem.Pos.File, problem.Pos.Line, problem.Summary, problem.Detail)
		}
	}
	if problems := p.Plan.Problems(); len(problems) > 0 {
		return fmt.Errorf("it was refused: %s", problems[0])
	}
	return nil
}

// Covered returns the hosts that the plan may change, and, for those that were unreachable when it was made, why.
func (p *Saved) Covered() (chosen map[string]bool, unreachable map[string]string) {
	chosen = map[string]bool{}
	for _, h := range p.Plan.Hosts {
		chosen[h.Name] = true
	}
	return chosen, p.Plan.Unreachable()
}

// excluded returns the hosts of the fabric that were not chosen for the plan.
func (p *Saved) excluded() (out []string) {
	chosen, _ := p.Covered()
	for _, h := range p.Fabric.Hosts {
		if !chosen[h.Name] {
			out = append(out, h.Name)
		}
	}
	return out
}

// CheckTarget returns an error if the plan was made on other hosts: the declared ones ("") or those of a lab.
func (p *Saved) CheckTarget(lab string) error {
	cure := "with -lab=" + p.Lab
	switch p.Lab {
	case lab:
		return nil
	case "":
		cure = "without -lab"
	}
	return fmt.Errorf("nothing was changed: this plan was made for %s, not for %s: run it %s", target(p.Lab), target(lab), cure)
}

// Notes returns what must be known about the plan: when and for which hosts it was made, and the notes of the plan itself.
func (p *Saved) Notes() []string {
	notes := []string{fmt.Sprintf("Saved by %s at %s, for %s, from %s.", p.User, p.Created.Local().Format(time.DateTime), target(p.Lab),
		p.Source)}
	if p.Destroy {
		notes = append(notes, "It restores everything that the fabric changed.")
	}
	if out := p.excluded(); len(out) > 0 {
		notes = append(notes, "Not chosen, so not changed: "+Names(out)+".")
	}
	return append(notes, p.Plan.Notes()...)
}

func target(lab string) string {
	if lab == "" {
		return "the declared hosts"
	}
	return fmt.Sprintf("lab %q", lab)
}
