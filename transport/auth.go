package transport

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// keyring holds the keys to offer, and the places that were searched, for the message if all are rejected.
type keyring struct {
	methods []ssh.AuthMethod
	tried   []string
	agent   net.Conn // open while the client authenticates; nil without an agent
}

// keys collects the agent's keys and the key files. A declared key file that cannot be used is an error;
// a missing default file is not.
func (r resolved) keys() (*keyring, error) {
	k := &keyring{}
	var signers []ssh.Signer
	if sock := home(r.identityAgent); sock != "" {
		conn, err := net.Dial("unix", sock)
		if err != nil {
			k.tried = append(k.tried, "agent (does not answer)")
		} else {
			k.agent = conn
			found, err := agent.NewClient(conn).Signers()
			if err != nil {
				found = nil
			}
			k.tried = append(k.tried, fmt.Sprintf("agent (%d keys)", len(found)))
			signers = append(signers, found...)
		}
	}
	for _, path := range r.identities {
		s, err := keyFile(home(path))
		var locked *ssh.PassphraseMissingError
		switch {
		case err == nil:
			k.tried = append(k.tried, path)
			signers = append(signers, s)
		case errors.As(err, &locked):
			k.tried = append(k.tried, path+" (has a passphrase: run `ssh-add "+path+"` to add it to the agent)")
		case errors.Is(err, fs.ErrNotExist) && path != r.IdentityFile:
		default:
			return k, fmt.Errorf("read key %s: %w", path, err)
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
