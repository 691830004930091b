package env

import (
	"slices"
	"strings"
	"testing"
)

// TestReadConfIsNCCLs: the rules of setEnvFile. The first of equal names wins, because it does not
// overwrite what is set.
func TestReadConfIsNCCLs(t *testing.T) {
	long := strings.Repeat("x", MaxConfValue+1)
	for text, want := range map[string][]Set{
		"":                        nil,
		"A=1\nB==eth0\n":          {{"A", "1"}, {"B", "=eth0"}},
		"A=1\r\nA=2\n":            {{"A", "1\r"}},
		"\r\n\r\n":                nil,
		"# A=1\n #B=2\nC\n\n=4\n": {{" #B", "2"}},
		" A = 1 \nexport B=2":     {{" A ", " 1 "}, {"export B", "2"}},
		"A='1'\n":                 {{"A", "'1'"}},
		"A=":                      {{"A", ""}},
		"A=1\x00B=2\n":            {{"A", "1"}},
		"A=" + long:               {{"A", long[:MaxConfValue]}},
		"A=" + strings.Repeat("y", MaxConfLine-2) + "B=1": {{"A", strings.Repeat("y", MaxConfValue)}, {"B", "1"}},
	} {
		if got := ReadConf(text); !slices.Equal(got, want) {
			t.Errorf("%.40q: %.80q, want %.80q", text, got, want)
		}
	}
}

func FuzzReadConf(f *testing.F) {
	f.Add("# why\nNCCL_IB_HCA==mlx5_0,mlx5_1\nNCCL_DEBUG=INFO\r\nNCCL_DEBUG=WARN\n")
	f.Add("=\n==\n\x00=\x00\n#=\n" + strings.Repeat("A", 5000) + "=1")
	f.Fuzz(func(t *testing.T, text string) {
		seen := map[string]bool{}
		for _, s := range ReadConf(text) {
			if s.Name == "" || seen[s.Name] || strings.ContainsAny(s.Name, "=\n\x00") || len(s.Value) > MaxConfValue || strings.ContainsAny(s.Value, "\n\x00") {
				t.Errorf("%q", s)
			}
			seen[s.Name] = true
		}
	})
}
