package checkpoint

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func self(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(must[string](t)(os.Executable()), args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// atFullSize is a number of rounds: a quarter of it, but in `make long`.
func atFullSize(rounds int) int {
	if os.Getenv("FABRICFORM_LONG") != "" {
		return rounds
	}
	return rounds / 4
}

func TestProcessesRaceForTransactions(t *testing.T) {
	t.Parallel()
	dir, each := quick(t), atFullSize(250)
	var all sync.WaitGroup
	for range 4 {
		cmd := self(t, "child", "race", dir, strconv.Itoa(each))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list := must[[]*Transaction](t)(NewStore(dir, Now).List())
	if last := list[len(list)-1]; counter(last.ID) != 4*each {
		t.Errorf("%d transactions were won, wanted %d", counter(last.ID), 4*each)
	}
}

func TestKilledWriterLeavesAWholeFile(t *testing.T) {
	t.Parallel()
	s := NewStore(quick(t), Now)
	tx := must[*Transaction](t)(s.Begin(Request{Fabric: "f", Lease: time.Hour}))
	dice := rand.New(rand.NewPCG(1, 2))
	deadlines := map[time.Duration]bool{}
	for range atFullSize(60) {
		cmd := self(t, "child", "beat", s.dir, tx.ID, tx.Token)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.After(20*time.Millisecond + time.Duration(dice.IntN(20_000))*time.Microsecond)
		for killed := false; !killed; {
			select {
			case <-kill:
				killed = true
			default:
				deadlines[must[*Transaction](t)(s.Read(tx.ID)).Deadline] = true
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		must[*Transaction](t)(s.Read(tx.ID))
		must[*Transaction](t)(s.Beat(tx.ID, tx.Token)) // the dead one's lock is free
	}
	if len(deadlines) < atFullSize(60) {
		t.Errorf("only %d different files were seen: nothing was written while reading", len(deadlines))
	}
}

// smallDisk mounts one MiB of memory, in a mount namespace of the test's own.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root, and CI must have it")
		}
		t.Skip("needs root for a mount namespace")
	}
	dir := t.TempDir()
	runtime.LockOSThread() // and never unlocked: the thread ends with the test, and the namespace with it
	before := must[string](t)(os.Readlink("/proc/thread-self/ns/mnt"))
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		t.Fatal(err)
	}
	if must[string](t)(os.Readlink("/proc/thread-self/ns/mnt")) == before {
		t.Fatal("still in the machine's own mount namespace")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func fill(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
}

func TestFullDiskIsFoundBeforeAnyChange(t *testing.T) {
	dir := smallDisk(t)
	s := NewStore(filepath.Join(dir, "transactions"), Now)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "ballast"))
	if _, err := s.Begin(Request{Fabric: "f"}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("begun on a full disk: %v", err)
	}
	if all := must[[]*Transaction](t)(s.List()); len(all) != 0 {
		t.Error(all)
	}
	left := must[[]string](t)(filepath.Glob(filepath.Join(s.dir, "*")))
	if len(left) != 1 || !strings.HasSuffix(left[0], "lock") {
		t.Errorf("left behind: %v", left)
	}
}

func TestFullDiskDoesNotKeepTheHostFromGoingBack(t *testing.T) {
	dir := smallDisk(t)
	s := NewStore(filepath.Join(dir, "transactions"), Now)
	tx := begun(t, s)
	must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, &Backup{Version: backupVersion}))
	fill(t, filepath.Join(dir, "ballast"))
	if got := must[*Transaction](t)(s.Revert(t.Context(), tx.ID, Revert, "", nothing)); got.State != Reverted {
		t.Error(got.State)
	}
	if got := must[*Transaction](t)(s.Read(tx.ID)); got.State != Reverted {
		t.Error(got.State)
	}
}

func TestReadOnlyDiskIsRevertedAllTheSameAndToldLater(t *testing.T) {
	dir := smallDisk(t)
	s := NewStore(filepath.Join(dir, "transactions"), Now)
	tx := begun(t, s)
	must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, &Backup{Version: backupVersion}))
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Beat(tx.ID, tx.Token); err == nil {
		t.Error("a lease was renewed that nobody else sees")
	}
	restored := 0
	count := func(_ context.Context, _ *Backup) ([]string, error) { restored++; return nil, nil }
	if _, err := s.Revert(t.Context(), tx.ID, Revert, "", count); !errors.Is(err, syscall.EROFS) {
		t.Errorf("not told: %v", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	if got := must[*Transaction](t)(s.Revert(t.Context(), tx.ID, Revert, "", count)); got.State != Reverted {
		t.Error(got.State)
	}
	if restored != 2 {
		t.Errorf("restored %d times: once on the disk that cannot be written, and once to tell of it", restored)
	}
}
