package netif

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/fabricform/fabricform/host"
)

// bondOption is one row of bondOptions: an option of a bond.
type bondOption struct {
	attribute string // in changes and atoms, as in the language
	name      string // in the kernel's Documentation/networking/bonding.rst
	code      uint16 // IFLA_BOND_* of include/uapi/linux/if_link.h
	size      int    // bytes of its value
	down      bool   // the bond must be down (BOND_OPTFLAG_IFDOWN of drivers/net/bonding/bond_options.c)
	names     []string
	get       func(b *host.Bond) string
	declared  func(want *BondSpec) (value string, is bool) // false if the block leaves it alone
}

const (
	attrMode     = "mode"
	attrLACPRate = "lacp_rate"
	attrXmitHash = "xmit_hash"
	attrMIIMon   = "miimon"
	attrMinLinks = "min_links"
)

// bondOptions are the options, in the order in which the kernel needs them: which others exist depends on the mode. The place of a name in
// names is its number in the kernel (include/uapi/linux/if_bonding.h).
var bondOptions = []bondOption{
	{attrMode, "mode", 1, 1, true, []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"},
		func(b *host.Bond) string { return b.Mode }, func(w *BondSpec) (string, bool) { return w.Mode, w.Mode != "" }},
	{attrMIIMon, "miimon", 3, 4, false, nil,
		func(b *host.Bond) string { return strconv.Itoa(b.MIIMon) }, func(w *BondSpec) (string, bool) { return strconv.Itoa(w.MIIMon), w.MIIMon != 0 }},
	{attrLACPRate, "lacp_rate", 21, 1, true, []string{"slow", "fast"},
		func(b *host.Bond) string { return b.LACPRate }, func(w *BondSpec) (string, bool) { return w.LACPRate, w.LACPRate != "" }},
	{attrXmitHash, "xmit_hash_policy", 14, 1, false, []string{"layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"},
		func(b *host.Bond) string { return b.XmitHash }, func(w *BondSpec) (string, bool) { return w.XmitHash, w.XmitHash != "" }},
	{attrMinLinks, "min_links", 18, 4, false, nil,
		func(b *host.Bond) string { return strconv.Itoa(b.MinLinks) },
		func(w *BondSpec) (string, bool) {
			if w.MinLinks == nil {
				return "", false
			}
			return strconv.Itoa(*w.MinLinks), true
		}},
}

// BondOption is an option of a bond, with the name that the kernel's Documentation/networking/bonding.rst gives it.
type BondOption struct{ Name, Value string }

// Options returns the declared options, with the mode first: which others exist depends on it.
func (b *BondSpec) Options() []BondOption {
	var out []BondOption
	for _, o := range bondOptions {
		if value, declared := o.declared(b); declared {
			out = append(out, BondOption{o.name, value})
		}
	}
	return out
}

// newBond has the options of a new bond that a block may leave alone. A bond always has a declared mode and miimon.
var newBond = map[string]string{attrLACPRate: "slow", attrXmitHash: "layer2", attrMinLinks: "0"}

func bondOptionOf(attribute string) *bondOption {
	i := slices.IndexFunc(bondOptions, func(o bondOption) bool { return o.attribute == attribute })
	if i < 0 {
		return nil
	}
	return &bondOptions[i]
}

// bondValues returns the options of a bond, by attribute.
func bondValues(l *host.Link) map[string]string {
	out := map[string]string{}
	for _, o := range bondOptions {
		if l.Bond != nil {
			out[o.attribute] = o.get(l.Bond)
		}
	}
	return out
}

// encode returns the option as rtnetlink has it.
func (o bondOption) encode(value string) (attr, error) {
	n := slices.Index(o.names, value)
	if o.names == nil {
		var err error
		if n, err = strconv.Atoi(value); err != nil {
			return attr{}, fmt.Errorf("%s %q: %w", o.attribute, value, err)
		}
	}
	if n < 0 {
		return attr{}, fmt.Errorf("%s: unknown value %q", o.attribute, value)
	}
	raw := binary.NativeEndian.AppendUint32(nil, uint32(n))
	if o.size == 1 {
		raw = []byte{byte(n)}
	}
	return attr{o.code, raw}, nil
}
