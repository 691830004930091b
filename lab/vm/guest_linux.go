package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/fabricform/fabricform/retry"
)

// guest is an SSH connection to a machine.
type guest struct{ client *ssh.Client }

// dialGuest logs in. It retries until the guest listens.
func dialGuest(ctx context.Context, port int, image string, limit time.Duration) (*guest, error) {
	config, err := login(image)
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for deadline := time.Now().Add(limit); ; {
		c, err := connect(ctx, addr, config)
		if err == nil {
			return &guest{c}, nil
		}
		var changed *knownhosts.KeyError
		if errors.As(err, &changed) || time.Now().After(deadline) || ctx.Err() != nil {
			return nil, fmt.Errorf("log in to the guest at %s: %w", addr, errors.Join(err, ctx.Err()))
		}
		_ = retry.Pause(ctx, 200*time.Millisecond) // the next try checks ctx
	}
}

func connect(ctx context.Context, addr string, config *ssh.ClientConfig) (*ssh.Client, error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	// QEMU's forwarder accepts connections before the guest listens.
	if err := conn.SetDeadline(time.Now().Add(40 * time.Second)); err != nil {
		return nil, err
	}
	c, chans, reqs, err := ssh.NewClientConn(conn, addr, config)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return ssh.NewClient(c, chans, reqs), conn.SetDeadline(time.Time{})
}

func login(image string) (*ssh.ClientConfig, error) {
	raw, err := os.ReadFile(filepath.Join(image, keyFile))
	if err != nil {
		return nil, err
	}
	key, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		return nil, err
	}
	raw, err = os.ReadFile(filepath.Join(image, hostKeyFile))
	if err != nil {
		return nil, err
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey(raw)
	if err != nil {
		return nil, err
	}
	return &ssh.ClientConfig{User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(host),
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519}, Config: ssh.Config{KeyExchanges: []string{ssh.KeyExchangeCurve25519}}}, nil
}

// sh runs a fixed script. Variable input goes to stdin, so that the shell does not interpret it. When ctx is done, sh
// closes the connection, because a dead guest would never answer.
func (g *guest) sh(ctx context.Context, script, stdin string) (string, error) {
	s, err := g.client.NewSession()
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close() }() // it may have ended
	defer context.AfterFunc(ctx, g.close)()
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader(stdin), &out, &errs
	if err := s.Run(script); err != nil {
		return out.String(), fmt.Errorf("%w: %s", errors.Join(err, ctx.Err()), strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

func (g *guest) close() { _ = g.client.Close() } // the connection is no longer used

// NetDial connects to loopback, which forwards to the guests.
func (l *Lab) NetDial(ctx context.Context, network, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// Exec runs a command on a host and returns its exit status.
func (l *Lab) Exec(ctx context.Context, host string, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	h, ok := l.state.Hosts[host]
	if !ok {
		return 0, fmt.Errorf("the lab has no host %q", host)
	}
	g, err := dialGuest(ctx, h.Port, l.state.Image, connectTimeout)
	if err != nil {
		return 0, err
	}
	defer g.close()
	code, err := g.exec(ctx, argv, stdin, stdout, stderr)
	if err != nil {
		err = fmt.Errorf("run in lab host %s: %w", host, err)
	}
	return code, err
}

// exec runs a command and returns its exit status. Like sh, it does not wait for a dead guest when ctx is done.
func (g *guest) exec(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	defer context.AfterFunc(ctx, g.close)()
	s, err := g.client.NewSession()
	if err != nil {
		return 0, errors.Join(err, ctx.Err())
	}
	defer func() { _ = s.Close() }() // it may have ended
	s.Stdin, s.Stdout, s.Stderr = stdin, stdout, stderr
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	err = s.Run(strings.Join(words, " "))
	var exited *ssh.ExitError
	if errors.As(err, &exited) {
		return exited.ExitStatus(), nil
	}
	if err != nil {
		err = errors.Join(err, ctx.Err())
	}
	return 0, err
}

// answerPatience is the limit for a command on a guest that may be shutting down.
const answerPatience = 20 * time.Second

// Reboot restarts a host and waits until it answers again and has started all its units.
func (l *Lab) Reboot(ctx context.Context, host string, hard bool) error {
	h, ok := l.state.Hosts[host]
	if !ok {
		return fmt.Errorf("the lab has no host %q", host)
	}
	g, err := dialGuest(ctx, h.Port, l.state.Image, connectTimeout)
	if err != nil {
		return err
	}
	before, err := g.bootID(ctx)
	if err != nil {
		g.close()
		return err
	}
	if hard {
		g.close()
		if _, err := l.ask(request{Op: opReset, Host: host}); err != nil {
			return err
		}
	} else {
		try, cancel := context.WithTimeout(ctx, answerPatience)
		_, err := g.sh(try, "systemctl reboot", "")
		cancel()
		g.close()
		// The guest may shut down before it answers: ifupdown takes the network down before sshd can send a message.
		var gone *ssh.ExitMissingError
		if err != nil && !errors.As(err, &gone) && (!errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil) {
			return fmt.Errorf("reboot %s: %w", host, err)
		}
	}
	for deadline := time.Now().Add(5 * time.Minute); ; _ = retry.Pause(ctx, time.Second) {
		g, err := dialGuest(ctx, h.Port, l.state.Image, 4*time.Minute)
		if err != nil {
			return fmt.Errorf("%s did not come back after the reboot; its console is in %s: %w", host,
				filepath.Join(l.dir, consoleOf(host)), err)
		}
		try, cancel := context.WithTimeout(ctx, answerPatience)
		now, err := g.bootID(try)
		cancel()
		if err == nil && now != before {
			// The guest is up, even if some units have failed.
			_, err := g.sh(ctx, "timeout 120 systemctl is-system-running --wait >/dev/null; :", "")
			g.close()
			return err
		}
		g.close()
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not shut down", host)
		}
	}
}

func (g *guest) bootID(ctx context.Context) (string, error) {
	return g.sh(ctx, "cat /proc/sys/kernel/random/boot_id", "")
}
