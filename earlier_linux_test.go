package fabricform_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/resource"
)

// TestFilesOfEarlierBuildsAreRead: nothing is lost of what an earlier build wrote, and a later one must read.
func TestFilesOfEarlierBuildsAreRead(t *testing.T) {
	for name, got := range map[string]any{
		"testdata/earlier/fabric.json":                 new(fabric.Fabric),          // in the tokens of a pending apply, which a later build confirms
		"testdata/earlier/steps.json":                  new([]calls.TxStep),         // of the persist stage, of a transaction that a host may have to end
		"testdata/earlier/record.json":                 new(resource.Record),        // which hosts keep
		"checkpoint/testdata/earlier/transaction.json": new(checkpoint.Transaction), // which a later helper may have to revert
	} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(got); err != nil {
			t.Fatal(err)
		}
		again, err := json.MarshalIndent(got, "", " ")
		again = bytes.Replace(again, []byte(`"disruption": "link flap"`), []byte(`"disruption": 1`), 1) // a number then
		var was, is any
		if err := errors.Join(err, json.Unmarshal(raw, &was), json.Unmarshal(again, &is)); err != nil {
			t.Fatal(name, err)
		}
		if lost := lost("", was, is); len(lost) > 0 {
			t.Errorf("%s: lost when it was read:\n%s", name, strings.Join(lost, "\n"))
		}
	}
}

// lost names the values of an earlier build that are not there again. What later builds add is not looked at.
func lost(path string, was, is any) (out []string) {
	switch was := was.(type) {
	case map[string]any:
		now, _ := is.(map[string]any)
		for key, value := range was {
			out = append(out, lost(path+"."+key, value, now[key])...)
		}
		return out
	case []any:
		if now, _ := is.([]any); len(now) == len(was) {
			for i, value := range was {
				out = append(out, lost(fmt.Sprintf("%s[%d]", path, i), value, now[i])...)
			}
			return out
		}
	}
	if !reflect.DeepEqual(was, is) {
		out = append(out, fmt.Sprintf("%s: %v, now %v", path, was, is))
	}
	return out
}
