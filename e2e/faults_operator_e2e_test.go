//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// manual leaves an apply open until somebody confirms it in time.
func (l *faultLab) manual(timeout string) {
	l.t.Helper()
	try(l.t, l.state, "apply", "-lab", "-auto-approve", "-confirm", "manual", "-confirm-timeout", timeout, pair).want(l.t, 0, "pending until", "fabricform confirm")
}

// operatorRows: what people, and other programs, do at the same time.
func operatorRows() (rows []faultRow) {
	add := func(name string, short bool, do func(l *faultLab)) { rows = append(rows, faultRow{name, short, do}) }
	add("another program undoes a change", true, func(l *faultLab) {
		stop := undoing(l.t, l.state, pair, "b", "192.168.88.6/30", "ens19f1np1")
		at := time.Now()
		a := try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", pair)
		stop()
		a.want(l.t, 6, "reverted")
		l.back(at, time.Minute)
	})
	add("two operators", true, func(l *faultLab) {
		l.manual("10m")
		try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", pair).want(l.t, 8, "nothing was changed", "is open, by")
		try(l.t, l.state, "confirm", "-lab", pair).want(l.t, 0, "a, b  committed")
		try(l.t, l.state, "plan", "-lab", "-detailed-exitcode", pair).want(l.t, 0)
		try(l.t, l.state, "rollback", "-lab", "-auto-approve", pair).want(l.t, 0, "a, b  reverted: rollback by")
		l.back(time.Now(), time.Second)
	})
	add("confirmed by hand, or not", true, func(l *faultLab) {
		l.manual("10m")
		try(l.t, l.state, "pending", "-lab", pair).want(l.t, 0, `a transaction of fabric "roce-pair" is open`, "reverts automatically in")
		try(l.t, l.state, "destroy", "-lab", "-auto-approve", pair).want(l.t, 8, "nothing was changed", "is open, by")
		try(l.t, l.state, "rollback", "-lab", "-auto-approve", pair).want(l.t, 0, "a, b  reverted: rollback by")
		l.back(time.Now(), time.Second)
		l.manual("6s")
		l.back(time.Now(), time.Minute)
		try(l.t, l.state, "confirm", "-lab", pair).want(l.t, 6, "too late to confirm", "a, b  reverted")
		l.manual("10m")
		try(l.t, l.state, "confirm", "-lab", pair).want(l.t, 0, "a, b  committed")
		try(l.t, l.state, "rollback", "-lab", "-auto-approve", pair).want(l.t, 0)
		l.manual("10m")
		file, elsewhere := tokenFile(l.t, l.state, filepath.Join(l.name, "lab", l.name), false), filepath.Join(l.t.TempDir(), "tokens.json")
		if err := os.Rename(file, elsewhere); err != nil {
			l.t.Fatal(err)
		}
		try(l.t, l.state, "confirm", "-lab", pair).want(l.t, 1, "no pending apply of fabric")
		try(l.t, l.state, "confirm", "-lab", "-takeover", elsewhere, pair).want(l.t, 0, "a, b  committed")
		try(l.t, l.state, "history", "-lab", pair).want(l.t, 0, "apply    26 changes on a, b")
		try(l.t, l.state, "confirm", "-lab", pair).want(l.t, 1, "no pending apply of fabric")
		try(l.t, l.state, "plan", "-lab", "-detailed-exitcode", pair).want(l.t, 0)
		try(l.t, l.state, "rollback", "-lab", "-auto-approve", pair).want(l.t, 0)
	})
	add("a failed check takes the fabric back, where that is asked for", true, func(l *faultLab) {
		try(l.t, l.state, "lab", "fault", pair, "rail1", "cut").want(l.t, 0)
		try(l.t, l.state, "apply", "-lab", "-auto-approve", "-on-failed-check", "rollback", pair).want(l.t, 3, "committed", "a, b  reverted: a check failed")
		try(l.t, l.state, "lab", "fault", pair, "rail1", "none").want(l.t, 0)
		l.back(time.Now(), time.Second)
	})
	return rows
}

// lastRows leave the lab as an apply has made it.
func lastRows() (rows []faultRow) {
	add := func(name string, short bool, do func(l *faultLab)) { rows = append(rows, faultRow{name, short, do}) }
	add("a change breaks what worked", true, func(l *faultLab) {
		try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", pair).want(l.t, 0)
		raw, err := os.ReadFile(pair)
		if err != nil {
			l.t.Fatal(err)
		}
		text := strings.Replace(strings.ReplaceAll(string(raw), "mtu       = 9000", "mtu       = 8000"), `sysctl  = { "net.ipv4.tcp_mtu_probing" = 1 }`, `sysctl  = { "net.ipv4.tcp_mtu_probing" = 1, "net.ipv4.icmp_echo_ignore_all" = 1 }`, 1)
		fabric := filepath.Join(l.t.TempDir(), "f.hcl")
		if err := os.WriteFile(fabric, []byte(text), 0o600); err != nil {
			l.t.Fatal(err)
		}
		try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", fabric).want(l.t, 6, "the changes broke checks that passed before: ping", "reverted")
		try(l.t, l.state, "plan", "-lab", "-detailed-exitcode", pair).want(l.t, 0)
	})
	return rows
}
