package vm

import (
	"fmt"
	"strconv"
)

// memory is the size of a guest's memory in MiB.
const memory = 384

// firstSlot is the PCI slot of the first fabric NIC. The slots before it are for the devices of every guest.
const (
	firstSlot = 8
	maxNICs   = 32 - firstSlot
)

// accelerators are all tried: with /dev/kvm, a stock kernel may still not boot, for example if this machine is a guest itself.
var accelerators = []string{"kvm", "tcg"}

// machine describes one QEMU process. Its files are in its working folder or in the image.
type machine struct {
	image, disk, console, monitor string
	accel                         string
	incoming                      bool // starts from the image's saved state, in file descriptor 3
}

func (m machine) args() []string {
	// A plan fills 64 MiB of translated code four times over, and each time QEMU translates all of it again (info jit).
	accel, cpu := "tcg,thread=multi,tb-size=256", "Nehalem"
	if m.accel == "kvm" {
		accel, cpu = "kvm", "host"
	}
	a := []string{
		"-M", "pc,usb=off,vmport=off,hpet=off", "-accel", accel, "-cpu", cpu, "-smp", "1", "-m", strconv.Itoa(memory),
		"-nodefaults", "-no-user-config", "-display", "none",
		"-kernel", m.image + "/vmlinux", "-initrd", m.image + "/initrd",
		// random.trust_cpu and no audit: a guest without entropy or with a full log boots slowly.
		"-append", "console=ttyS0 quiet mitigations=off random.trust_cpu=on audit=0 net.ifnames=0 systemd.show_status=0",
		"-drive", "if=none,id=disk,file=" + m.disk + ",cache=unsafe,discard=unmap", "-device", "virtio-blk-pci,drive=disk,addr=0x3",
		"-device", "virtio-rng-pci,addr=0x4", "-device", "vmgenid,guid=auto",
		// restrict: the guest cannot connect to anything. The forwarded port is on loopback.
		"-netdev", "user,id=mgmt,restrict=on,hostfwd=tcp:127.0.0.1:0-:22",
		"-device", "virtio-net-pci,netdev=mgmt,mac=52:54:00:00:00:01,romfile=,addr=0x5",
		"-serial", "file:" + m.console, "-qmp", "unix:" + m.monitor + ",server=on,wait=off",
	}
	if m.incoming {
		a = append(a, "-incoming", "fd:3")
	}
	return a
}

// plug adds a NIC to a running machine. host_mtu allows frames of 9000 bytes; the guest starts with 1500, as with real
// cards.
func (q *qmp) plug(i int, n NIC) error {
	id := strconv.Itoa(i)
	_, err := q.do("netdev_add", map[string]any{"type": "stream", "id": "net" + id, "server": false,
		"addr": map[string]any{"type": "unix", "path": socketOf(n.Port)}})
	if err == nil {
		card := map[string]any{"driver": "virtio-net-pci", "id": "nic" + id, "netdev": "net" + id,
			"mac": n.MAC, "host_mtu": 9000, "romfile": "", "addr": fmt.Sprintf("0x%x", firstSlot+i)}
		if n.Member {
			card["speed"], card["duplex"] = 10000, "full"
		}
		_, err = q.do("device_add", card)
	}
	return err
}

// carrier turns the carrier of a NIC on or off.
func (q *qmp) carrier(i int, on bool) error {
	_, err := q.do("set_link", map[string]any{"name": "nic" + strconv.Itoa(i), "up": on})
	return err
}

func socketOf(port int) string      { return "port" + strconv.Itoa(port) }
func consoleOf(host string) string  { return host + ".console" }
func monitorOf(host string) string  { return host + ".qmp" }
func overlayOf(host string) string  { return host + ".qcow2" }
func messagesOf(host string) string { return host + ".qemu" }
