package helper

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/clock"
	"github.com/fabricform/fabricform/host/lock"
	"github.com/fabricform/fabricform/resource"
)

// rack is a machine whose driver stack is a list of changes that are still to be made.
type rack struct {
	host.Host
	*server
	dir     string
	left    []resource.Change
	apply   func(resource.StepLog) error
	reboots int
	refuses error // to restart
	planned func()
}

// ReadFile has the journal in the test's own folder.
func (r *rack) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if path == resource.JobFile {
		path = filepath.Join(r.dir, "job.json")
	}
	return r.Host.ReadFile(ctx, path)
}

func (r *rack) Records(_ context.Context) (map[string][]byte, error) { return nil, nil }

func (r *rack) Reboot(ctx context.Context) error {
	if err := errors.Join(r.refuses, ctx.Err()); err != nil {
		return err
	}
	r.reboots++
	return nil
}

// drivers is the kind of a rack's stack.
type drivers struct{ *rack }

func (drivers) Stage() string { return resource.StageStack }

func (drivers) Observe(*facts.Snapshot, string) (*string, error) { return new(string), nil }

func (d drivers) Diff(string, *string) []resource.Change {
	if d.planned != nil {
		d.planned()
	}
	return slices.Clone(d.left)
}

func (d drivers) Apply(ctx context.Context, _ host.Host, _ string, _ []resource.Change) error {
	if d.apply != nil {
		if err := d.apply(resource.Log(ctx)); err != nil {
			return err
		}
	}
	d.left = nil
	return nil
}

var (
	install = resource.Change{Attribute: "package a", To: "1", Stage: resource.StageStack}
	restart = resource.Change{Attribute: "reboot", From: "kernel 1", To: "kernel 2", Stage: resource.StageStack, Disruption: resource.Reboot}
)

func order(id string, changes ...resource.Change) calls.StackOrder {
	boot, _ := clock.BootID()
	return calls.StackOrder{ID: id, Who: "me@laptop", Resource: resource.Resource{Addr: resource.Addr{Host: "a", Kind: "drivers", Name: "x"}, Spec: []byte(`""`)}, Changes: changes, Boot: boot}
}

// newRack installs within the test's process.
func newRack(t *testing.T, left ...resource.Change) *rack {
	t.Helper()
	h, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	r := &rack{Host: h, dir: t.TempDir(), left: left}
	kinds := resource.Kinds{resource.Erase("drivers", drivers{r})}
	store := checkpoint.NewStore(t.TempDir(), checkpoint.Now)
	r.server = &server{host: r, kinds: kinds, store: store, stack: stackFolder(r.dir), arrivals: t.TempDir()}
	r.startInstaller = func(_ string, stderr *os.File) (<-chan struct{}, error) {
		said, err := os.OpenFile(stderr.Name(), os.O_WRONLY, 0)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := r.installer().run(context.Background()); err != nil {
				_, _ = fmt.Fprintln(said, err)
			}
			_ = said.Close()
		}()
		return ended, err
	}
	return r
}

func (r *rack) installer() installer { return installer{r, r.kinds, r.store, r.stack, r.arrivals} }

func (r *rack) journal(ctx context.Context) *resource.Installation {
	boot, _ := clock.BootID()
	return resource.ReadJob(ctx, r, boot)
}

// whole waits for the end of the installation.
func (r *rack) whole(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if unlock, err := lock.Try(r.stack.lock()); err == nil {
			unlock()
			return
		}
		if time.Now().After(end) {
			t.Fatal("the installation does not end")
		}
	}
}

func heldBy(err error, who string) bool {
	var e *agent.Error
	return errors.As(err, &e) && e.Held && strings.Contains(e.Message, who)
}

// TestInstallationAndTransactionExcludeEachOther, whichever comes first.
func TestInstallationAndTransactionExcludeEachOther(t *testing.T) {
	r := newRack(t, install)
	began, goOn := make(chan bool), make(chan bool)
	r.apply = func(resource.StepLog) error { close(began); <-goOn; return nil }
	state, err := r.stackStart(t.Context(), order("one", install))
	if err != nil || state.Job.ID != "one" {
		t.Fatal(state, err)
	}
	<-began
	if _, err := r.txOpen(t.Context(), calls.TxOpen{Fabric: "f"}); !heldBy(err, "me@laptop") {
		t.Errorf("a transaction while something is installed: %v", err)
	}
	if open, _, err := r.store.Pending(); err != nil || open != nil {
		t.Errorf("it was left open: %+v, %v", open, err)
	}
	if _, err := r.stackStart(t.Context(), order("two", install)); !heldBy(err, "me@laptop") {
		t.Errorf("a second installation: %v", err)
	}
	if _, err := r.prepareUpload(t.Context(), calls.Bundle{Name: "b", SHA256: strings.Repeat("a", 64), Size: 1}); !heldBy(err, "me@laptop") {
		t.Errorf("bundles are exchanged meanwhile: %v", err)
	}
	seal, _, err := calls.MakeSeal(strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("x"))
	whole := calls.Bundle{Name: "b", SHA256: hex.EncodeToString(sum[:]), Size: 1}
	if err := os.WriteFile(filepath.Join(r.arrivals, whole.Part()), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.bundleCheck(t.Context(), calls.UploadedBundle{Bundle: whole, Seal: seal}); !heldBy(err, "me@laptop") {
		t.Errorf("a bundle comes meanwhile: %v", err)
	}
	close(goOn)
	r.whole(t)

	if _, err := r.store.Begin(checkpoint.Request{Fabric: "f", Holder: checkpoint.Holder{User: "eve"}}); err != nil {
		t.Fatal(err)
	}
	r.left = []resource.Change{install, restart}
	if _, err := r.stackStart(t.Context(), order("three", install)); !heldBy(err, "eve") {
		t.Errorf("an installation in a transaction: %v", err)
	}
	if _, err := r.stackReboot(t.Context(), order("three", restart)); !heldBy(err, "eve") || r.reboots > 0 {
		t.Errorf("a restart in a transaction: %v", err)
	}
	// One that was opened after the helper had looked.
	if err := r.installer().run(t.Context()); !heldBy(err, "eve") {
		t.Errorf("the installer in a transaction: %v", err)
	}
	if j := r.journal(t.Context()); j.ID != "one" || j.State != resource.JobDone || j.Stack != "x" {
		t.Errorf("the journal tells of what was not begun: %+v", j)
	}
}

// TestAnOrderIsCarriedOutOnce: asked for again, because the first answer was lost, it is answered; the
// same plan's next order is another one.
func TestAnOrderIsCarriedOutOnce(t *testing.T) {
	r := newRack(t, install)
	for range 2 {
		if state, err := r.stackStart(t.Context(), order("one", install)); err != nil || !state.Of("one") {
			t.Fatal(state, err)
		}
		r.whole(t)
	}
	if err := r.installer().run(t.Context()); err == nil || !strings.Contains(err.Error(), "was already carried out") {
		t.Error(err)
	}
	var e *agent.Error
	if _, err := r.stackStart(t.Context(), order("two", install)); !errors.As(err, &e) || !e.Stale {
		t.Errorf("what is installed was installed again: %v", err)
	}
	if _, err := r.stackStart(t.Context(), order("../x", install)); err == nil {
		t.Error("a hostile id")
	}
}

func TestAnInstallerThatDoesNotStartSaysWhy(t *testing.T) {
	r := newRack(t, install)
	r.startInstaller = func(_ string, stderr *os.File) (<-chan struct{}, error) {
		_, err := fmt.Fprintln(stderr, "Failed to connect to bus: No such file or directory")
		ended := make(chan struct{})
		close(ended)
		return ended, err
	}
	if _, err := r.stackStart(t.Context(), order("one", install)); err == nil || err.Error() != "the installation did not start: Failed to connect to bus: No such file or directory" {
		t.Error(err)
	}
}

// TestAHostIsRestartedForTheOrderOnly, once, and nothing begins meanwhile.
func TestAHostIsRestartedForTheOrderOnly(t *testing.T) {
	r := newRack(t, restart)
	up := func() { // again
		t.Helper()
		runtime.GC()
		if err := (&server{host: r, stack: r.stack}).refuseWhileInstalling(); !heldBy(err, "another run") {
			t.Fatalf("something may begin while the host goes down: %v", err)
		}
		r.goesDown()
	}
	r.refuses = errors.New("it does not run systemd")
	if _, err := r.stackReboot(t.Context(), order("one", restart)); !errors.Is(err, r.refuses) {
		t.Error(err)
	}
	r.refuses = nil
	if _, err := r.stackReboot(t.Context(), order("one", restart)); err != nil || r.reboots != 1 {
		t.Errorf("%d restarts, %v", r.reboots, err)
	}
	// A client that did not get the answer asks again, through another helper; no other client gets
	// this answer.
	second := *r
	second.server = &server{host: r, stack: r.stack, store: r.store, kinds: r.kinds}
	if state, err := second.stackReboot(t.Context(), order("one", restart)); err != nil || state.Boot == "" || r.reboots != 1 {
		t.Errorf("%d restarts, %v", r.reboots, err)
	}
	if _, err := second.stackReboot(t.Context(), order("another", restart)); !heldBy(err, "another run") {
		t.Error(err)
	}
	up()
	over := order("one", restart)
	over.Boot = "the boot before"
	if state, err := r.stackReboot(t.Context(), over); err != nil || state.Boot == over.Boot || r.reboots != 1 {
		t.Errorf("a boot that is over was ended again: %+v, %v", state, err)
	}
	r.left = nil
	var e *agent.Error
	if _, err := r.stackReboot(t.Context(), order("two", restart)); !errors.As(err, &e) || !e.Stale || r.reboots != 1 {
		t.Errorf("somebody had restarted it: %v", err)
	}
	// What the order itself installed is the reason, also where nothing else tells of one.
	r.left = []resource.Change{install}
	if _, err := r.stackStart(t.Context(), order("three", install)); err != nil {
		t.Fatal(err)
	}
	r.whole(t)
	if _, err := r.stackReboot(t.Context(), order("three", restart)); err != nil || r.reboots != 2 {
		t.Errorf("%d restarts, %v", r.reboots, err)
	}
	up()
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestALogWithoutSpaceEndsNoProgram(t *testing.T) {
	j := &journal{path: filepath.Join(t.TempDir(), "job.json"), log: new(strings.Builder)}
	if err := j.Step("apt-get install"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(j, "# dpkg says a line like a step\n"); err != nil || j.job.Step != "apt-get install" {
		t.Errorf("%v, and the step is %q", err, j.job.Step)
	}
	j.log = full{}
	if n, err := io.WriteString(j, "Unpacking"); err != nil || n != len("Unpacking") {
		t.Errorf("a program would be ended: %d, %v", n, err)
	}
	if err := j.Step("dracut"); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("another one begins: %v", err)
	}
}

// bundle is one of this content.
func bundle(name, content string) calls.Bundle {
	sum := sha256.Sum256([]byte(content))
	return calls.Bundle{Name: name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))}
}

// TestAnUploadIsCheckedByItsSeal: what differs is removed, and nothing else becomes a bundle.
func TestAnUploadIsCheckedByItsSeal(t *testing.T) {
	b := bundle("new.tgz", "content")
	seal, _, err := calls.MakeSeal(strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	for content, whole := range map[string]bool{"content": true, "Content": false, "conten": false, "contents": false} {
		r := withBundle(t, b, "")
		part := filepath.Join(r.arrivals, b.Part())
		if err := os.WriteFile(part, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		to, err := r.bundleCheck(t.Context(), calls.UploadedBundle{Bundle: b, Seal: seal})
		if err != nil || to.Whole != whole {
			t.Errorf("%s: %+v, %v", content, to, err)
		}
		if _, err := os.Lstat(part); !os.IsNotExist(err) {
			t.Errorf("%s: it is left: %v", content, err)
		}
		if err := r.stack.has(b); (err == nil) != whole {
			t.Errorf("%s: %v", content, err)
		}
	}
	r := withBundle(t, b, "")
	if err := os.WriteFile(filepath.Join(r.arrivals, b.Part()), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if to, err := r.bundleCheck(t.Context(), calls.UploadedBundle{Bundle: b}); err == nil || to.Whole {
		t.Errorf("without a seal: %+v, %v", to, err)
	}
}

// TestBundlesGo: an upload removes other bundles, and an installation removes its own.
func TestBundlesGo(t *testing.T) {
	r := newRack(t, install)
	b := bundle("new.tgz", "x")
	if err := os.Mkdir(r.stack.bundles(), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(r.stack.bundles(), "old.tgz"), filepath.Join(r.stack.bundles(), b.Name), filepath.Join(r.arrivals, "old.tgz.0.part"), filepath.Join(r.arrivals, b.Part())} {
		if err := os.WriteFile(path, []byte("xx"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func() (names []string) {
		for _, dir := range []string{r.stack.bundles(), r.arrivals} {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				names = append(names, e.Name())
			}
		}
		return names
	}
	t.Setenv("SUDO_UID", strconv.Itoa(os.Getuid()))
	above := filepath.Dir(r.arrivals)
	if err := os.Chmod(above, 0o700); err != nil {
		t.Fatal(err)
	}
	if to, err := r.prepareUpload(t.Context(), b); err != nil || to.Path != filepath.Join(r.arrivals, b.Part()) {
		t.Fatal(to, err)
	}
	if got := there(); !slices.Equal(got, []string{b.Part()}) { // what has its name was another one
		t.Errorf("there are %q", got)
	}
	if err := os.WriteFile(filepath.Join(r.stack.bundles(), b.Name), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if to, err := r.prepareUpload(t.Context(), b); err != nil || !to.Whole {
		t.Error(to, err)
	}
	if info, err := os.Stat(above); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the login user cannot come to its folder: %v, %v", info.Mode(), err)
	}
	r.apply = func(resource.StepLog) error { return errors.New("it fails") }
	if _, err := r.stackStart(t.Context(), order("fails", install)); err != nil {
		t.Fatal(err)
	}
	r.whole(t)
	if got := there(); !slices.Equal(got, []string{b.Name, b.Part()}) {
		t.Errorf("after a failure there are %q", got)
	}
	r.apply = nil
	if _, err := r.stackStart(t.Context(), order("done", install)); err != nil {
		t.Fatal(err)
	}
	r.whole(t)
	if got := there(); len(got) > 0 {
		t.Errorf("after the installation there are %q", got)
	}
}

// TestABundleThatIsGoneIsNotInstalledFrom: another order had sent its own, and nothing was begun without it.
func TestABundleThatIsGoneIsNotInstalledFrom(t *testing.T) {
	r := newRack(t, install)
	r.apply = func(resource.StepLog) error { t.Error("it is installed"); return nil }
	if err := os.Mkdir(r.stack.bundles(), 0o700); err != nil {
		t.Fatal(err)
	}
	o := order("one", install)
	b := bundle("b.tgz", "xx")
	o.Bundle = &b
	for _, there := range []string{"", "x", "xy"} { // of another size, and of the same
		if there != "" {
			if err := os.WriteFile(filepath.Join(r.stack.bundles(), b.Name), []byte(there), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.stackStart(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the bundle b.tgz is missing on the host, or its content has changed") || r.journal(t.Context()) != nil {
			t.Errorf("%v, and the journal is %+v", err, r.journal(t.Context()))
		}
		r.whole(t)
	}
	r.apply = nil
	if err := os.WriteFile(filepath.Join(r.stack.bundles(), "b.tgz"), []byte("xx"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.stackStart(t.Context(), o); err != nil {
		t.Error(err)
	}
	r.whole(t)
}

// TestARestartIsNotCutByAnInterrupt: a reboot that has begun is completed, even if its client has disconnected.
func TestARestartIsNotCutByAnInterrupt(t *testing.T) {
	r := newRack(t, restart)
	ctx, cancel := context.WithCancel(t.Context())
	r.planned = cancel
	if _, err := r.stackReboot(ctx, order("one", restart)); err != nil || r.reboots != 1 || ctx.Err() == nil {
		t.Errorf("%d restarts, %v", r.reboots, err)
	}
}

// TestAnInstallationThatOnlyWaitsIsStuck: 10 minutes without output, bytes or processor time stand in the journal, until
// something moves again.
func TestAnInstallationThatOnlyWaitsIsStuck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.json")
	synctest.Test(t, func(t *testing.T) {
		j := &journal{path: path, log: new(strings.Builder)}
		if err := j.Step("dkms build"); err != nil {
			t.Fatal(err)
		}
		work := ""
		ctx, cancel := context.WithCancel(t.Context())
		go j.watch(ctx, func() (string, error) { return work, nil })
		stuck := func() bool {
			synctest.Wait()
			raw, err := os.ReadFile(path)
			var job resource.Installation
			if err != nil || json.Unmarshal(raw, &job) != nil || job.Step != "dkms build" {
				t.Fatalf("%v: %s", err, raw)
			}
			return job.Stuck
		}
		for minute, c := range []struct {
			wait time.Duration
			do   func()
			want bool
		}{
			{9 * time.Minute, func() { work = "12 ticks" }, false},
			{9 * time.Minute, func() { _, _ = io.WriteString(j, "Unpacking") }, false},
			{9 * time.Minute, func() {}, false},
			{2 * time.Minute, func() { work = "13 ticks" }, true},
			{time.Minute, func() {}, false},
		} {
			time.Sleep(c.wait)
			if got := stuck(); got != c.want {
				t.Errorf("%d: stuck is %v", minute, got)
			}
			c.do()
		}
		cancel()
	})
}
