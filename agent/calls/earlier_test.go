package calls

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// A host may have to end a transaction whose persist steps an earlier build wrote.
func TestStepsOfEarlierBuildsAreRead(t *testing.T) {
	raw, err := os.ReadFile("testdata/earlier/steps.json")
	if err != nil {
		t.Fatal(err)
	}
	var got []TxStep
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	again, err := json.MarshalIndent(got, "", " ")
	if err != nil || !bytes.Equal(append(again, '\n'), raw) {
		t.Errorf("%v: read and written again it is\n%s", err, again)
	}
}
