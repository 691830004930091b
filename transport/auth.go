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

// keys collects the agent's keys and the key files. When ctx ends, the connection to the agent is closed: an agent may accept a
// connection and then stay silent, here or when it is asked to sign.
func (r resolved) keys(ctx context.Context) (*keyring, error) {
	k := &keyring{}
	ids, err := r.files()
	if err != nil {
		return k, err
	}
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
			said := fmt.Sprintf("agent (keys: %d", len(found))
			if short := all - len(found); short > 0 {
				said += fmt.Sprintf(", and %d that RequiredRSASize refuses", short)
			}
			if r.identitiesOnly {
				found = slices.DeleteFunc(found, func(s ssh.Signer) bool {
					return !slices.ContainsFunc(ids, func(id identity) bool { return id.public != nil && blob(id.public) == blob(plainKey(s.PublicKey())) })
				})
				said += fmt.Sprintf(", used because of IdentitiesOnly: %d", len(found))
			}
			for i, s := range found {
				if s, ok := s.(ssh.AlgorithmSigner); ok {
					found[i] = agentSigner{s, &k.asking}
				}
			}
			k.tried = append(k.tried, said+")")
			signers = append(signers, found...)
		}
	}
	for i, path := range r.identities {
		switch id, why := ids[i], r.accepts.tooShort; {
		case id.public == nil && !id.locked: // it is not there
		case id.locked:
			k.tried = append(k.tried, path+" (has a passphrase: run `ssh-add "+path+"` to add it to the agent)")
		case id.signer == nil:
			k.tried = append(k.tried, path+" (a public key: the agent must have the private one)")
		default:
			if text, is := why(id.public); is {
				k.tried = append(k.tried, path+" ("+text+": not used)")
				continue
			}
			k.tried = append(k.tried, path)
			signers = append(signers, id.signer)
		}
	}
	if len(signers) > 0 {
		k.methods = append(k.methods, ssh.PublicKeys(signers...))
	}
	return k, nil
}

// identity is what a key file holds, or the public key beside it; nothing if neither is there.
type identity struct {
	signer ssh.Signer    // nil without a private key that can be used
	public ssh.PublicKey // may be nil for a key with a passphrase
	locked bool          // the private key has a passphrase
}

// readIdentity reads a key file. As with ssh, it may be a public key, or be absent beside one, if an agent has the private key.
func readIdentity(path string) (identity, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		if public := publicKey(path + ".pub"); public != nil && errors.Is(err, fs.ErrNotExist) {
			return identity{public: public}, nil
		}
		return identity{}, err
	}
	signer, err := ssh.ParsePrivateKey(raw)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return identity{signer: signer, public: signer.PublicKey()}, nil
	case errors.As(err, &locked):
		if locked.PublicKey == nil { // of an old format
			locked.PublicKey = publicKey(path + ".pub")
		}
		return identity{public: locked.PublicKey, locked: true}, nil
	}
	if public := publicKey(path); public != nil {
		return identity{public: public}, nil
	}
	return identity{}, err
}

// publicKey reads a file with a public key; nil if it has none.
func publicKey(path string) ssh.PublicKey {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	k, _, _, _, err := ssh.ParseAuthorizedKey(raw)
	if err != nil {
		return nil
	}
	return k
}

// files reads the key files, in their order. A declared one that cannot be used is an error; a missing default one is not.
func (r resolved) files() ([]identity, error) {
	ids := make([]identity, len(r.identities))
	for i, path := range r.identities {
		var err error
		ids[i], err = r.read.keys.once(home(path), func() (identity, error) { return readIdentity(home(path)) })
		if err != nil && (!errors.Is(err, fs.ErrNotExist) || path == r.IdentityFile) {
			return nil, &Error{Host: r.Name, Op: "authenticate", Err: fmt.Errorf("read key %s: %w", path, err)}
		}
	}
	return ids, nil
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
