package explain

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

const (
	loRow   = "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN\n    inet 127.0.0.1/8 scope host lo\n"
	eno1Row = "2: eno1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP\n    inet 192.168.3.15/20 brd 192.168.15.255 scope global eno1\n    inet6 fe80::ae1f:6bff:fee7:210e/64 scope link\n"
	ens2Row = "3: ens2: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP\n    inet 192.168.5.15/20 brd 192.168.15.255 scope global ens2\n"
	ens3Row = "4: ens3: <BROADCAST,MULTICAST,SLAVE,UP,LOWER_UP> mtu 1500 qdisc mq master bond0 state UP\n"
)

// TestInterfacesAreJudged: what ip and ifconfig show of a host's interfaces, alone and beside NCCL_SOCKET_IFNAME.
func TestInterfacesAreJudged(t *testing.T) {
	for _, c := range []struct{ text, says, notSays string }{
		{loRow + eno1Row + ens2Row, "eno1 has 192.168.3.15/20, and ens2 has 192.168.5.15/20.", ""}, // NVIDIA/nccl/issues/1580
		{loRow + eno1Row + strings.ReplaceAll(ens2Row, "192.168.5.15/20", "192.168.16.15/20"), "", "one subnet"},
		{loRow + eno1Row + loRow + strings.ReplaceAll(ens2Row, "ens2", "eno1"), "", "one subnet"}, // two hosts
		{"eno1: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1500\n        inet 10.0.0.1  netmask 255.255.255.0  broadcast 10.0.0.255\neno2: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1500\n        inet 10.0.0.2  netmask 255.255.255.0\n", "eno1 has 10.0.0.1/24, and eno2 has 10.0.0.2/24.", ""},
		{"lo               UNKNOWN        127.0.0.1/8 ::1/128\neno1             UP             10.0.0.1/24 fe80::1/64\neno2             UP             10.0.0.2/24\n", "eno1 has 10.0.0.1/24, and eno2 has 10.0.0.2/24.", ""},
		{"export NCCL_SOCKET_IFNAME==eth0\n" + loRow + eno1Row, "line 1: error: NCCL_SOCKET_IFNAME No interface of that name", ""},
		{"export NCCL_SOCKET_IFNAME==eth0\n" + eno1Row, "", "No interface of that name"}, // no whole table
		{"export NCCL_SOCKET_IFNAME=^eth0\n" + loRow + eno1Row, "", "of that name"},
		{"export NCCL_SOCKET_IFNAME==eno1\n" + loRow + eno1Row, "", "error"},
		{"export NCCL_SOCKET_IFNAME==ens3\n" + loRow + eno1Row + ens3Row, "line 7: error: NCCL_SOCKET_IFNAME Interface without an address", ""},
		{strings.Replace(loRow, "scope host lo\n", "scope host lo\n    inet 10.3.2.1/32 scope global lo\n", 1) + "2: lan0: <BROADCAST,UP,LOWER_UP> mtu 9000\n    inet6 fe80::1/64 scope link\n", "The host's address is on lo", ""}, // NVIDIA/nccl/issues/1053
		{strings.Replace(loRow, "scope host lo\n", "scope host lo\n    inet 10.3.2.1/32 scope global lo\n", 1) + eno1Row, "", "address is on lo"},
	} {
		got := asText(Explain("x", c.text, nil, fabric.Invocation{}))
		if !strings.Contains(got, c.says) || c.notSays != "" && strings.Contains(got, c.notSays) {
			t.Errorf("%s: want %q and not %q:\n%s", c.text, c.says, c.notSays, got)
		}
	}
}
