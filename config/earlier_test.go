package config

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// The tokens of an apply that waits hold its fabric, which a later build confirms.
func TestFabricsInTokensOfEarlierBuildsAreRead(t *testing.T) {
	raw, err := os.ReadFile("testdata/earlier/fabric.json")
	if err != nil {
		t.Fatal(err)
	}
	var got fabric.Fabric
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
