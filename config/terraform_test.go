package config

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExpressionsMeanWhatTheyMeanInTerraform compares with what OpenTofu 1.10.10 answered to the same
// expressions: values as `output -json` prints them, or that it was an error.
func TestExpressionsMeanWhatTheyMeanInTerraform(t *testing.T) {
	raw, err := os.ReadFile("testdata/terraform.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Expression string
		Error      bool
		Value      any
	}
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) < 190 {
		t.Fatal(len(cases), err)
	}
	for _, c := range cases {
		f, _, d := Load(write(t, "f.hcl", "output \"o\" {\n  value = "+c.Expression+"\n}\n"), Options{})
		if d.HasErrors() != c.Error {
			t.Errorf("%s: error is %v, Terraform's %v: %v", c.Expression, d.HasErrors(), c.Error, d)
			continue
		}
		if c.Error {
			continue
		}
		var got any
		if err := json.Unmarshal(f.Outputs[0].JSON, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.Value, got); diff != "" {
			t.Errorf("%s: %s", c.Expression, diff)
		}
	}
}
