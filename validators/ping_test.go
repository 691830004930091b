package validators

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
)

// TestLostFullSizePacketsAreNotAWrongCable: small packets have passed by then, so only the MTU is to blame.
func TestLostFullSizePacketsAreNotAWrongCable(t *testing.T) {
	h := &hail{from: side{host: "a", nic: "rail0", link: &host.Link{MTU: 9000}}, to: side{host: "b", nic: "rail0"}}
	if got := h.lost(full, probe.PingResult{Sent: 3}); !strings.HasSuffix(got, "do not both take 9000 bytes") {
		t.Errorf("lost full-size packets: %s", got)
	}
	if got := h.lost(full, probe.PingResult{Sent: 3, Received: 1}); !strings.Contains(got, "9000 bytes; some packets are lost") {
		t.Errorf("some full-size packets lost: %s", got)
	}
	if got := h.lost(small, probe.PingResult{Sent: 3}); !strings.Contains(got, "a wrong cable") {
		t.Errorf("lost small packets: %s", got)
	}
}
