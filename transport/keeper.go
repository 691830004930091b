package transport

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// A keeper is a background process of the command that makes connections. It logs in for this command, with the environment that both
// have, and keeps the connections for later commands of the same user. A command gets sessions on them and nothing else: keys and the
// agent are used in the keeper, and never pass its socket.

// keepRequest is what a command asks a keeper.
type keepRequest struct {
	Do  string
	Key string // of the connection
	Way []hop  // the hosts to log in to, for doLogin
}

// What a keeper does. Commands and keepers of all builds must understand doEnd, and its answer.
const (
	doList  = "list"  // say which connections it keeps
	doLogin = "login" // log in and keep the connection
	doOpen  = "open"  // open a session on a kept connection; frames of the session follow the answer
	doEnd   = "end"   // keep a connection, or with an empty key all of them, no longer
)

// keepAnswer is what a keeper answers.
type keepAnswer struct {
	Error  string // why it failed; "" if it did not
	Failed bool   // because of the host, as it would fail for the command itself
	Kept   []Kept
}

// Kept is a connection that a keeper has.
type Kept struct {
	Key      string
	Host     string         // the fabric's name of the host
	Proven   [][]byte       // the keys, in SSH's format, with which the hosts on the way proved themselves
	Dialled  netip.AddrPort // see Session.Dialled
	Login    time.Duration  // how long the login took
	Made     time.Duration  // how long the whole connection took
	Patience time.Duration  // how long the host may take to open or end a session: a slow host gets longer, as for all answers
	InUse    bool           // by a command
}

// maxKept is how many connections a keeper keeps at most.
const maxKept = 1024

// keeper is the state of the process.
type keeper struct {
	dialer *Dialer
	keep   time.Duration
	socket string // its path

	mu      sync.Mutex
	kept    map[string]*keptConnection // by key
	busy    int                        // what is being served or closed
	ending  bool                       // it makes no new connections
	changed chan struct{}              // has an element if the process may have nothing to do any more
}

type keptConnection struct {
	*connection
	Kept
	since   time.Time // before the login
	uses    int
	retired bool // it is handed out no more, and closed when nobody uses it
}

// Keep makes this process a keeper, which serves commands on the socket l. It keeps each connection for a time, and returns when it has
// none and the command that started it has ended, which closes command. After ctx it keeps nothing, and does not wait for that command. A
// connection that is in use is only closed after that use: a revert may need it, also at a logout.
func Keep(ctx context.Context, d *Dialer, l *net.UnixListener, command <-chan struct{}, keep time.Duration) {
	k := &keeper{dialer: d, keep: keep, socket: l.Addr().String(), kept: map[string]*keptConnection{}, changed: make(chan struct{}, 1)}
	place, _ := os.Lstat(k.socket)
	found := func() bool {
		now, err := os.Lstat(k.socket)
		return err == nil && os.SameFile(now, place)
	}
	defer func() {
		if found() {
			_ = os.Remove(k.socket)
		}
		_ = l.Close()
	}()
	go k.accept(l) // ends with the listener
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	told := ctx.Done()
	for alone := false; ; {
		select {
		case <-told:
			alone, told = true, nil
			k.end("")
		case <-command:
			alone, command = true, nil
		case <-k.changed:
		case <-tick.C:
			if !found() { // as after a logout: no command can end it any more
				k.end("")
			}
			k.retire((*keptConnection).expired)
		}
		if alone && k.idle() {
			return
		}
	}
}

// acceptPause is how long a keeper waits after it could not accept a command.
const acceptPause = 100 * time.Millisecond

func (k *keeper) accept(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // as with too many open files
			<-time.After(acceptPause)
			continue
		}
		k.count(1)
		go func() { // ends with the command or the host
			defer k.count(-1)
			defer func() { _ = c.Close() }()
			if err := checkPeer(c); err == nil {
				k.serve(newSocket(c))
			}
		}()
	}
}

func (k *keeper) count(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy += n
	k.wake()
}

// wake makes Keep look whether there is still something to do.
func (k *keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

func (k *keeper) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.kept) == 0 && k.busy == 0
}

// serve answers one request.
func (k *keeper) serve(s *socket) {
	var r keepRequest
	if err := s.readJSON(&r, answerPatience); err != nil {
		return
	}
	switch r.Do {
	case doList:
		_ = s.writeJSON(keepAnswer{Kept: k.list()})
	case doEnd:
		_ = s.writeJSON(keepAnswer{Kept: k.end(r.Key)})
	case doLogin:
		_ = s.writeJSON(k.login(s, r))
	case doOpen:
		k.open(s, r.Key)
	default:
		_ = s.writeJSON(keepAnswer{Error: "unknown request"})
	}
}

func (k *keeper) list() []Kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Kept
	for _, c := range k.kept {
		all = append(all, c.Kept)
	}
	return all
}

// login logs in, unless the command ends before.
func (k *keeper) login(s *socket, r keepRequest) keepAnswer {
	k.mu.Lock()
	full := k.ending || len(k.kept) >= maxKept
	k.mu.Unlock()
	if full || len(r.Way) == 0 {
		return keepAnswer{Error: "no more connections are kept"}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the socket
		_, _ = s.r.ReadByte()
		cancel()
	}()
	var way []resolved
	for _, h := range r.Way {
		hop, err := k.dialer.fill(h)
		if err != nil {
			return keepAnswer{Error: err.Error(), Failed: true}
		}
		way = append(way, hop)
	}
	began := time.Now()
	conn, err := k.dialer.follow(ctx, way)
	if err != nil {
		return keepAnswer{Error: err.Error(), Failed: !errors.Is(err, syscall.EMFILE)} // the command itself may have files left
	}
	conn.started.Store(true) // from now on, it does not depend on this command
	to := r.Way[len(r.Way)-1].Target
	c := &keptConnection{connection: conn, since: began, Kept: Kept{Key: r.Key, Host: to.Name, Dialled: conn.dialled, Login: conn.login,
		Made: conn.made, Patience: min(max(openPatience, conn.login, to.ConnectTimeout/3), startPatience)}}
	for _, key := range conn.proven {
		c.Proven = append(c.Proven, key.Marshal())
	}
	k.retire(func(other *keptConnection, _ time.Duration) bool { return other.Key == r.Key })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept[r.Key] = c
	go func() { // ends with the connection
		_ = conn.client.Wait()
		k.drop(c)
	}()
	return keepAnswer{Kept: []Kept{c.Kept}}
}

// expired reports whether the time to keep a connection is over. Neither setting the clock nor suspending the machine extends it.
func (c *keptConnection) expired(keep time.Duration) bool {
	now := time.Now()
	return now.Sub(c.since) >= keep || now.Round(0).Sub(c.since.Round(0)) >= keep
}

// retire drops the connections that which selects, and returns them. One in use is closed after its command.
func (k *keeper) retire(which func(*keptConnection, time.Duration) bool) []Kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Kept
	for key, c := range k.kept {
		if !which(c, k.keep) {
			continue
		}
		delete(k.kept, key)
		c.retired = true
		all = append(all, c.Kept)
		all[len(all)-1].InUse = c.uses > 0
		k.closeUnused(c)
	}
	slices.SortFunc(all, func(a, b Kept) int { return strings.Compare(a.Host, b.Host) })
	return all
}

// drop drops one connection.
func (k *keeper) drop(c *keptConnection) {
	k.retire(func(other *keptConnection, _ time.Duration) bool { return other == c })
}

// closeUnused closes a retired connection that nobody uses. The caller must hold the lock.
func (k *keeper) closeUnused(c *keptConnection) {
	if !c.retired || c.uses > 0 {
		return
	}
	k.busy++
	go func() { // a ProxyCommand may take a while to end
		c.close()
		k.count(-1)
	}()
}

// end drops the connection of that key; "" drops them all, and ends the keeper.
func (k *keeper) end(key string) []Kept {
	if key == "" {
		_ = os.Remove(k.socket)
		k.mu.Lock()
		k.ending = true
		k.mu.Unlock()
	}
	return k.retire(func(c *keptConnection, _ time.Duration) bool { return key == "" || c.Key == key })
}

// take returns a kept connection, which the caller must release; nil if there is none.
func (k *keeper) take(key string) *keptConnection {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.kept[key]
	if c == nil || c.expired(k.keep) {
		return nil
	}
	c.uses++
	return c
}

func (k *keeper) release(c *keptConnection) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.uses--
	k.closeUnused(c)
}

// open opens a session and relays it. A host that does not open one in time may have restarted: its connection is not handed out again.
func (k *keeper) open(s *socket, key string) {
	c := k.take(key)
	if c == nil {
		_ = s.writeJSON(keepAnswer{Error: "it is not kept any more"})
		return
	}
	defer k.release(c)
	type session struct {
		ch       ssh.Channel
		requests <-chan *ssh.Request
		err      error
	}
	opened := make(chan session, 1)
	go func() { // ends with the connection
		ch, requests, err := c.client.OpenChannel("session", nil)
		opened <- session{ch, requests, err}
	}()
	var o session
	select {
	case o = <-opened:
	case <-time.After(c.Patience):
		o.err = errors.New("the host does not answer")
		go func() { // ends with the connection
			if late := <-opened; late.err == nil {
				_ = late.ch.Close()
				ssh.DiscardRequests(late.requests)
			}
		}()
	}
	if o.err != nil {
		if refused := new(ssh.OpenChannelError); !errors.As(o.err, &refused) { // a host that has too many sessions refuses one
			k.drop(c)
		}
		_ = s.writeJSON(keepAnswer{Error: o.err.Error()})
		return
	}
	if err := s.writeJSON(keepAnswer{}); err != nil {
		_ = o.ch.Close()
		ssh.DiscardRequests(o.requests)
		return
	}
	if !relay(s, o.ch, o.requests, c.Patience) {
		k.drop(c) // closed after its other uses, so that nothing waits for this host for ever
	}
}
