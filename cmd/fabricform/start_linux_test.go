package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"testing"
)

// startsHelper is the environment variable that makes a run of the test below the helper.
const startsHelper = "FABRICFORM_TEST_STARTS_HELPER"

// TestTheHelperMakesNoTablesAtItsStart counts what it allocates from the start of the process to its greeting, which is the same
// each time. Every login pays for a start, so no package may compile patterns or read tables before they are asked for, and the
// helper builds no tree of commands.
func TestTheHelperMakesNoTablesAtItsStart(t *testing.T) {
	if os.Getenv(startsHelper) != "" {
		code := run([]string{"agent"})
		var used runtime.MemStats
		runtime.ReadMemStats(&used)
		fmt.Fprintln(os.Stderr, "allocated", used.Mallocs)
		os.Exit(code)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$")
	var said bytes.Buffer
	cmd.Env, cmd.Stderr = append(os.Environ(), startsHelper+"=1", "GODEBUG=inittrace=1"), &said
	out, err := cmd.Output() // its input is empty, so it ends after its greeting
	if err != nil || !bytes.Contains(out, []byte(`"hello"`)) {
		t.Fatalf("%v: %q\n%s", err, out, said.String())
	}
	for _, at := range regexp.MustCompile(`(?m)^init (github\.com/fabricform/\S+) .* (\d+) allocs$`).FindAllStringSubmatch(said.String(), -1) {
		if n, _ := strconv.Atoi(at[2]); n > 500 {
			t.Errorf("package %s allocates %d times before main: patterns and tables are made when asked for (sync.OnceValue; in nccl/explain a pattern)", at[1], n)
		}
	}
	all := regexp.MustCompile(`(?m)^allocated (\d+)$`).FindStringSubmatch(said.String())
	if n, err := strconv.Atoi(all[1]); err != nil || n > 4000 { // 2,900, and 18,500 with patterns, tables and commands
		t.Errorf("the helper allocates %d times until its greeting\n%s", n, said.String())
	}
}
