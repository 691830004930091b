package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// wire joins a served helper and a client; noise comes before the helper's greeting.
func wire(t *testing.T, noise string, handlers map[string]Handler) (client net.Conn, ended chan error) {
	t.Helper()
	near, far := net.Pipe()
	ended = make(chan error, 1)
	go func() {
		if _, err := io.WriteString(far, noise); err != nil {
			ended <- err
			return
		}
		ended <- Serve(context.Background(), far, far, "b1", handlers)
	}()
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, ended
}

func echo(_ context.Context, p json.RawMessage) (any, error) { return p, nil }

func TestCallAnswersPastLoginNoise(t *testing.T) {
	conn, _ := wire(t, "Welcome!\n\x00fabric \x1b[31mmotd\n", map[string]Handler{"echo": echo})
	c, err := Connect(context.Background(), conn, "b1", deadAfter)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var got string
	if err := c.Call(context.Background(), "h", "echo", "hello", &got); err != nil || got != "hello" {
		t.Fatalf("got %q, %v", got, err)
	}
	if err := c.Call(context.Background(), "h", "nope", nil, nil); err == nil || !strings.Contains(err.Error(), "no method") {
		t.Fatalf("unknown method: %v", err)
	}
}

func TestConnectRefusesAnotherBuild(t *testing.T) {
	conn, _ := wire(t, "", nil)
	if _, err := Connect(context.Background(), conn, "b2", deadAfter); err == nil || !strings.Contains(err.Error(), `"b1"`) {
		t.Fatalf("got %v", err)
	}
}

func TestSilentHostIsNoticedWithinThreeSeconds(t *testing.T) {
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	go func() { // greets, then reads for ever without a word: a path that died one way
		fw := &frameWriter{w: far}
		_, _ = io.WriteString(far, magic)
		_ = fw.write(frame{Hello: &Hello{Version: "b1"}})
		_, _ = io.Copy(io.Discard, far)
	}()
	c, err := Connect(context.Background(), near, "b1", deadAfter)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3500*time.Millisecond)
	defer cancel()
	if err := c.Call(ctx, "h", "echo", nil, nil); !errors.Is(err, errLinkDead) {
		t.Fatalf("got %v", err)
	}
}

func TestServeEndsWhenTheClientFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a bubble whose clock jumps
		conn, ended := wire(t, "", nil)
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		select {
		case err := <-ended:
			if !errors.Is(err, errClientLost) {
				t.Fatalf("got %v", err)
			}
		case <-time.After(mostPatience + time.Second):
			t.Fatal("the helper still runs")
		}
	})
}

func TestSlowHostsAreGivenTime(t *testing.T) {
	for took, want := range map[[2]time.Duration]time.Duration{ // and was allowed to take
		{}: deadAfter, {500 * time.Millisecond}: deadAfter, {2 * time.Second}: 8 * time.Second, {time.Minute}: mostPatience,
		{time.Second, 5 * time.Second}: 4 * time.Second, {time.Second, 30 * time.Second}: 10 * time.Second, {0, time.Minute}: mostPatience, {0, time.Hour}: mostPatience,
	} {
		if got := Patience(took[0], took[1]); got != want {
			t.Errorf("%s: %s", took, got)
		}
	}
}

// TestFramesAreLimited: a longer frame is not written, and one that is announced is refused before any of it is read.
func TestFramesAreLimited(t *testing.T) {
	var out bytes.Buffer
	w := &frameWriter{w: &out}
	if err := w.write(frame{Method: strings.Repeat("x", maxFrame)}); err == nil || !strings.Contains(err.Error(), "exceed the limit") || out.Len() > 0 {
		t.Errorf("%d bytes were written: %v", out.Len(), err)
	}
	body := strings.NewReader(strings.Repeat(" ", maxFrame+1))
	head := strings.NewReader(string(binary.BigEndian.AppendUint32(nil, maxFrame+1)))
	if _, err := readFrame(bufio.NewReaderSize(io.MultiReader(head, body), 16)); err == nil || !strings.Contains(err.Error(), "exceeds the limit") || body.Len() <= maxFrame {
		t.Errorf("%d bytes were left: %v", body.Len(), err)
	}
}

// TestHostsUnderLoadMayBeatLate: while a program spins on a host, its silence means nothing for some seconds more.
func TestHostsUnderLoadMayBeatLate(t *testing.T) {
	for method, alive := range map[string]bool{"ping": false, Busy + "verbs": true} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			answered := make(chan struct{})
			go func() { // greets, answers late, and does not beat
				defer close(answered)
				fw := &frameWriter{w: far}
				_, _ = io.WriteString(far, magic)
				_ = fw.write(frame{Hello: &Hello{Version: "b1"}})
				go func() { _, _ = io.Copy(io.Discard, far) }()
				time.Sleep(mostPatience - time.Second)
				_ = fw.write(frame{ID: 1})
			}()
			c, err := Connect(t.Context(), near, "b1", deadAfter)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Call(t.Context(), "h", method, nil, nil); (err == nil) != alive {
				t.Errorf("%s: %v", method, err)
			}
			c.Close()
			far.Close()
			<-answered
		})
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{255, 255, 255, 255, '{'})
	f.Add([]byte("\x00\x00\x00\x0f{\"error\":{\"x\":[]}}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, err := readFrame(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := (&frameWriter{w: &out}).write(fr); err != nil {
			t.Fatalf("write back: %v", err)
		}
	})
}

func FuzzSkipToMagic(f *testing.F) {
	f.Add([]byte("motd\n" + magic))
	f.Add([]byte(magic[:5] + magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		noise, err := skipToMagic(bufio.NewReader(bytes.NewReader(b)))
		if err == nil && !bytes.Contains(b, []byte(magic)) {
			t.Fatal("found what is not there")
		}
		for _, r := range noise {
			if r < ' ' && r != '\n' {
				t.Fatalf("control character %q kept", r)
			}
		}
	})
}

// TestARequestThatIsTooLargeIsForgotten: it is not sent, and the client lives on.
func TestARequestThatIsTooLargeIsForgotten(t *testing.T) {
	near, far := net.Pipe()
	go func() { _ = Serve(context.Background(), far, far, "b1", Table{}) }() // ends with the pipe
	c, err := Connect(t.Context(), near, "b1", deadAfter)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call(t.Context(), "h", "ping", strings.Repeat("x", maxFrame), nil); err == nil || !strings.Contains(err.Error(), "exceed the limit") {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || len(c.wait) > 0 {
		t.Errorf("the client ended (%v), or %d requests wait for answers", c.err, len(c.wait))
	}
}
