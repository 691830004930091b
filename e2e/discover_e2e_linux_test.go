package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// discoverable is three hosts with every kind of cabling: two direct cables, a switch, and a leaf that routes.
const discoverable = `
fabric "discover" {}
host "a" {
  address = "10.0.0.11"
  nic "rail0" { netdev = "ens1f0" }
  nic "rail1" { netdev = "ens1f1" }
  nic "store" { netdev = "ens2f0" }
  nic "leaf" {
    netdev    = "ens3f0"
    addresses = ["10.9.1.2/30"]
  }
  nic "spare" { netdev = "ens4f0" }
  route "leaf" {
    to  = "10.9.0.0/16"
    via = "10.9.1.1"
  }
}
host "b" {
  address = "10.0.0.12"
  nic "rail0" { netdev = "ens1f0" }
  nic "rail1" { netdev = "ens1f1" }
  nic "store" { netdev = "ens2f0" }
  nic "leaf" {
    netdev    = "ens3f0"
    addresses = ["10.9.2.2/30"]
  }
  route "leaf" {
    to  = "10.9.0.0/16"
    via = "10.9.2.1"
  }
}
host "c" {
  address = "10.0.0.13"
  nic "store" { netdev = "ens2f0" }
}
link "rail0" { endpoints = [host.a.nic.rail0, host.b.nic.rail0] }
link "rail1" { endpoints = [host.a.nic.rail1, host.b.nic.rail1] }
network "leaf" {
  members = [host.a.nic.leaf, host.b.nic.leaf]
  routed  = true
}
network "store" {
  members = [host.a.nic.store, host.b.nic.store, host.c.nic.store]
}
`

// upLab brings a lab up with all NICs of its hosts up, as running hosts have them.
func upLab(t *testing.T, text string) (state, fabric string) {
	t.Helper()
	fabric = filepath.Join(t.TempDir(), "fabric.hcl")
	if err := os.WriteFile(fabric, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	state = labUpFor(t, fabric)
	for _, host := range []string{"a", "b", "c"} {
		inside(t, state, fabric, host, "sh", "-c", "for d in $(ls /proc/sys/net/ipv4/conf); do case $d in ens[123]*) ip link set $d up; esac; done")
	}
	for _, host := range []string{"a", "b", "c"} { // a bridge's port forwards once the kernel has noticed its carrier
		for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			said := inside(t, state, fabric, host, "ip", "-br", "link")
			if !strings.Contains(strings.Join(slices.DeleteFunc(strings.Split(said, "\n"), func(l string) bool {
				return !strings.HasPrefix(l, "ens") || strings.HasPrefix(l, "ens4") || strings.Contains(l, " UP ")
			}), ""), "ens") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("host %s: %s", host, said)
			}
		}
	}
	return state, fabric
}

// TestDiscoverFindsWhatIsCabled in a lab of every kind of cabling, before and after two cables are swapped.
func TestDiscoverFindsWhatIsCabled(t *testing.T) {
	together(t)
	state, fabric := upLab(t, discoverable)
	cables := func(text string) {
		t.Helper()
		for range 3 { // on a busy machine, a frame may be lost
			a := try(t, state, "discover", "-lab", "-listen=2s", fabric)
			if a.code != 0 {
				t.Fatalf("exit %d", a.code)
			}
			if strings.Contains(a.out, text) {
				return
			}
		}
		t.Fatalf("it never said\n%s", text)
	}
	cables("Direct cables\n  ✓ a:ens1f0 – b:ens1f0\n  ✓ a:ens1f1 – b:ens1f1\n" +
		"Segments: ports behind a bridge or a switch\n  ✓ a:ens2f0, b:ens2f0, c:ens2f0\n" +
		"Nothing heard\n  ! a:ens3f0, b:ens3f0\n")
	try(t, state, "discover", "-lab", "-listen=2s", fabric).want(t, 0, "a sends 4 frames from each of ens1f0, ens1f1, ens2f0, ens3f0\n",
		"a sends nothing from mgmt0, which may carry your connection", "a:ens4f0: down: not tried")

	// Hosts that are named instead of a fabric.
	var report struct {
		Format   int
		Listened float64
		Cables   [][2]struct {
			Host    string
			Netdevs []string
		}
	}
	a := try(t, state, "discover", "-lab=discover", "-listen=2s", "-json", "b", "a")
	a.want(t, 0)
	if err := json.Unmarshal([]byte(a.out), &report); err != nil || report.Format != 2 || report.Listened != 2 || len(report.Cables) != 2 {
		t.Errorf("%v: %+v", err, report)
	}

	try(t, state, "verify", "-lab", "-only=cabling", fabric).want(t, 0, "✓ cabling  a → b  cabled  b.rail0  (want b.rail0)", "Verified (cabling): 5 passed")
	try(t, state, "lab", "fault", fabric, "rail0", "swap=rail1").want(t, 0)
	try(t, state, "verify", "-lab", "-only=cabling", fabric).want(t, 3, "declared a.rail0 – b.rail0, cabled to b.rail1",
		"-  endpoints = [host.a.nic.rail0, host.b.nic.rail0]\n      +  endpoints = [host.a.nic.rail0, host.b.nic.rail1]\n", "-  endpoints = [host.a.nic.rail1, host.b.nic.rail1]\n      +  endpoints = [host.a.nic.rail1, host.b.nic.rail0]\n", "✓ cabling  a → c")
	cables("Direct cables\n  ✓ a:ens1f0 – b:ens1f1\n  ✓ a:ens1f1 – b:ens1f0\n")
}

// leaf returns the process whose network namespace has the lab's cables, and the ports of the leaf there: those to hosts a and b.
func leaf(t *testing.T, state string) (pid int, ports []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(state, "fabricform", "lab", "discover", "lab.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lab struct {
		Net   struct{ PID int }
		Links []struct {
			Name string
			Ends []struct{ Device string }
		}
	}
	if err := json.Unmarshal(raw, &lab); err != nil {
		t.Fatal(err)
	}
	ports = make([]string, 2)
	for _, l := range lab.Links {
		if i := slices.Index([]string{"leaf:a", "leaf:b"}, l.Name); i >= 0 {
			ports[i] = l.Ends[0].Device
		}
	}
	return lab.Net.PID, ports
}

// TestDiscoverHearsSwitches: a leaf that routes is heard by its LLDP, and is a rail if it has one port of each host.
func TestDiscoverHearsSwitches(t *testing.T) {
	together(t)
	state, fabric := upLab(t, discoverable)
	pid, ports := leaf(t, state)
	middle, err := openKernel("the cables", pid)
	if err != nil {
		t.Fatal(err)
	}
	defer middle.close()
	stop := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- middle.inside(func() error {
			for {
				for i, port := range ports {
					if err := sayLLDP(port, "leaf1", fmt.Sprintf("swp%d", i+1)); err != nil {
						return err
					}
				}
				select {
				case <-stop:
					return nil
				case <-time.After(300 * time.Millisecond):
				}
			}
		})
	}()
	a := try(t, state, "discover", "-lab", "-listen=3s", fabric)
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	a.want(t, 0, "Switches that describe themselves\n  ✓ leaf1\n      a:ens3f0  swp1\n      b:ens3f0  swp2\nRails\n  ✓ leaf1: a:ens3f0, b:ens3f0 (a switch with one port of each host)\n")
	if strings.Contains(a.out, "Nothing heard") {
		t.Error("a port that hears a switch is called silent")
	}
}

// raisable is two hosts with two direct cables, whose NICs are down.
const raisable = `
fabric "raisable" {}
host "a" {
  nic "x" { netdev = "eth1" }
  nic "y" { netdev = "eth2" }
}
host "b" {
  nic "x" { netdev = "eth1" }
  nic "y" { netdev = "eth2" }
}
link "x" { endpoints = [host.a.nic.x, host.b.nic.y] }
link "y" { endpoints = [host.a.nic.y, host.b.nic.x] }
`

// TestDiscoverRaisesPortsAndSetsThemDown: only with consent, never for longer than the run, and the hosts do it if the client dies.
func TestDiscoverRaisesPortsAndSetsThemDown(t *testing.T) {
	together(t)
	fabric := filepath.Join(t.TempDir(), "fabric.hcl")
	if err := os.WriteFile(fabric, []byte(raisable), 0o600); err != nil {
		t.Fatal(err)
	}
	state := labUpFor(t, fabric)
	now := func() string {
		text := ""
		for _, host := range []string{"a", "b"} {
			text += inside(t, state, fabric, host, "sh", "-c", "for d in eth1 eth2; do ip -d link show $d | sed 's/ qdisc [a-z]*//'; ip addr show $d | sed 's/ qdisc [a-z]*//; s/ tentative//'; cat /proc/sys/net/ipv6/conf/$d/addr_gen_mode; done; ip route; ip rule; ls /var/lib/fabricform 2>/dev/null | grep json || true")
		}
		return text
	}
	before := now()
	try(t, state, "discover", "-lab", "-listen=1s", fabric).want(t, 0, "a:eth1, a:eth2, b:eth1, b:eth2: down: not tried. -raise sets ports up for the run")
	if after := now(); after != before {
		t.Fatalf("without consent, it changed\n%s\nto\n%s", before, after)
	}
	a := try(t, state, "discover", "-lab", "-raise", "-listen=2s", fabric)
	a.want(t, 0, "a sets up eth1, eth2 for this run, and down again, also if this program dies", "Direct cables\n  ✓ a:eth1 – b:eth2\n  ✓ a:eth2 – b:eth1\n",
		"a:eth1, a:eth2, b:eth1, b:eth2: set up for this run, and down again now")
	if strings.Contains(a.out+a.err, "sets up mgmt0") {
		t.Error("the management path is raised")
	}
	if strings.Contains(a.out+a.err, "warning") {
		t.Errorf("a search without changes of others warns:\n%s", a.err)
	}
	if shown := try(t, state, "show", "-lab", fabric); strings.Contains(shown.out, "discover-ports") {
		t.Errorf("the search is shown after its end:\n%s", shown.out)
	}
	if after := now(); after != before {
		t.Errorf("it left\n%s\nwhere there was\n%s", after, before)
	}
	try(t, state, "discover", "-lab=raisable", "-raise", "-json", "-listen=1s", "a", "b").want(t, 0, `"raised": [`)
	try(t, state, "discover", "-lab=raisable", "-listen=1s", "a", "nohost").want(t, 1, `lab raisable has no host "nohost"`)
	to := filepath.Join(t.TempDir(), "fresh") // of servers that nobody has set up, the cables are all there is
	try(t, state, "import", "-lab", "-raise", "-listen=2s", "-out", to, fabric).want(t, 0, "2 hosts, 2 links")
	if raw, err := os.ReadFile(filepath.Join(to, "fabric.hcl")); err != nil || !strings.Contains(string(raw), "up     = false") && !strings.Contains(string(raw), "up       = false") {
		t.Errorf("%v\n%s", err, raw)
	}
	try(t, state, "plan", "-lab=raisable", "-detailed-exitcode", to).want(t, 0, "No changes")
	if after := now(); after != before {
		t.Errorf("import left\n%s\nwhere there was\n%s", after, before)
	}

	// A fabric has set a port down: it stays down, and the others are set up.
	inside(t, state, fabric, "a", "ip", "link", "set", "eth1", "up")
	down := filepath.Join(t.TempDir(), "down.hcl")
	text := strings.Replace(raisable, `netdev = "eth1" }`, `
    netdev  = "eth1"
    up      = false
    persist = false
  }`, 1)
	text = text[:strings.Index(text, "link")]
	if err := os.WriteFile(down, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", "-exclude=b", down).want(t, 0)
	owned := now()
	held := try(t, state, "discover", "-lab", "-raise", "-listen=1s", fabric)
	held.want(t, 0, "a:eth1: down, and not set up with -raise: nic eth1 state is owned by fabric \"raisable\" on this host", "✓ a:eth2 – b:eth1\n")
	if strings.Contains(held.out+held.err, "a sets up eth1") {
		t.Errorf("it promises a port that it leaves alone:\n%s", held.err)
	}
	if after := now(); after != owned {
		t.Errorf("it changed\n%s\nto\n%s", owned, after)
	}
	try(t, state, "destroy", "-lab", "-auto-approve", "-exclude=b", down).want(t, 0)
	inside(t, state, fabric, "a", "ip", "link", "set", "eth1", "down")

	start := func(listen string) (*exec.Cmd, *bytes.Buffer) {
		t.Helper()
		c, said := exec.Command(bin, "discover", "-lab", "-raise", "-listen="+listen, fabric), &bytes.Buffer{}
		c.Env, c.Stdout, c.Stderr = append(os.Environ(), "XDG_STATE_HOME="+state), said, said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		return c, said
	}
	wait := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(time.Second) {
			if time.Now().After(end) {
				t.Fatalf("never %s", what)
			}
		}
	}
	raised := func() bool {
		return strings.Contains(inside(t, state, fabric, "b", "ip", "-br", "link", "show", "eth2"), " UP ")
	}
	meets, said := start("6s")
	wait("up", raised)
	inside(t, state, fabric, "b", "sh", "-c", "ip link set eth2 mtu 3000; ip addr add 10.99.0.1/24 dev eth2")
	if err := meets.Wait(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"b: nic.eth2: overwritten, though fabricform had not set it: mtu 3000 → 1500", "b: nic.eth2: address 10.99.0.1/24 was added by someone else since, and is kept"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	inside(t, state, fabric, "b", "ip", "addr", "del", "10.99.0.1/24", "dev", "eth2")
	if after := now(); after != before {
		t.Errorf("it left\n%s\nwhere there was\n%s", after, before)
	}

	die, _ := start("3m")
	wait("up", raised)
	try(t, state, "pending", "-lab", fabric).want(t, 0, "discover-ports")
	inside(t, state, fabric, "b", "ip", "link", "set", "eth2", "down")
	try(t, state, "discover", "-lab", "-raise", "-listen=1s", fabric).want(t, 8, "another transaction is open: host b: ")
	try(t, state, "import", "-lab", "-listen=1s", "-out", filepath.Join(t.TempDir(), "meanwhile"), fabric).want(t, 8, "another search has set ports up")
	_ = die.Process.Kill()
	wait("down again after the client was killed", func() bool { return now() == before })
}

// TestDiscoverHearsLLDPD: lldpd, as switches run it, describes a leaf that routes. It runs in the lab's namespace of cables, and writes nothing
// outside of the test.
func TestDiscoverHearsLLDPD(t *testing.T) {
	together(t)
	if _, err := exec.LookPath("lldpd"); err != nil {
		t.Skip("lldpd is not installed")
	}
	state, fabric := upLab(t, discoverable)
	pid, ports := leaf(t, state)
	text := "configure system hostname leaf1\nconfigure lldp tx-interval 1\n"
	for i, port := range ports {
		text += fmt.Sprintf("configure ports %s lldp portidsubtype local swp%d description %q\n", port, i+1, fmt.Sprintf("rail%d of the leaf", i))
	}
	daemon := exec.Command("nsenter", "--target", fmt.Sprint(pid), "--net", "--", "unshare", "--mount", "sh", "-ec",
		`mount -t tmpfs tmpfs /run; mkdir -p /run/lldpd; printf %s "$0" > /run/lldpd.conf
		exec lldpd -d -u /run/lldpd.sock -O /run/lldpd.conf -I "$1" -C "$1"`, text, strings.Join(ports, ","))
	var said bytes.Buffer
	daemon.Stdout, daemon.Stderr = &said, &said
	daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-daemon.Process.Pid, syscall.SIGKILL) // it has a process of another user
		_ = daemon.Wait()
		if t.Failed() {
			t.Logf("lldpd: %s", said.String())
		}
	})
	for range 5 { // lldpd takes a moment to start
		a := try(t, state, "discover", "-lab", "-listen=3s", fabric)
		if a.code == 0 && strings.Contains(a.out, "Switches that describe themselves\n  ✓ leaf1") && strings.Contains(a.out, "swp2") {
			a.want(t, 0, "      a:ens3f0  swp1  rail0 of the leaf\n      b:ens3f0  swp2  rail1 of the leaf\n", "✓ rail0: a:ens3f0", "✓ rail1: b:ens3f0", "✓ a:ens1f0 – b:ens1f0\n")
			return
		}
	}
	t.Error("lldpd was never heard")
}

// sayLLDP sends one frame of LLDP from a device.
func sayLLDP(device, name, port string) error {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	frame := append([]byte{0x01, 0x80, 0xc2, 0, 0, 0x0e}, dev.HardwareAddr...)
	frame = append(frame, 0x88, 0xcc)
	for _, tlv := range []string{"\x02" + string(rune(len(name)+1)) + "\x07" + name, "\x04" + string(rune(len(port)+1)) + "\x05" + port, "\x06\x02\x00\x78", "\x0a" + string(rune(len(name))) + name, "\x00\x00"} {
		frame = append(frame, tlv...)
	}
	return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index, Halen: 6})
}
