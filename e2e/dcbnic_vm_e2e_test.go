//go:build linux

package e2e

import (
	"encoding/json"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLabNICsHaveQoS sets what iproute2's dcb can set on the NICs of virtual machines, and wants to read it back; then
// packets and PFC frames are counted on the priority that the settings give them, at both ends of good and bad cables.
func TestLabNICsHaveQoS(t *testing.T) {
	long(t)
	l := qosLab{t, vmLabFor(t, softRoCE)}
	l.both(`ip address add 10.20.0.${HOSTNAME#node}/30 dev eth1; ip link set eth1 mtu 4200 up; rdma link add rxe0 type rxe netdev eth1`)
	l.both(lossless)
	for _, host := range []string{"node1", "node2"} {
		l.shows(host, map[string]string{
			"dcbx":     `{"host":true,"ieee":true}`,
			"pfc":      `{"pfc_cap":8,"macsec_bypass":false,"delay":7,"prio_pfc":[false,false,false,false,false,true,false,false]}`,
			"app":      `{"dscp_prio":[[40,5," "],[48,6," "]]}`,
			"apptrust": `{"order":["dscp"]}`,
			"buffer":   `{"prio_buffer":[0,0,0,0,0,1,0,0],"buffer_size":[131072,130944,0,0,0,0,0,0],"total_size":262016}`,
			"ets": `{"willing":false,"ets_cap":8,"cbs":false,"tc_bw":[40,100,100,100,100,60,100,100],"pg_bw":[0,0,0,0,0,0,0,0],
				"tc_tsa":["ets","strict","strict","strict","strict","ets","strict","strict"],"prio_tc":[0,1,2,3,4,5,6,7],
				"reco_tc_bw":[0,0,0,0,0,0,0,0],"reco_tc_tsa":["strict","strict","strict","strict","strict","strict","strict","strict"],
				"reco_prio_tc":[0,0,0,0,0,0,0,0]}`,
		})
	}
	t.Run("pings are counted on the priority of their DSCP", func(t *testing.T) {
		l := l.in(t)
		l.counts(5, 5, 5, 5, func() { l.ping("-Q", "160") })
		l.counts(0, 0, 0, 5, func() { l.ping("-Q", "64") })
	})
	t.Run("RDMA is counted on the priority of its traffic class", func(t *testing.T) {
		l := l.in(t)
		l.writes(5)
	})
	t.Run("PFC frames are counted", func(t *testing.T) { l.in(t).pauses() })
	t.Run("a cable remarks", func(t *testing.T) {
		l := l.in(t)
		l.fault("remark=48")
		l.counts(5, 6, 6, 5, func() { l.ping("-Q", "160") })
		l.writes(6) // RoCE's checksum is still right
		l.fault("none")
		l.counts(5, 5, 5, 5, func() { l.ping("-Q", "160") })
	})
	t.Run("settings that exclude each other", func(t *testing.T) { l.in(t).excludes() })
	t.Run("the trust follows the map", func(t *testing.T) { l.in(t).trust() })
	t.Run("without the module, NICs have no QoS", func(t *testing.T) { l.in(t).unload() })
	inFull(t, "after a reboot, settings are those of a new NIC", func(t *testing.T) {
		l := l.in(t)
		try(t, l.state, "lab", "reboot", softRoCE, "node1").want(t, 0)
		l.shows("node1", map[string]string{"app": `{}`, "apptrust": `{"order":["pcp"]}`})
	})
}

// lossless is the class of field note 003 as commands of iproute2.
const lossless = `
dcb dcbx set dev eth1 host ieee
dcb pfc set dev eth1 prio-pfc all:off 5:on
dcb app replace dev eth1 dscp-prio 40:5 48:6
dcb apptrust set dev eth1 order dscp
dcb buffer set dev eth1 buffer-size all:0 0:131100 1:130944
dcb buffer set dev eth1 prio-buffer all:0 5:1
dcb ets set dev eth1 tc-tsa all:strict 0:ets 5:ets tc-bw all:0 0:40 5:60 prio-tc 0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7
for i in 1 2 3 4 5 6 7 8 9; do [ "$(cat /sys/class/net/eth1/carrier)" = 1 ] && exit; sleep 1; done
echo the carrier did not come back >&2; exit 1`

// qosLab is two machines that are connected by rail0 at eth1.
type qosLab struct {
	t     *testing.T
	state string
}

func (l qosLab) in(t *testing.T) qosLab { return qosLab{t, l.state} }

func (l qosLab) on(host, script string) string {
	l.t.Helper()
	return inside(l.t, l.state, softRoCE, host, "sh", "-ec", "HOSTNAME="+host+"\n"+script)
}

func (l qosLab) both(script string) {
	l.t.Helper()
	l.on("node1", script)
	l.on("node2", script)
}

func (l qosLab) fault(f string) {
	l.t.Helper()
	try(l.t, l.state, "lab", "fault", softRoCE, "rail0", f).want(l.t, 0)
}

// shows compares dcb's output, by its object.
func (l qosLab) shows(host string, want map[string]string) {
	l.t.Helper()
	var script strings.Builder
	for object := range maps.Keys(want) {
		script.WriteString("echo " + object + "; dcb -j " + object + " show dev eth1\n")
	}
	lines := strings.Split(l.on(host, script.String()), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		var got, expected any
		if err := json.Unmarshal([]byte(lines[i+1]), &got); err != nil {
			l.t.Fatalf("%v: %s", err, lines[i+1])
		}
		if err := json.Unmarshal([]byte(want[lines[i]]), &expected); err != nil {
			l.t.Fatal(err)
		}
		if !reflect.DeepEqual(got, expected) {
			l.t.Errorf("%s: dcb %s shows %s\nwant %s", host, lines[i], lines[i+1], want[lines[i]])
		}
	}
}

// counters are the statistics of a host's eth1 that are not 0.
func (l qosLab) counters(host string) map[string]int {
	l.t.Helper()
	n := map[string]int{}
	for line := range strings.Lines(l.on(host, "ethtool -S eth1 | sed -n '/ [1-9][0-9]*$/p'")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if v, err := strconv.Atoi(value); err == nil {
			n[name] = v
		}
	}
	return n
}

// moved returns by how much node1's and node2's counters rise.
func (l qosLab) moved(do func()) (n1, n2 func(name string) int) {
	l.t.Helper()
	a1, a2 := l.counters("node1"), l.counters("node2")
	do()
	b1, b2 := l.counters("node1"), l.counters("node2")
	return func(name string) int { return b1[name] - a1[name] }, func(name string) int { return b2[name] - a2[name] }
}

func prio(direction string, priority int, what string) string {
	return direction + "_prio" + strconv.Itoa(priority) + "_" + what
}

// counts wants n packets on the priorities on which node1 sends and node2 receives, and as many answers on the one on
// which node1 receives. Neighbours are looked up on priority 0, where more is counted.
func (l qosLab) counts(sent, received, answers, n int, do func()) {
	l.t.Helper()
	n1, n2 := l.moved(do)
	for _, c := range []struct {
		name string
		got  int
		prio int
	}{
		{"node1 " + prio("tx", sent, "packets"), n1(prio("tx", sent, "packets")), sent},
		{"node2 " + prio("rx", received, "packets"), n2(prio("rx", received, "packets")), received},
		{"node1 " + prio("rx", answers, "packets"), n1(prio("rx", answers, "packets")), answers},
	} {
		if c.got != n && (c.prio != 0 || c.got < n) {
			l.t.Errorf("%s: %d more, want %d", c.name, c.got, n)
		}
	}
	if sent != received && n2(prio("rx", sent, "packets")) != 0 {
		l.t.Errorf("node2 received %d packets on priority %d", n2(prio("rx", sent, "packets")), sent)
	}
	if bytes := 98 * n; sent != 0 && n1(prio("tx", sent, "bytes")) != bytes {
		l.t.Errorf("node1 sent %d bytes, want %d", n1(prio("tx", sent, "bytes")), bytes) // 14 + 20 + 8 + 56 each
	}
}

func (l qosLab) ping(flags ...string) {
	l.t.Helper()
	l.on("node1", "ping -c 5 -i 0.2 -W 20 "+strings.Join(flags, " ")+" 10.20.0.2")
}

// writes sends 50 times 64 KiB by RDMA in packets of 4 KiB. Slow machines send some packets again.
func (l qosLab) writes(received int) {
	l.t.Helper()
	const command = "timeout 100 ib_write_bw -d rxe0 -x 1 -F -n 50 -s 65536 --tclass 160"
	n1, n2 := l.moved(func() {
		l.on("node2", command+" >/tmp/server 2>&1 </dev/null &")
		l.on("node1", "for i in 1 2 3 4 5 6 7 8 9; do "+command+" 10.20.0.2 && exit; sleep 2; done; exit 1")
	})
	tx, rx := n1("tx_prio5_packets"), n2(prio("rx", received, "packets"))
	l.t.Logf("figure: ib_write_bw --tclass 160: %d packets left on priority 5, and %d came in on priority %d", tx, rx, received)
	if tx < 800 || rx < tx || rx > tx && received == 5 { // a cable that remarks, also remarks perftest's TCP
		l.t.Errorf("node1 sent %d packets on priority 5, and node2 received %d on priority %d", tx, rx, received)
	}
	if other := n2("rx_prio5_packets"); received != 5 && other != 0 {
		l.t.Errorf("node2 received %d packets on priority 5", other)
	}
}

func (l qosLab) pauses() {
	storm := func() {
		l.fault("pause=5")
		time.Sleep(2 * time.Second)
		l.fault("none")
	}
	n1, n2 := l.moved(storm)
	for host, n := range map[string]func(string) int{"node1": n1, "node2": n2} {
		if n("rx_prio5_pause") < 20 || n("rx_prio5_pause_duration") < 20*300 || n("rx_prio5_packets") != 0 {
			l.t.Errorf("%s: %d PFC frames, %d µs, %d packets", host, n("rx_prio5_pause"), n("rx_prio5_pause_duration"), n("rx_prio5_packets"))
		}
	}
	indications := func() (n []int) {
		var got struct{ Indications []int }
		if err := json.Unmarshal([]byte(l.on("node2", "dcb -s -j pfc show dev eth1")), &got); err != nil || len(got.Indications) != 8 {
			l.t.Fatal(err)
		}
		return got.Indications
	}
	before := indications()
	l.on("node2", "dcb pfc set dev eth1 prio-pfc all:off; sleep 3")
	storm()
	if _, shown := l.counters("node2")["rx_prio5_pause"]; shown {
		l.t.Error("node2 has no PFC, and its statistics show it")
	}
	if after := indications(); after[5] < before[5]+20 || after[4] != 0 {
		l.t.Errorf("node2 counts %d, and counted %d before", after, before)
	}
	l.on("node2", lossless)
}

func (l qosLab) excludes() {
	pause := func() string {
		var got []struct{ RX, TX bool }
		raw := l.on("node2", "ethtool --json -a eth1")
		if err := json.Unmarshal([]byte(raw), &got); err != nil || len(got) != 1 {
			l.t.Fatalf("%v: %s", err, raw)
		}
		return strconv.FormatBool(got[0].RX) + " " + strconv.FormatBool(got[0].TX)
	}
	const none = `{"pfc_cap":8,"macsec_bypass":false,"delay":7,"prio_pfc":[false,false,false,false,false,false,false,false]}`
	if got := pause(); got != "false false" {
		l.t.Errorf("PFC beside pause: %s", got)
	}
	l.on("node2", "ethtool -A eth1 rx on tx on")
	if got := pause(); got != "true true" {
		l.t.Errorf("pause is %s", got)
	}
	l.shows("node2", map[string]string{"pfc": none})
	changes := "/sys/class/net/eth1/carrier_changes"
	before := number(strings.TrimSpace(l.on("node2", "cat "+changes)))
	l.on("node2", lossless)
	if after := number(strings.TrimSpace(l.on("node2", "cat "+changes))); after != before+2 {
		l.t.Errorf("a change of PFC changed the carrier %d times", after-before)
	}
	if got := pause(); got != "false false" {
		l.t.Errorf("PFC beside pause: %s", got)
	}
	for _, refused := range []string{"app add dev eth1 stream-port-prio 80:3", "buffer set dev eth1 buffer-size 0:262016 1:128",
		"buffer set dev eth1 prio-buffer 5:2", "buffer set dev eth1 prio-buffer 5:2 buffer-size 1:0 2:130944",
		"buffer set dev eth1 buffer-size 1:0", "buffer set dev eth1 buffer-size 1:20000", // of a priority with PFC
		"apptrust set dev eth1 order stream-port"} {
		if a := try(l.t, l.state, append([]string{"lab", "exec", softRoCE, "node2", "--", "dcb"}, strings.Fields(refused)...)...); a.code == 0 {
			l.t.Errorf("dcb %s is accepted", refused)
		}
	}
}

// trust: by PCP, the tag counts; by DSCP then, what the packet says of itself, in IPv6 as well.
func (l qosLab) trust() {
	l.both(`dcb app del dev eth1 dscp-prio 40:5 48:6; ip link add link eth1 name eth1.7 type vlan id 7 egress-qos-map 0:3
ip address add 10.20.7.${HOSTNAME#node}/30 dev eth1.7; ip link set eth1.7 up`)
	l.shows("node1", map[string]string{"app": `{}`, "apptrust": `{"order":["pcp"]}`})
	l.counts(0, 0, 0, 5, func() { l.ping("-Q", "160") })
	l.on("node1", "ping -c 1 -W 20 10.20.7.2") // finds the neighbour, with tagged packets
	n1, n2 := l.moved(func() { l.on("node1", "ping -c 5 -i 0.2 -W 20 -Q 160 10.20.7.2") })
	if tx, rx := n1("tx_prio3_packets"), n2("rx_prio3_packets"); tx < 5 || rx < 5 || n1("tx_prio5_packets") != 0 {
		l.t.Errorf("with a tag: %d packets sent on priority 3, %d received", tx, rx)
	}
	l.both("ip link del eth1.7\n" + lossless)
	l.both("ip -6 address add fd00::${HOSTNAME#node}/64 dev eth1 nodad")
	n1, n2 = l.moved(func() { l.on("node1", "ping -c 5 -i 0.2 -W 20 -Q 160 fd00::2") })
	if tx, rx := n1("tx_prio5_packets"), n2("rx_prio5_packets"); tx != 5 || rx != 5 {
		l.t.Errorf("IPv6: %d packets sent on priority 5, %d received", tx, rx)
	}
}

func (l qosLab) unload() {
	for _, show := range []string{"dcb pfc show dev mgmt0", "modprobe -r dcbnic && dcb pfc show dev eth1", "ethtool -a eth1"} {
		a := try(l.t, l.state, "lab", "exec", softRoCE, "node2", "--", "sh", "-c", show)
		if a.code == 0 || !strings.Contains(a.err, "not supported") {
			l.t.Errorf("%s: exit %d: %s%s", show, a.code, a.out, a.err)
		}
	}
	l.ping()
	l.on("node2", "modprobe dcbnic")
	l.shows("node2", map[string]string{"app": `{}`, "apptrust": `{"order":["pcp"]}`})
}
