package persist

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/rxe"
)

// sysctlsPath returns the path of our sysctls. It sorts after 99-sysctl.conf, by which Debian reads /etc/sysctl.conf
// (sysctl.d(5)).
func sysctlsPath(fabric string) string {
	return sysctlFolder + "/99-z-" + netmanager.Base(fabric) + ".conf"
}

const sysctlFolder = "/etc/sysctl.d"

// sysctls returns the file with the keys of the host and of its NICs. The keys of a NIC have the prefix "-", because they
// may not exist yet when systemd writes them at boot; its udev rules write them again when the device appears. Keys have
// slashes, because interface names may have dots.
func sysctls(s Spec, links []netmanager.Link) (netmanager.File, bool) {
	var lines []string
	for _, k := range s.Sysctls {
		lines = append(lines, k.Path()+" = "+k.Value)
	}
	for _, l := range links {
		for key, value := range l.WantedSysctls() {
			lines = append(lines, "-"+facts.LinkSysctl(key, l.Link.Name)+" = "+value)
		}
	}
	slices.Sort(lines)
	return netmanager.File{Path: sysctlsPath(s.Fabric), Mode: 0o644, Text: netmanager.Header(s.Fabric) + strings.Join(lines, "\n") + "\n"},
		len(lines) > 0
}

const rulesFolder = "/etc/udev/rules.d"

func udevPath(fabric string) string { return rulesFolder + "/95-" + netmanager.Base(fabric) + ".rules" }

// udev returns the rules for devices that appear or are renamed (udev(7)); systemd's own rules act only on devices that
// appear. The rules set the sysctls of NICs, and such values as the MTU of NICs that no file of ours configures. They also start
// units, because a device may appear late.
func udev(s Spec, links []netmanager.Link, triggers []trigger) (netmanager.File, bool) {
	var b strings.Builder
	b.WriteString(netmanager.Header(s.Fabric))
	n := 0
	for _, l := range links {
		match := fmt.Sprintf("ACTION==\"add|move\", SUBSYSTEM==\"net\", KERNEL==%q", l.Link.Name)
		if attributes := l.Sysfs(); !l.Written() {
			for _, file := range slices.Sorted(maps.Keys(attributes)) {
				n++
				fmt.Fprintf(&b, "%s, ATTR{%s}=%q\n", match, file, attributes[file])
			}
		}
		if m := l.Egress(); m != "" {
			n++
			fmt.Fprintf(&b, "%s, RUN+=\"/sbin/ip link set dev %s type vlan egress-qos-map %s\"\n", match, l.Link.Name, m)
		}
		if len(l.WantedSysctls()) > 0 {
			n++
			fmt.Fprintf(&b, "%s, RUN+=\"/usr/lib/systemd/systemd-sysctl --prefix=/net/ipv4/conf/%[2]s --prefix=/net/ipv6/conf/%[2]s\"\n",
				match, l.Link.Name)
		}
	}
	for _, t := range triggers {
		n++
		// udev takes a backslash as it is (udev(7), "String escapes").
		fmt.Fprintf(&b, "SUBSYSTEM==%q, KERNEL==%q, TAG+=\"systemd\", ENV{SYSTEMD_WANTS}+=\"%s\"\n", t.subsystem, t.name, t.unit)
	}
	return netmanager.File{Path: udevPath(s.Fabric), Mode: 0o644, Text: b.String()}, n > 0
}

// trigger is a device whose appearance starts a unit.
type trigger struct{ subsystem, name, unit string }

// modules returns the file with the modules to load at boot (modules-load.d(5)). No hardware makes udev load Soft-RoCE
// (rdma-core's rdma-hw-modules.rules).
func modules(s Spec) (netmanager.File, bool) {
	return netmanager.File{Path: "/etc/modules-load.d/" + netmanager.Base(s.Fabric) + ".conf", Mode: 0o644,
		Text: netmanager.Header(s.Fabric) + strings.Join(s.Modules, "\n") + "\n"}, len(s.Modules) > 0
}

// device is a Soft-RoCE device with the name of its NIC on the host.
type device struct {
	rxe.Spec
	netdev string
}

func (d device) unit(fabric string) string {
	return netmanager.Base(fabric) + "-rxe-" + d.Device + ".service"
}

const unitFolder = "/etc/systemd/system"

// escaped writes a plain name into the name of a unit (systemd-escape(1)).
func escaped(name string) string { return strings.ReplaceAll(name, "-", `\x2d`) }

// unitFile returns the unit that adds the device while its NIC exists. The unit skips a device that exists already,
// because apply adds it on the running host. systemd looks up programs without a slash (systemd.service(5)).
func (d device) unitFile(fabric string) netmanager.File {
	netdev := "sys-subsystem-net-devices-" + escaped(d.netdev) + ".device"
	text := netmanager.Header(fabric) + fmt.Sprintf(`[Unit]
Description=Soft-RoCE device %[1]s on %[2]s
BindsTo=%[3]s
After=%[3]s systemd-modules-load.service
Before=network.target
ConditionPathExists=!/sys/class/infiniband/%[1]s

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStartPre=modprobe rdma_rxe
ExecStart=rdma link add %[1]s type rxe netdev %[2]s
ExecStop=-rdma link delete %[1]s
`, d.Device, d.netdev, netdev)
	return netmanager.File{Path: unitFolder + "/" + d.unit(fabric), Mode: 0o644, Text: text}
}

// memlock returns the files that raise the limit, for logins by pam_limits (limits.conf(5)), whose `*` does not include
// root, and for services, which do not use PAM (systemd-system.conf(5)).
func memlock(s Spec) ([]netmanager.File, error) {
	if s.Memlock == "" {
		return nil, nil
	}
	logins, services := "unlimited", "infinity"
	if s.Memlock != "unlimited" {
		bytes, err := strconv.ParseUint(s.Memlock, 10, 63)
		if err != nil {
			return nil, fmt.Errorf("memlock %q: neither \"unlimited\" nor a number of bytes", s.Memlock)
		}
		logins, services = strconv.FormatUint(bytes/1024, 10), s.Memlock // KiB for logins, bytes for services
	}
	text := netmanager.Header(s.Fabric)
	for _, who := range []string{"*", "root"} {
		text += fmt.Sprintf("%s soft memlock %s\n%s hard memlock %s\n", who, logins, who, logins)
	}
	const folder = "/etc/systemd/system.conf.d"
	return []netmanager.File{
		{Path: "/etc/security/limits.d/" + netmanager.Base(s.Fabric) + ".conf", Mode: 0o644, Text: text},
		{Path: folder, Folder: true},
		{Path: folder + "/" + netmanager.Base(s.Fabric) + ".conf", Mode: 0o644,
			Text: netmanager.Header(s.Fabric) + "[Manager]\nDefaultLimitMEMLOCK=" + services + "\n"},
	}, nil
}
