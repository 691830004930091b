package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/transport"
)

// desk is a Scheduler of toys. It notes what happens, each time with the hosts that have a connection.
type desk struct {
	mu    sync.Mutex
	open  map[string]int
	busy  map[string]error // why a host cannot be reached
	notes []string
	// drains is called before hosts are drained; may be nil.
	drains func(host string)
}

func (d *desk) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var on []string
	for _, host := range slices.Sorted(maps.Keys(d.open)) {
		if d.open[host] > 0 {
			on = append(on, host)
		}
	}
	d.notes = append(d.notes, fmt.Sprintf("%s [%s]", what, strings.Join(on, " ")))
}

func (d *desk) Drain(_ context.Context, reasons map[string]string, _ func([]string)) error {
	for host := range reasons {
		d.note("drain " + host)
		if d.drains != nil {
			d.drains(host)
		}
	}
	return nil
}
func (d *desk) Resume(_ context.Context, hosts []string) error {
	d.note("resume " + strings.Join(hosts, " "))
	return nil
}
func (d *desk) Keep(context.Context, map[string]string) error { return nil }
func (d *desk) Release([]string)                              { d.note("release") }

// tallied is a connection that its desk counts.
type tallied struct {
	io.ReadWriteCloser
	once sync.Once
	end  func()
}

func (c *tallied) Close() error {
	c.once.Do(c.end)
	return c.ReadWriteCloser.Close()
}

// desked are options for toys whose hosts are nodes, in waves of one.
func desked(y *toys) (*desk, SessionOptions) {
	d, o := &desk{open: map[string]int{}, busy: map[string]error{}}, y.options()
	for _, h := range y.fabric.Hosts {
		h.Slurm = &fabric.Slurm{Wave: 1}
		y.hosts[h.Name].on = func(method string) {
			if method == "act" {
				d.note("change " + h.Name)
			}
		}
	}
	dial := o.Dial
	o.Changing, o.Scheduler = true, d
	o.Dial = func(ctx context.Context, to transport.Target) (io.ReadWriteCloser, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.busy[to.Name] != nil {
			return nil, d.busy[to.Name]
		}
		s, err := dial(ctx, to)
		if err != nil {
			return nil, err
		}
		d.open[to.Name]++
		return &tallied{ReadWriteCloser: s, end: func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.open[to.Name]--
		}}, nil
	}
	return d, o
}

// TestJobsMayHaveHostsThatAreNotWorkedOn: between the reading and its wave, after it, and while somebody is asked, no host has a connection. A
// host whose link is checked has one.
func TestJobsMayHaveHostsThatAreNotWorkedOn(t *testing.T) {
	y := newToys(t)
	d, o := desked(y)
	y.heard.asking = func() { d.note("asked") }
	r := y.runIn(t.Context(), Open(t.Context(), y.fabric, o), Options{})
	if r.Err != nil || r.Ending != Done || y.hosts["a"].value != "2" || y.hosts["b"].value != "2" {
		t.Fatal(r.Ending, r.Err, y.heard.lines)
	}
	want := "release []|asked []|release []|release []|drain a []|change a [a]|resume a [a]|release []|drain b []|change b [a b]|resume b [a b]|release []"
	if got := strings.Join(d.notes, "|"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestAPlanReleasesWhatItHasRead: one of many hosts takes minutes.
func TestAPlanReleasesWhatItHasRead(t *testing.T) {
	y := newToys(t)
	d, o := desked(y)
	o.Changing, o.Glance, o.Parallelism = false, true, 1
	s := Open(t.Context(), y.fabric, o)
	defer s.Close()
	if p, err := s.Plan(t.Context()); err != nil || p.Changes() != 2 {
		t.Fatal(p, err)
	}
	if got := strings.Join(d.notes, "|"); got != "release []|release []" {
		t.Error(got)
	}
}

// TestAHostThatJobsHaveTakenIsLeftOut: one that was given back for a question may be taken when its files are written, or when the link to a neighbour
// is checked. The others are changed.
func TestAHostThatJobsHaveTakenIsLeftOut(t *testing.T) {
	y := newToys(t)
	y.lasts, y.wants = true, "1" // files alone
	d, o := desked(y)
	y.heard.asking = func() { d.busy["a"] = errors.New("busy (job 7): not read") }
	r := y.runIn(t.Context(), Open(t.Context(), y.fabric, o), Options{})
	if r.Err != nil || r.Ending != HostsUnreachable || y.hosts["a"].file != "" || y.hosts["b"].file != "2" {
		t.Error(r.Ending, r.Err, y.hosts["a"].file, y.hosts["b"].file)
	}
	if !slices.ContainsFunc(y.heard.lines, func(l string) bool { return strings.HasPrefix(l, "note: Live checks skipped") }) {
		t.Error("the others are not verified")
	}
	if said := strings.Join(y.heard.lines, "\n"); !strings.Contains(said, "! a: not changed, because it was given back to jobs while the plan was read: busy (job 7)") {
		t.Error(said)
	}

	y = newToys(t)
	d, o = desked(y)
	d.drains = func(host string) {
		if host == "b" {
			d.busy["a"] = errors.New("busy (job 7): not read")
		}
	}
	r = y.runIn(t.Context(), Open(t.Context(), y.fabric, o), Options{})
	if r.Err != nil || r.Ending != Done || y.hosts["a"].value != "2" || y.hosts["b"].value != "2" {
		t.Error(r.Ending, r.Err, y.heard.lines)
	}
}

// TestARollbackDrainsInWaves: as an apply does, so that never more are drained.
func TestARollbackDrainsInWaves(t *testing.T) {
	y := newToys(t)
	if r := y.run(t.Context(), Options{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	d, o := desked(y)
	o.Changing = false
	y.heard.asking = func() { d.note("asked") }
	s := Open(t.Context(), y.fabric, o)
	defer s.Close()
	r := Rollback(t.Context(), s, RollbackOptions{}, y.heard)
	if r.Err != nil || r.Ending != Done || y.hosts["a"].value != "1" || y.hosts["b"].value != "1" || len(r.Outcomes) != 2 {
		t.Fatal(r.Ending, r.Err, r.Outcomes, y.heard.lines)
	}
	want := "release []|asked []|release []|release []|drain a []|resume a [a]|release []|drain b []|resume b [b]|release []"
	if got := strings.Join(d.notes, "|"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
