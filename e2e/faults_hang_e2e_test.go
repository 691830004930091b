//go:build linux

package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/sys/unix"
)

// hang lets no process of a host open the fabric's record, so that the next action waits in the kernel, until the host
// begins to revert: a lease of the test's delays every open(2) of the file (fcntl(2), F_SETLEASE). waits returns when
// an action waits, and ended when the lease is given back.
func (l *faultLab) hang(host string) (waits, ended func()) {
	l.t.Helper()
	// A lease is of a file, not of its name: the overlay's own file has it.
	path := l.roots[host] + "/mnt/var-upper/lib/fabricform/" + l.name + ".json"
	// take takes the lease of the file that has the name now; nil while the helper has it open, or replaces it.
	take := func() *os.File {
		f, err := os.Open(path)
		if err != nil {
			return nil
		}
		if _, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err == nil {
			return f
		}
		f.Close()
		return nil
	}
	// replaced is true if the name belongs to another file: an action that had read the record before the lease writes a new one.
	replaced := func(f *os.File) bool {
		held, _ := f.Stat()
		now, err := os.Lstat(path)
		return err == nil && !os.SameFile(held, now)
	}
	waiting, done, steady := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var f *os.File
		var since time.Time
		told, held := false, false
		for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if f != nil && replaced(f) {
				f.Close()
				f = nil
			}
			if f == nil {
				f, since = take(), time.Now()
				continue
			}
			if !held && time.Since(since) > 3*time.Second {
				held = true
				close(steady)
			}
			// Once a process waits for the end of the lease, F_GETLEASE returns another type than F_WRLCK.
			if kind, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0); err == nil && kind != unix.F_WRLCK && !told {
				told = true
				close(waiting)
			}
			if state, _ := l.tx(host); state == "reverting" {
				break
			}
		}
		if f != nil {
			f.Close()
		}
	}()
	// The client is stopped: the action that runs ends, and its last write of the record with it.
	select {
	case <-steady:
	case <-waiting:
	case <-done:
		l.t.Error("the record could not be held")
	}
	waits = func() {
		l.t.Helper()
		select {
		case <-waiting:
		case <-done:
			l.t.Error("no action waited for the record")
		}
	}
	return waits, func() { <-done }
}

// hangRows: something never returns.
func hangRows() (rows []faultRow) {
	add := func(name string, short bool, do func(l *faultLab)) { rows = append(rows, faultRow{name, short, do}) }
	add("an SSH agent that falls silent", true, func(l *faultLab) {
		var silent atomic.Bool
		l.agent = filepath.Join(l.t.TempDir(), "agent")
		serve, err := net.Listen("unix", l.agent)
		if err != nil {
			l.t.Fatal(err)
		}
		defer serve.Close()
		go func() {
			for {
				c, err := serve.Accept()
				if err != nil {
					return
				}
				if silent.Load() {
					defer c.Close() // nothing else refers to it: it would be closed early
				} else {
					go agent.ServeAgent(agent.NewKeyring(), c)
				}
			}
		}()
		fabric := l.variant("ssh {\n", "ssh {\n  connect_timeout = \"1s\"\n")
		const says = "accepts connections, but does not answer within 1s"
		var at time.Time
		l.applyOf(fabric, 2, func(*os.Process) { silent.Store(true); at = time.Now() }, "-lease", shortLease.String()).want(l.t, 6, says, "a, b  reverted")
		l.back(at, byItsLease)
		// env(1) sets the agent: try sets none.
		tryCommand(l.t, l.state, exec.Command("env", "SSH_AUTH_SOCK="+l.agent, bin, "plan", "-lab", fabric)).want(l.t, 4, says)
	})
	add("a second Ctrl-C in a step that never returns", true, func(l *faultLab) {
		for last := 2; ; last-- {
			var at time.Time
			ended := func() {}
			a := l.apply(2, func(client *os.Process) {
				var waits func()
				waits, ended = l.hang("a")
				_ = client.Signal(syscall.SIGCONT)
				waits()
				_ = client.Signal(os.Interrupt)
				l.awaitWord("Interrupt again") // two signals at once are one
				_ = client.Signal(os.Interrupt)
				at = time.Now()
			})
			l.t.Logf("figure: %s: the program left %.2f s after the second interrupt", l.t.Name(), time.Since(at).Seconds())
			ended()
			l.back(at, byItsLease)
			// On a machine that stood still, the program left in time, and without a word.
			if a.code != 7 || strings.Contains(a.err, "interrupted twice") || last == 0 {
				a.want(l.t, 7, "a  lost: the host does not answer; if its transaction is still open, it reverts automatically by ", "b  reverted: interrupted twice", "run `fabricform pending -lab")
				return
			}
		}
	})
	add("a step that never returns", true, func(l *faultLab) {
		var at time.Time
		ended := func() {}
		l.applyOf(l.fabric, 2, func(*os.Process) {
			_, ended = l.hang("a")
			at = time.Now()
		}, "-lease", longLease.String()).want(l.t, 6, "the step is stuck: it has not returned after 35s", "a, b  reverted", "every host that it changed was rolled back")
		ended()
		l.back(at, byItsLease)
	})
	return rows
}
