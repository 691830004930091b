package transport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
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

// hostKeys returns the check for a host's key, and the key types to request. A host may have several keys,
// and only those in known_hosts can be checked (golang/go#29286).
func (r resolved) hostKeys(hostPort string) (ssh.HostKeyCallback, []string, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, nil, err
	}
	if host = firstOf(r.keyName, host); r.hostKeyAlias != "" {
		host, port = r.hostKeyAlias, "22" // ssh looks up an alias without a port
	}
	of := strings.Join(slices.Concat([]string{r.KnownHosts}, r.knownHosts, []string{""}, r.revoking, []string{""}, r.revoked), "\x00")
	db, err := r.read.known.once(of, r.readKnown)
	if err != nil {
		return nil, nil, fmt.Errorf("read known_hosts: %w", err)
	}
	keys, err := db.find(host, port)
	if err == nil && len(keys) == 0 && port != "22" { // a name with * also stands for other ports
		keys, err = db.find(host, "22")
		keys = slices.DeleteFunc(keys, func(k knownKey) bool { return !k.anyPort })
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read known_hosts: %w", err)
	}
	keys = slices.DeleteFunc(keys, func(k knownKey) bool { return k.key.Type() == dsa })
	asked, err := r.accepts.ofHost(algorithms(keys))
	if err != nil {
		return nil, nil, err
	}
	check := ssh.CertChecker{
		IsHostAuthority: func(key ssh.PublicKey, _ string) bool {
			return slices.ContainsFunc(keys, func(k knownKey) bool { return k.authority && blob(k.key) == blob(key) })
		},
		IsRevoked: func(c *ssh.Certificate) bool {
			_, host := db.revoked[blob(c)]
			_, authority := db.revoked[blob(c.SignatureKey)]
			return host || authority
		},
		HostKeyFallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			e := &HostKeyError{Kind: "unknown", Hint: "compare the fingerprint with the host's console, then log in once with ssh, or add it to " + r.knownHosts[0]}
			if revoked, is := db.revoked[blob(key)]; is {
				e.Kind, e.Known, e.Hint = "revoked", revoked.at, "the key is marked as revoked: give the host a new key"
				return e
			}
			for _, k := range keys {
				if !k.authority && blob(k.key) == blob(key) {
					return nil
				}
			}
			if len(keys) > 0 {
				e.Kind, e.Known = "changed", keys[0].at
				e.Hint = "if the host was reinstalled, remove that line (`ssh-keygen -R`) and add the new key as shown on the host's console"
			}
			return e
		},
	}
	hostPort = net.JoinHostPort(host, port)
	return func(_ string, remote net.Addr, key ssh.PublicKey) error {
		if err := r.accepts.checkKey(key); err != nil {
			return err
		}
		return r.explain(check.CheckHostKey(hostPort, remote, key), hostPort, key)
	}, asked, nil
}

// readKnown reads the known_hosts files that are there. A declared one must be.
func (r resolved) readKnown() (*knownHosts, error) {
	var files []string
	for _, f := range r.knownHosts {
		f = home(f)
		if _, err := os.Stat(f); err == nil {
			files = append(files, f)
		} else if r.KnownHosts != "" {
			return nil, err
		}
	}
	return readKnownHosts(files, r.revoking, r.revoked)
}

func (r resolved) explain(err error, hostPort string, key ssh.PublicKey) error {
	if err == nil {
		return nil
	}
	var e *HostKeyError
	if !errors.As(err, &e) {
		if !strings.Contains(err.Error(), "no authorities for hostname") && !strings.Contains(err.Error(), "certificate signed by unrecognized authority") {
			return err
		}
		// x/crypto/ssh has no type for these (certs.go, CheckHostKey).
		e = &HostKeyError{Kind: "not signed by a known authority", Hint: "add the authority's @cert-authority line to " + r.knownHosts[0]}
	}
	e.Host, e.Fingerprint, e.Type = knownhosts.Normalize(hostPort), ssh.FingerprintSHA256(key), key.Type()
	return e
}
