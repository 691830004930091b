package transport

import (
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// accepts is what ssh's configuration accepts of keys, signatures and ciphers, in its order. A nil list has no limit.
type accepts struct {
	hostKeys    []string // HostKeyAlgorithms
	authorities []string // CASignatureAlgorithms, by which a host's certificate may be signed
	rsaBits     int      // RequiredRSASize, of the keys of hosts and users
	exchanges   []string // KexAlgorithms, as are the next two only if a file of ssh's sets it
	ciphers     []string // Ciphers
	macs        []string // MACs
}

// exchanges are the key exchanges to offer if ssh's configuration says nothing. The post-quantum one that is ssh's default costs the client ten
// times as much CPU.
var exchanges = []string{ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP256, ssh.KeyExchangeMLKEM768X25519}

// config returns what to offer to a host. It is an error if ssh's configuration leaves nothing that this program has: falling back to
// something else would ignore what the user wants.
func (a accepts) config() (ssh.Config, error) {
	c := ssh.Config{KeyExchanges: exchanges}
	for _, of := range []struct {
		keyword string
		wanted  []string
		have    func(ssh.Algorithms) []string
		to      *[]string
	}{
		{"KexAlgorithms", a.exchanges, func(have ssh.Algorithms) []string { return have.KeyExchanges }, &c.KeyExchanges},
		{"Ciphers", a.ciphers, func(have ssh.Algorithms) []string { return have.Ciphers }, &c.Ciphers},
		{"MACs", a.macs, func(have ssh.Algorithms) []string { return have.MACs }, &c.MACs},
	} {
		if of.wanted == nil {
			continue
		}
		have := of.have(ssh.SupportedAlgorithms())
		if *of.to = both(of.wanted, have); len(*of.to) == 0 {
			return c, fmt.Errorf("ssh's configuration sets %s to %s, of which this program has none; it has %s",
				of.keyword, neutral(strings.Join(of.wanted, ",")), strings.Join(have, ","))
		}
	}
	return c, nil
}

// both returns what is in two lists, in the order of the first; the second one if the first has no limit.
func both(wanted, have []string) []string {
	if wanted == nil {
		return have
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(a string) bool { return !slices.Contains(have, a) })
}

// ofHost returns the algorithms of host keys to ask a host for: the accepted ones for which known_hosts has a key of the host. If it has
// none, all accepted ones are asked for.
func (a accepts) ofHost(known []string) ([]string, error) {
	if len(known) == 0 && a.hostKeys != nil {
		known = ssh.SupportedAlgorithms().HostKeys
	}
	asked := both(a.hostKeys, known)
	if len(asked) == 0 && len(known) > 0 {
		return nil, fmt.Errorf("known_hosts has only keys for %s, and HostKeyAlgorithms of ssh's configuration accepts none of these: it is %s; add another key of the host to known_hosts, or change HostKeyAlgorithms",
			strings.Join(known, ","), neutral(strings.Join(a.hostKeys, ",")))
	}
	return asked, nil
}

// checkKey refuses a key of a host that is too short, or whose certificate is signed in a way that is not accepted.
func (a accepts) checkKey(key ssh.PublicKey) error {
	if c, is := key.(*ssh.Certificate); is {
		switch format := c.Signature.Format; {
		case weak(format):
			return fmt.Errorf("the certificate of the host's key is signed by %s, which can be forged: sign it again by rsa-sha2-512 or Ed25519", format)
		case a.authorities != nil && !slices.Contains(a.authorities, format):
			return fmt.Errorf("the certificate of the host's key is signed by %s, which CASignatureAlgorithms of ssh's configuration does not accept", neutral(format))
		}
	}
	if bits := rsaBits(key); bits != 0 && bits < a.rsaBits {
		return fmt.Errorf("the host's RSA key has %d bits, and RequiredRSASize of ssh's configuration is %d: give the host a longer key or an Ed25519 one", bits, a.rsaBits)
	}
	return nil
}

// tooShort reports whether a user's key may not be used; why is for messages.
func (a accepts) tooShort(key ssh.PublicKey) (why string, is bool) {
	bits := rsaBits(key)
	if bits == 0 || bits >= a.rsaBits {
		return "", false
	}
	return fmt.Sprintf("RSA with %d bits, and RequiredRSASize is %d", bits, a.rsaBits), true
}

// plainKey parses a key of an agent, which is its bytes alone. One of a type that we do not know stays as it is.
func plainKey(key ssh.PublicKey) ssh.PublicKey {
	if k, is := key.(*agent.Key); is {
		if parsed, err := ssh.ParsePublicKey(k.Blob); err == nil {
			return parsed
		}
	}
	return key
}

// rsaBits returns the size of an RSA key, or of the one that a certificate is for; 0 for other keys.
func rsaBits(key ssh.PublicKey) int {
	key = plainKey(key)
	if c, is := key.(*ssh.Certificate); is {
		key = c.Key
	}
	if k, is := key.(ssh.CryptoPublicKey); is {
		if k, is := k.CryptoPublicKey().(*rsa.PublicKey); is {
			return k.N.BitLen()
		}
	}
	return 0
}
