//go:build linux

package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/sys/unix"
)

// hang lets no process of a host open the fabric's record, so that the next action waits in the kernel, until the host
// begins to revert: a lease of the test's delays every open(2) of the file (fcntl(2), F_SETLEASE). wait waits for that.
func (l *faultLab) hang(host string) (wait func()) {
	l.t.Helper()
	// A lease is of a file, not of its name: the overlay's own file has it.
	path := l.roots[host] + "/mnt/var-upper/lib/fabricform/" + l.name + ".json"
	for end := time.Now().Add(10 * time.Second); ; {
		f, err := os.Open(path)
		if err == nil {
			_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK) // it fails while the helper has the file open
		}
		if err == nil {
			held, _ := f.Stat()
			if now, lost := os.Lstat(path); lost == nil && os.SameFile(held, now) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
						if state, _ := l.tx(host); state == "reverting" {
							break
						}
					}
					f.Close()
				}()
				return func() { <-done }
			}
		}
		if f != nil {
			f.Close()
		}
		if time.Now().After(end) {
			l.t.Fatalf("hold %s: %v", path, err)
		}
	}
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
		var at time.Time
		wait := func() {}
		l.apply(2, func(client *os.Process) {
			wait = l.hang("a")
			time.Sleep(time.Second) // the action that has entered its values ends, and the next one hangs
			_ = client.Signal(os.Interrupt)
			time.Sleep(300 * time.Millisecond) // two signals at once are one
			_ = client.Signal(os.Interrupt)
			at = time.Now()
		}).want(l.t, 7, "a  lost: the host does not answer; if its transaction is still open, it reverts automatically by ", "b  reverted: interrupted twice", "run `fabricform pending -lab")
		l.t.Logf("figure: %s: the program left %.2f s after the second interrupt", l.t.Name(), time.Since(at).Seconds())
		wait()
		l.back(at, byItsLease)
	})
	add("a step that never returns", true, func(l *faultLab) {
		var at time.Time
		wait := func() {}
		l.applyOf(l.fabric, 2, func(*os.Process) {
			wait = l.hang("a")
			at = time.Now()
		}, "-lease", longLease.String()).want(l.t, 6, "the step is stuck: it has not returned after 35s", "a, b  reverted", "every host that it changed was rolled back")
		wait()
		l.back(at, byItsLease)
	})
	return rows
}
