package explain

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// TestNCCLAgrees holds our reading against NCCL's own: nccl-2.28.9-quirks.conf was its /etc/nccl.conf, and the
// log beside it is what NCCL 2.28.9 made of it. It shows most numbers, and C's getenv what was taken from
// the file (TestNCCLOnTwoGPUs in e2e made both).
func TestNCCLAgrees(t *testing.T) {
	conf, err1 := os.ReadFile("testdata/nccl-2.28.9-quirks.conf")
	log, err2 := os.ReadFile("testdata/nccl-2.28.9-quirks.log")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	ours := map[string]string{}
	for _, s := range env.ReadConf(string(conf)) {
		ours[s.Name] = s.Value
	}
	numbers := 0
	for _, m := range regexp.MustCompile(`(NCCL_\w+) set by environment to (-?\d+)\.`).FindAllStringSubmatch(string(log), -1) {
		text, there := ours[m[1]]
		if !there {
			continue // of the login's environment
		}
		if numbers++; strconv.FormatInt(env.ParseNumber(text).Value, 10) != m[2] {
			t.Errorf("%s=%s: NCCL reads %s, package env %d", m[1], text, m[2], env.ParseNumber(text).Value)
		}
	}
	if m := regexp.MustCompile(`Invalid value (\S+) for NCCL_CUMEM_ENABLE, using default`).FindSubmatch(log); m == nil || !env.ParseNumber(string(m[1])).Overflow {
		t.Error("a number that does not fit is NCCL's default, and package env knows it")
	}
	_, raw, _ := strings.Cut(string(log), "ENVIRONMENT ")
	var taken map[string]string
	if err := json.NewDecoder(strings.NewReader(raw)).Decode(&taken); err != nil || len(taken) != 12 || numbers < 3 {
		t.Fatalf("%d variables, %d numbers, %v", len(taken), numbers, err)
	}
	for name, value := range taken {
		if want, there := ours[name]; there && value != want || !there && value != "(unset)" {
			t.Errorf("%q is %q for NCCL, and %q by our reading", name, value, want)
		}
	}
	// Lines that NCCL lost must be among our findings.
	report := asText(Explain("nccl.conf", string(conf), nil, fabric.Invocation{}))
	for _, lost := range []string{`Write NCCL_IB_TC=160.`, `Write NCCL_IB_SL=3.`, "line 12: error:  Quotes become part of the value", "line 13: warning:  Windows line endings", "line 15: warning: NCCL_IB_RETRY_CNT Set twice", "line 11: warning:  Comment that NCCL reads as a variable"} {
		if !strings.Contains(report, lost) {
			t.Errorf("%q is not in\n%s", lost, report)
		}
	}
}
