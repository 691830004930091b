package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// keyring holds the keys to offer, and the places that were searched, for the message if all are rejected.
type keyring struct {
	methods []ssh.AuthMethod
	tried   []string
	agent   net.Conn    // open while the client authenticates; nil without an agent
	asking  atomic.Bool // the agent was asked to sign and has not answered yet
}

// agentSigner is a key of the agent. It records that an answer is missing, so that a silent agent is not taken for a
// silent host.
type agentSigner struct {
	ssh.AlgorithmSigner
	asking *atomic.Bool
}

func (s agentSigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	s.asking.Store(true)
	sig, err := s.AlgorithmSigner.SignWithAlgorithm(rand, data, algorithm)
	if err == nil {
		s.asking.Store(false)
	}
	return sig, err
}

func (r resolved) silentAgent() error {
	return &Error{Host: r.Name, Op: "use the SSH agent", Err: fmt.Errorf("%s accepts connections, but does not answer within %s", r.identityAgent, r.ConnectTimeout),
		Hint: "restart the agent, or unset SSH_AUTH_SOCK to use key files only"}
}

// keys collects the agent's keys and the key files. A declared key file that cannot be used is an error;
// a missing default file is not. When ctx ends, the connection to the agent is closed: an agent may accept a
// connection and then stay silent, here or when it is asked to sign.
func (r resolved) keys(ctx context.Context) (*keyring, error) {
	k := &keyring{}
	var signers []ssh.Signer
	if sock := home(r.identityAgent); sock != "" {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", sock)
		if err != nil {
			k.tried = append(k.tried, "agent (does not answer)")
		} else {
			k.agent = conn
			context.AfterFunc(ctx, k.close)
			found, err := agent.NewClient(conn).Signers()
			if err != nil {
				found = nil
			}
			if errors.Is(ctx.Err(), context.Canceled) {
				return k, &Error{Host: r.Name, Op: "use the SSH agent", Err: ctx.Err()}
			}
			if ctx.Err() != nil {
				return k, r.silentAgent()
			}
			all := len(found)
			found = slices.DeleteFunc(found, func(s ssh.Signer) bool { _, is := r.accepts.tooShort(s.PublicKey()); return is })
			for i, s := range found {
				if s, ok := s.(ssh.AlgorithmSigner); ok {
					found[i] = agentSigner{s, &k.asking}
				}
			}
			said := fmt.Sprintf("agent (%d keys", len(found))
			if short := all - len(found); short > 0 {
				said += fmt.Sprintf(", and %d that RequiredRSASize refuses", short)
			}
			k.tried = append(k.tried, said+")")
			signers = append(signers, found...)
		}
	}
	for _, path := range r.identities {
		s, err := r.read.keys.once(home(path), func() (ssh.Signer, error) { return keyFile(home(path)) })
		var locked *ssh.PassphraseMissingError
		switch {
		case err == nil:
			if why, is := r.accepts.tooShort(s.PublicKey()); is {
				k.tried = append(k.tried, path+" ("+why+": not used)")
				continue
			}
			k.tried = append(k.tried, path)
			signers = append(signers, s)
		case errors.As(err, &locked):
			k.tried = append(k.tried, path+" (has a passphrase: run `ssh-add "+path+"` to add it to the agent)")
		case errors.Is(err, fs.ErrNotExist) && path != r.IdentityFile:
		default:
			return k, &Error{Host: r.Name, Op: "authenticate", Err: fmt.Errorf("read key %s: %w", path, err)}
		}
	}
	if len(signers) > 0 {
		k.methods = append(k.methods, ssh.PublicKeys(signers...))
	}
	return k, nil
}

func keyFile(path string) (ssh.Signer, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ssh.ParsePrivateKey(raw)
}

func (k *keyring) close() {
	if k.agent != nil {
		k.agent.Close()
	}
}

func (k *keyring) String() string {
	if len(k.tried) == 0 {
		return "found no key, and no agent is running"
	}
	return "tried " + strings.Join(k.tried, ", ")
}
