package resource

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// A host keeps the record that an earlier build wrote; nothing of it is lost.
func TestRecordsOfEarlierBuildsAreRead(t *testing.T) {
	raw, err := os.ReadFile("testdata/earlier/record.json")
	if err != nil {
		t.Fatal(err)
	}
	var got Record
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
