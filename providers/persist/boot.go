package persist

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/qos"
)

// Classes of traffic have no file of a network manager. A unit of ours sets them at boot: it runs a copy of this program, with the classes
// from a file, as soon as a device appears.

// bootFolder holds what the unit reads: systemd itself reads no files of these names there. wantsFolder makes it start the unit.
const (
	bootFolder  = "/etc/systemd"
	wantsFolder = unitFolder + "/multi-user.target.d"
)

func classesPath(fabric string) string {
	return bootFolder + "/" + netmanager.Base(fabric) + "-qos.json"
}

func sumPath(fabric string) string { return bootFolder + "/" + netmanager.Base(fabric) + ".sha256" }

func classUnit(fabric, instance string) string {
	return netmanager.Base(fabric) + "-qos@" + escaped(instance) + ".service"
}

// bootPart holds what the units and the program at boot depend on.
const bootPart = facts.Part[bootFacts]("boot")

type bootFacts struct {
	Systemd bool   `json:"systemd,omitempty"`
	SHA256  string `json:"sha256,omitempty"` // of this program on the host, in hex
	Digest  string `json:"digest,omitempty"` // of a copy of it, as facts.File.Digest
	Open    string `json:"open,omitempty"`   // why a copy could be replaced by others than root; "" if it could not
	// Copies are the copies that were asked for, by path.
	Copies map[string]copied `json:"copies,omitempty"`
}

// gatherBoot reads the copies at the paths, and this program if a copy of it is wanted.
func gatherBoot(ctx context.Context, r host.Reader, snap *facts.Snapshot, wanted bool, copies ...string) error {
	b := bootPart.Of(snap)
	if b.Copies == nil {
		b.Copies = map[string]copied{}
	}
	if wanted && b.SHA256 == "" {
		text, err := r.ReadFile(ctx, self)
		if err != nil {
			return fmt.Errorf("read this program: %w", err)
		}
		b.SHA256, b.Digest, b.Open = sum(text), asCopy(text).Digest(), whyOpen(ctx, r)
		_, err = r.Stat(ctx, "/run/systemd/system") // sd_booted(3)
		b.Systemd = err == nil
	}
	for _, at := range copies {
		c, err := readCopy(ctx, r, at)
		if err != nil {
			return err
		}
		if c != nil {
			b.Copies[at] = *c
		}
	}
	bootPart.Put(snap, b)
	return nil
}

// classes returns the files that set the classes of traffic at boot, and the devices whose appearance starts their unit.
func classes(snap *facts.Snapshot, s Spec, soft []device) (files []netmanager.File, triggers []trigger, err error) {
	boot := bootPart.Of(snap)
	if len(s.QoS) == 0 || !boot.Systemd {
		return nil, nil, nil
	}
	var kept []qos.Kept
	var wants []string
	for _, class := range s.QoS {
		l, err := snap.Find(class.On)
		if err != nil {
			return nil, nil, err
		}
		k := qos.Kept{Netdev: l.Name, MAC: l.PermMAC, PCI: l.PCI, Class: class}
		k.Class.On = facts.Selector{Netdev: l.Name}
		if class.RDMACM != nil {
			k.RDMA = deviceOn(snap, *l, soft)
		}
		for _, name := range []string{k.Netdev, k.RDMA} {
			if name != "" && !plainName().MatchString(name) {
				return nil, nil, fmt.Errorf("qos on %q: the name cannot be part of a systemd unit; rename the device", name)
			}
		}
		kept = append(kept, k)
		wants = append(wants, classUnit(s.Fabric, k.Netdev))
		triggers = append(triggers, trigger{"net", k.Netdev, classUnit(s.Fabric, k.Netdev)})
		if k.RDMA != "" {
			triggers = append(triggers, trigger{"infiniband", k.RDMA, classUnit(s.Fabric, k.RDMA)})
		}
	}
	text, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return nil, nil, fmt.Errorf("encode the classes of traffic: %w", err)
	}
	header := netmanager.Header(s.Fabric)
	return []netmanager.File{
		{Path: classesPath(s.Fabric), Mode: 0o644, Text: header + string(text) + "\n"},
		{Path: sumPath(s.Fabric), Mode: 0o644, Text: header + boot.SHA256 + "  " + copyPath(s.Fabric) + "\n"},
		{Path: unitFolder + "/" + classUnit(s.Fabric, ""), Mode: 0o644, Text: header + classUnitText(s.Fabric)},
		{Path: wantsFolder, Folder: true},
		{Path: wantsFolder + "/" + netmanager.Base(s.Fabric) + ".conf", Mode: 0o644,
			Text: header + "[Unit]\nWants=" + strings.Join(wants, " ") + "\n"},
	}, triggers, nil
}

// deviceOn returns the RDMA device on a NIC, or on its bond: a Soft-RoCE device that is declared may not be there yet.
func deviceOn(snap *facts.Snapshot, l host.Link, soft []device) string {
	for _, d := range soft {
		if m := snap.LinkByIndex(l.Master); d.netdev == l.Name || m != nil && d.netdev == m.Name {
			return d.Device
		}
	}
	if ports := qos.RDMAOn(snap, l); len(ports) > 0 {
		return ports[0].Name
	}
	return ""
}

// classUnitText returns the unit for one device, which is its instance. It starts twice, and the second start changes nothing: with the
// boot, before any network manager, and when the device appears, which may be later. It never waits for a device that is missing:
// udevadm settle only waits for the devices that the kernel has found. No dependency is required, so that the boot goes on whatever
// fails. sha256sum skips the lines of our header.
func classUnitText(fabric string) string {
	return fmt.Sprintf(`[Unit]
Description=Class of traffic of %%I
DefaultDependencies=no
After=local-fs.target systemd-modules-load.service systemd-udev-trigger.service sys-kernel-config.mount
Wants=network-pre.target
Before=network-pre.target systemd-networkd.service NetworkManager.service networking.service network.service shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
TimeoutStartSec=180
ExecStartPre=-udevadm settle --timeout=60
ExecStartPre=sha256sum --check --strict --quiet %[1]s
ExecStart=%[2]s boot-qos %[3]s %%I
`, sumPath(fabric), copyPath(fabric), classesPath(fabric))
}
