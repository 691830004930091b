package fabric

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Sensitive is shown instead of a sensitive value.
const Sensitive = "(sensitive)"

// Secrets holds the sensitive values of a fabric by their placeholders. The model has only placeholders, and so has
// everything that is made from it: plans, reports, messages and files of this machine. A value takes the place of
// its placeholder where it is compared with a host and where it is sent to one, and nowhere else.
type Secrets map[string]string

// placeholder is a salted hash of a value, as a text that stands in its place.
var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\(sensitive ([0-9a-f]{32}):[0-9a-f]{64}\)`) })

// masked is what Mask hides: a placeholder, or a salt.
var masked = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(placeholder().String() + `|\(salt [0-9a-f]{32}\)`) })

// Hide returns the placeholder of a value, with a salt of 32 hexadecimal digits, and remembers the value.
func (s Secrets) Hide(value, salt string) string {
	p := hashed(value, salt)
	s[p] = value
	return p
}

func hashed(value, salt string) string {
	return fmt.Sprintf("(sensitive %s:%x)", salt, sha256.Sum256([]byte(salt+value)))
}

// IsSensitive reports whether the text is a placeholder.
func IsSensitive(text string) bool { return saltOf(text) != "" }

// Salt returns the salt of a placeholder, as a text that Mask hides.
func Salt(text string) string { return "(salt " + saltOf(text) + ")" }

func saltOf(text string) string {
	if m := placeholder().FindStringSubmatch(text); m != nil && m[0] == text {
		return m[1]
	}
	return ""
}

// Value returns the value of a placeholder, and any other text as it is.
func (s Secrets) Value(text string) string {
	if v, hidden := s[text]; hidden {
		return v
	}
	return text
}

// Reveal puts the values into JSON in the place of their placeholders.
func (s Secrets) Reveal(raw []byte) []byte {
	return placeholder().ReplaceAllFunc(raw, func(p []byte) []byte {
		text, err := json.Marshal(s.Value(string(p)))
		if err != nil {
			panic(err) // a string can always be encoded
		}
		return text[1 : len(text)-1]
	})
}

// Mask shows placeholders and salts as Sensitive. With its salt, a hash tells whether a guess of the value is right.
func Mask(text []byte) []byte { return masked().ReplaceAll(text, []byte(Sensitive)) }

// shortSecret is the length in characters below which a value is part of too many words: without the letter a, no message can be read.
const shortSecret = 4

// Redact removes the values from a text that somebody else wrote, such as a program's log. A value of fewer than four characters is
// removed where no letter or digit is beside it.
func (s Secrets) Redact(text string) string {
	// The longest first: one value may contain another.
	byLength := func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }
	for _, v := range slices.SortedFunc(maps.Values(s), byLength) {
		switch {
		case v == "":
		case utf8.RuneCountInString(v) < shortSecret:
			text = redactWord(text, v)
		default:
			text = strings.ReplaceAll(text, v, Sensitive)
		}
	}
	return text
}

// redactWord removes a value where it is a word of its own.
func redactWord(text, v string) string {
	part := func(r rune, size int) bool { return size > 0 && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
	var out strings.Builder
	for done := 0; ; {
		i := strings.Index(text[done:], v)
		if i < 0 {
			return out.String() + text[done:]
		}
		at := done + i
		end := at + len(v)
		out.WriteString(text[done:at])
		if part(utf8.DecodeLastRuneInString(text[:at])) || part(utf8.DecodeRuneInString(text[end:])) {
			_, size := utf8.DecodeRuneInString(text[at:])
			out.WriteString(text[at : at+size])
			done = at + size
			continue
		}
		out.WriteString(Sensitive)
		done = end
	}
}

// SensitiveNCCL returns the names of the NCCL variables that have a sensitive value on any host.
func (f *Fabric) SensitiveNCCL() map[string]bool {
	out := map[string]bool{}
	for _, n := range f.allNCCL() {
		for name, v := range n.Env {
			if IsSensitive(v) {
				out[name] = true
			}
		}
	}
	return out
}

// HasSensitive reports whether the model has placeholders.
func (f *Fabric) HasSensitive() bool { return len(f.hidden()) > 0 }

// FillSecrets sets the values of the model's placeholders from the secrets of the same fabric, which was loaded anew. It
// returns an error if one of the values is not among them.
func (f *Fabric) FillSecrets(from Secrets) error {
	found := Secrets{}
	hidden := f.hidden()
	for _, p := range slices.Sorted(maps.Keys(hidden)) {
		for _, v := range from {
			if hashed(v, saltOf(p)) == p {
				found[p] = v
			}
		}
		if _, ok := found[p]; !ok {
			return fmt.Errorf("the sensitive value of %s is not the one that was planned", hidden[p])
		}
	}
	f.Secrets = found
	return nil
}

// hidden returns the model's placeholders, each with the attribute that has it.
func (f *Fabric) hidden() map[string]string {
	out := map[string]string{}
	for _, n := range f.allNCCL() {
		for name, v := range n.Env {
			if IsSensitive(v) {
				out[v] = "nccl.env." + name
			}
		}
	}
	return out
}

func (f *Fabric) allNCCL() []NCCL {
	out := []NCCL{f.NCCL}
	for _, h := range f.Hosts {
		out = append(out, h.NCCL)
	}
	return out
}
