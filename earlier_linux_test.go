package fabricform_test

import (
	"bytes"
	"encoding/json"
	"os"
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
		if err != nil || !bytes.Equal(append(again, '\n'), raw) {
			t.Errorf("%s: %v: read and written again it is\n%s", name, err, again)
		}
	}
}
