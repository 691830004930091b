package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every recipe is a whole fabric that loads without an error or a warning.
func TestRecipes(t *testing.T) {
	page, err := os.ReadFile("../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	recipes := strings.Split(string(page), "\n## ")[1:]
	if len(recipes) < 9 {
		t.Fatalf("%d recipes were found", len(recipes))
	}
	for _, recipe := range recipes {
		title, rest, _ := strings.Cut(recipe, "\n")
		t.Run(title, func(t *testing.T) {
			_, text, found := strings.Cut(rest, "```hcl\n")
			text, _, ended := strings.Cut(text, "```\n")
			if !found || !ended || strings.Count(rest, "```hcl") != 1 {
				t.Fatal("a recipe has exactly one ```hcl block")
			}
			path := filepath.Join(t.TempDir(), "recipe.hcl")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, _, diags := Load(path, Options{})
			for _, d := range diags {
				t.Error(d)
			}
			if f == nil || len(f.Hosts) == 0 {
				t.Error("the recipe has no hosts")
			}
		})
	}
}
