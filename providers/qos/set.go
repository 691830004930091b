package qos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/dcb"
	"github.com/fabricform/fabricform/retry"
)

// port is a NIC whose attributes are set.
type port struct {
	h      host.Host
	link   host.Link
	device string // the RDMA device; "" if there is none
	number int    // its port
}

// set sets an attribute to a value, or to "" where a value can be absent.
func (p port) set(ctx context.Context, attribute, to string) (err error) {
	if flaps(p.link.Driver, attribute) {
		err = p.flap(ctx, func() error { return p.put(ctx, attribute, to) })
	} else {
		err = p.put(ctx, attribute, to)
	}
	if err != nil {
		return fmt.Errorf("set %s of %s to %q: %w", attribute, p.link.Name, to, err)
	}
	return nil
}

func (p port) put(ctx context.Context, attribute, to string) (err error) {
	name, key := cut(attribute)
	switch name {
	case attrDCBX:
		err = p.setDCBX(ctx, to)
	case attrFlow:
		err = p.setFlow(ctx, parseFlow(to))
	case attrETS:
		err = p.change(ctx, dcb.IEEEETS, func(d dcb.Settings) ([]byte, error) { return encodeETS(d.ETS, to) })
	case attrBuffer:
		err = p.setBuffer(ctx, to)
	case attrTrust:
		err = p.setTrust(ctx, to)
	case attrDSCP:
		var list []int
		if to != "" {
			list, err = parseNumbers(to, ",", dcb.Priorities)
		}
		if err == nil {
			err = p.setDSCPs(ctx, map[int][]int{key: list})
		}
	default:
		err = p.setFile(name, key, to)
	}
	return err
}

// setDCBX sets the mode of DCBX, and reads it again: ice answers with the same number whether it refuses a mode or has set it
// (ice_dcbnl_setdcbx in ice_dcb_nl.c).
func (p port) setDCBX(ctx context.Context, to string) error {
	mode, err := parseDCBX(to)
	if err != nil {
		return err
	}
	if _, err := p.h.SetDCB(dcb.Message(dcb.CmdSetDCBX, p.link.Name, dcb.Attribute(dcb.AttrDCBX, []byte{mode}))); err != nil {
		return err
	}
	now, err := readDCBX(ctx, p.h, p.link.Name)
	if err == nil && now != mode {
		err = fmt.Errorf("the driver has refused it: the mode is %q", dcbxText(now))
	}
	return err
}

// setFlow ends what is to end before it begins anything: pause frames of the whole port exclude PFC. PFC ends first, and equal pause
// frames are not set again: ice, i40e and hns3 refuse that while PFC is on.
func (p port) setFlow(ctx context.Context, to flow) error {
	d, err := readDCB(ctx, p.h, p.link.Name)
	if err != nil && !errors.Is(err, host.ErrUnsupported) {
		return err
	}
	for _, begin := range []bool{false, true} {
		if to.pfc != "" && begin == (to.pfc != none) && (d.PFC == nil || maskText(d.PFC[dcb.PFCMask]) != to.pfc) {
			err := p.change(ctx, dcb.IEEEPFC, func(d dcb.Settings) ([]byte, error) {
				mask, err := parseMask(to.pfc)
				d.PFC[dcb.PFCMask] = mask
				return d.PFC, err
			})
			if err != nil {
				return fmt.Errorf("PFC: %w", err)
			}
		}
		if to.pause != "" && begin == (to.pause != off) {
			if err := p.setPause(ctx, to.pause); err != nil {
				return fmt.Errorf("pause frames: %w", err)
			}
		}
	}
	return nil
}

func (p port) setPause(ctx context.Context, to string) error {
	raw, err := p.h.Pause(ctx, p.link.Index)
	if err != nil {
		return err
	}
	rx, tx, has, err := parsePause(raw)
	if err != nil || has && directions[[2]bool{rx, tx}] == to {
		return err
	}
	for at, name := range directions {
		if name == to {
			return p.h.SetPause(p.link.Index, encodePause(at[0], at[1]))
		}
	}
	return fmt.Errorf("%q is not a setting", to)
}

// setBuffer sets sizes and buffers of priorities in one message. Before that, a priority's new buffer gets its size if it is empty: mlx5
// takes the new buffers of priorities together with the old sizes, and refuses one with PFC in an empty buffer
// (mlx5e_port_manual_buffer_config in en/port_buffer.c).
func (p port) setBuffer(ctx context.Context, to string) error {
	return p.change(ctx, dcb.IEEEBuffer, func(d dcb.Settings) ([]byte, error) {
		raw, err := encodeBuffer(d.Buffer, to)
		if err != nil {
			return nil, err
		}
		size := func(b []byte, i byte) uint32 { return binary.NativeEndian.Uint32(b[dcb.BufferSizes+4*int(i):]) }
		grown := slices.Concat(d.Buffer[:dcb.Priorities], raw[dcb.Priorities:])
		empty, used := false, true
		for i := range dcb.Priorities {
			empty = empty || size(d.Buffer, raw[i]) == 0
			used = used && grown[i] < dcb.Priorities && size(grown, grown[i]) > 0
		}
		if empty && used {
			err = p.send(dcb.CmdIEEESet, dcb.Change(dcb.IEEEBuffer, grown))
		}
		return raw, err
	})
}

// change reads the NIC and changes one struct. The kernel accepts a part that the driver does not have without an error.
func (p port) change(ctx context.Context, kind uint16, to func(dcb.Settings) ([]byte, error)) error {
	d, err := readDCB(ctx, p.h, p.link.Name)
	if err != nil {
		return err
	}
	if map[uint16][]byte{dcb.IEEEPFC: d.PFC, dcb.IEEEETS: d.ETS, dcb.IEEEBuffer: d.Buffer}[kind] == nil {
		return host.ErrUnsupported
	}
	raw, err := to(d)
	if err != nil {
		return err
	}
	return p.send(dcb.CmdIEEESet, dcb.Change(kind, raw))
}

// send sends a change and returns the driver's error.
func (p port) send(command uint8, attributes []byte) error {
	answer, err := p.h.SetDCB(dcb.Message(command, p.link.Name, attributes))
	if err != nil {
		return err
	}
	errno, err := dcb.Result(answer)
	switch {
	case err == nil && syscall.Errno(errno) == syscall.ENOMEM: // also the lowest byte of ENOTSUPP (524)
		err = fmt.Errorf("%w, or the driver does not support it", syscall.ENOMEM)
	case err == nil && errno != 0:
		err = syscall.Errno(errno)
	}
	return err
}

// setTrust sets the order of trust. Without a table of trust, the entries of all DSCPs are set.
func (p port) setTrust(ctx context.Context, to string) error {
	d, err := readDCB(ctx, p.h, p.link.Name)
	if err != nil {
		return err
	}
	if d.HasTrust {
		selectors, err := parseSelectors(to)
		if err != nil {
			return err
		}
		return p.send(dcb.CmdIEEESet, dcb.EncodeTrust(selectors))
	}
	if to == trustDSCP {
		if !d.TrustsDSCP() {
			return errors.New("no DSCP has a priority")
		}
		return nil
	}
	table, err := parseTable(to)
	if err != nil {
		return err
	}
	all := map[int][]int{}
	for dscp := range dcb.Codepoints {
		all[dscp] = table[dscp]
	}
	return p.setDSCPs(ctx, all)
}

// The drivers whose ways differ, beside mlx5's.
const (
	ice  = "ice"
	bnxt = "bnxt_en"
)

// setDSCPs sets the priorities of DSCPs. All entries are added before any is removed: mlx5 replaces the entry of a DSCP by itself, and
// returns to PCP trust when the last one goes (mlx5e_dcbnl_ieee_delapp in en_dcbnl.c). But ice refuses a second entry of a DSCP
// (ice_dcbnl_setapp in ice_dcb_nl.c), and bnxt forgets a DSCP with its earlier entry (bnxt_hwrm_queue_dscp2pri_cfg in bnxt_dcb.c).
func (p port) setDSCPs(ctx context.Context, to map[int][]int) error {
	switch p.link.Driver {
	case ice:
		return p.keeping(ctx, func() error { return p.changeDSCPs(ctx, to, dcb.CmdIEEEDel, dcb.CmdIEEESet) })
	case bnxt:
		return p.changeDSCPs(ctx, to, dcb.CmdIEEEDel, dcb.CmdIEEESet)
	}
	return p.changeDSCPs(ctx, to, dcb.CmdIEEESet, dcb.CmdIEEEDel)
}

// keeping sets shares and PFC again if the change has reset them: ice does that with the first and the last entry of a DSCP
// (ice_dcb_sw_dflt_cfg in ice_dcb_lib.c).
func (p port) keeping(ctx context.Context, change func() error) error {
	was, err := readDCB(ctx, p.h, p.link.Name)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	if now, err := readDCB(ctx, p.h, p.link.Name); err != nil || was.ETS == nil || was.PFC == nil || now.ETS == nil || now.PFC == nil ||
		etsText(now.ETS) == etsText(was.ETS) && now.PFC[dcb.PFCMask] == was.PFC[dcb.PFCMask] {
		return err
	}
	return errors.Join(p.send(dcb.CmdIEEESet, dcb.Change(dcb.IEEEETS, was.ETS)), p.send(dcb.CmdIEEESet, dcb.Change(dcb.IEEEPFC, was.PFC)))
}

func (p port) changeDSCPs(ctx context.Context, to map[int][]int, commands ...uint8) error {
	for _, command := range commands {
		d, err := readDCB(ctx, p.h, p.link.Name)
		if err != nil {
			return err
		}
		live := dscps(d)
		for dscp := range dcb.Codepoints {
			want, named := to[dscp]
			if !named {
				continue
			}
			from, other := want, live[dscp]
			if command == dcb.CmdIEEEDel {
				from, other = live[dscp], want
			}
			for _, priority := range from {
				if slices.Contains(other, priority) {
					continue
				}
				entry := dcb.OfDSCP(dscp, priority)
				if err := p.send(command, entry.Encode()); err != nil {
					return fmt.Errorf("DSCP %d, priority %d: %w", dscp, priority, err)
				}
			}
		}
	}
	return nil
}

// setFile sets what files below /sys switch.
func (p port) setFile(name string, key int, to string) error {
	if to == "" && (name == attrECN || name == attrCNP) {
		return errors.New("the driver did not have this setting before, and it is left as it is")
	}
	switch name {
	case attrECN:
		for _, point := range []string{"rp", "np"} {
			value := "0"
			if strings.Contains(to, point+" on") {
				value = "1"
			}
			if err := p.h.SetSwitch(ecnFile(p.link.Name, point, key), value); err != nil {
				return err
			}
		}
		return nil
	case attrCNP:
		return p.h.SetSwitch(cnpFile(p.link.Name), to)
	case attrRDMACM:
		return p.setRDMACM(to)
	}
	return errors.New("this build cannot set it")
}

// hidden returns an error if rdma_cm has defaults that no plan could see, because somebody has removed their folder. No record has them.
func (p port) hidden(ctx context.Context, to string) error {
	if err := p.makeRDMACM(); err != nil {
		return err
	}
	now := readRDMACM(ctx, p.h, p.device, p.number)
	if now == "" || now == rdmaCMText(0, roceV2) || now == to {
		return nil
	}
	return errors.Join(fmt.Errorf("rdma_cm of %s already has the default %q, which no plan could see without its folder: make it with `mkdir %s`, "+
		"and plan again", p.device, now, fabric.Quote(rdmaCM(p.device))), p.h.RemoveConfig(rdmaCM(p.device)))
}

// makeRDMACM makes the folder of the device.
func (p port) makeRDMACM() error {
	if p.device == "" {
		return errors.New("there is no RDMA device on it")
	}
	if err := p.h.LoadModule("rdma_cm"); err != nil {
		return err
	}
	if err := p.h.MakeConfig(rdmaCM(p.device)); err != nil {
		return fmt.Errorf("%w (is configfs mounted? `systemctl start sys-kernel-config.mount` mounts it)", err)
	}
	return nil
}

// setRDMACM sets the defaults of rdma_cm. If there was no folder, they were the driver's (cma_configfs.c): they outlive the folder.
func (p port) setRDMACM(to string) error {
	tos, mode, absent := 0, roceV2, to == ""
	if !absent {
		var err error
		if tos, mode, err = parseRDMACM(to); err != nil {
			return err
		}
	}
	if err := p.makeRDMACM(); err != nil {
		return err
	}
	err := errors.Join(p.h.SetSwitch(rdmaCMFile(p.device, p.number, "mode"), mode),
		p.h.SetSwitch(rdmaCMFile(p.device, p.number, "tos"), strconv.Itoa(tos)))
	if absent {
		err = errors.Join(err, p.h.RemoveConfig(rdmaCM(p.device)))
	}
	return err
}

// patience is how long a port may take to come back after a change that toggles it, as mlx5 does for PFC (mlx5_toggle_port_link in
// en_dcbnl.c).
const patience = 15 * time.Second

// moment is how soon the kernel hears from a port that goes down.
const moment = 300 * time.Millisecond

// flap makes a change that may toggle the port, and waits until its carrier is back if it had one.
func (p port) flap(ctx context.Context, change func() error) error {
	file := "/sys/class/net/" + p.link.Name + "/carrier"
	had := host.Text(ctx, p.h, file) == "1"
	if err := change(); err != nil || !had {
		return err
	}
	if err := retry.Pause(ctx, moment); err != nil {
		return err
	}
	return retry.Until(ctx, 100*time.Millisecond, patience, func() (bool, error) {
		if host.Text(ctx, p.h, file) == "1" {
			return true, nil
		}
		return false, errors.New("the port has no carrier since then")
	})
}
