package netif

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/resource/kindtest"
)

// TestMain lets more tests run side by side than there are cores: those of the kernel mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(kindtest.OwnNetwork(m))
}

// run runs commands of ip(8), sysctl writes ("path=value") and "settle" on the test's thread, in its namespace.
func run(t *testing.T, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if line == "settle" {
			settle(t)
			continue
		}
		if p, v, is := strings.Cut(line, "="); is && strings.HasPrefix(p, "net/") {
			must(t, os.WriteFile(filepath.Join("/proc/sys", p), []byte(v), 0o644))
			continue
		}
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
}

// passing is what moves by itself in ip's JSON: lifetimes, counters, and timers of groups.
var passing = regexp.MustCompile(`"(valid_life_time|preferred_life_time|expires|cstamp|tstamp|[a-z_]*timer)":[0-9.]+,?`)

// portrait is all that ip tells of the namespace, and the sysctls of its links.
func portrait(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, args := range []string{"-d -j link", "-d -j addr", "-d -j -4 route show table all", "-d -j -6 route show table all", "-d -j -4 rule", "-d -j -6 rule", "-d -j nexthop", "-d -j neigh show nud permanent"} {
		raw, err := exec.Command("ip", strings.Fields(args)...).Output()
		must(t, err)
		text := passing.ReplaceAllString(string(raw), "")
		out[args] = strings.ReplaceAll(strings.ReplaceAll(text, ",{", ",\n{"), `,"expires_sec"`, "\n")
	}
	out["-d -j -6 route show table all"] = localsSorted(out["-d -j -6 route show table all"])
	for _, pattern := range []string{"/proc/sys/net/ipv[46]/conf/*/*", "/proc/sys/net/ipv[46]/neigh/*/*"} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		for _, f := range files {
			if raw, err := os.ReadFile(f); err == nil {
				out[f] = string(raw)
			}
		}
	}
	return out
}

// localsSorted sorts the routes to the host's own IPv6 addresses. A bridge and its first member share
// a link-local address; which of the two the kernel lists first follows from which came up first.
func localsSorted(routes string) string {
	var others, locals []string
	for line := range strings.SplitSeq(strings.Trim(routes, "[]\n"), "\n") {
		line = strings.TrimSuffix(line, ",")
		if strings.Contains(line, `"table":"local"`) {
			locals = append(locals, line)
		} else {
			others = append(others, line)
		}
	}
	slices.Sort(locals)
	return strings.Join(append(others, locals...), "\n")
}

// settle waits until the kernel has done what follows by itself, such as duplicate detection, which
// does not begin on a device that is down.
func settle(t *testing.T) map[string]string {
	t.Helper()
	equal := 0
	for before, end := portrait(t), time.Now().Add(30*time.Second); ; {
		if time.Now().After(end) {
			t.Fatal("the namespace does not come to rest")
		}
		time.Sleep(200 * time.Millisecond)
		now := portrait(t)
		if equal++; !cmp.Equal(before, now) {
			equal = 0
		}
		if equal == 15 || equal >= 2 && !strings.Contains(now["-d -j addr"], "tentative") {
			return now
		}
		before = now
	}
}

const richState = `
link add nlmon0 type bridge
link set ff1 up
link set lo up
link set ff0 mtu 4000
net/ipv4/conf/ff0/rp_filter=2
net/ipv4/conf/ff0/arp_ignore=1
net/ipv6/conf/ff0/accept_ra=0
net/ipv6/conf/ff0/hop_limit=77
net/ipv6/conf/ff0/keep_addr_on_down=0
net/ipv6/neigh/ff0/gc_stale_time=99
net/ipv6/neigh/ff0/retrans_time_ms=50
net/ipv6/conf/ff0/router_solicitation_delay=0
link set ff0 up
addr add 10.0.0.1/24 dev ff0 brd 10.0.0.255 label ff0:one
addr add 10.0.0.2/24 dev ff0 label ff0:two
addr add 10.0.0.3/24 dev ff0
addr add 10.1.0.1/16 dev ff0 scope link
addr add 172.16.0.1 peer 172.16.0.9/32 dev ff0 metric 77
addr add 10.0.7.1/24 dev ff0 noprefixroute
addr add 10.0.8.1/24 dev ff0 valid_lft 5000 preferred_lft 4000
addr add fd00::1/64 dev ff0
addr add fd00::2/64 dev ff0 noprefixroute
addr add fd01::1/64 dev ff0 valid_lft 5000 preferred_lft 4000
addr add fd02::1/128 dev ff0 nodad
addr add fd03::1 peer fd03::9/128 dev ff0
addr add fd04::1/64 dev ff0 preferred_lft 0
route add 10.20.0.0/16 via 10.0.0.9 dev ff0 metric 5 src 10.0.0.2 proto static
route add 10.20.0.0/16 via 10.0.0.8 dev ff0 metric 6 mtu 1400 advmss 1300 window 65535 rtt 10ms initcwnd 20
route append 10.20.0.0/16 via 10.0.0.7 dev ff0 metric 6
route append 10.20.0.0/16 via 10.0.0.6 dev ff0 metric 6
route add 10.21.0.0/16 via 192.0.2.1 dev ff0 onlink table 100
route add 10.22.0.0/16 table 100 nexthop via 10.0.0.9 weight 3 nexthop via 10.0.0.8 dev ff0 weight 5
route add 10.23.0.0/16 dev ff0 scope link table 100000 src 10.0.0.3 tos 0x10
route add 10.24.0.0/16 dev ff0 congctl cubic proto 77 realm 5
route add 10.25.0.0/16 via inet6 fd00::9 dev ff0
route add 10.26.0.0/16 encap ip id 7 dst 10.0.0.9 dev ff0
route add default via 10.0.0.9 metric 900
route add 10.30.0.0/16 dev ff1 src 10.0.0.2
route add blackhole 10.31.0.0/16 table 100
neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev ff0 nud permanent
neigh add fd00::9 lladdr 02:00:00:00:00:09 dev ff0 nud permanent router
settle
-6 route add fd10::/64 via fd00::9 dev ff0 metric 7 src fd00::1 mtu 1400 proto static
-6 route add fd11::/64 nexthop via fd00::9 dev ff0 weight 2 nexthop via fd00::8 dev ff0
-6 route add fd12::/64 via fd77::1 dev ff0 onlink table 100
-6 route add fd13::/64 dev ff0 table 100000 pref high expires 5000
-6 route add fd14::/64 via fe80::1 dev ff0 hoplimit 9 initrwnd 30
-6 route add fd15::/64 dev ff0 mtu lock 1500
-6 route add default via fd00::9 metric 900
nexthop add id 5 via 10.0.0.9 dev ff0
nexthop add id 6 via 10.0.0.8 dev ff0
nexthop add id 7 group 5,3/6
route add 10.40.0.0/16 nhid 7
route add 10.41.0.0/16 nhid 5 table 100
rule add from 10.0.0.2 lookup 100 priority 500
rule add from 10.0.0.3 lookup 100 priority 500
rule add to 10.20.0.0/16 iif ff0 lookup 100000 priority 501 protocol static
rule add not from 10.9.0.0/16 fwmark 7/0xf lookup 100 priority 502 suppress_prefixlength 3
rule add ipproto udp dport 4791 lookup 100 priority 503
-6 rule add from fd00::1 lookup 100 priority 500
-6 rule add from fd00::2 oif ff0 lookup 100 priority 501 uidrange 0-99
`

// richAtoms name the NIC and, by a route and a rule, the tables whose rules belong to it.
var richAtoms = []resource.Atom{"nic ff0 mtu", "policy_route 100 10.99.0.0/16 0", "policy_route rule 500 100000 10.0.0.2/32 all",
	"route 254 10.98.0.0/16 0", "sysctl net/ipv4/conf/all/rp_filter"}

var disturbances = map[string]string{
	"nothing":                           ``,
	"all flushed":                       "route flush table 100000\n-6 route flush table 100\naddr flush dev ff0\nrule del priority 500\nrule del priority 500\nrule del priority 501\nrule del priority 502\n-6 rule del priority 500\nnexthop flush",
	"link bounced":                      "link set ff0 down\nlink set ff0 up",
	"link down":                         "link set ff0 down",
	"IPv6 wiped":                        "link set ff0 mtu 1000\nlink set ff0 mtu 9000",
	"IPv6 gone":                         "link set ff0 mtu 1000",
	"MTU lowered":                       "link set ff0 mtu 1300",
	"IPv6 disabled":                     "net/ipv6/conf/ff0/disable_ipv6=1",
	"primary gone, secondaries with it": "addr del 10.0.0.1/24 dev ff0",
	"primary gone, secondary promoted":  "net/ipv4/conf/ff0/promote_secondaries=1\naddr del 10.0.0.1/24 dev ff0",
	"order changed":                     "addr del 10.1.0.1/16 dev ff0\naddr add 10.1.0.1/16 dev ff0\nroute del 10.20.0.0/16 via 10.0.0.7 metric 6\nroute append 10.20.0.0/16 via 10.0.0.7 dev ff0 metric 6\naddr del fd00::1/64 dev ff0\naddr add fd00::1/64 dev ff0",
	"others added": `addr add 10.50.0.1/24 dev ff0
addr add 10.0.0.50/24 dev ff0
addr add fd50::1/64 dev ff0
route add 10.98.0.0/16 dev ff1 scope link
route replace 10.20.0.0/16 via 10.50.0.9 metric 5
route add 10.99.0.0/16 dev ff0 table 100
-6 route add fd98::/64 via fd50::9
rule add from 10.50.0.1 lookup 100 priority 500
rule add from all lookup 100 priority 499
nexthop add id 9 dev ff0
route add 10.97.0.0/16 nhid 9`,
	"neighbours":      "neigh del 10.0.0.9 dev ff0\nneigh replace fd00::9 lladdr 02:00:00:00:00:77 dev ff0 nud permanent\nneigh add 10.0.0.77 lladdr 02:00:00:00:00:77 dev ff0 nud permanent",
	"rules gone":      "rule del priority 500\nrule del priority 502\n-6 rule del priority 501",
	"sysctls changed": "net/ipv4/conf/ff0/rp_filter=0\nnet/ipv6/conf/ff0/addr_gen_mode=1\nnet/ipv4/conf/all/rp_filter=1\nnet/ipv6/conf/ff0/accept_ra=1\nnet/ipv6/neigh/ff0/gc_stale_time=5",
	"all at once":     "net/ipv6/conf/ff0/addr_gen_mode=1\naddr flush dev ff0\nlink set ff0 mtu 1000\nlink set ff0 down\nlink set ff0 mtu 9000\nlink set ff0 up\nrule del priority 500\nrule del priority 500\nrule add from 10.50.0.1 lookup 100 priority 500\nroute flush table 100000",
}
