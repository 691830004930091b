package probe

import (
	"crypto/rand"
	"encoding/hex"
)

// newID is a random text of n bytes, in hexadecimal: it names what runs here, and cannot be guessed.
func newID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
