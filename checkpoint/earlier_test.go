//go:build linux

package checkpoint

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A later helper reads the transaction that an earlier one left open, and can take the host back.
func TestTransactionsOfEarlierBuildsAreRead(t *testing.T) {
	raw, err := os.ReadFile("testdata/earlier/transaction.json")
	if err != nil {
		t.Fatal(err)
	}
	var got Transaction
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if tx, err := decodeTransaction(got.ID, raw); err != nil || tx.State != Prepared || tx.Token != "secret" {
		t.Errorf("%v %+v", err, tx)
	}
	failed := bytes.Replace(raw, []byte(`"prepared"`), []byte(`"revert-failed"`), 1)
	if tx, err := decodeTransaction(got.ID, failed); err != nil || tx.State != RevertFailed {
		t.Errorf("a failed revert is read as %+v, %v", tx, err)
	}
	later := bytes.Replace(raw, []byte(`"version": 1`), []byte(`"version": 9`), 1)
	if _, err := decodeTransaction(got.ID, later); err == nil || !strings.Contains(err.Error(), "use the release that wrote the file") {
		t.Errorf("a transaction of a later form: %v", err)
	}
}
