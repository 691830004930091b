//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/host"
)

// randomBundle is a file that no compression shortens.
func randomBundle(t *testing.T, size int) apply.LocalBundle {
	raw := make([]byte, size)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(raw) // never fails, by its documentation
	b, err := apply.ReadBundle("stand-in.tgz", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// everyHost is the same bundle for all hosts.
func (b *benchLab) everyHost(f apply.LocalBundle) map[string]apply.LocalBundle {
	out := map[string]apply.LocalBundle{}
	for _, h := range b.model.Hosts {
		out[h.Name] = f
	}
	return out
}

// fragile is a connection that breaks once so many bytes were written.
type fragile struct {
	net.Conn
	left   *atomic.Int64
	total  *atomic.Int64
	breaks *atomic.Int64
}

func (f fragile) Write(p []byte) (int, error) {
	f.total.Add(int64(len(p)))
	if left := f.left.Add(-int64(len(p))); left < 0 {
		if left+int64(len(p)) >= 0 { // the first time
			f.breaks.Add(1)
		}
		_ = f.Close() // the other side hears nothing of it but the end
	}
	return f.Conn.Write(p)
}

// TestUploads: broken off at random points, an upload goes on where it was, and what arrives is
// identical by hash.
func TestUploads(t *testing.T) {
	e2e(t)
	b := newBenchLab(t, 2)
	f := randomBundle(t, 64<<20)
	var mu sync.Mutex
	randoms := map[string]*rand.Rand{} // one for each host, whichever comes first
	var total atomic.Int64
	var breaks atomic.Int64
	dial := b.lab.NetDial
	b.dialer.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		left := new(atomic.Int64)
		mu.Lock()
		defer mu.Unlock()
		if randoms[addr] == nil {
			randoms[addr] = rand.New(rand.NewPCG(7, 7))
		}
		left.Store(8<<20 + randoms[addr].Int64N(20<<20))
		return fragile{c, left, &total, &breaks}, err
	}
	fleet := b.connect(t)
	defer fleet.Close()
	if err := fleet.Send(t.Context(), b.everyHost(f), nil, nil); err != nil {
		t.Fatal(err)
	}
	n, sent := breaks.Load(), total.Load()
	t.Logf("figure: %d breaks, %.1f MiB sent for 128 MiB", n, float64(sent)/(1<<20))
	if n < 6 {
		t.Errorf("the connections broke %d times only", n)
	}
	// Each break costs what was torn, and what was on its way.
	if most := 2*f.Size + n*(6<<20); sent > most {
		t.Errorf("%d bytes were sent, more than %d: uploads began anew", sent, most)
	}
	arrived := func(t *testing.T) {
		t.Helper()
		for _, h := range b.model.Hosts {
			sum := inside(t, b.state, b.fabric, h.Name, "sha256sum", host.BundleDir+"/"+f.Name)
			if !strings.HasPrefix(sum, f.SHA256) {
				t.Errorf("%s has %s", h.Name, sum)
			}
			if left := inside(t, b.state, b.fabric, h.Name, "ls", "/var/lib/fabricform/bundles"); left != "" {
				t.Errorf("left on %s: %s", h.Name, left)
			}
		}
	}
	arrived(t)
	b.dialer.NetDial = dial
	t.Run("what is there is not sent again", func(t *testing.T) {
		before := time.Now()
		if err := fleet.Send(t.Context(), b.everyHost(f), nil, nil); err != nil {
			t.Fatal(err)
		}
		t.Logf("in %s", time.Since(before).Round(time.Millisecond))
		arrived(t)
	})
	t.Run("a beginning of something else", func(t *testing.T) {
		for _, h := range b.model.Hosts {
			inside(t, b.state, b.fabric, h.Name, "sh", "-c", fmt.Sprintf("rm %s/%s; head -c 30000000 /dev/zero > /var/lib/fabricform/bundles/%s.%s.part", host.BundleDir, f.Name, f.Name, f.SHA256[:16]))
		}
		if err := fleet.Send(t.Context(), b.everyHost(f), nil, nil); err != nil {
			t.Fatal(err)
		}
		arrived(t)
	})
	t.Run("no space", func(t *testing.T) {
		huge := f
		huge.Name, huge.Size = "huge.tgz", 1<<50
		if err := fleet.Send(t.Context(), b.everyHost(huge), nil, nil); err == nil || !strings.Contains(err.Error(), "make space") {
			t.Error(err)
		}
	})
	t.Run("a hostile name", func(t *testing.T) {
		bad := f
		bad.Name = "../etc/passwd"
		if err := fleet.Send(t.Context(), b.everyHost(bad), nil, nil); err == nil || !strings.Contains(err.Error(), "is not a valid bundle") {
			t.Error(err)
		}
	})
}

// TestBenchUpload stands beside scp and rsync to the same hosts at once, without compression. The upload includes what the others
// leave out: the client's reading and hashing of the file, and the check on every host. By a relay, the client sends to one
// host, and that one to the others.
func TestBenchUpload(t *testing.T) {
	benchmark(t, "scp", "rsync")
	size := int64(128 << 20)
	if len(benchSizes()) > 1 {
		size = 1 << 30
	}
	stand := randomBundle(t, int(size))
	path := writeFile(t, stand)
	local, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	for _, n := range []int{2, 8}[:len(benchSizes())] {
		t.Run(fmt.Sprintf("%d hosts", n), func(t *testing.T) {
			b := newBenchLab(t, n)
			try(t, b.state, "apply", "-lab", "-auto-approve", "-no-verify", b.fabric).want(t, 0) // hosts of a lab reach each other over the fabric alone
			var s series
			note := func(name string, m moved) {
				s.add(name+": client CPU, ns a byte", float64(m.client.Nanoseconds())/float64(int64(n)*size))
				s.add(name+": CPU of the hosts, ns a byte", float64(m.hosts.Nanoseconds())/float64(int64(n)*size))
			}
			for range 3 {
				var read atomic.Int64
				upload := b.moved(t, stand.Name, func() (time.Duration, time.Duration) { return b.send(t, local, &read, "") })
				scp := b.moved(t, stand.Name, func() (time.Duration, time.Duration) {
					return b.copies(t, func(to string, options []string) []string {
						return append(append([]string{"scp", "-q"}, options...), path, to+":/root/copy")
					})
				})
				rsync := b.moved(t, stand.Name, func() (time.Duration, time.Duration) {
					return b.copies(t, func(to string, options []string) []string {
						return []string{"rsync", "--whole-file", "-e", "ssh " + strings.Join(options, " "), path, to + ":/root/copy"}
					})
				})
				read.Store(0)
				relayed := b.moved(t, stand.Name, func() (time.Duration, time.Duration) { return b.send(t, local, &read, b.model.Hosts[0].Name) })
				s.add("scp / upload, hashed and checked (≥ 1.2)", scp.took.Seconds()/upload.took.Seconds())
				s.add("rsync / upload, hashed and checked", rsync.took.Seconds()/upload.took.Seconds())
				s.add("scp / upload by a relay, hashed and checked", scp.took.Seconds()/relayed.took.Seconds())
				s.add("by a relay: bytes that the client sends, bundles", float64(read.Load()-size)/float64(size))
				s.add("CPU of client and hosts: scp / upload", scp.cpu()/upload.cpu())
				s.add("CPU of client and hosts: rsync / upload", rsync.cpu()/upload.cpu())
				s.add("CPU of client and hosts: scp / upload by a relay", scp.cpu()/relayed.cpu())
				note("upload", upload)
				note("upload by a relay", relayed)
				note("scp", scp)
				note("rsync", rsync)
				s.add("upload: MB/s to all hosts together", float64(int64(n)*size)/1e6/upload.took.Seconds())
			}
			s.log(t, fmt.Sprintf("%d MiB to %d hosts", size>>20, n))
		})
	}
}

// moved is what a transfer to all hosts took.
type moved struct{ took, client, hosts time.Duration }

func (m moved) cpu() float64 { return (m.client + m.hosts).Seconds() }

// moved measures a transfer to hosts that have nothing of the file. What run answers are its time and the client's CPU time.
func (b *benchLab) moved(t *testing.T, name string, run func() (took, client time.Duration)) (m moved) {
	t.Helper()
	b.forget(t, name)
	before := b.hostsCPU(t)
	m.took, m.client = run()
	m.hosts = b.hostsCPU(t) - before
	return m
}

// send uploads a file over connections that it opens before, as an apply does: it is read and hashed once, and then sent to all hosts,
// or to the relay. read counts the bytes read.
func (b *benchLab) send(t *testing.T, local io.ReaderAt, read *atomic.Int64, relay string) (took, client time.Duration) {
	t.Helper()
	fleet := b.connect(t)
	defer fleet.Close()
	start, before := time.Now(), ownCPU(t)
	f, err := apply.ReadBundle("stand-in.tgz", counting{local, read})
	if err != nil {
		t.Fatal(err)
	}
	to := b.everyHost(f)
	for host := range to {
		if f.Relay = relay; host == relay {
			f.Relay = ""
		}
		to[host] = f
	}
	if err := fleet.Send(t.Context(), to, nil, func(host, what string) { t.Errorf("%s %s", host, what) }); err != nil {
		t.Fatal(err)
	}
	return time.Since(start), ownCPU(t) - before
}

// forget removes what was copied.
func (b *benchLab) forget(t *testing.T, name string) {
	t.Helper()
	for _, h := range b.model.Hosts {
		inside(t, b.state, b.fabric, h.Name, "rm", "-f", "/root/copy", host.BundleDir+"/"+name)
	}
}

// copies runs a copy to all hosts at once. cpu is what the commands used here.
func (b *benchLab) copies(t *testing.T, argv func(to string, options []string) []string) (took, cpu time.Duration) {
	t.Helper()
	start := time.Now()
	var g errgroup.Group
	cmds := make([]*exec.Cmd, len(b.model.Hosts))
	for i, h := range b.model.Hosts {
		to := b.target(h)
		options := append([]string{"-F", "none", "-o", "BatchMode=yes", "-o", "UserKnownHostsFile=" + to.KnownHosts, "-i", to.IdentityFile}, curve25519...)
		cmd := b.operator(argv(to.User+"@"+to.Address, options)...)
		cmds[i] = cmd
		g.Go(func() error {
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", h.Name, err, out)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	took = time.Since(start)
	for _, cmd := range cmds {
		cpu += processorTime(cmd)
	}
	return took, cpu
}

// writeFile puts a bundle where other programs find it.
func writeFile(t *testing.T, f apply.LocalBundle) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), f.Name)
	out, err := os.Create(path)
	if err == nil {
		_, err = io.Copy(out, io.NewSectionReader(f.From, 0, f.Size))
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// counting counts what is read of a file.
type counting struct {
	io.ReaderAt
	n *atomic.Int64
}

func (c counting) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.n.Add(int64(n))
	return n, err
}

// TestRelays: the operator sends once, and hosts that cannot reach the relay get theirs all the same.
func TestRelays(t *testing.T) {
	e2e(t)
	b := newBenchLab(t, 4)
	try(t, b.state, "apply", "-lab", "-auto-approve", "-no-verify", b.fabric).want(t, 0) // hosts of a lab reach each other over the fabric alone
	f := randomBundle(t, 64<<20)
	var read atomic.Int64
	f.From = counting{f.From, &read}
	fleet := b.connect(t)
	defer fleet.Close()
	part := fmt.Sprintf("%s/%s.%s.part", host.BundleDir, f.Name, f.SHA256[:16])
	send := func(t *testing.T, to map[string]apply.LocalBundle) (notes []string) {
		t.Helper()
		read.Store(0)
		var mu sync.Mutex
		err := fleet.Send(t.Context(), to, nil, func(host, what string) {
			mu.Lock()
			defer mu.Unlock()
			notes = append(notes, host+" "+what)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range b.model.Hosts {
			got := inside(t, b.state, b.fabric, h.Name, "sh", "-c", "cd "+host.BundleDir+" && sha256sum *; true")
			if _, is := to[h.Name]; is && strings.TrimSpace(got) != f.SHA256+"  "+f.Name || !is && strings.Contains(got, f.SHA256) {
				t.Errorf("%s has %s", h.Name, got)
			}
		}
		return notes
	}
	behind := func(hosts ...string) map[string]apply.LocalBundle {
		out := map[string]apply.LocalBundle{}
		for _, h := range hosts {
			out[h] = f
			if h != "h00" {
				g := f
				g.Relay = "h00"
				out[h] = g
			}
		}
		return out
	}
	once := func(t *testing.T, notes []string) {
		t.Helper()
		if n := read.Load(); n != f.Size || len(notes) > 0 {
			t.Errorf("%d bytes were sent for %d: %q", n, f.Size, notes)
		}
	}
	t.Run("sent once", func(t *testing.T) { once(t, send(t, behind("h00", "h01", "h02", "h03"))) })
	b.forget(t, f.Name)
	t.Run("a beginning is there", func(t *testing.T) {
		once(t, send(t, behind("h00")))
		// What a fetch that broke off left: a beginning of the right file.
		raw := make([]byte, 20<<20)
		if _, err := f.From.ReadAt(raw, 0); err != nil {
			t.Fatal(err)
		}
		if code, err := b.lab.Exec(t.Context(), "h01", []string{"sh", "-c", "cat > " + part}, bytes.NewReader(raw), io.Discard, io.Discard); err != nil || code != 0 {
			t.Fatal(code, err)
		}
		if notes := send(t, behind("h00", "h01")); read.Load() != 0 || len(notes) > 0 {
			t.Errorf("%d bytes were sent: %q", read.Load(), notes)
		}
	})
	b.forget(t, f.Name)
	t.Run("for others only", func(t *testing.T) { once(t, send(t, behind("h01", "h02"))) })
	b.forget(t, f.Name)
	t.Run("a beginning of something else", func(t *testing.T) {
		inside(t, b.state, b.fabric, "h01", "sh", "-c", "head -c 30000000 /dev/zero > "+part)
		once(t, send(t, behind("h00", "h01")))
	})
	b.forget(t, f.Name)
	t.Run("a firewall", func(t *testing.T) {
		inside(t, b.state, b.fabric, "h00", "nft", "add table inet wall; add chain inet wall in { type filter hook input priority 0; }; add rule inet wall in tcp dport != 22 tcp flags syn / syn,ack drop")
		defer inside(t, b.state, b.fabric, "h00", "nft", "delete table inet wall")
		notes := send(t, behind("h00", "h02"))
		if len(notes) != 1 || !strings.Contains(notes[0], "the relay cannot be reached") || !strings.Contains(notes[0], "timeout") || read.Load() != 2*f.Size {
			t.Errorf("%d bytes were sent: %q", read.Load(), notes)
		}
	})
	b.forget(t, f.Name)
	t.Run("no relay", func(t *testing.T) {
		to := behind("h01")
		g := to["h01"]
		g.Relay = "gone"
		to["h01"] = g
		if notes := send(t, to); len(notes) != 1 || !strings.Contains(notes[0], "h01 could not fetch its bundle from the relay, and gets it from this machine: relay gone cannot serve the bundle") {
			t.Errorf("%q", notes)
		}
	})
}
