package collective

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The programs of nccl-tests that a check runs.
const (
	AllReducePerf = "all_reduce_perf"
	BroadcastPerf = "broadcast_perf"
	SendRecvPerf  = "sendrecv_perf"
)

// TestPrograms has all of them, in the order in which they run.
var TestPrograms = []string{AllReducePerf, BroadcastPerf, SendRecvPerf}

// TestRun is one run of a program of nccl-tests, with one rank for each GPU.
type TestRun struct {
	Program    string `json:"program"`
	Min        int64  `json:"min"` // bytes
	Max        int64  `json:"max"`
	Factor     int    `json:"factor"` // from one size to the next
	Iterations int    `json:"iterations"`
	Root       int    `json:"root,omitempty"` // of a broadcast
}

// Args returns the program's arguments. The program checks the values of every size once.
func (r TestRun) Args() ([]string, error) {
	if !slices.Contains(TestPrograms, r.Program) {
		return nil, fmt.Errorf("%.80q is not one of %s", r.Program, strings.Join(TestPrograms, ", "))
	}
	if r.Min < 4 || r.Max < r.Min || r.Max > maxBytes || r.Factor < 2 || r.Iterations < 1 || r.Iterations > 1000 || r.Root < 0 ||
		r.Root > maxWorld {
		return nil, fmt.Errorf("invalid run of %s: %+v", r.Program, r)
	}
	var args []string
	for _, o := range []struct {
		name  string
		value int64
	}{{"-b", r.Min}, {"-e", r.Max}, {"-f", int64(r.Factor)}, {"-n", int64(r.Iterations)}, {"-w", 1}, {"-c", 1}, {"-t", 1}, {"-g", 1},
		{"-r", int64(r.Root)}} {
		args = append(args, o.name, strconv.FormatInt(o.value, 10))
	}
	return args, nil
}

// Cell is one measurement of a row.
type Cell struct {
	Microseconds float64
	BusGBs       float64
	// Wrong is the number of wrong values on all ranks; nil if they were not checked. Before release 2.13 the
	// table does not have this number: Wrong is then 0, and only Table.OutOfBounds shows wrong values.
	Wrong *int64
}

// Row is the measurement of one size.
type Row struct {
	Bytes      int64
	OutOfPlace Cell
	InPlace    Cell
}

// Table is the output of a program of nccl-tests.
type Table struct {
	Release string // of nccl-tests; since 2.17
	NCCL    string // the library's number, such as 22809; since 2.17
	Ranks   []int  // as reported, ascending
	Rows    []Row
	// OutOfBounds is the number of cells with wrong values, from the last lines; nil if the program did not get there.
	OutOfBounds *int
	Failures    []string // error messages
}

var (
	testRelease = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^# nccl-tests version (\S+) nccl-headers=\d+ nccl-library=(\d+)`)
	})
	testRank = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+\S+ device\s+\d+ \[`)
	})
	testBounds = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^# Out of bounds values\s*: (\d{1,9}) (?:OK|FAILED)`)
	})
	testFailure = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Test (?:NCCL|CUDA) failure|Invalid number of GPUs|error while loading shared libraries`)
	})
)

// ParseTable parses the output of a program of nccl-tests, from release 2.0 on. It accepts any bytes, and ignores
// lines of others, such as NCCL's log.
func ParseTable(out []byte) Table {
	var t Table
	var columns []string // names from the last heading
	for raw := range bytes.Lines(out) {
		line := string(bytes.TrimRight(raw, "\r\n"))
		if m := testRelease().FindStringSubmatch(line); m != nil {
			t.Release, t.NCCL = clean(m[1], 40), clean(m[2], 40)
		} else if m := testRank().FindStringSubmatch(line); m != nil && len(t.Ranks) < maxWorld {
			if n, err := strconv.Atoi(m[1]); err == nil {
				t.Ranks = append(t.Ranks, n)
			}
		} else if m := testBounds().FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1]) // nine digits
			t.OutOfBounds = &n
		} else if testFailure().MatchString(line) && len(t.Failures) < 10 {
			t.Failures = append(t.Failures, clean(line, 300))
		} else if heading, is := strings.CutPrefix(line, "#"); is {
			if names := strings.Fields(heading); len(names) > 0 && names[0] == "size" {
				columns = names
			}
		} else if row, err := row(columns, strings.Fields(line)); err == nil && len(t.Rows) < maxEvents {
			t.Rows = append(t.Rows, row)
		}
	}
	slices.Sort(t.Ranks)
	return t
}

// row parses a row by the names in the heading: the columns differ between releases.
func row(columns, fields []string) (r Row, err error) {
	if len(columns) == 0 || len(fields) < len(columns) {
		return r, errStrange
	}
	if r.Bytes, err = strconv.ParseInt(fields[0], 10, 64); err != nil || r.Bytes < 0 {
		return r, errStrange
	}
	cells := 0
	for i := 0; i+3 < len(columns); i++ {
		// With -C the column is called cputime. Before 2.13 the last column is error, the largest difference.
		if columns[i] != "time" && columns[i] != "cputime" || columns[i+1] != "algbw" || columns[i+2] != "busbw" {
			continue
		}
		c, err := cell(columns[i+3], fields[i:i+4])
		if err != nil {
			return r, err
		}
		switch cells++; cells {
		case 1:
			r.OutOfPlace = c
		case 2:
			r.InPlace = c
		}
	}
	if cells != 2 {
		return r, errStrange
	}
	return r, nil
}

// cell parses the columns time, algbw, busbw and #wrong.
func cell(last string, fields []string) (c Cell, err error) {
	var numbers [3]float64
	for i := range numbers {
		n, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || !(n >= 0) || math.IsInf(n, 0) {
			return c, errStrange
		}
		numbers[i] = n
	}
	c.Microseconds, c.BusGBs = numbers[0], numbers[2]
	if fields[3] == "N/A" {
		return c, nil
	}
	n, err := strconv.ParseFloat(fields[3], 64) // the program prints it with %g
	if err != nil || !(n >= 0 && n < 1<<40) {
		return c, errors.Join(errStrange, err)
	}
	wrong := int64(n)
	if last == "error" { // the largest difference
		wrong = 0
	}
	c.Wrong = &wrong
	return c, nil
}

// Wrong returns the number of wrong values in all rows, and the first size with one. checked is false unless every
// row was checked out of place; some programs do not check in place.
func (t Table) Wrong() (wrong, at int64, checked bool) {
	checked = len(t.Rows) > 0
	for _, r := range t.Rows {
		checked = checked && r.OutOfPlace.Wrong != nil
		for _, c := range []Cell{r.OutOfPlace, r.InPlace} {
			if c.Wrong == nil || *c.Wrong == 0 {
				continue
			}
			if wrong == 0 {
				at = r.Bytes
			}
			wrong += *c.Wrong
		}
	}
	return wrong, at, checked
}

// Sweep returns the table's times. Each size ran iterations times out of place and as often in place.
func (t Table) Sweep(op string, iterations int) (out []Sweep) {
	for _, r := range t.Rows {
		if seconds := (r.OutOfPlace.Microseconds + r.InPlace.Microseconds) * float64(iterations) / 1e6; r.Bytes > 0 && seconds > 0 {
			out = append(out, Sweep{Op: op, Bytes: r.Bytes, Iterations: 2 * iterations, Seconds: seconds})
		}
	}
	return out
}
