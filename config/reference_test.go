package config

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const languagePage = "../docs/language.md"

// TestLanguagePage holds docs/language.md to the comments that it is made from.
func TestLanguagePage(t *testing.T) {
	want, err := Reference()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(languagePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(languagePage)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Fatalf("docs/language.md is not what the comments say: run `make golden`\n%s", d)
	}
}

// TestEverythingIsDocumented: an attribute without a comment would be an empty cell of the page.
func TestEverythingIsDocumented(t *testing.T) {
	var walk func(b *block)
	walk = func(b *block) {
		for _, a := range b.every() {
			if a.doc() == "" {
				t.Errorf("%s.%s has no comment", a.owner, a.goField)
			}
		}
		for _, k := range b.blocks {
			if k.doc() == "" {
				t.Errorf("%s.%s has no comment", k.owner, k.goField)
			}
			walk(k)
		}
	}
	walk(language())
}
