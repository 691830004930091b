package perftest

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected reports; read the diff")

func fixtures(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		if out[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// A hand-made file follows the format strings of the release in its name. Its report is the file
// beside it that ends in .json.
func TestHandmadeReportsAreRead(t *testing.T) {
	files := fixtures(t, "testdata/handmade/*.txt")
	if len(files) == 0 {
		t.Fatal("no fixtures")
	}
	for name, text := range files {
		checkGolden(t, name, text)
	}
}

// Whatever is put into testdata/real is what a program truly printed: it is read without an error, and
// has rows unless its name ends in -norows.txt. Where -update has written its report beside it, the
// report stays so.
func TestRealReportsAreRead(t *testing.T) {
	for name, text := range fixtures(t, "testdata/real/*.txt") {
		r := checkGolden(t, name, text)
		if rows := len(r.Bandwidth) + len(r.Latency); (rows == 0) != strings.HasSuffix(name, "-norows.txt") {
			t.Errorf("%s: %d rows", name, rows)
		}
		if r.Test == "" || r.Device == "" || r.MTU == 0 || len(r.Local) == 0 || len(r.Remote) == 0 {
			t.Errorf("%s: facts are missing: %+v", name, r)
		}
	}
}

func checkGolden(t *testing.T, name string, text []byte) Output {
	t.Helper()
	r, err := ParseText(text)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	golden := strings.TrimSuffix(name, ".txt") + ".json"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if os.IsNotExist(err) && strings.Contains(name, "/real/") {
		return r
	}
	if err != nil || string(want) != string(got) {
		t.Errorf("%s (%v): got\n%s", golden, err, got)
	}
	return r
}

func TestMBIsReallyMiB(t *testing.T) {
	gbit, err := ParseText(fixtures(t, "testdata/handmade/handmade-4.5-write_bw-client.txt")["testdata/handmade/handmade-4.5-write_bw-client.txt"])
	if err != nil {
		t.Fatal(err)
	}
	mb, err := ParseText(fixtures(t, "testdata/handmade/handmade-4.5-write_bw-server-MB.txt")["testdata/handmade/handmade-4.5-write_bw-server-MB.txt"])
	if err != nil {
		t.Fatal(err)
	}
	a, b := gbit.Bandwidth[0].AverageGbps, mb.Bandwidth[0].AverageGbps
	if d := a - b; d > 0.01 || d < -0.01 {
		t.Errorf("the same run is %f Gb/s by one heading and %f by the other", a, b)
	}
}

func TestBrokenRowsAreNamedAndTheOthersKept(t *testing.T) {
	table := " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
	for row, want := range map[string]string{
		" 4 100 1.0 2.0\n":       "a row with 4 numbers below 5 headings",
		" 4 100 1.0 nan 0.5\n":   "BW average is \"nan\"",
		" 4 100 inf 2.0 0.5\n":   "BW peak is \"inf\"",
		" 4 100 1.0 -2.0 0.5\n":  "BW average is \"-2.0\"",
		" 4 100 1.0 2.0 0.5 x\n": "a row with 6 numbers",
	} {
		r, err := ParseText([]byte(table + " 2 100 1.0 1.5 0.5\n" + row + " 8 100 1.0 2.5 0.5\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("%q: %v", row, err)
		}
		if len(r.Bandwidth) != 2 || r.Bandwidth[1].AverageGbps != 2.5 {
			t.Errorf("%q: %+v", row, r.Bandwidth)
		}
	}
	for line, want := range map[string]string{
		" GID: 00:01\n": "does not have 16 bytes",
		" GID: 00:00:00:00:00:00:00:00:00:00:255:256:10:99:00:01\n": "is not a byte",
		" GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:99:00:01\n": "without an address",
		" Mtu             : x[B]\n":                                 "which is not a number",
		" local address: LID 0000 QPN zz PSN 0x1\n":                 "not a hexadecimal number",
	} {
		if _, err := ParseText([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestSweepsAndBothDirectionsAreManyRows(t *testing.T) {
	r, err := ParseText([]byte(`
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 2          5000             1.00               1.00   		     0.500000
 4          5000             2.00               2.00   		     0.500000
---------------------------------------------------------------------------------------
 7 8 9 10 11
 #bytes    #sl      #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      3           5000           9.00            8.00                  0.015000
`))
	if err != nil || len(r.Bandwidth) != 3 || r.Bandwidth[2].Iterations != 5000 || r.Bandwidth[2].AverageGbps != 8 {
		t.Errorf("%+v %v", r.Bandwidth, err)
	}
}

// The keys and the order are those of write_test_info_to_file and what follows it at 25.01.0-0.80; no
// RDMA was at hand when this was written.
func TestParseJSON(t *testing.T) {
	for name, file := range fixtures(t, "testdata/handmade/*.out_json") {
		r, err := ParseJSON(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err := ParseText(fixtures(t, strings.TrimSuffix(name, ".out_json")+".txt")[strings.TrimSuffix(name, ".out_json")+".txt"])
		if err != nil {
			t.Fatal(err)
		}
		text.Local, text.Remote = nil, nil // not in the file
		a, _ := json.Marshal(r)
		b, _ := json.Marshal(text)
		if string(a) != string(b) {
			t.Errorf("%s: the file says\n%s\nthe text says\n%s", name, a, b)
		}
	}
}

func TestParseJSONRefusesWhatItCannotRead(t *testing.T) {
	for file, want := range map[string]string{
		"":               "unexpected end",
		"{}":             "no results",
		`{"results":{}}`: "neither",
		// 4.5-0.17 of Debian 12.
		"{\ntest_info: {\ntest: Send_BW_Test,\n},\nresults: {\nMsgSize: 2,\n}\n}\n": "invalid character",
		`{"results":{"BW_average": nan}}`:                                           "invalid character",
	} {
		if _, err := ParseJSON([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", file, err)
		}
	}
}

// What the packages of Debian 12 and 13 print.
func TestParseVersion(t *testing.T) {
	for out, want := range map[string]Version{"Version: 6.06\n": {6, 6}, "warning\nVersion: 6.24\n": {6, 24}} {
		got, err := ParseVersion([]byte(out))
		if err != nil || got != want || !strings.Contains(out, "Version: "+got.String()+"\n") {
			t.Errorf("%q: %v %v", out, got, err)
		}
	}
	for _, out := range []string{"", "Version:", "Version: 6", "Version: 6.x", "Version: -6.1", "Version: 12345678.1"} {
		if got, err := ParseVersion([]byte(out)); err == nil {
			t.Errorf("%q: %v", out, got)
		}
	}
	if (Version{6, 6}).WritesJSON() || !(Version{6, 24}).WritesJSON() || !(Version{7, 0}).WritesJSON() || (Version{5, 90}).WritesJSON() {
		t.Error("JSON is valid from 6.20 on")
	}
}
