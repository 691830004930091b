package facts

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/fabricform/fabricform/agent/decode"
)

// Part names the facts that one kind, or the kinds of one package, read for themselves; P is their type. The code that
// gathers a part and the code that reads it share this value: nothing else knows the type.
type Part[P any] string

// AnyPart is a Part whose type is hidden.
type AnyPart interface {
	// Check returns an error unless the snapshot holds the part.
	Check(s *Snapshot) error
}

// Parts are the kinds' own parts of a snapshot, by name.
type Parts map[string]*part

// part is one part of a snapshot. A part that came over a connection stays text until it is first read.
type part struct {
	mu    sync.Mutex
	text  json.RawMessage
	value any // *P, after the text is decoded
}

// Put makes v the snapshot's part.
func (p Part[P]) Put(s *Snapshot, v P) {
	s.Parts = maps.Clone(s.Parts) // a copy of the snapshot keeps its own
	if s.Parts == nil {
		s.Parts = Parts{}
	}
	s.Parts[string(p)] = &part{value: &v}
}

// Of returns the snapshot's part; the zero value if Check fails.
func (p Part[P]) Of(s *Snapshot) P {
	v, err := p.read(s)
	if err != nil {
		return *new(P)
	}
	return *v
}

// Check returns an error unless the snapshot holds the part.
func (p Part[P]) Check(s *Snapshot) error {
	_, err := p.read(s)
	return err
}

func (p Part[P]) read(s *Snapshot) (*P, error) {
	found := s.Parts[string(p)]
	if found == nil {
		return nil, fmt.Errorf("the host's answer has no part %q", string(p))
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	if found.value == nil {
		v := new(P)
		if err := decode.Into(found.text, v); err != nil {
			return nil, fmt.Errorf("decode part %q of the host's answer: %w", string(p), err)
		}
		found.value, found.text = v, nil
	}
	v, is := found.value.(*P)
	if !is {
		return nil, fmt.Errorf("part %q of the snapshot is a %T", string(p), found.value)
	}
	return v, nil
}

// MarshalJSON writes the part's value.
func (p *part) MarshalJSON() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.value != nil {
		return json.Marshal(p.value)
	}
	return p.text, nil
}

// UnmarshalJSON keeps the text. Only Part.read knows the type and can decode it.
func (p *part) UnmarshalJSON(text []byte) error {
	p.text = append(json.RawMessage(nil), text...)
	return nil
}
