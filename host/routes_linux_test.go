package host

import (
	"math"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestARuleIsWrittenAsItIsRead: a rule that lost a selector would match other packets, or another rule when it is removed.
func TestARuleIsWrittenAsItIsRead(t *testing.T) {
	r := Rule{Priority: 10, From: netip.MustParsePrefix("10.0.0.1/32"), To: netip.MustParsePrefix("10.1.0.0/16"), Table: 101,
		Family: unix.AF_INET, Protocol: 251, IIF: "eth0", OIF: "eth1", Mark: 7}
	if got := rule(r.Family, *wantedRule(r)); got != r {
		t.Errorf("%+v becomes %+v", r, got)
	}
}

// TestAMarkWithAMaskIsAnotherSelector: Rule cannot express it.
func TestAMarkWithAMaskIsAnotherSelector(t *testing.T) {
	for mask, other := range map[uint32]bool{math.MaxUint32: false, 0xff: true} {
		r := netlink.NewRule()
		r.Mark, r.Mask = 7, &mask
		if got := rule(unix.AF_INET, *r); got.Other != other {
			t.Errorf("mask %#x: %+v", mask, got)
		}
	}
}
