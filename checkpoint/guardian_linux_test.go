package checkpoint

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/lock"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/resource"
)

// machine is a host in a network namespace of the test's own, with a cable and addresses on it.
func machine(t *testing.T) host.Host {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("kernel tests need root, and CI must have it")
		}
		t.Skip("kernel tests need root")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test, and the namespace with it
	before := must[string](t)(os.Readlink("/proc/thread-self/ns/net"))
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	if must[string](t)(os.Readlink("/proc/thread-self/ns/net")) == before {
		t.Fatal("still in the machine's own network namespace")
	}
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "ff0"}, PeerName: "ff1"}); err != nil {
		t.Fatal(err)
	}
	ip(t, "link set ff1 up", "link set ff0 up", "addr add 10.0.0.1/24 dev ff0", "addr add 10.0.0.2/24 dev ff0", "addr add fd00::1/64 dev ff0 nodad",
		"route add 10.9.0.0/16 via 10.0.0.9 metric 7", "route add 10.8.0.0/16 dev ff0 table 100", "rule add from 10.0.0.2 lookup 100 priority 500")
	time.Sleep(2500 * time.Millisecond) // until the link-local addresses are no longer tentative
	return must[host.Host](t)(host.Open())
}

func ip(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", c, err, out)
		}
	}
}

func portrait(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, c := range []string{"-d -j link", "-d -j addr", "-d -j route show table all", "-d -j -6 route show table all", "-d -j rule", "-d -j -6 rule"} {
		out.Write(must[[]byte](t)(exec.Command("ip", strings.Fields(c)...).Output()))
	}
	return out.String()
}

// armed begins a transaction with a short lease, a stand-in for the helper, a backup and guardians.
func armed(t *testing.T, h host.Host, lease time.Duration, guardians int) (*Store, *Transaction, *exec.Cmd) {
	t.Helper()
	helper := exec.Command("sleep", "60")
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = helper.Process.Kill(); _ = helper.Wait() })
	s := NewStore(quick(t), Now)
	tx := must[*Transaction](t)(s.Begin(Request{Fabric: "f", Lease: lease, Helper: &Helper{must[process.ID](t)(process.Find(helper.Process.Pid))}}))
	backup := must[*Backup](t)(TakeBackup(t.Context(), h, providers.Kinds(), []resource.Atom{"nic ff0 mtu", "policy_route rule 500 100 10.0.0.2/32 all"}, nil))
	must[*Transaction](t)(s.SaveBackup(tx.ID, tx.Token, backup))
	for range guardians {
		if err := s.Arm(t.Context(), must[string](t)(os.Executable()), tx); err != nil {
			t.Fatal(err)
		}
	}
	return s, tx, helper
}

// ended waits for a transaction's end, and says how long after the moment it came.
func ended(t *testing.T, s *Store, id string, since time.Time) (*Transaction, time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if tx := must[*Transaction](t)(s.Read(id)); !tx.State.Open() || tx.State == RevertFailed {
			return tx, time.Since(since)
		}
	}
	t.Fatal("it never ended")
	return nil, 0
}

func restores(t *testing.T, s *Store) int {
	raw, _ := os.ReadFile(filepath.Join(s.dir, "restores"))
	return strings.Count(string(raw), "\n")
}

func TestGuardianTakesTheHostBack(t *testing.T) {
	for name, c := range map[string]struct {
		guardians  int
		killHelper bool
	}{"helper killed": {1, true}, "helper alive": {1, false}, "two guardians": {2, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := machine(t)
			before := portrait(t)
			const lease = 2 * time.Second
			s, tx, helper := armed(t, h, lease, c.guardians)
			ip(t, "addr flush dev ff0", "link set ff0 mtu 1000", "link set ff0 down", "rule del priority 500", "route flush table 100")
			if portrait(t) == before {
				t.Fatal("nothing was disturbed")
			}
			beaten := time.Now()
			must[*Transaction](t)(s.Beat(tx.ID, tx.Token))
			if c.killHelper {
				_ = helper.Process.Kill()
				_ = helper.Wait()
			}
			got, took := ended(t, s, tx.ID, beaten)
			t.Logf("figure: %s, with a lease of %s: back %.2f s after the last beat: %s; %s", t.Name(), lease, took.Seconds(), got.State, got.Why)
			if got.State != Reverted || took < lease {
				t.Errorf("%s after the last beat: %+v", took, got)
			}
			if after := portrait(t); after != before {
				t.Errorf("not as before:\n%s\nwas\n%s", after, before)
			}
			if !c.killHelper {
				if err := helper.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
					t.Errorf("the helper was not stopped: %v", err)
				}
			}
			time.Sleep(200 * time.Millisecond)
			if n := restores(t, s); n != 1 {
				t.Errorf("restored %d times", n)
			}
		})
	}
}

func TestGuardianLeavesACommittedHostAlone(t *testing.T) {
	t.Parallel()
	h := machine(t)
	s, tx, helper := armed(t, h, 2*time.Second, 1)
	ip(t, "link set ff0 mtu 4000")
	after := portrait(t)
	for range 12 { // longer than the lease: it is renewed
		time.Sleep(250 * time.Millisecond)
		must[*Transaction](t)(s.Beat(tx.ID, tx.Token))
	}
	for _, step := range []func(string, string) (*Transaction, error){prepareTo(s), s.Persist, commitTo(s)} {
		must[*Transaction](t)(step(tx.ID, tx.Token))
	}
	time.Sleep(2500 * time.Millisecond)
	if restores(t, s) != 0 || portrait(t) != after {
		t.Error("a committed host was taken back")
	}
	if !lives(helper) {
		t.Error("the helper was stopped")
	}
}

// lives reports whether a child runs. Signals also reach one that has ended and was not waited for.
func lives(child *exec.Cmd) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child.Process.Pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// TestAGuardianLooksAgain: it judged by what it had read before it stood still, and the lease was renewed meanwhile.
func TestAGuardianLooksAgain(t *testing.T) {
	t.Parallel()
	s, tx, helper := armed(t, machine(t), time.Minute, 0)
	before := *tx
	before.Deadline = 1
	if done, err := (Guardian{Store: s}).goBack(t.Context(), &before); done || err != nil || !lives(helper) {
		t.Errorf("the helper of a renewed lease was stopped, or its transaction reverted: %v, %v", done, err)
	}
}

// A revert that dies half way is done again by whoever comes next.
func TestRevertCutShortIsDoneAgain(t *testing.T) {
	t.Parallel()
	h := machine(t)
	before := portrait(t)
	s, tx, _ := armed(t, h, time.Second, 0)
	ip(t, "link set ff0 down")
	_, _, err := s.beginRevert(tx.ID, Revert, "cut short")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if err := (Guardian{Store: s, Restore: func(ctx context.Context, backup *Backup) ([]string, error) {
		return backup.Restore(ctx, h, providers.Kinds())
	}}).Watch(t.Context(), tx.ID); err != nil {
		t.Error(err)
	}
	if got := must[*Transaction](t)(s.Read(tx.ID)); got.State != Reverted || got.Why != "cut short" || portrait(t) != before {
		t.Errorf("%+v", got)
	}
}

func TestRehearsalIsSeenToFire(t *testing.T) {
	t.Parallel()
	s := NewStore(quick(t), Now)
	fired := must[[]Fired](t)(s.Rehearse(t.Context(), must[string](t)(os.Executable()), 300*time.Millisecond))
	if len(fired) != len(lines()) || fired[0].Line != "guardian" || fired[0].Late < 0 || fired[0].Late > time.Second {
		t.Errorf("%+v", fired)
	}
	t.Logf("%+v", fired)
	if left := must[[]string](t)(filepath.Glob(filepath.Join(s.dir, "rehearsal*"))); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRehearsalFindsAHelperThatMayNotRun(t *testing.T) {
	t.Parallel()
	for _, helper := range []string{"/bin/false", filepath.Join(t.TempDir(), "absent")} {
		s := NewStore(quick(t), Now)
		if fired, err := s.Rehearse(t.Context(), helper, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "guardian did not fire") {
			t.Errorf("%s: %v, %v", helper, fired, err)
		}
	}
}

// TestAGuardianDoesNotEndARevert: the lease ends while another process reverts, which may wait for a network manager. The guardian waits for it.
func TestAGuardianDoesNotEndARevert(t *testing.T) {
	t.Parallel()
	h := machine(t)
	const lease = 2 * time.Second
	s, tx, helper := armed(t, h, lease, 1)
	unlock := must[func()](t)(lock.Acquire(s.revertLock()))
	ended := make(chan error, 1)
	go func() { ended <- helper.Wait() }()
	select {
	case err := <-ended:
		t.Errorf("the helper was stopped while it reverted: %v", err)
	case <-time.After(lease + 3*time.Second):
	}
	unlock()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && must[*Transaction](t)(s.Read(tx.ID)).State.Open(); {
		time.Sleep(10 * time.Millisecond)
	}
	if got := must[*Transaction](t)(s.Read(tx.ID)); got.State != Reverted {
		t.Errorf("the process that reverted has ended without a result: %+v", got)
	}
}
