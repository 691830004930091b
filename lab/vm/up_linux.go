package vm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/retry"
)

// Up builds the lab in a directory. If it fails, it removes everything it created.
func Up(ctx context.Context, dir string, f *fabric.Fabric, o site.Options) (_ *Lab, err error) {
	image, accel, err := Image(ctx, cmp.Or(o.NetworkManager, DefaultManager), o)
	if err != nil {
		return nil, err
	}
	l := &Lab{dir: dir, state: state{Backend: site.VM, Name: f.Name, Image: image, Hosts: map[string]Host{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Down())
		}
	}()
	b, err := l.plan(f)
	if err != nil {
		return nil, err
	}
	b.Image, b.Accel = image, accel
	if err := l.startRack(b, o); err != nil {
		return nil, err
	}
	o.Say("starting %d machines", len(b.Machines))
	a, err := l.ready(ctx)
	if err != nil {
		return nil, err
	}
	for name, port := range a.Ports {
		h := l.state.Hosts[name]
		h.Port = port
		l.state.Hosts[name] = h
	}
	if err := errors.Join(l.knownHosts(), site.Write(l.dir, l.state)); err != nil {
		return nil, err
	}
	return l, l.identify(ctx, o)
}

// plan returns the machines and cables to build.
func (l *Lab) plan(f *fabric.Fabric) (build, error) {
	var b build
	ports := map[fabric.NICRef]int{}
	for _, h := range f.Hosts {
		host := Host{}
		for _, n := range h.NICs {
			if n.Netdev == managementNetdev || n.Bond != nil || n.VLAN != nil { // bonds and VLANs have no cable of their own
				continue
			}
			nic, err := cardOf(n)
			if err != nil {
				return b, fmt.Errorf("NIC %s of %s: %w", n.Name, h.Name, err)
			}
			nic.Port, nic.Member = len(b.Segments), h.BondOf(n) != nil
			ports[n.Ref()] = nic.Port
			b.Segments = append(b.Segments, -1)
			host.NICs = append(host.NICs, nic)
		}
		if len(host.NICs) > maxNICs {
			return b, fmt.Errorf("host %s has %d NICs, but a lab's machine supports at most %d", h.Name, len(host.NICs), maxNICs)
		}
		l.state.Hosts[h.Name] = host
		b.Machines = append(b.Machines, machineBuild{Host: h.Name, NICs: host.NICs})
	}
	cables, err := f.Cables()
	if err != nil {
		return b, err
	}
	for _, c := range cables {
		if c.Network != nil && c.Network.Routed {
			return b, fmt.Errorf("network %s is routed, but a lab of virtual machines has no router; use `lab up -backend netns`", c.Network.Name)
		}
		var far site.Distance
		far.Delay, far.Jitter, far.Loss = c.Span().OneWay()
		laid, shown := cableBuild{Name: c.Name, Distance: far}, site.Cable{Name: c.Name, A: c.Ports[0].String(), Distance: far}
		for _, p := range c.Ports {
			laid.Ports = append(laid.Ports, ports[p])
			b.Segments[ports[p]] = c.Segment
			shown.B = p.String()
		}
		if c.Network != nil {
			shown.B = c.Network.Name
		}
		b.Cables = append(b.Cables, laid)
		l.state.Links = append(l.state.Links, shown)
	}
	return b, nil
}

// managementNetdev is the management NIC's name in every guest.
const managementNetdev = "mgmt0"

func cardOf(n *fabric.NIC) (NIC, error) {
	if n.Match.PCI != "" || n.Match.RDMA != "" {
		return NIC{},
			errors.New("match.pci and match.rdma: a lab's cards have other PCI addresses, and no RDMA devices; match by netdev or mac")
	}
	c := NIC{Netdev: n.Netdev, MAC: n.Match.MAC}
	if c.Netdev == "" {
		c.Netdev = n.Name
	}
	if c.MAC == "" {
		sum := sha256.Sum256([]byte(n.Ref().String()))
		c.MAC = net.HardwareAddr(append([]byte{2}, sum[:5]...)).String() // locally administered
	}
	return c, nil
}

func (l *Lab) startRack(b build, o site.Options) error {
	if err := b.write(l.dir); err != nil {
		return err
	}
	self, err := o.Self()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(l.dir, "rack.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self, "lab-rack", l.dir)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the lab's process: %w", err)
	}
	go func() { _ = cmd.Wait() }() // only reaps the process, if it ends before this one
	if l.state.Rack, err = site.Identify(cmd.Process.Pid); err != nil {
		return err
	}
	return site.Write(l.dir, l.state)
}

// ready waits until the rack's machines run.
func (l *Lab) ready(ctx context.Context) (answer, error) {
	for ctx.Err() == nil {
		conn, err := dialUnix(l.dir, controlSocket)
		if err == nil {
			return askOver(conn, request{Op: opPorts})
		}
		if !l.state.Rack.Alive() {
			said, _ := os.ReadFile(filepath.Join(l.dir, "rack.log"))
			return answer{}, fmt.Errorf("the lab's process has exited: %s", bytes.TrimSpace(said))
		}
		_ = retry.Pause(ctx, 20*time.Millisecond)
	}
	return answer{}, ctx.Err()
}

func (l *Lab) knownHosts() error {
	key, err := os.ReadFile(filepath.Join(l.state.Image, hostKeyFile))
	if err != nil {
		return err
	}
	var known strings.Builder
	for _, n := range l.hosts() {
		fmt.Fprintf(&known, "[127.0.0.1]:%d %s\n", l.state.Hosts[n].Port, strings.TrimSpace(string(key)))
	}
	return os.WriteFile(filepath.Join(l.dir, "known_hosts"), []byte(known.String()), 0o600)
}

// identifyScript gives a restored guest the current time, its own names, and the names of the NICs that are plugged in
// next. It reads them as words from stdin, and does not execute them. A bond has the MAC of a NIC, but no permanent one.
const identifyScript = `set -eu
mkdir -p /etc/systemd/network
while read -r what a b; do
  case $what in
  time) date -s "@$a" >/dev/null ;;
  name) hostname -- "$a"; printf '%s\n' "$a" > /etc/hostname ;;
  machine) printf '%s\n' "$a" > /etc/machine-id ;;
  nic) printf '%s %s\n' "$a" "$b" >> /etc/lab-nics
    printf '[Match]\nPermanentMACAddress=%s\n[Link]\nName=%s\nMTUBytes=1500\n' "$a" "$b" > "/etc/systemd/network/20-lab-$b.link" ;;
  esac
done
udevadm control --reload`

// identify gives each guest its identity, then its NICs.
func (l *Lab) identify(ctx context.Context, o site.Options) error {
	names := l.hosts()
	guests := make([]*guest, len(names))
	defer func() {
		for _, g := range guests {
			if g != nil {
				g.close()
			}
		}
	}()
	err := l.everywhere(func(i int, name string) (err error) {
		if guests[i], err = dialGuest(ctx, l.state.Hosts[name].Port, l.state.Image, time.Minute); err != nil {
			return err
		}
		_, err = guests[i].sh(ctx, identifyScript, l.identity(name))
		return err
	})
	if err != nil {
		return err
	}
	o.Say("plugging in the NICs")
	if _, err := l.ask(request{Op: opPlug}); err != nil {
		return err
	}
	return l.everywhere(func(i int, _ string) error {
		_, err := guests[i].sh(ctx, "/usr/local/sbin/lab-names && udevadm settle", "")
		return err
	})
}

// everywhere calls do for all hosts, some in parallel.
func (l *Lab) everywhere(do func(i int, name string) error) error {
	return parallel.Do(8, l.hosts(), func(i int, name string) error {
		if err := do(i, name); err != nil {
			return fmt.Errorf("lab host %s: %w", name, err)
		}
		return nil
	})
}

func (l *Lab) identity(name string) string {
	var s strings.Builder
	sum := sha256.Sum256([]byte(l.dir + "/" + name))
	fmt.Fprintf(&s, "time %d\nname %s\nmachine %x\n", time.Now().Unix(), name, sum[:16])
	for _, n := range l.state.Hosts[name].NICs {
		fmt.Fprintf(&s, "nic %s %s\n", n.MAC, n.Netdev)
	}
	return s.String()
}

// Down kills the rack, which ends the machines, and removes the directory. It also works after a crash.
func (l *Lab) Down() error {
	if err := site.End(l.state.Rack); err != nil {
		return err
	}
	return site.Remove(l.dir)
}
