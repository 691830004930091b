package calls

import (
	"fmt"
	"net/netip"
	"regexp"

	"github.com/fabricform/fabricform/agent"
)

var (
	// MakeRoom says where a bundle is to be uploaded to, and from which byte on.
	MakeRoom = agent.Method[Bundle, BundleRoom]("bundle.room")
	// CheckBundle hashes what was uploaded.
	CheckBundle = agent.Method[Bundle, BundleRoom]("bundle.check")
	// StartRelay begins to hand out a bundle to other hosts.
	StartRelay = agent.Method[Bundle, Relay]("relay.serve")
	// Fetch fetches a part of a bundle from a relay.
	Fetch = agent.Method[FetchParams, Fetched]("relay.fetch")
	// EndRelay stops handing out a bundle.
	EndRelay = agent.Method[RelayEnd, struct{}]("relay.end")
)

// Bundle names a file and what it is.
type Bundle struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // lower case hexadecimal
	Size   int64  `json:"size"`   // bytes
}

// name keeps to characters that mean nothing to anybody.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,200}$`)

var hash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Check refuses what could not be a bundle's file, size or hash.
func (b Bundle) Check() error {
	if !name.MatchString(b.Name) || !hash.MatchString(b.SHA256) || b.Size <= 0 {
		return fmt.Errorf("%q (%d bytes, SHA-256 %q) is not a valid bundle", b.Name, b.Size, b.SHA256)
	}
	return nil
}

// Part is the name of the file that it grows in; another content under the same name has another one.
func (b Bundle) Part() string { return b.Name + "." + b.SHA256[:16] + ".part" }

// BundleRoom is where a bundle may be uploaded to.
type BundleRoom struct {
	Path  string `json:"path"`
	Have  int64  `json:"have"`  // bytes of it that are there
	Whole bool   `json:"whole"` // it is there, and was checked
}

// Relay is where a host hands out a bundle.
type Relay struct {
	Addresses []netip.Addr `json:"addresses"` // of the host, but loopback and link-local ones
	Port      uint16       `json:"port"`
	Token     string       `json:"token"`
}

// FetchParams ask a host to fetch a part of a bundle from a relay.
type FetchParams struct {
	Bundle Bundle `json:"bundle"`
	Relay  Relay  `json:"relay"`
}

// Fetched is how far that came.
type Fetched struct {
	Have  int64      `json:"have"` // bytes that are there
	Whole bool       `json:"whole"`
	From  netip.Addr `json:"from"` // the relay's address that answered
}

// RelayEnd ends a relaying.
type RelayEnd struct {
	Token string `json:"token"` // "": it did not begin
	// Remove is a bundle that the host has for others only; its name is empty where it keeps it.
	Remove Bundle `json:"remove"`
}
