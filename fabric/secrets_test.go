package fabric

import (
	"encoding/json"
	"strings"
	"testing"
)

const salt = "00112233445566778899aabbccddeeff"

func TestAPlaceholderStandsForItsValue(t *testing.T) {
	for _, value := range []string{"hunter2", `a "quoted\" <word>"`, "", "x\ty", "é"} {
		s := Secrets{}
		p := s.Hide(value, salt)
		if value != "" && strings.Contains(p, value) || !IsSensitive(p) || IsSensitive(p+" ") || IsSensitive(Sensitive) {
			t.Errorf("%q has the placeholder %q", value, p)
		}
		raw, err := json.Marshal(map[string]string{"a": p, "b": Salt(p), "c": value + "-"})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(s.Reveal(raw), &got); err != nil || got["a"] != value || s.Value(p) != value || s.Value("plain") != "plain" {
			t.Errorf("%q is revealed as %q, %v", value, got["a"], err)
		}
		if shown := string(Mask(raw)); !strings.HasPrefix(shown, `{"a":"(sensitive)","b":"(sensitive)","c":`) {
			t.Errorf("%q is shown as %s", value, shown)
		}
	}
}

func TestLongerValuesAreRedactedFirst(t *testing.T) {
	s := Secrets{}
	for _, v := range []string{"hunter", "hunter2", ""} {
		s.Hide(v, salt)
	}
	if got := s.Redact("hunter2, hunter: hunt"); got != "(sensitive), (sensitive): hunt" {
		t.Errorf("%q", got)
	}
}

// TestAShortValueIsRedactedAsAWord: a value of one letter would otherwise leave no word of a message.
func TestAShortValueIsRedactedAsAWord(t *testing.T) {
	s := Secrets{}
	for _, v := range []string{"a", "r1", "--", "é", "four"} {
		s.Hide(v, salt)
	}
	for text, want := range map[string]string{
		`host "a" has a rail, a-b and NCCL_X=a`: `host "(sensitive)" has (sensitive) rail, (sensitive)-b and NCCL_X=(sensitive)`,
		"rack r1 is not r12 or xr1, r1":         "rack (sensitive) is not r12 or xr1, (sensitive)",
		"caféé é éé":                            "caféé (sensitive) éé",
		"x --- y -- z":                          "x (sensitive)- y (sensitive) z",
		"fourteen":                              "(sensitive)teen",
		"":                                      "",
	} {
		if got := s.Redact(text); got != want {
			t.Errorf("%q is redacted as %q, want %q", text, got, want)
		}
	}
}

// TestOnlyThePlannedValueIsTaken: the fabric that is loaded anew has other salts.
func TestOnlyThePlannedValueIsTaken(t *testing.T) {
	f := &Fabric{Secrets: Secrets{}, Hosts: []*Host{{Name: "a"}}}
	p := f.Secrets.Hide("hunter2", salt)
	f.Hosts[0].NCCL.Env = map[string]string{"NCCL_X": p, "NCCL_Y": "plain"}
	raw, err := json.Marshal(f)
	if err != nil || strings.Contains(string(raw), "hunter2") {
		t.Fatalf("%s %v", raw, err)
	}
	f.Secrets = nil
	anew := Secrets{}
	anew.Hide("other", strings.Repeat("1", 32))
	if err := f.FillSecrets(anew); err == nil || !strings.Contains(err.Error(), "nccl.env.NCCL_X is not the one that was planned") || f.Secrets != nil {
		t.Error(err)
	}
	anew.Hide("hunter2", strings.Repeat("2", 32))
	if err := f.FillSecrets(anew); err != nil || f.Secrets.Value(p) != "hunter2" || len(f.Secrets) != 1 || !f.HasSensitive() || !f.SensitiveNCCL()["NCCL_X"] || f.SensitiveNCCL()["NCCL_Y"] {
		t.Error(err, f.Secrets)
	}
}
