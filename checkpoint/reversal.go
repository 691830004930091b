package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/fabricform/fabricform/resource"
)

// Reversal says how a host reverts, and what others changed on it.
type Reversal struct {
	// Changes lead to the state that is restored.
	Changes []resource.Change `json:"changes,omitempty"`
	// Kept are changes that others made, and that stay.
	Kept []resource.Change `json:"kept,omitempty"`
	// Overwritten is the part of Changes that reverses what others changed, or what the kernel changed by itself.
	Overwritten []resource.Change `json:"overwritten,omitempty"`
	// Disturbed has a clause for each thing of others that Changes disturb, such as a device above a NIC.
	Disturbed []string `json:"disturbed,omitempty"`
	// hidden are the states of sensitive items, which the changes do not show. Digest needs them.
	hidden []string
}

// Digest is equal for equal reversals.
func (r Reversal) Digest() string {
	raw, err := json.Marshal(struct {
		Reversal
		Hidden []string
	}{r, r.hidden})
	if err != nil {
		panic(err) // plain text only
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
