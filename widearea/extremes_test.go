package widearea

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

// extreme sets each number of a struct to an end of what the language allows for it, or leaves it as it is.
func extreme(t *testing.T, r *rand.Rand, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Type.Kind() == reflect.Struct {
			continue
		}
		limits := map[string]float64{}
		for part := range strings.SplitSeq(f.Tag.Get("ff"), ",") {
			if key, value, _ := strings.Cut(part, "="); key == "min" || key == "max" || key == "least" {
				limits[key], _ = strconv.ParseFloat(value, 64)
			}
		}
		pick := []float64{limits["min"], limits["max"], limits["least"]}[r.IntN(3)]
		if f.Type == reflect.TypeFor[*time.Duration]() {
			limits["max"], pick = 1, []float64{1, float64(24 * time.Hour)}[r.IntN(2)]
		}
		if limits["max"] == 0 || pick < limits["min"] || r.IntN(4) == 0 {
			continue
		}
		field := v.Field(i)
		if field.Kind() == reflect.Pointer {
			field.Set(reflect.New(f.Type.Elem()))
			field = field.Elem()
		}
		if field.CanInt() {
			field.SetInt(int64(pick))
		} else {
			field.SetFloat(pick)
		}
	}
}

// TestNoNumberOfTheFilesMakesNonsense: with each number at an end of its range, or missing, every figure has a value, and so has the
// number that would do instead.
func TestNoNumberOfTheFilesMakesNonsense(t *testing.T) {
	nonsense := regexp.MustCompile(`NaN|Inf\b|e[-+][0-9]{3}`)
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		w := &fabric.Workload{Name: "w", Sites: 2, StepsPerSync: 1}
		f := trainingAcross(fabric.Span{})
		l := f.Links[0]
		extreme(t, r, reflect.ValueOf(w).Elem())
		extreme(t, r, reflect.ValueOf(l).Elem())
		extreme(t, r, reflect.ValueOf(&l.Span).Elem())
		w.AllReduce = []string{"", "ring", "hierarchical"}[r.IntN(3)]
		w.Ranks = max(w.Ranks, w.Sites)
		l.Role = []string{"training", "inference", "checkpoint", "storage"}[r.IntN(4)]
		l.Workload, f.Workloads = "w", []*fabric.Workload{w}
		said, err := json.Marshal(Estimates(f))
		if err != nil {
			t.Fatalf("%v, of %+v over %+v", err, w, l)
		}
		for _, p := range Check(f) {
			said = append(said, p.Detail...)
		}
		if bad := nonsense.Find(said); bad != nil {
			at := nonsense.FindIndex(said)[0]
			t.Fatalf("%s in …%s…", bad, said[max(0, at-600):min(len(said), at+200)])
		}
	}
}
