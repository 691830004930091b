package resource

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThePageHasEveryOptionalInterface: docs/adding-a-provider.md has a row for each interface that a provider, its status or its
// restorer is asked for.
func TestThePageHasEveryOptionalInterface(t *testing.T) {
	page, err := os.ReadFile("../docs/adding-a-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = true
	}
	asked := map[string]bool{}
	asks := regexp.MustCompile(`(?:\b(?:p|provider)|any\(got\))\.\(([A-Z]\w+)|\.\(resource\.([A-Z]\w+)`)
	for _, folder := range []string{".", "../checkpoint", "../planner", "../apply", "../agent/helper"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(folder, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, m := range asks.FindAllStringSubmatch(string(text), -1) {
				asked[m[1]+m[2]] = true
			}
		}
	}
	for name := range asked {
		if !rows[name] {
			t.Errorf("add a row for resource.%s to the table of docs/adding-a-provider.md", name)
		}
	}
	for name := range rows {
		if !asked[name] {
			t.Errorf("docs/adding-a-provider.md has a row for %s, which nothing asks for", name)
		}
	}
}
