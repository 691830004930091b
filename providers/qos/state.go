package qos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/dcb"
)

// state is what was found on a NIC.
type state struct {
	Values map[string]string `json:"values,omitempty"` // by attribute; a missing one is not supported, or absent

	Driver  string `json:"driver,omitempty"`
	DCB     bool   `json:"dcb,omitempty"`     // the driver has DCB
	Managed bool   `json:"managed,omitempty"` // something below the kernel, such as firmware, speaks DCBX and decides
	Table   bool   `json:"table,omitempty"`   // the driver has a table of trust; otherwise an entry of a DSCP makes it trust the DSCP
	Classes int    `json:"classes,omitempty"` // how many traffic classes can share the link (ets_cap); 0: not known
	Buffers int    `json:"buffers,omitempty"` // bytes of all buffers (total_size)
	Forced  string `json:"forced,omitempty"`  // the traffic class that the driver gives to all RC connections; "" if each program chooses
	Device  string `json:"device,omitempty"`  // the RDMA device
	Port    int    `json:"port,omitempty"`    // its port
}

// read reads a NIC.
func read(ctx context.Context, r host.Reader, snap *facts.Snapshot, l host.Link) (s state, err error) {
	s = state{Values: map[string]string{}, Driver: l.Driver}
	if ports := RDMAOn(snap, l); len(ports) > 0 {
		s.Device, s.Port = ports[0].Name, ports[0].Port
	}
	d, err := readDCB(ctx, r, l.Name)
	switch {
	case errors.Is(err, host.ErrUnsupported):
	case err != nil:
		return s, fmt.Errorf("read the DCB settings of %s: %w", l.Name, err)
	default:
		s.DCB, s.Table, s.Values = true, d.HasTrust, values(d)
		if d.ETS != nil {
			s.Classes = int(d.ETS[dcb.ETSCap])
		}
		if d.Buffer != nil {
			s.Buffers = int(binary.NativeEndian.Uint32(d.Buffer[dcb.BufferTotal:]))
		}
	}
	mode, err := readDCBX(ctx, r, l.Name)
	switch {
	case errors.Is(err, host.ErrUnsupported): // no DCBX
	case err != nil:
		return s, fmt.Errorf("read the DCBX mode of %s: %w", l.Name, err)
	default:
		// mlx5 only takes away DCB_CAP_DCBX_HOST where its firmware decides (mlx5e_dcbnl_initialize in en_dcbnl.c).
		if s.Managed = mode&dcb.DCBXManaged != 0 || mode&dcb.DCBXHost == 0; !s.Managed && s.DCB {
			s.Values[attrDCBX] = dcbxText(mode)
		}
	}
	raw, err := r.Pause(ctx, l.Index)
	if errors.Is(err, host.ErrUnsupported) {
		raw, err = nil, nil
	}
	if err == nil {
		var rx, tx, has bool
		if rx, tx, has, err = parsePause(raw); has {
			f := parseFlow(s.Values[attrFlow])
			f.pause = directions[[2]bool{rx, tx}]
			s.Values[attrFlow] = f.String()
		}
	}
	if err != nil {
		return s, fmt.Errorf("read the pause settings of %s: %w", l.Name, err)
	}
	s.readFiles(ctx, r, l.Name)
	return s, nil
}

func readDCB(ctx context.Context, r host.Reader, netdev string) (d dcb.Settings, err error) {
	answer, err := r.DCB(ctx, dcb.Message(dcb.CmdIEEEGet, netdev))
	if err != nil {
		return d, err
	}
	return dcb.ParseIEEE(answer)
}

func readDCBX(ctx context.Context, r host.Reader, netdev string) (uint8, error) {
	answer, err := r.DCB(ctx, dcb.Message(dcb.CmdGetDCBX, netdev))
	if err != nil {
		return 0, err
	}
	return dcb.ParseDCBX(answer)
}

// Files of mlx5's driver in MLNX_OFED and DOCA-OFED, which has switches for ECN that the kernel's own does not have: the reaction point
// (rp) slows down, and the notification point (np) sends CNPs (NVIDIA's documentation of MLNX_OFED, "RoCE congestion control").
func ecnFile(netdev, point string, priority int) string {
	return fmt.Sprintf("/sys/class/net/%s/ecn/roce_%s/enable/%d", netdev, point, priority)
}

func cnpFile(netdev string) string { return "/sys/class/net/" + netdev + "/ecn/roce_np/cnp_dscp" }

// rdmaCM is the device's folder in configfs, which exists once somebody has made it (Documentation/ABI/testing/configfs-rdma_cm in the
// kernel).
func rdmaCM(device string) string { return "/sys/kernel/config/rdma_cm/" + device }

func rdmaCMFile(device string, port int, what string) string {
	return fmt.Sprintf("%s/ports/%d/default_roce_%s", rdmaCM(device), port, what)
}

// roceV2 is the only mode whose packets have a DSCP.
const roceV2 = "RoCE v2"

// forcedFile says which traffic class mlx5's driver in MLNX_OFED and DOCA-OFED gives to all RC connections, such as "Global tclass=106"
// (NVIDIA's documentation of MLNX_OFED, "Quality of Service"). fabricform does not write it: there is no documented way back.
func forcedFile(device string, port int) string {
	return fmt.Sprintf("/sys/class/infiniband/%s/tc/%d/traffic_class", device, port)
}

func (s *state) readFiles(ctx context.Context, r host.Reader, netdev string) {
	for p := range dcb.Priorities {
		rp, np := host.Text(ctx, r, ecnFile(netdev, "rp", p)), host.Text(ctx, r, ecnFile(netdev, "np", p))
		if rp != "" && np != "" {
			s.Values[keyed(attrECN, p)] = ecnText(rp == "1", np == "1")
		}
	}
	if dscp := host.Text(ctx, r, cnpFile(netdev)); dscp != "" {
		s.Values[attrCNP] = dscp
	}
	if s.Device == "" {
		return
	}
	if _, tc, forced := strings.Cut(host.Text(ctx, r, forcedFile(s.Device, s.Port)), "tclass="); forced {
		s.Forced = strings.TrimSpace(tc)
	}
	if now := readRDMACM(ctx, r, s.Device, s.Port); now != "" {
		s.Values[attrRDMACM] = now
	}
}

// readRDMACM reads the defaults of rdma_cm; "" if there is no folder that shows them.
func readRDMACM(ctx context.Context, r host.Reader, device string, port int) string {
	tos, mode := host.Text(ctx, r, rdmaCMFile(device, port, "tos")), host.Text(ctx, r, rdmaCMFile(device, port, "mode"))
	n, err := strconv.Atoi(tos)
	if err != nil || mode == "" {
		return ""
	}
	return rdmaCMText(n, mode)
}

func ecnText(rp, np bool) string { return "rp " + onOff(rp) + ", np " + onOff(np) }

func rdmaCMText(tos int, mode string) string { return fmt.Sprintf("tos %d, %s", tos, mode) }

func parseRDMACM(text string) (tos int, mode string, err error) {
	first, mode, _ := strings.Cut(text, ", ")
	n, err := parseNumbers(strings.TrimPrefix(first, "tos "), " ", 256)
	if err != nil || mode == "" {
		return 0, "", fmt.Errorf("%q is not a default of rdma_cm", text)
	}
	return n[0], mode, nil
}
