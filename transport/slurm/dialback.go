//go:build linux

package slurm

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// dialPatience is how long a helper may take to reach the door and to prove itself.
const dialPatience = 40 * time.Second

// mostInvitation limits what a helper reads: munge's limit for a payload is 1 MiB.
const mostInvitation = 2 << 20

// Paths are those that must not be cut on a node, as SSH_CONNECTION would say them: an address and port, and the node's own.
type Paths struct {
	Coordinator string
	Controllers []string
}

// The flags by which a step starts a helper. The node's name is needed where sudo has dropped the environment.
const (
	dialBackFlag = "--dial-back"
	nodeFlag     = "--node="
)

// ServeStep is the start of a helper in a job step: it becomes root by sudo, installs the program, reads the coordinator's credential, dials
// back and proves its secret. node is the name of this node, "" if the environment has it.
func ServeStep(ctx context.Context, credential io.Reader, version, node string) (io.ReadWriter, Paths, error) {
	node = cmp.Or(node, os.Getenv("SLURMD_NODENAME"))
	operator, err := operatorHere()
	if err == nil && os.Getuid() != root {
		err = raiseSelf(ctx, node)
	}
	if err == nil {
		err = installSelf(version)
	}
	if err != nil {
		return nil, Paths{}, fmt.Errorf("%s %s %w", failure, node, err)
	}
	c, paths, err := dialBack(ctx, munge{}, credential, node, operator)
	if err != nil {
		return nil, Paths{}, fmt.Errorf("%s %s %w", failure, node, err)
	}
	return c, paths, nil
}

// operatorHere returns the user who runs this step, and so the coordinator: sudo keeps the ID (sudo(8)).
func operatorHere() (int, error) {
	text, by := os.LookupEnv("SUDO_UID")
	if !by {
		return os.Getuid(), nil
	}
	id, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("read SUDO_UID: %w", err)
	}
	return id, nil
}

// raiseSelf starts this program again, as root by sudo. It does not return, unless it fails.
func raiseSelf(ctx context.Context, node string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := []string{"--", self, "agent", dialBackFlag, nodeFlag + node}
	// sudo's words about what it refuses would be lost among those of all nodes.
	if _, err := ask(ctx, append([]string{"sudo", "-n", "-l"}, command...)...); err != nil {
		return errors.Join(fmt.Errorf("sudo does not start it: %w; let user %d run it without a password, as docs/slurm.md shows under \"Without root\"", err, os.Getuid()),
			removeSent(self))
	}
	sudo, err := exec.LookPath("sudo")
	if err != nil {
		return err
	}
	return fmt.Errorf("start sudo: %w", syscall.Exec(sudo, append([]string{"sudo", "-n"}, command...), os.Environ()))
}

// The ports that slurm.conf has by default. Paths do not depend on them.
const (
	slurmctldPort = 6817
	slurmdPort    = 6818
)

func dialBack(ctx context.Context, m munge, credential io.Reader, node string, operator int) (io.ReadWriteCloser, Paths, error) {
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	text, err := io.ReadAll(io.LimitReader(credential, mostInvitation))
	if err != nil {
		return nil, Paths{}, fmt.Errorf("read the credential: %w", err)
	}
	payload, err := m.decode(ctx, string(text), operator)
	if err != nil {
		return nil, Paths{}, fmt.Errorf("decode the credential: %w", err)
	}
	var in invitation
	if err := json.Unmarshal([]byte(payload), &in); err != nil {
		return nil, Paths{}, fmt.Errorf("read the credential: %w", err)
	}
	own, err := netip.ParseAddr(in.From[node])
	if err != nil || in.Secrets[node] == "" {
		return nil, Paths{}, fmt.Errorf("the credential has no secret for node %s", node)
	}
	var plain net.Conn
	var c io.ReadWriteCloser
	for {
		if plain, err = dialReserved(ctx, own, in.Door); err != nil {
			return nil, Paths{}, fmt.Errorf("connect to the coordinator: %w", err)
		}
		began := time.Now()
		if c, err = m.introduce(ctx, plain, in, node, operator); err == nil {
			break
		}
		err = errors.Join(fmt.Errorf("introduce node %s to the coordinator at %s: %w", node, in.Door, err), plain.Close())
		if slow := time.Since(began) >= proofPatience; !slow || ctx.Err() != nil { // the door closes when munge is slow, here or there: then try again
			return nil, Paths{}, err
		}
	}
	there, here := plain.RemoteAddr().(*net.TCPAddr).AddrPort(), plain.LocalAddr().(*net.TCPAddr).AddrPort()
	paths := Paths{Coordinator: fmt.Sprintf("%s %d %s %d", there.Addr(), there.Port(), here.Addr(), here.Port())}
	for _, at := range in.Controllers {
		if at != there.Addr().String() && at != own.String() {
			paths.Controllers = append(paths.Controllers, fmt.Sprintf("%s %d %s %d", at, slurmctldPort, own, slurmdPort))
		}
	}
	return c, paths, nil
}

// Only root may bind these ports, so that users of a node cannot keep its helper out by their own connections. Ports below are those of services.
const (
	firstReserved = 600
	afterReserved = 1024
)

func reserved(port uint16) bool { return port >= firstReserved && port < afterReserved }

// dialReserved connects from a free reserved port of this address.
func dialReserved(ctx context.Context, from netip.Addr, to string) (c net.Conn, err error) {
	first := rand.IntN(afterReserved - firstReserved)
	for i := range afterReserved - firstReserved {
		port := firstReserved + (first+i)%(afterReserved-firstReserved)
		d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, uint16(port)))}
		if c, err = d.DialContext(ctx, "tcp", to); !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			break
		}
	}
	return c, err
}

// introduce checks the coordinator's key, and proves the node's secret to the operator.
func (m munge) introduce(ctx context.Context, plain net.Conn, in invitation, node string, operator int) (io.ReadWriteCloser, error) {
	if err := plain.SetDeadline(time.Now().Add(dialPatience)); err != nil {
		return nil, err
	}
	c := tls.Client(plain, &tls.Config{MinVersion: tls.VersionTLS13,
		InsecureSkipVerify: true, // no authority signs the key of a run: its digest came in the credential, and is compared here
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 || digest(s.PeerCertificates[0].Raw) != in.Pin {
				return errors.New("it has another key than the credential says")
			}
			return nil
		}})
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	bound, err := binding(c)
	if err != nil {
		return nil, err
	}
	payload, err := json.Marshal(proof{Secret: in.Secrets[node], Binding: bound})
	if err != nil {
		return nil, err
	}
	credential, err := m.encode(ctx, string(payload), operator)
	if err != nil {
		return nil, err
	}
	if err := writeBounded(c, credential); err != nil {
		return nil, err
	}
	if _, err := readBounded(c, 16); err != nil {
		return nil, fmt.Errorf("it refused: %w", err)
	}
	return &stream{c}, c.SetDeadline(time.Time{})
}
