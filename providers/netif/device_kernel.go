package netif

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/fabricform/fabricform/host"
)

// Attributes of links (include/uapi/linux/if_link.h).
const (
	iflaAddress, iflaName, iflaMTU, iflaLink, iflaMaster, iflaLinkInfo = 1, 3, 4, 5, 10, 18
	infoKind, infoData                                                 = 1, 2

	bondMode, bondActive, bondPrimary, bondInfo, bondActorSystem = 1, 2, 11, 23, 26
	vlanID, vlanFlags, vlanEgress, qosMapping                    = 1, 2, 3, 1
	reorderHeader                                                = 1 // VLAN_FLAG_REORDER_HDR, the flag of a new VLAN
)

// linkRequest returns a request about a link; index 0 is a new one.
func linkRequest(index int, attrs ...attr) object {
	head := make([]byte, headSizes[host.NewLink])
	put32(head, 4, uint32(index))
	return object{kind: host.NewLink, head: head, attrs: attrs}
}

// linkInfo returns the attribute with the kind of a link and its options.
func linkInfo(kind string, data []attr) attr {
	return attr{iflaLinkInfo, encodeAttrs([]attr{{infoKind, append([]byte(kind), 0)}, {infoData, encodeAttrs(data)}})}
}

func number32(kind uint16, v int) attr {
	return attr{kind, binary.NativeEndian.AppendUint32(nil, uint32(v))}
}

func text(kind uint16, s string) attr { return attr{kind, append([]byte(s), 0)} }

// makeDevice makes a device. below is the index of the device that carries a VLAN; 0 for a bond. It is down.
func makeDevice(h host.Host, name, kind string, below, mtu int, data []attr, more ...attr) error {
	attrs := append([]attr{text(iflaName, name), linkInfo(kind, data)}, more...)
	if below != 0 {
		attrs = append(attrs, number32(iflaLink, below))
	}
	if mtu != 0 {
		attrs = append(attrs, number32(iflaMTU, mtu))
	}
	if err := h.Send(host.NewLink, host.Create|host.Excl, linkRequest(0, attrs...).encode()); err != nil {
		return fmt.Errorf("make %s %s: %w", kind, name, err)
	}
	return nil
}

// removeDevice removes a device. A bond releases its members one by one before that, each of which stays up if it was.
func removeDevice(ctx context.Context, h host.Host, l host.Link) error {
	links, err := h.Links(ctx)
	if err != nil {
		return err
	}
	for _, m := range links {
		if m.Master == l.Index && l.Kind == KindBond {
			if err := release(h, m); err != nil {
				return err
			}
		}
	}
	if err := h.Send(host.DelLink, 0, linkRequest(l.Index).encode()); err != nil {
		return fmt.Errorf("remove %s: %w", l.Name, err)
	}
	return nil
}

// setOptions changes options of a device.
func setOptions(h host.Host, l host.Link, data ...attr) error {
	if err := h.Send(host.NewLink, 0, linkRequest(l.Index, linkInfo(l.Kind, data)).encode()); err != nil {
		return fmt.Errorf("change %s: %w", l.Name, err)
	}
	return nil
}

// setMAC gives a device a MAC address.
func setMAC(h host.Host, l host.Link, mac []byte) error {
	if err := h.Send(host.NewLink, 0, linkRequest(l.Index, attr{iflaAddress, mac}).encode()); err != nil {
		return fmt.Errorf("set the MAC of %s: %w", l.Name, err)
	}
	return nil
}

// enslave makes a NIC a member of a bond. The kernel refuses one that is up, and brings it up itself.
func enslave(h host.Host, member host.Link, bond int) error {
	if member.Up {
		if err := h.SetUp(member.Index, false); err != nil {
			return err
		}
	}
	if err := h.Send(host.NewLink, 0, linkRequest(member.Index, number32(iflaMaster, bond)).encode()); err != nil {
		err = fmt.Errorf("make %s a member: %w", member.Name, err)
		if member.Up {
			err = errors.Join(err, h.SetUp(member.Index, true))
		}
		return err
	}
	return nil
}

// release takes a member out of its bond. The kernel takes it down, and gives it the MAC and the MTU that it had before.
func release(h host.Host, member host.Link) error {
	if err := h.Send(host.NewLink, 0, linkRequest(member.Index, number32(iflaMaster, 0)).encode()); err != nil {
		return fmt.Errorf("release %s: %w", member.Name, err)
	}
	if member.Up {
		return h.SetUp(member.Index, true)
	}
	return nil
}

// egressMap returns the attribute with a map of priorities. Priorities of earlier that are not in the map get PCP 0, because the kernel never
// removes an entry (vlan_dev_set_egress_priority in net/8021q/vlan_dev.c).
func egressMap(earlier, wanted map[int]int) attr {
	all := map[int]int{}
	for from := range earlier {
		all[from] = 0
	}
	for from, to := range wanted {
		all[from] = to
	}
	var entries []attr
	for _, from := range sortedKeys(all) {
		raw := binary.NativeEndian.AppendUint32(nil, uint32(from))
		entries = append(entries, attr{qosMapping, binary.NativeEndian.AppendUint32(raw, uint32(all[from]))})
	}
	return attr{vlanEgress, encodeAttrs(entries)}
}

func sortedKeys(m map[int]int) (out []int) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
