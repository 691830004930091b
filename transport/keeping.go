package transport

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// Keeping makes a Dialer use the connections that keepers of the same user have, and keep its own. If that fails, the Dialer logs in
// itself. Safe for concurrent use.
type Keeping struct {
	For     time.Duration // how long new connections are kept; 0: none is, and only those of earlier commands are used
	Build   string        // of this program
	Network string        // what addresses depend on beside the network namespace, such as the name of a lab; may be empty
	Program []string      // the arguments that make this program a keeper

	look  sync.Once
	mu    sync.Mutex
	kept  map[string]place  // by key
	files map[string]string // hashes of files that were read

	start  sync.Once
	keeper string   // the socket of this command's own keeper
	failed error    // why it has none
	hold   *os.File // open while this command runs, which the keeper notices
}

// place is a kept connection, and its keeper's socket.
type place struct {
	socket string
	kept   Kept
}

// use returns a kept connection over this way, or a new one that is kept. It returns nil if there is neither, and an error if the host
// cannot be used.
func (k *Keeping) use(ctx context.Context, d *Dialer, way []resolved) (*connection, error) {
	k.look.Do(func() { k.find(ctx) })
	k.mu.Lock()
	none := len(k.kept) == 0
	k.mu.Unlock()
	if none && k.For == 0 {
		return nil, nil
	}
	t := way[len(way)-1]
	key, err := k.key(way)
	if err != nil {
		return nil, nil // a file that cannot be read: the login says so
	}
	k.mu.Lock()
	at, found := k.kept[key]
	k.mu.Unlock()
	if found {
		proven, err := proveAgain(way, at.kept.Proven)
		if err == nil {
			c := newKept(ctx, at, t, proven)
			c.saved = at.kept.Made
			return c, nil
		}
		d.progress(t.Name, "the kept connection cannot be used: %v", err)
	}
	if k.For == 0 {
		return nil, nil
	}
	k.start.Do(func() { k.keeper, k.failed = k.startKeeper() })
	if k.failed != nil {
		d.progress(t.Name, "the connection cannot be kept: %v", k.failed)
		return nil, nil
	}
	request, patience := keepRequest{Do: doLogin, Key: key}, answerPatience
	for _, r := range way {
		request.Way, patience = append(request.Way, r.from), patience+r.ConnectTimeout
	}
	s, answer, err := ask(ctx, k.keeper, request, patience)
	if err == nil {
		_ = s.Close()
	}
	switch {
	case answer.Failed:
		return nil, errors.New(neutral(answer.Error))
	case err == nil && len(answer.Kept) != 1:
		err = errors.New("unexpected answer")
	}
	var proven []ssh.PublicKey
	if err == nil {
		at = place{k.keeper, answer.Kept[0]}
		proven, err = proveAgain(way, at.kept.Proven)
	}
	if err != nil {
		d.progress(t.Name, "the connection cannot be kept: %v", err)
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept[key] = at
	return newKept(ctx, at, t, proven), nil
}

// proveAgain checks the keys with which the hosts of a way proved themselves by known_hosts as it is now.
func proveAgain(way []resolved, proven [][]byte) ([]ssh.PublicKey, error) {
	if len(proven) != len(way) {
		return nil, errors.New("unexpected number of host keys")
	}
	var keys []ssh.PublicKey
	for i, r := range way {
		key, err := ssh.ParsePublicKey(proven[i])
		if err != nil {
			return nil, err
		}
		addr := net.JoinHostPort(r.Address, strconv.Itoa(r.Port))
		check, _, err := r.hostKeys(addr)
		if err == nil {
			err = check(addr, nil, key)
		}
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// newKept returns a kept connection for this command.
func newKept(ctx context.Context, at place, t resolved, proven []ssh.PublicKey) *connection {
	c := &connection{client: newRelayed(at, t.User).sshClient(), user: t.User, proven: proven, dialled: at.kept.Dialled,
		login: at.kept.Login, patience: max(keepAlivePatience, t.from.Target.ConnectTimeout), kept: &at, ended: make(chan struct{})}
	go c.watch(ctx)
	return c
}

// forget drops a kept connection on which the helper did not start.
func (k *Keeping) forget(at place) {
	k.mu.Lock()
	delete(k.kept, at.kept.Key)
	k.mu.Unlock()
	if s, _, err := ask(context.Background(), at.socket, keepRequest{Do: doEnd, Key: at.kept.Key}, answerPatience); err == nil {
		_ = s.Close()
	}
}

// find lists what the keepers of this build have.
func (k *Keeping) find(ctx context.Context) {
	k.kept, k.files = map[string]place{}, map[string]string{}
	sockets, err := keepers()
	if err != nil {
		return // nothing is kept there
	}
	for _, path := range sockets {
		if !strings.HasPrefix(filepath.Base(path), k.Build+"-") {
			continue
		}
		s, answer, err := ask(ctx, path, keepRequest{Do: doList}, answerPatience)
		if err != nil {
			continue
		}
		_ = s.Close()
		for _, c := range answer.Kept {
			k.kept[c.Key] = place{path, c}
		}
	}
}

// key identifies a connection by all that it is made from: only if all of it is the same may a kept one stand for a new one. The hosts'
// keys and known_hosts are not part of it, because proveAgain compares them.
func (k *Keeping) key(way []resolved) (string, error) {
	h := sha256.New()
	to := json.NewEncoder(h)
	all := []any{k.Build, k.Network, networkNamespace(), home("~/")}
	for _, r := range way {
		from := r.from
		from.Conf = maps.Clone(from.Conf)
		maps.DeleteFunc(from.Conf, varies)
		all = append(all, from, r.Address, r.Port, r.User, r.identityAgent)
		for _, path := range r.identities {
			all = append(all, path)
			for _, file := range []string{home(path), home(path) + ".pub"} {
				sum, err := k.hash(file)
				if err != nil {
					return "", err
				}
				all = append(all, sum)
			}
		}
		if r.proxyCommand != "" {
			dir, err := os.Getwd()
			if err != nil {
				return "", err
			}
			all = append(all, dir, slices.Sorted(slices.Values(os.Environ())))
		}
	}
	if err := to.Encode(all); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// varies reports whether the value of a keyword depends on which host of those that share an answer was asked about, and on how it was. No
// login depends on these.
func varies(keyword string, _ []string) bool {
	switch keyword {
	case "host", "hostname", "loglevel":
		return true
	case "proxycommand":
		return false
	}
	return slices.Contains(unused, keyword)
}

// hash returns the hash of a file as this command has first read it, or "" if there is none.
func (k *Keeping) hash(path string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum, known := k.files[path]
	if !known {
		var err error
		if sum, _, err = HashFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		k.files[path] = sum
	}
	return sum, nil
}

// startKeeper starts a keeper in the background, and returns its socket. The keeper inherits the listening socket, so that it can be
// asked at once.
func (k *Keeping) startKeeper() (path string, err error) {
	folder, err := makeKeepFolder()
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	nonce := make([]byte, 4)
	if _, err := rand.Read(nonce); err != nil {
		return "", err
	}
	path = filepath.Join(folder, k.Build+"-"+hex.EncodeToString(nonce)+".sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }() // the keeper has its own
	l.SetUnlinkOnClose(false)
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if err := os.Chmod(path, 0o600); err != nil {
		return "", err
	}
	inherited, err := l.File()
	if err != nil {
		return "", err
	}
	defer inherited.Close()
	command, hold, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer command.Close()
	cmd := exec.Command(self, k.Program...)
	cmd.Stdin, cmd.ExtraFiles = command, []*os.File{inherited}
	if err = inOwnSession(cmd); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = hold.Close()
		return "", err
	}
	k.hold = hold
	go func() { _ = cmd.Wait() }() // ends with the keeper or with this program
	return path, nil
}

// ask sends a request to a keeper and returns its answer, and the connection for what follows it. The keeper must belong to this user.
func ask(ctx context.Context, path string, r keepRequest, patience time.Duration) (*socket, keepAnswer, error) {
	var answer keepAnswer
	conn, err := (&net.Dialer{Timeout: answerPatience}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, answer, err
	}
	s := newSocket(conn.(*net.UnixConn))
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	if err = checkPeer(s.UnixConn); err == nil {
		err = s.writeJSON(r)
	}
	if err == nil {
		err = s.readJSON(&answer, patience)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil && answer.Error != "" {
		err = errors.New(neutral(answer.Error))
	}
	if err != nil {
		_ = s.Close()
		return nil, answer, err
	}
	return s, answer, nil
}

// keepFolder returns the folder of the keepers' sockets, which may not exist. The error says why there can be none.
func keepFolder() (string, error) {
	if err := keepSupported(); err != nil {
		return "", err
	}
	above := os.Getenv("XDG_RUNTIME_DIR")
	const cure = "set it to a folder of your own with mode 0700"
	if !filepath.IsAbs(above) {
		return "", fmt.Errorf("XDG_RUNTIME_DIR is not set to an absolute path: %s", cure)
	}
	info, err := os.Stat(above)
	if err != nil {
		return "", fmt.Errorf("XDG_RUNTIME_DIR: %w: %s", err, cure)
	}
	if err := private(info, 0o022); err != nil {
		return "", fmt.Errorf("XDG_RUNTIME_DIR: %s %w: %s", above, err, cure)
	}
	folder := filepath.Join(above, "fabricform-keep")            // a host has its helper in fabricform
	const longest = 103 - len("/0123456789abcdef-01234567.sock") // of the path of a socket, on macOS
	if len(folder) > longest {
		return "", fmt.Errorf("XDG_RUNTIME_DIR: the path %s is too long for a socket: set it to a shorter one", above)
	}
	if info, err = os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
		return folder, nil
	} else if err != nil {
		return "", err
	}
	if err := private(info, 0o077); err != nil {
		return "", fmt.Errorf("%s %w: remove it, or give it mode 0700 if it is yours", folder, err)
	}
	return folder, nil
}

// makeKeepFolder returns the folder of the keepers' sockets, which it makes if it does not exist.
func makeKeepFolder() (string, error) {
	folder, err := keepFolder()
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the folder of the sockets: %w", err)
	}
	return keepFolder() // another user may have made it
}

// CanKeep returns an error that says why connections cannot be kept here.
func CanKeep() error {
	_, err := makeKeepFolder()
	return err
}

// private returns an error that says why a folder is not this user's alone, if others have one of the permissions in barred.
func private(info fs.FileInfo, barred fs.FileMode) error {
	switch owner := ownerOf(info); {
	case !info.IsDir():
		return errors.New("is not a folder")
	case owner != os.Geteuid():
		return fmt.Errorf("belongs to user ID %d, not to you (%d)", owner, os.Geteuid())
	case info.Mode().Perm()&barred != 0:
		return fmt.Errorf("has mode %#o, which lets other users in", info.Mode().Perm())
	}
	return nil
}

// keepers returns the sockets of all keepers of this user.
func keepers() ([]string, error) {
	folder, err := keepFolder()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []string
	for _, e := range entries {
		if e.Type() == fs.ModeSocket {
			all = append(all, filepath.Join(folder, e.Name()))
		}
	}
	return all, err
}

// Disconnect tells all keepers of this user to end, and returns the connections that they kept. A connection that a command is using is
// closed when that command ends. A keeper that does not answer loses its socket, so that nobody uses what it keeps, and that it ends when it
// runs again.
func Disconnect(ctx context.Context) (ended []Kept, err error) {
	sockets, err := keepers()
	for _, path := range sockets {
		s, answer, failed := ask(ctx, path, keepRequest{Do: doEnd}, answerPatience)
		switch {
		case failed == nil:
			_ = s.Close()
			ended = append(ended, answer.Kept...)
		case errors.Is(failed, fs.ErrNotExist):
			failed = nil
		case errors.Is(failed, syscall.ECONNREFUSED): // its keeper was killed
			failed = removed(path)
		case ctx.Err() == nil:
			failed = errors.Join(fmt.Errorf("it does not answer, and ends when it runs again: %w", failed), removed(path))
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("end what %s keeps: %w", path, failed))
		}
	}
	return ended, err
}

// removed removes a socket, which may be gone already.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
