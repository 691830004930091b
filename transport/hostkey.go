package transport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// HostKeyError reports a host whose key is not the known one. Nothing was sent to the host but the key exchange, and no
// flag disables this check.
type HostKeyError struct {
	Kind        string // "unknown", "changed", "revoked" or "not signed by a known authority"
	Host        string // as looked up in known_hosts
	Fingerprint string // of the key that the host showed
	Type        string
	Known       string // file:line of the known key
	Hint        string
}

func (e *HostKeyError) Error() string {
	s := fmt.Sprintf("host key of %s is %s: it shows %s %s", e.Host, e.Kind, e.Type, e.Fingerprint)
	if e.Known != "" {
		s += ", but " + e.Known + " has another key"
	}
	return s + "; nothing was sent to it; " + e.Hint
}

// knownFiles caches parsed known_hosts files. Parsing those of a large fleet again for each host would
// cost more than all its logins.
type knownFiles struct {
	mu sync.Mutex
	by map[string]func() (*knownhosts.HostKeyDB, error)
}

func (k *knownFiles) read(files []string) (*knownhosts.HostKeyDB, error) {
	key := strings.Join(files, "\x00")
	k.mu.Lock()
	if k.by == nil {
		k.by = map[string]func() (*knownhosts.HostKeyDB, error){}
	}
	if k.by[key] == nil {
		k.by[key] = sync.OnceValues(func() (*knownhosts.HostKeyDB, error) { return knownhosts.NewDB(files...) })
	}
	read := k.by[key]
	k.mu.Unlock()
	return read()
}

// hostKeys returns the check for a host's key, and the key types to request. A host may have several keys,
// and only those in known_hosts can be checked (golang/go#29286).
func (r resolved) hostKeys(hostPort string) (ssh.HostKeyCallback, []string, error) {
	var files []string
	for _, f := range r.knownHosts {
		if f = home(f); f != "" {
			if _, err := os.Stat(f); err == nil {
				files = append(files, f)
			} else if r.KnownHosts != "" {
				return nil, nil, fmt.Errorf("read known_hosts: %w", err)
			}
		}
	}
	if r.hostKeyAlias != "" {
		_, port, err := net.SplitHostPort(hostPort)
		if err != nil {
			return nil, nil, err
		}
		hostPort = net.JoinHostPort(r.hostKeyAlias, port)
	}
	db, err := r.parsed.read(files)
	if err != nil {
		return nil, nil, fmt.Errorf("read known_hosts: %w", err)
	}
	check := db.HostKeyCallback()
	callback := func(_ string, remote net.Addr, key ssh.PublicKey) error {
		return r.explain(check(hostPort, remote, key), hostPort, key)
	}
	return callback, db.HostKeyAlgorithms(hostPort), nil
}

func (r resolved) explain(err error, hostPort string, key ssh.PublicKey) error {
	if err == nil {
		return nil
	}
	e := &HostKeyError{Host: xknownhosts.Normalize(hostPort), Fingerprint: ssh.FingerprintSHA256(key), Type: key.Type()}
	var revoked *xknownhosts.RevokedError
	var bad *xknownhosts.KeyError
	switch {
	case errors.As(err, &revoked):
		e.Kind, e.Known = "revoked", fmt.Sprintf("%s:%d", revoked.Revoked.Filename, revoked.Revoked.Line)
		e.Hint = "the key is marked as revoked: give the host a new key"
	case strings.Contains(err.Error(), "no authorities for hostname"), strings.Contains(err.Error(), "certificate signed by unrecognized authority"):
		// x/crypto/ssh has no type for these (certs.go, CheckHostKey).
		e.Kind, e.Hint = "not signed by a known authority", "add the authority's @cert-authority line to "+r.knownHosts[0]
	case errors.As(err, &bad) && len(bad.Want) > 0:
		e.Kind, e.Known = "changed", fmt.Sprintf("%s:%d", bad.Want[0].Filename, bad.Want[0].Line)
		e.Hint = "if the host was reinstalled, remove that line (`ssh-keygen -R`) and add the new key as shown on the host's console"
	case errors.As(err, &bad):
		e.Kind = "unknown"
		e.Hint = "compare the fingerprint with the host's console, then log in once with ssh, or add it to " + r.knownHosts[0]
	default:
		return err
	}
	return e
}
