package config

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// bombOf has this test program load the file that it names, and end.
const bombOf = "FABRICFORM_TEST_BOMB"

// TestBombsAreBounded: hostile text ends in an error that names its place, and the program that reads it never holds
// more memory than docs/language.md says. A program of its own reads each text, so that the kernel measures it.
func TestBombsAreBounded(t *testing.T) {
	if path := os.Getenv(bombOf); path != "" {
		if _, _, d := Load(path, Options{}); !d.HasErrors() || d[0].Subject == nil {
			t.Errorf("%v", d)
		}
		return
	}
	deep := func(open, middle, end string, n int) string {
		return "locals {\n  a = " + strings.Repeat(open, n) + middle + strings.Repeat(end, n) + "\n}\n"
	}
	for name, text := range map[string]string{
		"brackets.hcl":  deep("[", "", "]", 300_000),
		"parens.hcl":    deep("(", "1", ")", 300_000),
		"templates.hcl": deep(`"${`, "1", `}"`, 300_000),
		"not.hcl":       deep("!", "true", "", 300_000),
		"sum.hcl":       deep("1+", "1", "", 400_000),
		"blocks.hcl":    strings.Repeat("a {\n", 200_000) + strings.Repeat("}\n", 200_000),
		"index.hcl":     deep("", "x", "[0]", 300_000),
		"dots.hcl":      deep("", "x", ".a", 300_000),
		"ternary.hcl":   deep("true ? 1 : ", "1", "", 100_000),
		"number.hcl":    "locals {\n  a = \"x${1e10000000}\"\n}\n",
		"digits.hcl":    "locals {\n  a = \"${" + strings.Repeat("9", 1_000_000) + "}\"\n}\n",
		"json.hcl.json": `{"locals": {"a": ` + strings.Repeat("[", 300_000) + strings.Repeat("]", 300_000) + "}}",
		"num.hcl.json":  `{"locals": {"a": 1e10000000}}`,
		"str.hcl.json":  `{"locals": {"a": "${` + strings.Repeat("(", 10_000) + "1" + strings.Repeat(")", 10_000) + `}"}}`,
		"for.hcl":       "locals {\n  a = [for i in range(60000) : [for j in range(60000) : [for k in range(60000) : k]]]\n}\n",
		"try.hcl":       "locals {\n  a = [for i in range(60000) : try([for j in range(60000) : j]...)]\n}\n",
		"product.hcl":   "locals {\n  a = setproduct(range(60000), range(60000), range(60000))\n}\n",
		"splat.hcl":     "locals {\n  a = [for i in range(60000) : range(60000)]\n  b = local.a[*][*]\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self, "-test.run=^TestBombsAreBounded$")
			cmd.Env = append(os.Environ(), bombOf+"="+write(t, name, text))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; used > 1<<30 {
				t.Errorf("it held %d MiB", used>>20)
			} else {
				t.Logf("it held %d MiB, for %s of processor time", used>>20, cmd.ProcessState.UserTime())
			}
		})
	}
}
