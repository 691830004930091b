package vm

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// cut is a connection on which nothing arrives any more once it is dead.
type cut struct {
	net.Conn
	dead, over chan struct{}
}

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.dead:
		<-c.over
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

// silent is a guest that takes a command and never says anything again, as one that was cut from the network.
func silent(t *testing.T) *guest {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	t.Cleanup(func() { close(over); l.Close() })
	go func() {
		raw, err := l.Accept()
		if err != nil {
			return
		}
		conn := cut{raw, make(chan struct{}), over}
		config := &ssh.ServerConfig{NoClientAuth: true}
		config.AddHostKey(signer)
		_, channels, requests, err := ssh.NewServerConn(conn, config)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		for c := range channels {
			_, asked, err := c.Accept()
			if err != nil {
				return
			}
			r, ok := <-asked
			if !ok {
				return // given up before it asked
			}
			close(conn.dead)
			_ = r.Reply(true, nil)
		}
	}()
	client, err := ssh.Dial("tcp", l.Addr().String(), &ssh.ClientConfig{User: "root", HostKeyCallback: ssh.FixedHostKey(signer.PublicKey())})
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{client}
	t.Cleanup(g.close)
	return g
}

func TestAGuestThatFallsSilentIsGivenUp(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, g *guest) error{
		"sh": func(ctx context.Context, g *guest) error { _, err := g.sh(ctx, "systemctl reboot", ""); return err },
		"exec": func(ctx context.Context, g *guest) error {
			_, err := g.exec(ctx, []string{"true"}, strings.NewReader(""), io.Discard, io.Discard)
			return err
		},
	} {
		g := silent(t)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		over := make(chan error, 1)
		go func() { over <- do(ctx, g) }()
		select {
		case err := <-over:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it is waited for still", name)
		}
	}
}
