package perftest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// column is a column of a table, by the start of its heading.
type column struct {
	label  string
	factor float64 // converts the column's unit to Gb/s
}

// gbpsFromMiB converts MiB/s to Gb/s. Up to 24.04 the heading says MB/sec, but the values were always in MiB
// (format_factor in perftest_parameters.c).
const gbpsFromMiB = 1 << 20 * 8 / 1e9

// units are the units that follow a bandwidth's heading (RESULT_FMT and RESULT_FMT_G in perftest_parameters.h).
var units = []struct {
	name   string
	factor float64
}{{"[Gb/sec]", 1}, {"[MB/sec]", gbpsFromMiB}, {"[MiB/sec]", gbpsFromMiB}}

// labels are all headings in RESULT_FMT… of perftest_parameters.h; each has one number below it.
var labels = []string{
	"#bytes", "#sl", "#iterations", "BW peak", "BW average", "MsgRate[", "BW Port1", "MsgRate Port1", "BW Port2", "MsgRate Port2",
	"t_min", "t_max", "t_typical", "t_avg", "t_stdev", "99% percentile", "99.9% percentile", "tps average", "CPU_Util",
}

// header finds a table's columns by their headings. It searches for the known headings, because some contain a space
// and some have only one space between them.
func header(text string) []column {
	type place struct {
		at int
		column
	}
	var found []place
	for _, l := range labels {
		at := strings.Index(text, l)
		if at < 0 {
			continue
		}
		c := column{label: l, factor: 1}
		for _, u := range units {
			if strings.HasPrefix(text[at+len(l):], u.name) {
				c.factor = u.factor
			}
		}
		found = append(found, place{at, c})
	}
	slices.SortFunc(found, func(a, b place) int { return a.at - b.at })
	columns := make([]column, 0, len(found))
	for _, f := range found {
		columns = append(columns, f.column)
	}
	return columns
}

// row parses a line below the headings. Rows begin with two whole numbers; other lines are warnings or counters.
func (p *textParser) row(text string) error {
	fields := strings.Fields(text)
	if len(fields) < 2 || !whole(fields[0]) || !whole(fields[1]) {
		return nil
	}
	if len(fields) != len(p.columns) {
		return fmt.Errorf("a row with %d numbers below %d headings: %.80q", len(fields), len(p.columns), text)
	}
	values := map[string]float64{}
	for i, c := range p.columns {
		if strings.HasPrefix(c.label, "t_stdev") && strings.HasSuffix(fields[i], "nan") {
			continue // 25.01 takes the root of a negative number if the squares overflow
		}
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return fmt.Errorf("%s is %.40q: not a measurement", strings.TrimSuffix(c.label, "["), fields[i])
		}
		values[c.label] = v * c.factor
	}
	p.add(values)
	return nil
}

func whole(s string) bool {
	_, err := strconv.ParseUint(s, 10, 63)
	return err == nil
}

func (p *textParser) add(v map[string]float64) {
	size, iterations := int64(v["#bytes"]), int64(v["#iterations"])
	if _, ok := v["t_avg"]; ok {
		p.report.Latency = append(p.report.Latency, Latency{
			Size: size, Iterations: iterations, MinUs: v["t_min"], MaxUs: v["t_max"], TypicalUs: v["t_typical"], AverageUs: v["t_avg"],
			StdDevUs: v["t_stdev"], P99Us: v["99% percentile"], P999Us: v["99.9% percentile"], TPS: v["tps average"],
			CPUPercent: v["CPU_Util"],
		})
		return
	}
	if _, ok := v["BW average"]; ok {
		p.report.Bandwidth = append(p.report.Bandwidth, Bandwidth{
			Size: size, Iterations: iterations, PeakGbps: v["BW peak"], AverageGbps: v["BW average"], RateMpps: v["MsgRate["],
			CPUPercent: v["CPU_Util"],
		})
	}
}
