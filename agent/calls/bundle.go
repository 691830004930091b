package calls

import (
	"fmt"
	"net/netip"
	"regexp"
	"sync"

	"github.com/fabricform/fabricform/agent"
)

var (
	// PrepareUpload makes space for a bundle, and returns where to upload it and from which byte on.
	PrepareUpload = agent.Method[Bundle, BundleUpload]("bundle.room")
	// CheckBundle checks the content of an uploaded bundle.
	CheckBundle = agent.Method[UploadedBundle, BundleUpload]("bundle.check")
	// StartRelay starts to serve a bundle to other hosts.
	StartRelay = agent.Method[RelayStart, Relay]("relay.serve")
	// Fetch fetches a part of a bundle from a relay.
	Fetch = agent.Method[FetchParams, Fetched]("relay.fetch")
	// EndRelay stops serving a bundle.
	EndRelay = agent.Method[RelayEnd, struct{}]("relay.end")
)

// Bundle identifies a file by its name, hash and size.
type Bundle struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // lower case hexadecimal
	Size   int64  `json:"size"`   // bytes
}

// name admits only characters that are not special anywhere.
var name = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,200}$`) })

var hash = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })

// Check returns an error if the name, the size or the hash is invalid.
func (b Bundle) Check() error {
	if !name().MatchString(b.Name) || !hash().MatchString(b.SHA256) || b.Size <= 0 {
		return fmt.Errorf("%q (%d bytes, SHA-256 %q) is not a valid bundle", b.Name, b.Size, b.SHA256)
	}
	return nil
}

// Part returns the name of the file for a partial upload. It depends on the hash, so that two bundles with one name have different files.
func (b Bundle) Part() string { return b.Name + "." + b.SHA256[:16] + ".part" }

// UploadedBundle is a bundle that the operator's machine has sent, with the seal of its content.
type UploadedBundle struct {
	Bundle Bundle `json:"bundle"`
	Seal   Seal   `json:"seal"`
}

// BundleUpload is the place for an upload of a bundle.
type BundleUpload struct {
	Path  string `json:"path"`
	Have  int64  `json:"have"`  // bytes that the host already has
	Whole bool   `json:"whole"` // the host has the whole bundle, and has checked it
}

// RelayStart asks a host to serve a bundle.
type RelayStart struct {
	Bundle Bundle `json:"bundle"`
	// For are the addresses of the hosts that fetch it, with their networks. The relay listens only in these networks.
	For []netip.Prefix `json:"for,omitempty"`
}

// Relay is where a host serves a bundle.
type Relay struct {
	Addresses []netip.AddrPort `json:"addresses"`
	Token     string           `json:"token"`
}

// FetchParams asks a host to fetch a part of a bundle from a relay.
type FetchParams struct {
	Bundle Bundle `json:"bundle"`
	Relay  Relay  `json:"relay"`
}

// Fetched is the progress of a fetch.
type Fetched struct {
	Have  int64          `json:"have"` // bytes that the host has
	Whole bool           `json:"whole"`
	From  netip.AddrPort `json:"from"` // the relay's address that answered
}

// RelayEnd asks a relay to stop.
type RelayEnd struct {
	Token string `json:"token"` // "" if the relay did not start
	// Remove is a bundle that the host has only for other hosts. Its name is empty if the host keeps the bundle.
	Remove Bundle `json:"remove"`
}
