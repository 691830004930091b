package decode

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	ID    string `json:"id"`
	Token string `json:"token,omitempty"`
}

// all has every kind of member that answers have.
type all struct {
	inner
	Text   string `json:"text"`
	Hidden string `json:"-"`
	Plain  int
	Bytes  []byte                `json:"bytes"`
	List   []inner               `json:"list"`
	Nested [][]*inner            `json:"nested"`
	Pair   [2]inner              `json:"pair"`
	Map    map[string]inner      `json:"map"`
	Maps   map[string][]string   `json:"maps"`
	Next   *all                  `json:"next"`
	Any    any                   `json:"any"`
	Raw    json.RawMessage       `json:"raw"`
	Addr   netip.Addr            `json:"addr,omitzero"`
	Time   time.Time             `json:"time,omitzero"`
	Parts  map[string]netip.Addr `json:"parts"`
}

func TestWhatIsDecodedIsWeighed(t *testing.T) {
	list := func(each string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(each+",", n), ",") + "]"
	}
	const n = 600_000
	for text, why := range map[string]string{
		`{"id":"a","token":"b","text":"c","Plain":1,"bytes":"QUE=","list":[{"id":"x"},{}],"nested":[[null,{"id":"y"}]],"pair":[{},{}],"map":{"a":{"id":"z"}},"maps":{"a":["b"]},"next":{"text":"d"},"any":{"a":[1,"b",null]},"raw":[1, {"x":2}],"addr":"10.0.0.1","time":"2026-01-02T03:04:05Z","parts":{"a":"::1"}}`: "",
		" null ": "", "{}": "", `{"text":"\u0041\"\\"}`: "", "{ \"list\" : [ { } , { \"id\" : \"a\" } ] , \"map\" : { } }": "",
		`{"next":` + strings.Repeat(`{"next":`, 500) + "{}" + strings.Repeat("}", 501): "",
		`{"x":1}`: `unknown member "x"`, `{"TEXT":"a"}`: `unknown member "TEXT"`, `{"list":[{"\u0069D":1}]}`: `unknown member "iD"`, `{"inner":{}}`: "unknown member", `{"Hidden":""}`: "unknown member", `{"hidden":""}`: "unknown member",
		`{"text":1}`: "cannot unmarshal", `{"list":{}}`: "cannot unmarshal", `{"list":[[]]}`: "cannot unmarshal", `{"text":`: "unexpected end", "": "unexpected end", `[{}]`: "cannot unmarshal", `{"addr":"x"}`: "ParseAddr",
		`{"list":` + list("{}", n) + "}": "holds too much", `{"nested":` + list("[]", n) + "}": "holds too much", `{"any":` + list("0", n) + "}": "holds too much",
		`{"map":{` + strings.TrimSuffix(strings.Repeat(`"":{},`, n/2), ",") + "}}": "holds too much", `{"maps":{"a":` + list(`""`, n) + "}}": "holds too much",
		`{"text":"` + strings.Repeat("x", 20<<20) + `"}`: "holds too much", `{"raw":` + list("0", 9<<20) + "}": "holds too much", `{"next":` + strings.Repeat(`{"next":`, 9900) + "{}" + strings.Repeat("}", 9901): "",
	} {
		var got, want all
		err := Into([]byte(text), &got)
		if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%.80s: %v, want %q", text, err, why)
		}
		if err != nil {
			continue
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%.80s: %+v, want %+v", text, got, want)
		}
	}
}

// TestWeighingAllocatesLittle: a fleet's snapshots have hundreds of thousands of names, and a name without escapes is only compared.
func TestWeighingAllocatesLittle(t *testing.T) {
	text := []byte(`{"list":[` + strings.TrimSuffix(strings.Repeat(`{"id":"a"},`, 1000), ",") + "]}")
	decoded := testing.AllocsPerRun(5, func() { _ = json.Unmarshal(text, new(all)) })
	both := testing.AllocsPerRun(5, func() { _ = Into(text, new(all)) })
	if both > decoded+100 {
		t.Errorf("%.0f allocations, of which encoding/json makes %.0f", both, decoded)
	}
}

// FuzzInto: whatever the text is, it is decoded as encoding/json does, or refused.
func FuzzInto(f *testing.F) {
	for _, seed := range []string{"{}", "null", `{"list":[{"id":"a"},{}]}`, `{"nested":[[null,{}],[]]}`, `{"map":{"a":{}},"maps":{"b":["c"]}}`, `{"any":[1,{"a":"b"},[[]]],"raw":{"x":[0]}}`, `{"addr":"::1","time":"x"}`, "[[[[", `{"pair":[{},{},{}]}`, `{"text":"\\\""}`, " [ ] ", `"x"`, "-1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, want all
		if Into(text, &got) != nil {
			return
		}
		if err := json.Unmarshal(text, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v: %v", got, want, err)
		}
	})
}
