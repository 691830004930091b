package loginmesh

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// gather reads what is known of the users of these meshes and atoms.
func gather(ctx context.Context, r host.Reader, snap *facts.Snapshot, wants []KeySpec, atoms []resource.Atom) error {
	meshes := map[string][]KeySpec{} // by user
	for _, w := range wants {
		meshes[w.User] = append(meshes[w.User], w)
	}
	for _, a := range atoms {
		if user, mesh, ok := strings.Cut(a.Thing(), "/"); ok {
			meshes[user] = append(meshes[user], KeySpec{Login: Login{Mesh: mesh, User: user}})
		}
	}
	out := map[string]*User{}
	for name, of := range part.Of(snap) { // the other kind of this package has read them
		out[name] = of
	}
	var owned map[resource.Atom]bool
	if len(wants) > 0 { // what is undone is not noted
		var err error
		if owned, err = ownedBy(ctx, r); err != nil {
			return err
		}
	}
	for user, of := range meshes {
		u, err := lookUp(ctx, r, user, of)
		if err != nil {
			return err
		}
		for _, a := range slices.Sorted(maps.Keys(owned)) {
			owner, _, _ := strings.Cut(a.Thing(), "/")
			if value := a.Value(); owner == user && (a.Kind() == KeyKind && value == folder || a.Kind() == Kind && value == authorized) {
				u.Made = append(u.Made, a)
			}
		}
		if before := out[user]; before != nil && u.Keys != nil {
			maps.Copy(u.Keys, before.Keys)
			maps.Copy(u.Proofs, before.Proofs)
			if len(wants) == 0 {
				u.Made = before.Made
			}
		}
		out[user] = u
	}
	part.Put(snap, out)
	return snap.ReadFiles(ctx, r, sshDir, configDir)
}

// lookUp reads a user's account, the public keys of the meshes, and our lines of authorized_keys. What is wrong with the
// user's files is a fact about them, and no error.
func lookUp(ctx context.Context, r host.Reader, user string, meshes []KeySpec) (*User, error) {
	u := &User{Keys: map[string]string{}, Proofs: map[string][]byte{}}
	why := func(err error) (*User, error) {
		if ctx.Err() != nil {
			return nil, err
		}
		u.Why = err.Error()
		return u, nil
	}
	a, err := host.LookUp(ctx, r, user)
	if err != nil {
		return why(err)
	}
	if a == nil {
		u.Why = "user " + user + " does not exist on this host: create the user, with the same name on all hosts"
		return u, nil
	}
	u.Account = *a
	if u.Home, err = r.HomeID(ctx, *a); err != nil {
		return why(err)
	}
	if u.Folder, err = r.LoginFolder(ctx, *a); err != nil {
		return why(err)
	}
	for _, w := range meshes {
		public, proof, err := readKey(ctx, r, *a, w)
		if err != nil {
			return why(err)
		}
		if u.Keys[w.Mesh] = public; proof != nil {
			u.Proofs[w.Mesh] = proof
		}
	}
	f, err := r.LoginFile(ctx, *a, host.AuthorizedKeys)
	if err != nil {
		return why(err)
	}
	if f != nil {
		u.Authorized, u.Entries = true, entriesOf(string(f.Text))
	}
	text, err := r.ReadFile(ctx, sshDir+"/ssh_config")
	u.Included = err == nil && includes(string(text))
	return u, nil
}

// maxKeyFile bounds the file of a key, in bytes. One of ours has about 400.
const maxKeyFile = 4 << 10

// readKey returns the public half of a mesh's key; "" if the user has no such key. If the host is known, it also returns the host's
// proof that it has the private half. The private half stays in this function.
func readKey(ctx context.Context, r host.Reader, a host.Account, w KeySpec) (public string, proof []byte, err error) {
	name := fabric.LoginKey(w.Mesh)
	f, err := r.LoginFile(ctx, a, name)
	if f == nil || err != nil {
		return "", nil, err
	}
	// The file is the user's: parsing a long one, or a key of another kind, could take this process long.
	var k ssh.Signer
	if len(f.Text) <= maxKeyFile && bytes.HasPrefix(f.Text, []byte("-----BEGIN OPENSSH PRIVATE KEY-----\n")) {
		k, err = ssh.ParsePrivateKey(f.Text)
	}
	if k == nil || err != nil || k.PublicKey().Type() != ssh.KeyAlgoED25519 { // the error could quote the file
		return "", nil, fmt.Errorf("%s/.ssh/%s is not an ed25519 key without a passphrase: move it away, and apply makes a new one",
			a.Home, name)
	}
	if f.Perm&0o077 != 0 {
		return "", nil, fmt.Errorf("%s/.ssh/%s is readable by others (mode %04o): remove it, and apply makes a new one",
			a.Home, name, f.Perm)
	}
	if other := madeFor(f.Text); w.Fabric != "" && other != "" && other != w.Fabric {
		return "", nil,
			fmt.Errorf("%s/.ssh/%s is the key of a login_mesh of another fabric, %.80q, with the same name and user: "+
				"give one of the two meshes another name", a.Home, name, other)
	}
	if w.Host != "" {
		signed, err := k.Sign(nil, proofOf(w.Fabric, w.Mesh, w.Host)) // ed25519 needs no random numbers
		if err != nil {
			return "", nil, fmt.Errorf("sign with %s: %w", name, err)
		}
		proof = signed.Blob
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.PublicKey()))), proof, nil
}

// madeFor returns the fabric that the comment of a private key names (comment); "" if it names none. The layout is that of
// OpenSSH's PROTOCOL.key, without encryption: a magic text, three words about the cipher, the public key, and the private part.
func madeFor(private []byte) string {
	const magic = "openssh-key-v1\x00"
	block, _ := pem.Decode(private)
	if block == nil || !strings.HasPrefix(string(block.Bytes), magic) {
		return ""
	}
	var outer struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public, Private      []byte
	}
	var inner struct {
		Check1, Check2 uint32
		Type           string
		Public, Secret []byte
		Comment        string
		Padding        []byte `ssh:"rest"`
	}
	if ssh.Unmarshal(block.Bytes[len(magic):], &outer) != nil || ssh.Unmarshal(outer.Private, &inner) != nil {
		return ""
	}
	if f := strings.Split(inner.Comment, ":"); len(f) == 4 && f[0] == "fabricform" {
		return f[1]
	}
	return ""
}

// includes reports whether ssh_config(5) includes the snippets of configDir for all hosts.
func includes(config string) bool {
	for line := range strings.Lines(config) {
		f := strings.FieldsFunc(strings.TrimSpace(line), func(r rune) bool { return r == ' ' || r == '\t' || r == '=' || r == '"' })
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		switch strings.ToLower(f[0]) {
		case "include":
			for _, pattern := range f[1:] {
				if !path.IsAbs(pattern) { // in the folder of the system's file (ssh_config(5))
					pattern = sshDir + "/" + pattern
				}
				if ok, err := path.Match(pattern, configDir+"/00-fabricform-a.conf"); ok && err == nil {
					return true
				}
			}
		case "host", "match": // what follows may not be for all hosts
			return false
		}
	}
	return false
}
