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

// savedHead begins a saved plan, so that apply knows it from a fabric's file.
const savedHead = "fabricform plan 1\n"

// Saved is a saved plan: the fabric as it was read, and the difference as it was found. Applying
// it compares the live difference with this one, and makes nothing else.
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

// Encode is the text of a saved plan's file. It holds addresses of hosts: only its owner may read it.
func (p *Saved) Encode() ([]byte, error) {
	raw, err := json.Marshal(p)
	return append([]byte(savedHead), raw...), err
}

// maxSaved bounds a saved plan: 10,000 hosts are about 100 MiB.
const maxSaved = 512 << 20

// ErrNotSaved is why something is read as a fabric's file instead.
var ErrNotSaved = errors.New("this is not a saved plan")

// ReadSaved reads a saved plan that this build has made; ErrNotSaved where the text is something else,
// such as a fabric.
func ReadSaved(from io.Reader, build string) (*Saved, error) {
	head := make([]byte, len(savedHead))
	if _, err := io.ReadFull(from, head); err != nil || !bytes.HasPrefix(head, []byte(savedHead[:len("fabricform plan ")])) {
		return nil, ErrNotSaved
	}
	if string(head) != savedHead {
		return nil, errors.New("a saved plan of another version of fabricform; make it anew")
	}
	var p Saved
	if err := json.NewDecoder(io.LimitReader(from, maxSaved)).Decode(&p); err != nil {
		return nil, fmt.Errorf("the saved plan is broken: %w; make it anew", err)
	}
	if p.Fabric == nil || p.Plan == nil || p.ID == "" {
		return nil, errors.New("the saved plan is not whole; make it anew")
	}
	if p.Build != build {
		return nil, fmt.Errorf("the plan was saved by another build (%s) of fabricform; make it anew with this one (%s)", p.Build, build)
	}
	return &p, nil
}
