package qos

import (
	"bytes"
	"context"
	"encoding/binary"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/dcb"
	"github.com/fabricform/fabricform/resource/kindtest"
)

// nic is a host with one NIC, eth1. It fakes the answers of net/dcb/dcbnl.c and net/ethtool/pause.c, byte by byte as those files write
// them, and the rules of mlx5's en_dcbnl.c, en_ethtool.c and port_buffer.c: shares add up to 100, pause frames exclude PFC, a DSCP has one
// priority, and without a table of trust the first and the last entry of a DSCP change the trust. ice and bnxt have rules of their own.
// No recording of real hardware is behind it.
type nic struct {
	host.Host
	driver   string
	kind     string
	dcb      bool // the driver has DCB
	ets      []byte
	pfc      []byte
	buffer   []byte // nil: not supported
	apps     []dcb.App
	trust    []uint8
	table    bool // the driver has a table of trust
	dcbx     uint8
	pause    [2]bool // obeys, sends
	files    kindtest.Files
	sorts    map[uint16]uint8  // what bnxt's firmware knows: the priority of a DSCP
	cma      map[string]string // defaults of rdma_cm whose folder was removed
	sets     int               // changes that were made
	unshared bool              // bnxt has no shares yet, and refuses PFC (bnxt_hwrm_queue_pfc_cfg in bnxt_dcb.c)
	pcp      int               // how often the last entry of a DSCP was removed
	down     int               // for how many readings of its carrier the port is still down
	broken   error             // SetPause returns it
}

// mlx5 is a NIC as the kernel's own driver shows it: PCP trust, pause frames on, and an algorithm of the vendor.
func mlx5() *nic {
	n := &nic{driver: "mlx5_core", dcb: true, ets: make([]byte, dcb.SizeETS), pfc: make([]byte, dcb.SizePFC), buffer: make([]byte, dcb.SizeBuffer), dcbx: 0x0d,
		pause: [2]bool{true, true}, files: map[string]string{"/sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
			"/sys/class/infiniband/mlx5_0/device/net/eth1/dev_port": "0", "/sys/class/infiniband/mlx5_0/ports/1/link_layer": "Ethernet"}}
	n.ets[dcb.ETSCap], n.pfc[dcb.PFCCap] = 8, 8
	for i := range dcb.Priorities {
		n.ets[dcb.ETSTSA+i], n.ets[dcb.ETSShares+i], n.ets[dcb.ETSClasses+i] = dcb.TSAVendor, 100, uint8(i)
	}
	n.ets[0], n.ets[35] = 1, 17 // willing, and a recommended share: no class sets them
	binary.NativeEndian.PutUint32(n.buffer[dcb.BufferSizes:], 262016)
	binary.NativeEndian.PutUint32(n.buffer[dcb.BufferTotal:], 524288)
	return n
}

func (n *nic) DCB(_ context.Context, m []byte) ([]byte, error) {
	name, _, _ := dcb.Find(m[4:], dcb.AttrName)
	if !n.dcb || string(name) != "eth1\x00" {
		return nil, host.ErrUnsupported
	}
	out := []byte{0, m[1], 0, 0}
	if m[1] == dcb.CmdGetDCBX {
		return append(out, dcb.Attribute(dcb.AttrDCBX, []byte{n.dcbx})...), nil
	}
	parts := slices.Concat(dcb.Attribute(dcb.IEEEETS, n.shown()), dcb.Attribute(dcb.IEEEPFC, n.pfc))
	if n.buffer != nil {
		parts = append(parts, dcb.Attribute(dcb.IEEEBuffer, n.buffer)...)
	}
	var apps, trust []byte
	for _, a := range n.apps {
		apps = append(apps, dcb.Attribute(dcb.AppKind(a.Selector), binary.NativeEndian.AppendUint16([]byte{a.Selector, a.Priority}, a.Protocol))...)
	}
	parts = append(parts, dcb.Attribute(dcb.IEEEApps|dcb.Nested, apps)...)
	for _, s := range n.trust {
		trust = append(trust, dcb.Attribute(dcb.AppKind(s), []byte{s})...)
	}
	if n.table {
		parts = append(parts, dcb.Attribute(dcb.IEEETrust|dcb.Nested, trust)...)
	}
	return append(out, dcb.Attribute(dcb.AttrIEEE|dcb.Nested, parts)...), nil
}

// SetDCB answers with the lowest byte of a negative errno, as the kernel does.
func (n *nic) SetDCB(m []byte) ([]byte, error) {
	n.sets++
	raw, _, err := dcb.Find(m[4:], dcb.AttrIEEE)
	var errno syscall.Errno
	if m[1] == dcb.CmdSetDCBX {
		mode, _, err := dcb.Find(m[4:], dcb.AttrDCBX)
		return append([]byte{0, m[1], 0, 0}, dcb.Attribute(dcb.AttrDCBX, []byte{n.setDCBX(mode[0])})...), err
	}
	if n.driver != "mlx5_core" && n.dcbx&dcb.DCBXIEEE == 0 {
		errno, raw = syscall.EINVAL, nil
	}
	if err == nil {
		err = dcb.Attributes(raw, func(kind uint16, v []byte) error {
			errno = n.setPart(m[1], kind, v)
			return nil
		})
	}
	return append([]byte{0, m[1], 0, 0}, dcb.Attribute(dcb.AttrIEEE, []byte{-uint8(errno)})...), err
}

// setDCBX has the rules of mlx5e_dcbnl_setdcbx, ice_dcbnl_setdcbx and bnxt_dcbnl_setdcbx.
func (n *nic) setDCBX(mode uint8) (result uint8) {
	const both = dcb.DCBXCEE | dcb.DCBXIEEE
	if mode&dcb.DCBXHost == 0 || mode&dcb.DCBXManaged != 0 || n.driver == ice && mode&both == both || n.driver == bnxt && mode&both != dcb.DCBXIEEE {
		return 1
	}
	n.dcbx = mode
	return 0
}

// ice is a NIC as ice_dcb_sw_dflt_cfg sets it up.
func (n *nic) ice() *nic {
	n.driver, n.buffer, n.dcbx = ice, nil, dcb.DCBXHost|dcb.DCBXIEEE
	n.reset()
	return n
}

func (n *nic) reset() {
	clear(n.ets[dcb.ETSShares:])
	n.ets[dcb.ETSShares], n.ets[dcb.ETSTSA], n.pfc[dcb.PFCMask] = 100, dcb.TSAETS, 0
}

// bnxt is a NIC as bnxt_dcb_init sets it up.
func (n *nic) bnxt() *nic {
	n.driver, n.buffer, n.sorts, n.dcbx = bnxt, nil, map[uint16]uint8{}, dcb.DCBXHost|dcb.DCBXIEEE
	clear(n.ets[dcb.ETSShares:])
	n.unshared = true
	return n
}

// shown is ETS as mlx5e_dcbnl_ieee_getets reads it from the firmware, where classes without a share divide what the others leave.
func (n *nic) shown() []byte {
	out, without := bytes.Clone(n.ets), []int{}
	for i := range dcb.Priorities {
		if tsa, share := n.ets[dcb.ETSTSA+i], n.ets[dcb.ETSShares+i]; tsa == dcb.TSAETS && share == 0 {
			without = append(without, i)
		} else if tsa == dcb.TSAETS && share < 100 {
			return out
		}
	}
	for i, tc := range without {
		if n.driver == "mlx5_core" {
			if out[dcb.ETSShares+tc] = uint8(100 / len(without)); i == len(without)-1 {
				out[dcb.ETSShares+tc] += uint8(100 % len(without))
			}
		}
	}
	return out
}

func (n *nic) setPart(command uint8, kind uint16, v []byte) syscall.Errno {
	switch kind {
	case dcb.IEEEETS:
		sum, any := 0, false
		for i := range dcb.Priorities {
			if v[dcb.ETSTSA+i] == dcb.TSAETS {
				sum, any = sum+int(v[dcb.ETSShares+i]), true
			}
		}
		if any && sum != 100 {
			return syscall.EINVAL
		}
		classes := bytes.Clone(n.ets[dcb.ETSClasses : dcb.ETSClasses+dcb.Priorities])
		n.ets, n.unshared = bytes.Clone(v), false
		if n.driver == ice && len(n.apps) > 0 {
			copy(n.ets[dcb.ETSClasses:], classes)
		}
	case dcb.IEEEPFC:
		if v[dcb.PFCMask] != 0 && n.pause != [2]bool{} || n.unshared {
			return syscall.EINVAL
		}
		if n.files[carrier] == "1" && v[dcb.PFCMask] != n.pfc[dcb.PFCMask] {
			n.down = 3
		}
		n.pfc = bytes.Clone(v)
	case dcb.IEEEBuffer: // mlx5 takes the new buffers of priorities together with the old sizes
		for i := range dcb.Priorities {
			if n.pfc[dcb.PFCMask]>>i&1 == 1 && v[i] != n.buffer[i] && binary.NativeEndian.Uint32(n.buffer[dcb.BufferSizes+4*int(v[i]):]) == 0 {
				return syscall.ENOMEM
			}
		}
		n.buffer = bytes.Clone(v)
	case dcb.IEEETrust:
		n.trust, _ = dcb.ParseTrust(v)
	case dcb.IEEEApps:
		for _, a := range must(dcb.ParseApps(v)) {
			if errno := n.setApp(command, a); errno != 0 {
				return errno
			}
		}
	}
	return 0
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (n *nic) setApp(command uint8, a dcb.App) syscall.Errno {
	same := func(o dcb.App) bool { return o == a }
	if command == dcb.CmdIEEEDel {
		if !slices.ContainsFunc(n.apps, same) {
			return syscall.ENOENT
		}
		delete(n.sorts, a.Protocol)
		if n.apps = slices.DeleteFunc(n.apps, same); len(n.apps) == 0 {
			n.lastApp()
		}
		return 0
	}
	if n.table && len(n.apps) == 0 {
		n.trust = []uint8{dcb.SelectorDSCP}
	}
	mapped := func(o dcb.App) bool { return o.Selector == dcb.SelectorDSCP && o.Protocol == a.Protocol }
	switch {
	case n.driver == ice && (slices.ContainsFunc(n.apps, mapped) || a.Priority >= n.ets[dcb.ETSCap]):
		return syscall.EINVAL
	case n.driver == ice && len(n.apps) == 0:
		for i := range n.ets[dcb.ETSCap] {
			n.ets[dcb.ETSShares+i], n.ets[dcb.ETSTSA+i], n.ets[dcb.ETSClasses+i] = 0, dcb.TSAETS, i
		}
		n.ets[dcb.ETSShares] = 100
	case n.driver == bnxt:
		n.sorts[a.Protocol] = a.Priority
	default:
		n.apps = slices.DeleteFunc(n.apps, mapped)
	}
	n.apps = append(n.apps, a)
	slices.SortFunc(n.apps, func(a, b dcb.App) int { return int(a.Protocol) - int(b.Protocol) })
	return 0
}

// lastApp is what follows the removal of the last entry.
func (n *nic) lastApp() {
	n.pcp++
	if n.table {
		n.trust = []uint8{dcb.SelectorPCP}
	}
	if n.driver == ice {
		n.reset()
	}
}

func (n *nic) Pause(context.Context, int) ([]byte, error) {
	if n.driver == "virtio_net" {
		return nil, host.ErrUnsupported
	}
	if n.driver == ice && n.pfc[dcb.PFCMask] != 0 {
		return append(dcb.Attribute(1|dcb.Nested, nil), encodePause(false, false)...), nil
	}
	return append(dcb.Attribute(1|dcb.Nested, nil), encodePause(n.pause[0], n.pause[1])...), nil
}

func (n *nic) SetPause(_ int, raw []byte) error {
	n.sets++
	if n.broken != nil {
		return n.broken
	}
	if n.driver == ice && n.pfc[dcb.PFCMask] != 0 {
		return host.ErrUnsupported
	}
	rx, tx, _, err := parsePause(raw)
	if n.pause = [2]bool{rx, tx}; rx || tx {
		n.pfc[dcb.PFCMask] = 0
	}
	return err
}

func (n *nic) Links(context.Context) ([]host.Link, error) {
	return []host.Link{{Index: 2, Name: "eth1", Driver: n.driver, Kind: n.kind, Up: true}}, nil
}
func (*nic) Addrs(context.Context) ([]host.Addr, error)       { return nil, nil }
func (*nic) Routes(context.Context) ([]host.Route, error)     { return nil, nil }
func (*nic) Rules(context.Context) ([]host.Rule, error)       { return nil, nil }
func (*nic) Readlink(context.Context, string) (string, error) { return "", fs.ErrNotExist }
func (*nic) LoadModule(string) error                          { return nil }

const carrier = "/sys/class/net/eth1/carrier"

func (n *nic) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if path == carrier && n.down > 0 {
		n.down--
		return []byte("0"), nil
	}
	return n.files.ReadFile(ctx, path)
}

func (n *nic) ReadDir(ctx context.Context, dir string) ([]string, error) {
	return n.files.ReadDir(ctx, dir)
}

func (n *nic) SetSwitch(path, value string) error {
	n.sets++
	if _, has := n.files[path]; !has {
		return fs.ErrNotExist
	}
	n.files[path] = value
	return nil
}

func (n *nic) MakeConfig(path string) error {
	for what, value := range map[string]string{"tos": "0", "mode": roceV2} {
		file := path + "/ports/1/default_roce_" + what
		if kept := n.cma[file]; kept != "" {
			value = kept
		}
		if _, has := n.files[file]; !has {
			n.files[file] = value
		}
	}
	return nil
}

// RemoveConfig removes the folder, and not its defaults (release_cma_dev in cma_configfs.c).
func (n *nic) RemoveConfig(path string) error {
	n.cma = map[string]string{}
	maps.DeleteFunc(n.files, func(p, value string) bool {
		if !strings.HasPrefix(p, path+"/") {
			return false
		}
		if value != "0" && value != roceV2 {
			n.cma[p] = value
		}
		return true
	})
	return nil
}

// switches adds the files of MLNX_OFED.
func (n *nic) switches() *nic {
	for p := range dcb.Priorities {
		n.files["/sys/class/net/eth1/ecn/roce_rp/enable/"+strconv.Itoa(p)] = "1"
		n.files["/sys/class/net/eth1/ecn/roce_np/enable/"+strconv.Itoa(p)] = "0"
	}
	n.files["/sys/class/net/eth1/ecn/roce_np/cnp_dscp"] = "26"
	return n
}

// image is all that the NIC holds, to compare it bit by bit.
func (n *nic) image() nic {
	hidden := maps.Clone(n.cma)
	if len(hidden) == 0 {
		hidden = nil
	}
	return nic{cma: hidden, sorts: maps.Clone(n.sorts), driver: n.driver, dcb: n.dcb, ets: bytes.Clone(n.ets), pfc: bytes.Clone(n.pfc), buffer: bytes.Clone(n.buffer), apps: append([]dcb.App(nil), n.apps...),
		trust: append([]uint8(nil), n.trust...), table: n.table, dcbx: n.dcbx, pause: n.pause, files: maps.Clone(n.files)}
}
