package transport

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// knownHosts are known_hosts files, read once and searched by name: a search line by line costs a large fleet more than all its
// logins. A line is parsed when it is about a host that is asked for. Safe for concurrent use.
type knownHosts struct {
	lines   []knownLine
	named   map[string][]int32  // lines that name hosts in full, by name without the port
	others  []int32             // lines that can be about any host: wildcards, negations, hashed names
	revoked map[string]knownKey // by the key's blob
}

// knownLine is one line, without spaces around it.
type knownLine struct {
	file   string
	number int
	text   string
}

// knownKey is what a line says of its hosts.
type knownKey struct {
	key       ssh.PublicKey
	authority bool // it signs the keys of the hosts
	anyPort   bool // a name has * and no port: it stands for all ports
	at        string
}

// readKnownHosts reads known_hosts files. Of those in revoking, only the @revoked lines count, and none needs to exist. Lists have one
// revoked public key per line.
func readKnownHosts(files, revoking, lists []string) (*knownHosts, error) {
	k := &knownHosts{named: map[string][]int32{}, revoked: map[string]knownKey{}}
	for _, file := range files {
		if err := eachLine(file, k.add); err != nil {
			return nil, err
		}
	}
	for _, file := range revoking {
		err := eachLine(file, func(l knownLine) error {
			if marker, _, _ := l.fields(); marker != "@revoked" {
				return nil
			}
			return k.add(l)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for _, file := range lists {
		err := eachLine(file, func(l knownLine) error {
			if l.number == 1 && l.text == "SSHKRL" { // PROTOCOL.krl of OpenSSH
				return fmt.Errorf("%s is a binary list (KRL), which is not supported: name a file with one public key per line", l.file)
			}
			l.text = "@revoked * " + l.text
			return k.add(l)
		})
		if err != nil {
			return nil, fmt.Errorf("RevokedHostKeys: %w", err)
		}
	}
	return k, nil
}

// eachLine calls add for each line of a file that is neither empty nor a comment.
func eachLine(file string, add func(knownLine) error) error {
	raw, err := os.ReadFile(home(file))
	if err != nil {
		return err
	}
	number := 0
	for text := range strings.Lines(string(raw)) {
		number++
		if text = strings.Trim(text, " \t\r\n"); text == "" || text[0] == '#' {
			continue
		}
		if err := add(knownLine{file, number, text}); err != nil {
			return err
		}
	}
	return nil
}

// add files a line under the names in it. Lines that revoke a key count for all hosts, whatever they name.
func (k *knownHosts) add(l knownLine) error {
	marker, names, _ := l.fields()
	switch {
	case marker == "@revoked":
		key, err := l.parse()
		if err != nil {
			return err
		}
		k.revoked[blob(key.key)] = key
		return nil
	case marker != "" && marker != "@cert-authority", strings.HasPrefix(names, "@"):
		return fmt.Errorf("%s:%d: unexpected marker", l.file, l.number)
	}
	i := int32(len(k.lines))
	k.lines = append(k.lines, l)
	if strings.ContainsAny(names, "*?!|") {
		k.others = append(k.others, i)
		return nil
	}
	for name := range strings.SplitSeq(strings.ToLower(names), ",") {
		host, _ := splitPort(name)
		k.named[host] = append(k.named[host], i)
	}
	return nil
}

// fields splits a line into its marker, which may be "", its names and the rest.
func (l knownLine) fields() (marker, names, rest string) {
	names, rest = word(l.text)
	if strings.HasPrefix(names, "@") {
		marker = names
		names, rest = word(rest)
	}
	return marker, names, rest
}

func word(s string) (first, rest string) {
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i], strings.TrimLeft(s[i:], " \t")
	}
	return s, ""
}

func (l knownLine) parse() (knownKey, error) {
	marker, names, rest := l.fields()
	kind, rest := word(rest)
	text, _ := word(rest)
	k := knownKey{authority: marker == "@cert-authority", at: fmt.Sprintf("%s:%d", l.file, l.number)}
	if i := strings.IndexByte(names, '*'); i >= 0 {
		k.anyPort = !strings.Contains(names[i:], "]:")
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		k.key, err = ssh.ParsePublicKey(raw)
	}
	if err == nil && k.key.Type() != kind {
		err = fmt.Errorf("the key is of the type %s, and not %s", k.key.Type(), neutral(kind))
	}
	if err != nil {
		return k, fmt.Errorf("%s: %w", k.at, err)
	}
	return k, nil
}

// find returns the keys of a host, in the order of the files. As in OpenSSH, case does not matter.
func (k *knownHosts) find(host, port string) ([]knownKey, error) {
	host = strings.ToLower(host)
	at := slices.Concat(k.named[host], k.others)
	slices.Sort(at)
	var found []knownKey
	for _, i := range slices.Compact(at) {
		if _, names, _ := k.lines[i].fields(); !namesHost(names, host, port) {
			continue
		}
		key, err := k.lines[i].parse()
		if err != nil {
			return nil, err
		}
		found = append(found, key)
	}
	return found, nil
}

// namesHost reports whether the names of a line include a host, which is in lower case.
func namesHost(names, host, port string) bool {
	if strings.HasPrefix(names, "|") {
		return hashes(names, knownhosts.Normalize(net.JoinHostPort(host, port)))
	}
	included := false
	for name := range strings.SplitSeq(strings.ToLower(names), ",") {
		name, negated := strings.CutPrefix(name, "!")
		if pattern, at := splitPort(name); at == port && matchPattern(host, pattern) {
			if negated {
				return false
			}
			included = true
		}
	}
	return included
}

// splitPort splits [name]:port. A name alone has SSH's port.
func splitPort(name string) (host, port string) {
	if strings.Contains(name, ":") { // an IPv6 address has too many
		if host, port, err := net.SplitHostPort(name); err == nil {
			return host, port
		}
	}
	return name, "22"
}

// hashes reports whether a hashed name, |1|salt|hash, is that of a host: HMAC-SHA1 (hostfile.c, host_hash).
func hashes(hashed, name string) bool {
	parts := strings.Split(hashed, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil)) == parts[3]
}

// blob returns what identifies a key; of a certificate, the key that it certifies.
func blob(key ssh.PublicKey) string {
	if c, is := key.(*ssh.Certificate); is {
		key = c.Key
	}
	return string(key.Marshal())
}

// dsa is a type of key, and of signature, that is not accepted.
const dsa = "ssh-dss"

// weak reports whether signatures of a format can be forged: those of DSA, and of RSA with SHA-1.
func weak(format string) bool { return format == dsa || format == ssh.KeyAlgoRSA }

// algorithms returns the types of key to request of a host, without repetition. Of an RSA key, only signatures with SHA-2 are taken
// (RFC 8332).
func algorithms(keys []knownKey) []string {
	var all []string
	for _, k := range keys {
		types := []string{k.key.Type()}
		if types[0] == ssh.KeyAlgoRSA {
			types = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, t := range types {
			if k.authority {
				t = strings.TrimSuffix(t, "@openssh.com") + "-cert-v01@openssh.com"
			}
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	return all
}
