package apply

import (
	"net/netip"
	"testing"

	"github.com/fabricform/fabricform/facts"
)

// proven is a stream to a host.
type proven string

func (proven) HostKey() string           { return "the key" }
func (p proven) Dialled() netip.AddrPort { return netip.MustParseAddrPort(string(p)) }

// TestAHostDoesNotSayItsOwnKeyAndAddress: other hosts of its fabric trust the key at the address.
func TestAHostDoesNotSayItsOwnKeyAndAddress(t *testing.T) {
	for _, c := range []struct {
		stream  any
		key, at string
	}{{proven("10.0.0.2:2222"), "the key", "10.0.0.2"}, {proven("10.0.0.2:22"), "the key", "invalid IP"}, {"no SSH", "", "invalid IP"}} {
		foreign := netip.MustParseAddr("10.0.0.3")
		snap := &facts.Snapshot{Management: facts.Management{Server: foreign, Dialled: foreign, Port: 2222, HostKey: "of another host"}}
		setProven(c.stream, snap)
		if m := snap.Management; m.HostKey != c.key || m.Dialled.String() != c.at || m.Server != foreign {
			t.Errorf("%v: %+v", c.stream, m)
		}
	}
}
