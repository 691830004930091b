package transport

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// told is a host's channel. Asked to run something, the host says a text at once, and replies a moment later.
type told struct {
	replies bool
	ends    bool // after its text; otherwise it never does
	full    bool // it reads no input
	asked   chan struct{}
	given   chan struct{} // closed when it gets input
	left    io.Reader
}

func newTold(says string, replies, ends bool) *told {
	return &told{replies: replies, ends: ends, asked: make(chan struct{}), given: make(chan struct{}), left: strings.NewReader(says)}
}

func (c *told) Read(p []byte) (int, error) {
	<-c.asked
	n, err := c.left.Read(p)
	if err != nil && !c.ends {
		select {}
	}
	return n, err
}

func (c *told) SendRequest(string, bool, []byte) (bool, error) {
	close(c.asked)
	time.Sleep(20 * time.Millisecond)
	if !c.replies {
		select {}
	}
	return true, nil
}

func (c *told) Write(p []byte) (int, error) {
	close(c.given)
	if c.full {
		select {}
	}
	return len(p), nil
}

func (c *told) Close() error      { return nil }
func (c *told) CloseWrite() error { return nil }
func (c *told) Stderr() io.ReadWriter {
	return struct {
		io.Reader
		io.Writer
	}{strings.NewReader(""), io.Discard}
}
func noRequests() <-chan *ssh.Request { c := make(chan *ssh.Request); close(c); return c }

// TestOutputDoesNotOvertakeTheReply to a request: the command reads no output before it has the reply, so that both would wait for ever.
func TestOutputDoesNotOvertakeTheReply(t *testing.T) {
	t.Parallel()
	command, keeper := pair(t)
	defer command.Close()
	go relay(keeper, newTold("hello", true, true), noRequests(), openPatience)
	if err := command.write(frameRequest, []byte(`{"Type":"exec","WantReply":true}`)); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for {
		kind, _, err := readFrame(command.r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, kind)
	}
	if want := []byte{frameReply, frameData, frameEnd}; string(got) != string(want) {
		t.Errorf("frames %q, want %q", got, want)
	}
}

// TestAHostThatDoesNotEndAChannelDoesNotHoldTheKeeper: neither one that never closes, nor one that never replies, nor one that reads nothing.
func TestAHostThatDoesNotEndAChannelDoesNotHoldTheKeeper(t *testing.T) {
	t.Parallel()
	full := newTold("", true, false)
	full.full = true
	for what, host := range map[string]*told{"never closes": newTold("", true, false), "never replies": newTold("", false, false),
		"reads nothing": full, "closes": newTold("", true, true)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			command, keeper := pair(t)
			ended := make(chan bool, 1)
			go func() { ended <- relay(keeper, host, noRequests(), openPatience) }()
			if err := command.write(frameRequest, []byte(`{"Type":"exec","WantReply":true}`)); err != nil {
				t.Fatal(err)
			}
			<-host.asked
			if host.full {
				if err := errors.Join(command.write(frameData, []byte("x")), command.write(frameData, []byte("y"))); err != nil {
					t.Fatal(err)
				}
				<-host.given
			}
			_ = command.Close()
			select {
			case in := <-ended:
				if in != host.ends {
					t.Errorf("the host ended it in time: %v", in)
				}
			case <-time.After(30 * time.Second):
				t.Error("the keeper waits for ever")
			}
		})
	}
}

// TestAReplyBeforeTheEndCounts: a short command replies and ends at once.
func TestAReplyBeforeTheEndCounts(t *testing.T) {
	t.Parallel()
	for range 50 {
		command, keeper := pair(t)
		ch := newRelayedChannel(newRelayed(place{}, ""), command)
		ch.replies <- true
		close(ch.closed)
		if ok, err := ch.SendRequest("exec", true, nil); !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		_, _ = command.Close(), keeper.Close()
	}
}

// TestInputForAChannelThatHasEndedIsEOF, as on a channel of the library, also if input before it was not read.
func TestInputForAChannelThatHasEndedIsEOF(t *testing.T) {
	t.Parallel()
	for range 3 {
		command, keeper := pair(t)
		ch := newRelayedChannel(newRelayed(place{}, ""), command)
		if _, err := ch.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
		_ = keeper.Close()
		for range 2 {
			if _, err := ch.Write([]byte("late")); !errors.Is(err, io.EOF) {
				t.Errorf("input: %v", err)
			}
			if _, err := ch.SendRequest("signal", false, nil); !errors.Is(err, io.EOF) {
				t.Errorf("a request: %v", err)
			}
		}
		_ = ch.Close()
	}
}

// TestClosingAConnectionEndsTheWaitForAKeeper that is stopped, so that an interrupt does not wait for it either.
func TestClosingAConnectionEndsTheWaitForAKeeper(t *testing.T) {
	t.Parallel()
	c := newRelayed(place{socket: silent(t, t.TempDir()), kept: Kept{Patience: time.Minute}}, "")
	ended := make(chan error, 1)
	go func() {
		_, _, err := c.OpenChannel("session", nil)
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond)
	_ = c.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a closed connection opens a channel")
		}
	case <-time.After(30 * time.Second):
		t.Error("it still waits")
	}
}

// silent is the socket of a keeper that does not answer.
func silent(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "00000000000000aa-00000000.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return path
}
