package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

// savedHead begins a saved plan of this format, so that apply can tell it from a fabric's file.
const (
	savedKind = "fabricform plan "
	savedHead = savedKind + "2\n"
)

// Saved is a saved plan: the fabric as it was read, and the difference as it was found. Apply compares it
// with the live difference, and makes no other change.
type Saved struct {
	ID      string    `json:"id"`
	Build   string    `json:"build"`
	Created time.Time `json:"created"`
	Source  string    `json:"source"`
	Destroy bool      `json:"destroy,omitempty"`
	// Management is -allow=management.
	Management bool            `json:"management,omitempty"`
	Chosen     map[string]bool `json:"chosen,omitempty"`
	Fabric     *fabric.Fabric  `json:"fabric"`
	Plan       *Plan           `json:"plan"`
}

// Encode returns the text of a saved plan's file. The file holds addresses of hosts: only its owner may read it.
func (p *Saved) Encode() ([]byte, error) {
	raw, err := json.Marshal(p)
	return append([]byte(savedHead), raw...), err
}

// maxSaved bounds a saved plan: 10,000 hosts are about 100 MiB.
const maxSaved = 512 << 20

// ErrNotSaved says that the text is not a saved plan. The caller reads it as a fabric's file instead.
var ErrNotSaved = errors.New("this is not a saved plan")

// ReadSaved reads a saved plan that this build wrote. It returns ErrNotSaved if the text is something else,
// such as a fabric.
func ReadSaved(from io.Reader, build string) (*Saved, error) {
	head := make([]byte, len(savedHead))
	if _, err := io.ReadFull(from, head); err != nil || !bytes.HasPrefix(head, []byte(savedKind)) {
		return nil, ErrNotSaved
	}
	if string(head) != savedHead {
		return nil, errors.New("this plan was saved by another version of fabricform: save it again with fabricform plan -out")
	}
	raw, err := io.ReadAll(io.LimitReader(from, maxSaved))
	if err != nil {
		return nil, fmt.Errorf("read the saved plan: %w", err)
	}
	// Another build's types may differ in anything but this.
	var by struct {
		Build string `json:"build"`
	}
	if err := json.Unmarshal(raw, &by); err == nil && by.Build != "" && by.Build != build {
		return nil, fmt.Errorf("this plan was saved by another build of fabricform (%s): save it again with fabricform plan -out of this build (%s)", by.Build, build)
	}
	var p Saved
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("the saved plan is corrupt: %w; save it again with fabricform plan -out", err)
	}
	if p.Fabric == nil || p.Plan == nil || p.ID == "" {
		return nil, errors.New("the saved plan is incomplete: save it again with fabricform plan -out")
	}
	return &p, nil
}
