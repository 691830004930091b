package transport

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asAnotherUser runs do on a thread that belongs to another user. It needs root.
func asAnotherUser(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 12345, ^uintptr(0))
		if errno == 0 {
			do()
			done <- nil
			return
		}
		done <- errno
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestOnlyTheSameUserSpeaksToAKeeper: another user gets no answer, even where the permissions let the connection through, and what another
// user answers is not read.
func TestOnlyTheSameUserSpeaksToAKeeper(t *testing.T) {
	dir := t.TempDir()
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	listen := func(name string) *net.UnixListener {
		t.Helper()
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(func() { l.Close() })
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			t.Error(err)
		}
		return l
	}
	k := &keeper{kept: map[string]*keptConnection{"x": {Kept: Kept{Key: "x", Host: "h"}}}, changed: make(chan struct{}, 1)}
	ours := listen("ours")
	go k.accept(ours)
	list := keepRequest{Do: doList}
	if _, answer, err := ask(t.Context(), ours.Addr().String(), list, answerPatience); err != nil || len(answer.Kept) != 1 {
		t.Fatalf("%v, %v", answer, err)
	}
	asAnotherUser(t, func() {
		c, err := net.DialUnix("unix", nil, ours.Addr().(*net.UnixAddr))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		s := newSocket(c)
		_ = s.writeJSON(list) // the keeper may have closed it already
		var answer keepAnswer
		if err := s.readJSON(&answer, answerPatience); err == nil {
			t.Errorf("another user is told %v", answer)
		}
	})
	var theirs *net.UnixListener
	asAnotherUser(t, func() { theirs = listen("theirs") })
	go (&keeper{changed: make(chan struct{}, 1)}).accept(theirs)
	_, _, err := ask(t.Context(), theirs.Addr().String(), list, answerPatience)
	if err == nil || !strings.Contains(err.Error(), "belongs to user ID 12345") {
		t.Errorf("another user's keeper: %v", err)
	}
}

// TestANetworkNamespaceHasItsOwnConnections: the same address may be another host there.
func TestANetworkNamespaceHasItsOwnConnections(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network namespace")
	}
	here, there := networkNamespace(), make(chan string)
	go func() {
		defer close(there)
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		there <- networkNamespace()
	}()
	if other := <-there; other == here || !strings.HasPrefix(other, "net:[") || !strings.HasPrefix(here, "net:[") {
		t.Errorf("here %q, there %q", here, other)
	}
}

// TestAKeeperWithoutFilesServesLater: it says that it cannot log in, so that the command does, and serves again once it has files.
func TestAKeeperWithoutFilesServesLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := &keeper{dialer: new(Dialer), kept: map[string]*keptConnection{}, changed: make(chan struct{}, 1)}
	go k.accept(l)
	near, _ := pair(t)
	defer near.Close()

	currentUser() // which os/user reads once, and which other tests need
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = 128
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var all []*os.File
	restore := func() {
		for _, f := range all {
			_ = f.Close()
		}
		all = nil
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}
	defer restore()
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, unix.EMFILE) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	answer := k.login(near, keepRequest{Key: "x", Way: []hop{{Target: Target{Name: "h", Address: "127.0.0.1", Port: 1}}}})
	if answer.Failed || !strings.Contains(answer.Error, "too many open files") {
		t.Errorf("a login without files: %+v", answer)
	}
	_ = all[0].Close()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"}) // has the last file
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-time.After(2 * acceptPause)
	restore()
	if _, _, err := ask(t.Context(), path, keepRequest{Do: doList}, answerPatience); err != nil {
		t.Errorf("with files again: %v", err)
	}
}
