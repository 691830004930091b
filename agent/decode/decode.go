// Package decode reads what a host sends. JSON may take a thousand times its length in memory once it is decoded: three
// bytes of a list are a whole value of its type. So the memory is counted by the types before any of it is taken.
package decode

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Most is how many bytes one answer may take in memory: those of a host with 40,000 routes.
const Most = 16 << 20

// Into decodes JSON into the value that v points to. It refuses a text that would take more than Most, and a member that
// the types do not have: both sides are the same build. It does not panic, whatever the text is.
func Into(text []byte, v any) error {
	if json.Valid(text) { // otherwise, Unmarshal takes nothing
		s := scale{text: text, budget: Most}
		if err := s.value(reflect.TypeOf(v)); err != nil {
			return err
		}
	}
	return json.Unmarshal(text, v)
}

// scale adds up the memory that valid JSON takes once it is decoded.
type scale struct {
	text   []byte
	at     int
	budget int // bytes that may still be taken
}

func (s *scale) spend(n int) error {
	if s.budget -= n; s.budget < 0 {
		return fmt.Errorf("it holds too much: it would take more than %d MiB of memory", Most>>20)
	}
	return nil
}

// anything is the type of a value that is decoded into an interface: the largest of the types that
// encoding/json may choose.
var anything = reflect.TypeFor[any]()

var ownText, ownJSON = reflect.TypeFor[encoding.TextUnmarshaler](), reflect.TypeFor[json.Unmarshaler]()

// value adds the next value, which is decoded into the type; a nil type means that the value is
// skipped.
func (s *scale) value(t reflect.Type) error {
	s.space()
	for t != nil && t.Kind() == reflect.Pointer {
		if s.text[s.at] == 'n' {
			t = nil
			break
		}
		if t = t.Elem(); s.spend(int(t.Size())) != nil {
			return s.spend(1)
		}
	}
	if t != nil && (reflect.PointerTo(t).Implements(ownJSON) || reflect.PointerTo(t).Implements(ownText)) {
		begin := s.at // it keeps a part of its text
		if err := s.value(nil); err != nil {
			return err
		}
		return s.spend(s.at - begin)
	}
	switch s.text[s.at] {
	case '{':
		return s.object(t)
	case '[':
		return s.list(t)
	case '"':
		if n := len(s.string()); t != nil {
			return s.spend(n)
		}
		return nil
	}
	for s.at < len(s.text) && !strings.ContainsRune(",]} \t\r\n", rune(s.text[s.at])) {
		s.at++
	}
	return nil
}

func (s *scale) list(t reflect.Type) error {
	var each reflect.Type
	size := 0
	switch {
	case t == anything:
		each, size = anything, 2*int(anything.Size())
	case t != nil && t.Kind() == reflect.Slice: // a list that grows is copied: it is there twice
		each, size = t.Elem(), 2*max(int(t.Elem().Size()), 1)
	case t != nil && t.Kind() == reflect.Array:
		each = t.Elem()
	}
	for s.more(']') {
		if err := s.spend(size); err != nil {
			return err
		}
		if err := s.value(each); err != nil {
			return err
		}
	}
	return nil
}

func (s *scale) object(t reflect.Type) error {
	for s.more('}') {
		s.space()
		name := s.string()
		var member reflect.Type
		size := 0
		switch {
		case t == nil:
		case t == anything:
			member, size = anything, 64+len(name)
		case t.Kind() == reflect.Map: // one that grows is copied, and has spare slots
			member, size = t.Elem(), 4*int(t.Elem().Size()+t.Key().Size())+len(name)
		case t.Kind() == reflect.Struct:
			var err error
			if member, err = memberNamed(t, name); err != nil {
				return err
			}
		}
		if err := s.spend(size); err != nil {
			return err
		}
		s.space()
		s.at++ // the colon
		if err := s.value(member); err != nil {
			return err
		}
	}
	return nil
}

// more goes to the next element of a list or an object, and past the end of it.
func (s *scale) more(end byte) bool {
	if s.text[s.at] == '[' || s.text[s.at] == '{' {
		s.at++
		s.space()
		if s.text[s.at] != end {
			return true
		}
		s.at++
		return false
	}
	s.space()
	s.at++
	return s.text[s.at-1] == ','
}

func (s *scale) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

// string returns the next string as it stands, with its quotes.
func (s *scale) string() []byte {
	begin := s.at
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	return s.text[begin:s.at]
}

// memberNamed returns the type of the member of a struct that a string in JSON names. The name is only decoded if it is not a
// member's name as it stands: a fleet's answers have hundreds of thousands of names, and each decoded one is an allocation.
func memberNamed(t reflect.Type, text []byte) (reflect.Type, error) {
	if m := members(t)[string(text[1:len(text)-1])]; m != nil {
		return m, nil
	}
	var plain string
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, err
	}
	if m := members(t)[plain]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("it has the unknown member %.60q", plain)
}

var known sync.Map // reflect.Type -> map[string]reflect.Type

// members returns the types of a struct's members, by their names in JSON.
func members(t reflect.Type) map[string]reflect.Type {
	if m, ok := known.Load(t); ok {
		return m.(map[string]reflect.Type)
	}
	out, depth := map[string]reflect.Type{}, map[string]int{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if _, twice := out[name]; !twice || len(f.Index) < depth[name] {
			out[name], depth[name] = f.Type, len(f.Index)
		}
	}
	known.Store(t, out)
	return out
}
