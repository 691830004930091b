package host

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
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

// A rank of MPI's leaves its launcher's process group, and need not notice that the launcher is gone.
func TestAProgramsFamilyEndsWithIt(t *testing.T) {
	for _, killed := range []bool{false, true} {
		// The grandchild has a session and outputs of its own; its number is what comes back.
		script := "setsid sleep 1000 >/dev/null 2>&1 & echo $!; exit 3"
		if killed {
			script = "setsid sleep 1000 >/dev/null 2>&1 & echo $!; sleep 1000"
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if killed {
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		}
		defer cancel()
		e := Program{Name: "bash", Args: []string{"-c", script}, Family: true}.Start(ctx)()
		pid, err := strconv.Atoi(strings.TrimSpace(string(e.Stdout)))
		if err != nil || !killed && e.Exit != 3 || killed && e.Signal == "" {
			t.Fatalf("%+v %v", e, err)
		}
		if raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && !bytes.Contains(raw, []byte(") Z ")) {
			t.Errorf("killed is %v: the grandchild lives: %s", killed, raw)
		}
	}
}
