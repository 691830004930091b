package config

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostlists are host lists with what Slurm 22.05 makes of them (`scontrol show hostnames`).
var hostlists = []struct{ text, names string }{
	{"", ""},
	{"n1", "n1"},
	{"gpu[001-003]", "gpu001 gpu002 gpu003"},
	{"a,b,c[1,3-5]", "a b c1 c3 c4 c5"},
	{"b,a,b", "b a b"},
	{" a,\t,b\nc[1],", "a b c1"},
	{"a[08-12]", "a08 a09 a10 a11 a12"},
	{"a[8-012]", "a8 a9 a10 a11 a12"},
	{"a[099-101]", "a099 a100 a101"},
	{"a[01,1]", "a01 a1"},
	{"a[3,1,2-2,1]", "a3 a1 a2 a1"},
	{"[1-2]", "1 2"},
	{"a1-3", "a1-3"},
	{"a[1-2][3-4]", "a13 a14 a23 a24"},
	{"rack0[01-2]x[1-2]", "rack001x1 rack001x2 rack002x1 rack002x2"},
	{"a[1-2]b[1-2]c[1-2]", "a1b1c1 a1b1c2 a2b1c1 a2b1c2 a1b2c1 a1b2c2 a2b2c1 a2b2c2"},
	{"a[1-2,5]b[3,7]c[1]", "a1b3c1 a2b3c1 a5b3c1 a1b7c1 a2b7c1 a5b7c1"},
	{"ä[1-2]", "ä1 ä2"},
	{"a[999999999999999998-999999999999999999]", "a999999999999999998 a999999999999999999"},
}

func TestHostlist(t *testing.T) {
	for _, c := range hostlists {
		if names, err := hostlist(c.text); err != nil || strings.Join(names, " ") != c.names {
			t.Errorf("%q: %q, %v", c.text, names, err)
		}
	}
	if names, err := hostlist("a[0-65535]"); err != nil || len(names) != 65536 || names[65535] != "a65535" {
		t.Error(len(names), err)
	}
	for text, want := range map[string]string{
		"a[1-2":                                  `"a[1-2" has a [ without a ] after it: write a range as in gpu[01-16]`,
		"a[1,[2]]":                               `has a [ without a ]`,
		"b,a1-2]":                                `"a1-2]" has a ] without a [ before it`,
		"a[1-2]-ib,b":                            `"a[1-2]-ib" has text after its last bracket, which Slurm rejects: add it to each name, as in [for n in hostlist("gpu[1-2]") : "${n}-ib"]`,
		"a[]":                                    `"a[]": "" is not a number or a range of numbers: write the part in brackets as in [01-16] or [1,3,7-9]`,
		"a[1,]":                                  `"" is not a number`,
		"a[1-]":                                  `"1-" is not a number`,
		"a[-3]":                                  `"-3" is not a number`,
		"a[1-2-3]":                               `"1-2-3" is not a number`,
		"a[1, 2]":                                `" 2" is not a number`,
		"a[x-y]":                                 `"x-y" is not a number`,
		"a[١]":                                   `is not a number`,
		"a[3-1]":                                 `the range "3-1" ends before it begins: write the smaller number first`,
		"a[1000000000000000000]":                 `more than 18 digits`,
		"a[1-1000000000]":                        `more than 65536 names`,
		"a[0-65536]":                             `more than 65536 names`,
		"a[0-999]b[0-999]c[0-9]":                 `more than 65536 names`,
		strings.Repeat("ä", 70) + "[":            `"` + strings.Repeat("ä", 60) + `…" has a [`,
		strings.Repeat("n", 4000) + "[0-65535]":  "names that are too long",
		strings.Repeat("[0-999999999]", 100_000): "names that are too long",
		"[" + strings.Repeat("0", 19) + "1-65535]": "more than 18 digits",
	} {
		if names, err := hostlist(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %d names, %v; want %s", text, len(names), err, want)
		}
	}
}

// TestHostlistInFiles: hosts are made from a host list, and a mistake in one has its place.
func TestHostlistInFiles(t *testing.T) {
	f, _, d := Load(write(t, "f.hcl", "host \"gpu\" {\n  for_each = toset(hostlist(\"gpu[001-512]\"))\n  address  = each.key\n}\n"), Options{})
	if d.HasErrors() || len(f.Hosts) != 512 || f.Hosts[511].Address != "gpu512" {
		t.Fatal(len(f.Hosts), d)
	}
	_, _, d = Load(write(t, "f.hcl", "host \"gpu\" {\n  for_each = toset(hostlist(\"gpu[001-512\"))\n}\n"), Options{})
	if len(d) != 1 || d[0].Subject.Start.Line != 2 || !strings.Contains(d[0].Detail, "write a range as in gpu[01-16]") {
		t.Fatal(d)
	}
}

// slurmNames asks Slurm. It needs a slurm.conf, and contacts nothing.
func slurmNames(t *testing.T, conf, text string) (names string, ok bool) {
	t.Helper()
	cmd := exec.Command("scontrol", "show", "hostnames", text)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
	var said, wrong strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &wrong
	if err := cmd.Run(); err != nil || wrong.Len() > 0 {
		return "", false
	}
	return strings.ReplaceAll(strings.TrimSuffix(said.String(), "\n"), "\n", " "), true
}

// TestHostlistIsSlurms compares with scontrol: of what is accepted, every name in its order, and what is well-formed is accepted.
func TestHostlistIsSlurms(t *testing.T) {
	if _, err := exec.LookPath("scontrol"); err != nil {
		t.Skip("scontrol of Debian's slurm-client is not installed")
	}
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(conf, []byte("ClusterName=x\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=ALL\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	agree := func(text string, wellFormed bool) {
		t.Helper()
		names, err := hostlist(text)
		if err != nil {
			if wellFormed {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if slurm, ok := slurmNames(t, conf, strings.ReplaceAll(text, "\n", ",")); !ok || slurm != strings.Join(names, " ") {
			t.Errorf("%q: %.200q, Slurm's %.200q %v", text, names, slurm, ok)
		}
	}
	for _, c := range hostlists {
		if c.text != "" { // scontrol reads the environment then
			agree(c.text, true)
		}
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 150 {
		agree(randomHostlist(r), true)
		agree(brokenHostlist(r), false)
	}
}

// randomHostlist returns a well-formed host list.
func randomHostlist(r *rand.Rand) string {
	var items []string
	for range 1 + r.IntN(3) {
		item := string(rune('a' + r.IntN(26)))
		for range r.IntN(4) {
			var ranges []string
			for range 1 + r.IntN(3) {
				low := r.IntN(12)
				text := fmt.Sprintf("%0*d", 1+r.IntN(4), low)
				if r.IntN(2) == 0 {
					text += fmt.Sprintf("-%0*d", 1+r.IntN(4), low+r.IntN(4))
				}
				ranges = append(ranges, text)
			}
			item += []string{"", "-", "x7"}[r.IntN(3)] + "[" + strings.Join(ranges, ",") + "]"
		}
		items = append(items, item)
	}
	return strings.Join(items, []string{",", " ", ",\n"}[r.IntN(3)])
}

// brokenHostlist returns a host list of which some characters were changed.
func brokenHostlist(r *rand.Rand) string {
	text := []rune(randomHostlist(r))
	for range 1 + r.IntN(3) {
		at := r.IntN(len(text))
		text = slices.Replace(text, at, at+r.IntN(2), []rune("[],-0 9a")[r.IntN(8)])
	}
	return "a" + string(text) // scontrol would take a leading - for an option
}

// FuzzHostlist: any text ends soon, in few names or an error that can be shown.
func FuzzHostlist(f *testing.F) {
	for _, c := range hostlists {
		f.Add(c.text)
	}
	f.Add("a[1-999999999]b[1-999999999]")
	f.Add("a[1-2")
	f.Fuzz(func(t *testing.T, text string) {
		names, err := hostlist(text)
		if len(names) > maxHostlist || err != nil && (names != nil || len(err.Error()) > 1000) {
			t.Errorf("%d names, %v", len(names), err)
		}
		size := 0
		for _, n := range names {
			size += len(n)
			if strings.ContainsAny(n, hostlistSeparators+"[]") || utf8.ValidString(text) && !utf8.ValidString(n) {
				t.Errorf("%q", n)
			}
		}
		if size > maxValue {
			t.Error(size)
		}
	})
}
