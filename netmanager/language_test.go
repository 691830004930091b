package netmanager

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestTheLanguageNamesEachManager: what `network_manager` may be is what files are written for.
func TestTheLanguageNamesEachManager(t *testing.T) {
	field, _ := reflect.TypeFor[fabric.Host]().FieldByName("NetworkManager")
	_, one, _ := strings.Cut(field.Tag.Get("ff"), "one=")
	declared := strings.Split(one, "|")
	var names []string
	for _, m := range All {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	slices.Sort(declared)
	if !slices.Equal(names, declared) {
		t.Errorf("files may name %q, and files are written for %q", declared, names)
	}
}
