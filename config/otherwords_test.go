package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// TestWordsOfOtherToolsHaveACure: each row is about words that this language does not have, no other row hides it, and its
// example is right where it says.
func TestWordsOfOtherToolsHaveACure(t *testing.T) {
	places := map[string][]*block{"top": {language()}}
	var walk func(*block)
	walk = func(b *block) {
		for _, k := range b.blocks {
			places[k.name] = append(places[k.name], k)
			walk(k)
		}
	}
	walk(language())
	for _, w := range otherWords {
		at := strings.Fields(w.at)
		if w.at == "" {
			at = []string{"top", "host", "nic", "link"}
		}
		for _, place := range at {
			if places[place] == nil {
				t.Errorf("there is no block %s", place)
			}
			for _, b := range places[place] {
				for _, word := range strings.Fields(w.words) {
					if w.at != "" && slices.Contains(b.names(), word) {
						t.Errorf("%q is a word of %s itself", word, place)
					}
					if said := borrowed(word, b); said != " "+strings.TrimSpace(w.why+" "+w.cure(place)) {
						t.Errorf("%q in %s: another row says %q", word, place, said)
					}
				}
			}
			if w.write == "" {
				continue
			}
			into := w.in
			if into == "" {
				into = place
			}
			file, diags := hclsyntax.ParseConfig([]byte(w.write+"\n"), "f.hcl", hcl.InitialPos)
			if diags.HasErrors() {
				t.Errorf("%s: %s", w.write, diags)
				continue
			}
			if !slices.ContainsFunc(places[into], func(b *block) bool {
				l := newLoader(".", Options{})
				l.names(b, file.Body.(*hclsyntax.Body))
				return !l.diags.HasErrors()
			}) {
				t.Errorf("%s is not right in %s", w.write, into)
			}
		}
	}
}

// TestArticlesFollowTheSound: messages say "an ssh block".
func TestArticlesFollowTheSound(t *testing.T) {
	for _, want := range []string{"an ssh", "an rxe", "an nccl", "an ofed", "a host", "a nic"} {
		if _, name, _ := strings.Cut(want, " "); article(name) != want {
			t.Errorf("%s, want %s", article(name), want)
		}
	}
}
