package transport

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// told is a host's channel. Asked to run something, the host says a text at once, and replies a moment later.
type told struct {
	replies bool
	ends    bool // after its text; otherwise it never does
	asked   chan struct{}
	left    io.Reader
}

func newTold(says string, replies, ends bool) *told {
	return &told{replies: replies, ends: ends, asked: make(chan struct{}), left: strings.NewReader(says)}
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

func (c *told) Close() error                { return nil }
func (c *told) Write(p []byte) (int, error) { return len(p), nil }
func (c *told) CloseWrite() error           { return nil }
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
	go relay(keeper, newTold("hello", true, true), noRequests())
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

// TestAHostThatDoesNotEndAChannelDoesNotHoldTheKeeper: neither one that never closes, nor one that never replies.
func TestAHostThatDoesNotEndAChannelDoesNotHoldTheKeeper(t *testing.T) {
	t.Parallel()
	for what, host := range map[string]*told{"never closes": newTold("", true, false), "never replies": newTold("", false, false), "closes": newTold("", true, true)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			command, keeper := pair(t)
			ended := make(chan bool, 1)
			go func() { ended <- relay(keeper, host, noRequests()) }()
			if err := command.write(frameRequest, []byte(`{"Type":"exec","WantReply":true}`)); err != nil {
				t.Fatal(err)
			}
			<-host.asked
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
		ch := newRelayedChannel(newRelayed("", "", ""), command)
		ch.replies <- true
		close(ch.closed)
		if ok, err := ch.SendRequest("exec", true, nil); !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		_, _ = command.Close(), keeper.Close()
	}
}
