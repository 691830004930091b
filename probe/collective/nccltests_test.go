package collective

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tables that say so are made by hand, after the formats in nccl-tests' sources of these releases; the others are what the
// programs printed on two H200 (NCCL 2.28.9, Open MPI 4.1.4).
func TestTablesOfNCCLTestsAreRead(t *testing.T) {
	for file, want := range map[string]string{
		"handmade-2.17-all_reduce": "2.17.8 22809 ranks [0 1] out of bounds 1, wrong 1000000 at 134217728 checked true, [] 8:0/0 134217728:4.7/4.73",
		"2.16.9-all_reduce":        "  ranks [0 1] out of bounds 0, wrong 0 at 0 checked true, [] 8:0/0 1024:0.03/0.03 131072:0.93/0.97 16777216:3.54/3.6",
		"2.16.9-sendrecv":          "  ranks [0 1] out of bounds 0, wrong 0 at 0 checked true, [] 8388616:2.58/2.76",
		"handmade-2.13-sendrecv":   "  ranks [0 1] out of bounds 0, wrong 0 at 0 checked true, [] 1048576:10.8/11.04",
		"handmade-2.9-broadcast":   "  ranks [0 1] out of bounds 0, wrong 0 at 0 checked true, [] 1024:0.02/0.03",
		"handmade-2.17-not-mpi":    "2.17.8 22809 ranks [0 0] out of bounds ?, wrong 0 at 0 checked false, [h2: Test NCCL failure common.cu:958 'unhandled system error (run with NCCL_DEBUG=INFO for details) / ']",
	} {
		raw, err := os.ReadFile(filepath.Join("testdata/nccl-tests", file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		table := ParseTable(raw)
		bounds := "?"
		if table.OutOfBounds != nil {
			bounds = fmt.Sprint(*table.OutOfBounds)
		}
		wrong, at, checked := table.Wrong()
		got := fmt.Sprintf("%s %s ranks %v out of bounds %s, wrong %d at %d checked %v, %v", table.Release, table.NCCL, table.Ranks, bounds, wrong, at, checked, table.Failures)
		for _, r := range table.Rows {
			got += fmt.Sprintf(" %d:%g/%g", r.Bytes, r.OutOfPlace.BusGBs, r.InPlace.BusGBs)
		}
		if got != want {
			t.Errorf("%s:\n%s\n%s", file, got, want)
		}
		if strings.Contains(file, "2.17-all_reduce") { // the program's own bus bandwidth is ours
			s := table.Sweep("all_reduce", 20)[1]
			if b := BusBandwidth(s, 2); math.Abs(b-(4.70+4.73)/2) > 0.01 || s.Iterations != 40 {
				t.Errorf("%s: %g GB/s of %+v", file, b, s)
			}
		}
	}
}

func TestRunsOfNCCLTestsAreBounded(t *testing.T) {
	sound := TestRun{Program: BroadcastPerf, Min: 8, Max: 1 << 24, Factor: 128, Iterations: 20, Root: 3}
	if args, err := sound.Args(); err != nil || strings.Join(args, " ") != "-b 8 -e 16777216 -f 128 -n 20 -w 1 -c 1 -t 1 -g 1 -r 3" {
		t.Error(args, err)
	}
	for _, r := range []TestRun{{}, {Program: "sh", Min: 8, Max: 8, Factor: 2, Iterations: 1}, {Program: AllReducePerf, Min: 8, Max: 8, Factor: 1, Iterations: 1},
		{Program: AllReducePerf, Min: 8, Max: 1 << 60, Factor: 2, Iterations: 1}, {Program: AllReducePerf, Min: 8, Max: 8, Factor: 2, Iterations: 1, Root: -1}} {
		if args, err := r.Args(); err == nil {
			t.Errorf("%+v: %v", r, args)
		}
	}
}

func FuzzParseTable(f *testing.F) {
	files, err := filepath.Glob("testdata/nccl-tests/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		table := ParseTable(raw)
		if wrong, _, _ := table.Wrong(); wrong < 0 {
			t.Errorf("%d wrong values", wrong)
		}
		for _, s := range table.Sweep("all_reduce", 20) {
			if b := BusBandwidth(s, 2); !(b >= 0) {
				t.Errorf("%+v: %g GB/s", s, b)
			}
		}
	})
}
