package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/host/process"
)

// Messages of generic netlink's family "ethtool" (include/uapi/linux/ethtool_netlink.h).
const (
	ethtoolPauseGet = 21 // ETHTOOL_MSG_PAUSE_GET
	ethtoolPauseSet = 22 // ETHTOOL_MSG_PAUSE_SET
	// ethtoolHeader is ETHTOOL_A_PAUSE_HEADER, and ethtoolIndex the ETHTOOL_A_HEADER_DEV_INDEX in it.
	ethtoolHeader = 1
	ethtoolIndex  = 1
)

func (k kernel) DCB(_ context.Context, message []byte) ([]byte, error) {
	return k.dcb(unix.RTM_GETDCB, message)
}

func (k kernel) SetDCB(message []byte) ([]byte, error) { return k.dcb(unix.RTM_SETDCB, message) }

// dcb asks for no acknowledgement, because dcb_doit in the kernel's net/dcb/dcbnl.c answers every request with a message.
func (k kernel) dcb(request int, message []byte) ([]byte, error) {
	req := nl.NewNetlinkRequest(request, 0)
	req.Sockets = k.raw
	req.AddRawData(message)
	return one(req.Execute(unix.NETLINK_ROUTE, 0))
}

// one returns the first of the messages of an answer.
func one(messages [][]byte, err error) ([]byte, error) {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return nil, ErrUnsupported
	case err != nil:
		return nil, err
	case len(messages) == 0:
		return nil, errors.New("the kernel has not answered")
	}
	return messages[0], nil
}

func (k kernel) Pause(_ context.Context, index int) ([]byte, error) {
	answer, err := one(k.ethtool(ethtoolPauseGet, 0, index, nil))
	if err != nil {
		return nil, err
	}
	if len(answer) < nl.SizeofGenlmsg {
		return nil, fmt.Errorf("the kernel's answer has only %d bytes", len(answer))
	}
	return answer[nl.SizeofGenlmsg:], nil
}

func (k kernel) SetPause(index int, attributes []byte) error {
	_, err := k.ethtool(ethtoolPauseSet, unix.NLM_F_ACK, index, attributes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return ErrUnsupported
	}
	return err
}

// ethtool sends a message of the family "ethtool". Kernels before 5.6 do not have it.
func (k kernel) ethtool(command uint8, flags, index int, attributes []byte) ([][]byte, error) {
	family, err := k.h.GenlFamilyGet("ethtool")
	if errors.Is(err, unix.ENOENT) {
		return nil, ErrUnsupported
	}
	if err != nil {
		return nil, fmt.Errorf("find ethtool's netlink family: %w", err)
	}
	req := nl.NewNetlinkRequest(int(family.ID), flags)
	req.Sockets = k.raw
	req.AddData(&nl.Genlmsg{Command: command, Version: nl.GENL_CTRL_VERSION})
	header := nl.NewRtAttr(ethtoolHeader|unix.NLA_F_NESTED, nil)
	header.AddRtAttr(ethtoolIndex, nl.Uint32Attr(uint32(index)))
	req.AddData(header)
	req.AddRawData(attributes)
	return req.Execute(unix.NETLINK_GENERIC, 0)
}

// switches are the files below /sys that SetSwitch writes, and configs the folders that MakeConfig makes and RemoveConfig removes.
var (
	switches = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^/sys/(kernel/config/rdma_cm/[a-z0-9_][\w.-]*/ports/[0-9]+/default_roce_(tos|mode)` +
			`|class/net/[^/.][^/]*/ecn/roce_(np|rp)/enable/[0-7]|class/net/[^/.][^/]*/ecn/roce_np/cnp_dscp)$`)
	})
	configs = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/sys/kernel/config/rdma_cm/[a-z0-9_][\w.-]*$`) })
)

// mayChange returns an error if the path is not one of those, or if the machine's /sys is not the lab's own.
func mayChange(path string, allowed *regexp.Regexp) error {
	if !allowed.MatchString(path) {
		return fmt.Errorf("%q is not a switch of a NIC", path)
	}
	if process.InLab() {
		return fmt.Errorf("change %s: a namespace lab shares it with its machine", path)
	}
	return nil
}

func (kernel) SetSwitch(path, value string) error {
	if err := mayChange(path, switches()); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0) // never makes a file
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (kernel) MakeConfig(path string) error {
	if err := mayChange(path, configs()); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

func (kernel) RemoveConfig(path string) error {
	if err := mayChange(path, configs()); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
