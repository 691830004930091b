//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	// shortLease keeps the rows short; what is measured is the time beyond it.
	shortLease = 5 * time.Second
	// longLease is of applies that are to go on: a busy machine may not get to renew a short one.
	longLease = 40 * time.Second
)

// byItsLease ends the wait for a host whose lease nobody renews. When it was back is a figure: no test asserts a time.
const byItsLease = shortLease + time.Minute

// faultsPassed is the environment variable that names the file of the rows that passed; with it all rows run.
const faultsPassed = "FABRICFORM_FAULTS"

// faultLab is a lab whose hosts' files can be looked at from outside while an apply runs.
type faultLab struct {
	t      *testing.T
	state  string
	fabric string            // the file of the lab's fabric
	name   string            // of the fabric
	first  string            // the host whose progress tells when a fault comes
	netPID int               // stands in the network from which the operator comes
	addr   map[string]string // of the hosts
	roots  map[string]string // of the hosts' file systems
	old    map[string]string
	agent  string  // the SSH agent's socket of an apply; "" for none
	errs   *saying // of the apply that runs
}

// saying is what a program has written so far.
type saying struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *saying) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *saying) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// awaitWord waits until the apply that runs has written a word to its standard error.
func (l *faultLab) awaitWord(word string) {
	l.t.Helper()
	for began := time.Now(); !strings.Contains(l.errs.String(), word); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			l.t.Fatalf("the apply never said %q", word)
		}
	}
}

// newPairLab is the pair, with things of others beside what a plan touches: they must come back too.
func newPairLab(t *testing.T) *faultLab {
	t.Helper()
	l := newFaultLab(t, pair, "roce-pair", "a")
	inside(t, l.state, pair, "a", "ip", "link", "set", "ens19f0np0", "up")
	inside(t, l.state, pair, "a", "ip", "addr", "add", "172.30.0.1/24", "dev", "ens19f1np1")
	l.remember()
	return l
}

func newFaultLab(t *testing.T, fabric, name, first string) *faultLab {
	t.Helper()
	l := &faultLab{t: t, state: labUpFor(t, fabric), fabric: fabric, name: name, first: first, addr: map[string]string{}, roots: map[string]string{}, old: map[string]string{}}
	raw, err := os.ReadFile(filepath.Join(l.state, "fabricform", "lab", name, "lab.json"))
	var saved struct {
		Net   struct{ PID int }
		Hosts map[string]struct {
			Address string
			Process struct{ PID int }
		}
	}
	if err != nil || json.Unmarshal(raw, &saved) != nil {
		t.Fatal(err)
	}
	l.netPID = saved.Net.PID
	for host, h := range saved.Hosts {
		l.roots[host], l.addr[host] = fmt.Sprintf("/proc/%d/root", h.Process.PID), h.Address
	}
	try(t, l.state, "plan", "-lab", fabric) // brings the helper
	return l
}

// remember is called once the hosts are as they are to be found again.
func (l *faultLab) remember() {
	l.t.Helper()
	old := map[string]string{}
	for host := range l.roots {
		// What the kernel adds by itself is there when duplicate address detection ends, which begins up to
		// a second after a carrier came (net/core/link_watch.c).
		l.on(host, "sleep 1; for i in $(seq 600); do ip addr show up | grep -q tentative || exit 0; sleep 0.1; done; exit 1")
		old[host] = wholeState(l.t, l.state, l.fabric, host)
	}
	l.old = old
}

// wholeState is all that an apply could leave behind: links, addresses, routes and rules of every
// table, the NICs' settings, and what the host has of its own in /etc: below that lies the machine's,
// which others change.
func wholeState(t *testing.T, state, fabric, host string) string {
	t.Helper()
	script := "ip -d -o link | sed 's/ qdisc [a-z]*//; s/ state [A-Z]*//; s/,LOWER_UP//; s/NO-CARRIER,//'; ip -o addr | sed 's/ tentative//; s/valid_lft.*//'; " +
		"(ip route show table all; ip -6 route show table all) | sed 's/ linkdown//; s/ dead//' | sort; ip rule; ip -6 rule; " +
		"sysctl -a 2>/dev/null | grep -E '^net.ipv[46].conf.(ens19|eth1|mgmt0)|tcp_mtu_probing|icmp_echo_ignore_all'; find /mnt/etc-upper -printf '%P %y %m\n' | sort; find /mnt/etc-upper -type f | sort | xargs -r sha256sum"
	return inside(t, state, fabric, host, "sh", "-c", script)
}

// noted is how many values a host's ownership record holds: each is entered just before it is set.
func (l *faultLab) noted(host string) int {
	raw, err := os.ReadFile(l.roots[host] + "/var/lib/fabricform/" + l.name + ".json")
	var r struct{ Atoms map[string]any }
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return 0
	}
	return len(r.Atoms)
}

// tx is a host's latest transaction.
func (l *faultLab) tx(host string) (state, why string) {
	files, err := filepath.Glob(l.roots[host] + "/var/lib/fabricform/transactions/[0-9]*.json")
	if err != nil || len(files) == 0 {
		return "none", ""
	}
	raw, err := os.ReadFile(files[len(files)-1])
	var t struct {
		State, Why string
		Left       []string
	}
	if err != nil || json.Unmarshal(raw, &t) != nil {
		return "unreadable", ""
	}
	return t.State, strings.Join(append(t.Left, t.Why), "; ")
}

// apply runs an apply and calls fault once the first host has entered n values. An apply that was
// over before its fault is taken back, and done again.
func (l *faultLab) apply(n int, fault func(client *os.Process)) answer {
	l.t.Helper()
	return l.applyOf(l.fabric, n, fault, "-lease", shortLease.String())
}

// applyOf does so with another file of the same fabric.
func (l *faultLab) applyOf(fabric string, n int, fault func(client *os.Process), flags ...string) answer {
	l.t.Helper()
	for range 3 {
		if a, hit := l.tryApplyOf(fabric, n, fault, flags...); hit {
			return a
		}
		if state, _ := l.tx(l.first); state == "committed" {
			try(l.t, l.state, "rollback", "-lab", "-auto-approve", fabric).want(l.t, 0)
		}
		l.unchanged()
	}
	l.t.Fatal("the fault came too late each time")
	return answer{}
}

// tryApplyOf answers whether the fault came while the transaction was open. The client is stopped while fault runs; one that needs it
// continues it (SIGCONT).
func (l *faultLab) tryApplyOf(fabric string, n int, fault func(client *os.Process), flags ...string) (a answer, hit bool) {
	l.t.Helper()
	cmd := exec.Command(bin, append(append([]string{"apply", "-lab", "-auto-approve", "-no-verify"}, flags...), fabric)...)
	var out bytes.Buffer
	l.errs = &saying{}
	cmd.Stdout, cmd.Stderr = &out, l.errs
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+l.state, "NO_COLOR=1", "SSH_AUTH_SOCK="+l.agent)
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	over := false
	for !over && l.noted(l.first) < n {
		select {
		case err := <-ended:
			ended <- err
			over = true
		case <-time.After(100 * time.Microsecond): // the apply needs the processor too
		}
	}
	// The apply waits until the fault is there: on a busy machine it would be over before.
	_ = cmd.Process.Signal(syscall.SIGSTOP)
	state, _ := l.tx(l.first)
	if hit = !over && state == "armed"; hit {
		fault(cmd.Process)
	}
	_ = cmd.Process.Signal(syscall.SIGCONT)
	err := <-ended
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		l.t.Fatal(err)
	}
	a = answer{code: cmd.ProcessState.ExitCode(), out: out.String(), err: l.errs.String()}
	l.t.Logf("apply, with a fault at value %d: exit %d\n%s%s", n, a.code, a.out, a.err)
	if !hit {
		l.t.Logf("the fault came too late: the transaction was %s already", state)
	}
	return a, hit
}

// back waits until both hosts are as they were, and fails if that takes longer than the limit.
func (l *faultLab) back(since time.Time, limit time.Duration) {
	l.t.Helper()
	l.backOn(since, limit, slices.Collect(maps.Keys(l.old))...)
}

// backUnrenewed wants that by word of each host's own transaction, nobody having renewed its lease.
func (l *faultLab) backUnrenewed(since time.Time) {
	l.t.Helper()
	l.back(since, byItsLease)
	for host := range l.old {
		if _, why := l.tx(host); why != "the lease of "+shortLease.String()+" expired" {
			l.t.Errorf("host %s went back since %s", host, why)
		}
	}
}

func (l *faultLab) backOn(since time.Time, limit time.Duration, hosts ...string) {
	l.t.Helper()
	for _, host := range hosts {
		old := l.old[host]
		for {
			state, why := l.tx(host)
			if state == "reverted" {
				l.t.Logf("figure: %s: host %s is back %.2f s after the fault: %s", l.t.Name(), host, time.Since(since).Seconds(), why)
				break
			}
			if time.Since(since) > limit {
				l.t.Fatalf("host %s is %s %s after the fault: %s", host, state, time.Since(since), why)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if now := wholeState(l.t, l.state, l.fabric, host); now != old {
			l.t.Errorf("host %s is not as it was: %s", host, cmp.Diff(strings.Split(old, "\n"), strings.Split(now, "\n")))
		}
		if n := l.noted(host); n != 0 {
			l.t.Errorf("host %s: its record still holds %d values", host, n)
		}
	}
}

// faultRow is one fault and what must come of it. A short one is in every test run: each fault, at one value. The
// others are in `make long`.
type faultRow struct {
	name  string
	short bool
	do    func(l *faultLab)
}

// TestFaults breaks an apply half-way. Every host must return to the old state automatically, and
// the report must say so. Each row sees that its fault happened while the transaction was open.
// With FABRICFORM_FAULTS all rows run but those that the file of that name says passed with this
// build.
func TestFaults(t *testing.T) {
	together(t)
	passed := passedRows(t, os.Getenv(faultsPassed))
	for name, group := range map[string]struct {
		lab  func(t *testing.T) *faultLab
		rows []faultRow
	}{
		"client": {newPairLab, clientRows()}, "operator": {newPairLab, slices.Concat(operatorRows(), lastRows())}, "path": {newPairLab, pathRows()},
		"disk": {newPairLab, diskRows()}, "hang": {newPairLab, hangRows()}, "fleet": {func(*testing.T) *faultLab { return nil }, fleetRows()},
	} {
		rows := slices.DeleteFunc(group.rows, passed.skip)
		if len(rows) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if passed.file == "" { // that run prints no time at which each host was back
				t.Parallel()
			}
			l := group.lab(t)
			for _, row := range rows {
				began, ran := time.Now(), false
				ok := t.Run(row.name, func(t *testing.T) {
					defer func() { ran = !t.Skipped() }() // nor was it left out by -run
					own := faultLab{t: t}
					if l != nil {
						own = *l
						own.t = t
					}
					row.do(&own)
				})
				if !ok {
					break // what it left would fail the others
				}
				if ran {
					passed.note(t, row, time.Since(began))
				}
			}
		})
	}
	if passed.file != "" {
		t.Logf("figure: %d faults have passed with this build", len(passed.rows))
	}
}

// rowsPassed is which rows passed, at which build.
type rowsPassed struct {
	file  string // "": only the short rows run, and nothing is noted
	build string // and the fabric under test
	rows  map[string]bool
}

func passedRows(t *testing.T, file string) *rowsPassed {
	t.Helper()
	p := &rowsPassed{file: file, rows: map[string]bool{}}
	if file == "" {
		return p
	}
	rows, err := os.Executable() // these tests
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{bin, rows, pair} {
		sum, _, err := hashOf(file)
		if err != nil {
			t.Fatal(err)
		}
		p.build += sum[:8]
	}
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.SplitN(strings.TrimSpace(line), "\t", 4); len(f) == 4 && f[0] == p.build {
			p.rows[f[3]] = true
		}
	}
	t.Logf("build %s: %d rows passed before", p.build, len(p.rows))
	return p
}

func (p *rowsPassed) skip(r faultRow) bool {
	if p.file == "" {
		return !r.short
	}
	return p.rows[r.name]
}

func (p *rowsPassed) note(t *testing.T, r faultRow, took time.Duration) {
	t.Helper()
	if p.file == "" {
		return
	}
	p.rows[r.name] = true
	f, err := os.OpenFile(p.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s\t%s\t%.1fs\t%s\n", p.build, time.Now().UTC().Format(time.RFC3339), took.Seconds(), r.name)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
