package host

import (
	"bytes"
	"strings"
	"testing"
)

func TestALongOutputKeepsItsBeginningAndItsEnd(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"abc":                                  "abc",
		"abcdefgh":                             "abcdefgh",
		"abcdefghi":                            "abcd" + gap + "fghi",
		"abcdefghijkl":                         "abcd" + gap + "ijkl",
		strings.Repeat("x", 1000) + "the end!": "xxxx" + gap + "end!",
	} {
		for pieces := 1; pieces <= 13; pieces++ { // however it comes
			b := limitedBuffer{half: 4}
			for rest := []byte(text); len(rest) > 0; {
				n := min(pieces, len(rest))
				if got, err := b.Write(rest[:n]); got != n || err != nil {
					t.Fatal(got, err)
				}
				rest = rest[n:]
			}
			if got := string(b.Bytes()); got != want || string(b.Bytes()) != want {
				t.Errorf("%.20q in pieces of %d: %q, want %q", text, pieces, got, want)
			}
			if cap(b.tail) > 64 {
				t.Errorf("a tail of %d bytes", cap(b.tail))
			}
		}
	}
}

func TestAProgramsLastWordsAreKept(t *testing.T) {
	const script = "import sys\nsys.stderr.write('first\\n' + 'x' * 5000000 + '\\nlast\\n')\nprint('out')"
	e := Program{Name: "python3", Args: []string{"-c", script}, Keep: 4096}.Start(t.Context())()
	if e.Missing {
		t.Skip("no python3")
	}
	if e.Exit != 0 || len(e.Stderr) > 4096+len(gap) || !bytes.HasPrefix(e.Stderr, []byte("first\n")) || !bytes.HasSuffix(e.Stderr, []byte("\nlast\n")) || string(e.Stdout) != "out\n" {
		t.Errorf("%d %d bytes, %.50q, %q", e.Exit, len(e.Stderr), e.Stderr, e.Stdout)
	}
	if e := (Program{Name: "python3", Args: []string{"-c", script}}).Start(t.Context())(); len(e.Stderr) != 1<<20+len(gap) || !bytes.HasSuffix(e.Stderr, []byte("\nlast\n")) {
		t.Errorf("%d bytes", len(e.Stderr))
	}
}
