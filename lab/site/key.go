package site

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"

	"golang.org/x/crypto/ssh"
)

// Key writes a new Ed25519 SSH key to a file, and returns the line of its public key.
func Key(file string) (public string, err error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "fabricform lab")
	if err != nil {
		return "", fmt.Errorf("make key: %w", err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		return "", fmt.Errorf("write key: %w", err)
	}
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("make key: %w", err)
	}
	return string(ssh.MarshalAuthorizedKey(key)), nil
}
