package apply

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/transport"
)

// keptStream is a stream over a connection that an earlier command has made.
type keptStream struct {
	io.ReadWriteCloser
	made time.Duration
}

func (s keptStream) Saved() time.Duration { return s.made }

// TestAKeptConnectionHasThePatienceOfANewOne: a host that was slow to log in to may also answer late.
func TestAKeptConnectionHasThePatienceOfANewOne(t *testing.T) {
	for made, want := range map[time.Duration]time.Duration{0: 2800 * time.Millisecond, 2 * time.Second: 8 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			go func() {
				_, _ = far.Write([]byte("\x00fabricform-agent 1\n"))
				_, _ = far.Write(frameOf([]byte(`{"hello":{"version":"b"}}`)))
				_, _ = io.Copy(io.Discard, far) // and is silent
			}()
			dial := func(context.Context, transport.Target) (io.ReadWriteCloser, error) {
				return keptStream{near, made}, nil
			}
			c, err := open(t.Context(), dial, "b", transport.Target{})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			<-c.Dead()
			if got := time.Since(began); got < want || got > want+time.Second {
				t.Errorf("a connection that took %s to make may be silent for %s, want %s", made, got, want)
			}
		})
	}
}
