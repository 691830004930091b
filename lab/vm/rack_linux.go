package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/parallel"
)

// rack is the process that runs a lab's machines and cables. The machines end with it.
type rack struct {
	build    build
	board    *switchboard
	machines map[string]*running
	started  chan struct{} // closed when all machines run, or one could not
	order    sync.Mutex    // one request at a time
	failure  error
}

// running is one machine.
type running struct {
	build machineBuild
	ended atomic.Bool
	qmp   *qmp
	port  int
}

// RackMain runs the rack until ctx is done. Its argument is the lab's folder.
func RackMain(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("lab-rack is an internal command that `fabricform lab up` starts")
	}
	// A machine ends with the thread that started it, so this thread must live until the end.
	runtime.LockOSThread()
	if err := os.Chdir(args[0]); err != nil {
		return err
	}
	raw, err := os.ReadFile(buildFile)
	if err != nil {
		return err
	}
	r := &rack{machines: map[string]*running{}, started: make(chan struct{})}
	if err := json.Unmarshal(raw, &r.build); err != nil {
		return err
	}
	r.board = newSwitchboard(r.build.Segments)
	for _, c := range r.build.Cables {
		for _, port := range c.Ports {
			r.board.lengthen(port, c.Distance)
		}
	}
	for i := range r.build.Segments {
		if err := r.listen(i); err != nil {
			return err
		}
	}
	control, err := net.Listen("unix", controlSocket)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = control.Close() })() // ends the loop below
	for _, m := range r.build.Machines {
		if err := r.start(m); err != nil {
			return err
		}
	}
	go r.await()
	for {
		conn, err := control.Accept()
		if err != nil {
			return err
		}
		go r.answer(conn)
	}
}

// listen accepts connections for one port.
func (r *rack) listen(i int) error {
	l, err := net.Listen("unix", socketOf(i))
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if err := r.board.serve(i, conn); err != nil {
				fmt.Fprintf(os.Stderr, "port %d: %v\n", i, err)
			}
		}
	}()
	return nil
}

// start starts a machine from the image's saved state.
func (r *rack) start(b machineBuild) error {
	name := b.Host
	overlay := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", filepath.Join(r.build.Image, diskFile),
		overlayOf(name))
	if out, err := overlay.CombinedOutput(); err != nil {
		return fmt.Errorf("create the disk of %s: %w: %s", name, err, out)
	}
	saved, err := os.Open(filepath.Join(r.build.Image, stateFile))
	if err != nil {
		return err
	}
	defer saved.Close()
	log, err := os.Create(messagesOf(name))
	if err != nil {
		return err
	}
	defer log.Close()
	m := machine{image: r.build.Image, disk: overlayOf(name), console: consoleOf(name), monitor: monitorOf(name),
		accel: r.build.Accel, incoming: true}
	cmd := exec.Command(program, m.args()...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{saved}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	run := &running{build: b}
	r.machines[name] = run
	go func() {
		err := cmd.Wait()
		run.ended.Store(true)
		fmt.Fprintf(os.Stderr, "machine %s has exited: %v\n", name, err)
	}()
	return nil
}

// await waits until all machines run.
func (r *rack) await() {
	defer close(r.started)
	r.failure = parallel.Do(0, r.build.Machines, func(_ int, b machineBuild) error {
		if err := r.machines[b.Host].wake(); err != nil {
			said, _ := os.ReadFile(messagesOf(b.Host)) // an error leaves the output empty
			return fmt.Errorf("machine %s: %w %s", b.Host, err, strings.TrimSpace(string(said)))
		}
		return nil
	})
}

func (m *running) wake() (err error) {
	if m.qmp, err = dialQMP(".", monitorOf(m.build.Host), func() bool { return !m.ended.Load() }); err != nil {
		return err
	}
	if err := m.qmp.run(); err != nil {
		return err
	}
	m.port, err = m.qmp.sshPort()
	return err
}

func (r *rack) answer(conn net.Conn) {
	defer conn.Close()
	var req request
	if err := json.NewDecoder(conn).Decode(&req); err != nil {
		return // not a request
	}
	a, err := r.do(req)
	if err != nil {
		a.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(a) // an error means only that the client has gone
}

func (r *rack) do(req request) (answer, error) {
	<-r.started
	r.order.Lock()
	defer r.order.Unlock()
	if req.Op == opStatus {
		a := answer{Alive: map[string]bool{}}
		for name, m := range r.machines {
			a.Alive[name] = !m.ended.Load()
		}
		return a, nil
	}
	if r.failure != nil {
		return answer{}, r.failure
	}
	switch req.Op {
	case opPorts:
		a := answer{Ports: map[string]int{}}
		for name, m := range r.machines {
			a.Ports[name] = m.port
		}
		return a, nil
	case opPlug:
		return answer{}, r.plug()
	case opFault:
		return answer{}, r.fault(req.Cable, req.Fault)
	case opReset:
		m := r.machines[req.Host]
		if m == nil {
			return answer{}, fmt.Errorf("the lab has no host %q", req.Host)
		}
		_, err := m.qmp.do("system_reset", nil)
		return answer{}, err
	}
	return answer{}, fmt.Errorf("unknown request %q", req.Op)
}

func (r *rack) plug() error {
	for _, m := range r.machines {
		for i, n := range m.build.NICs {
			if err := m.qmp.plug(i, n); err != nil {
				return fmt.Errorf("NIC %s of %s: %w", n.Netdev, m.build.Host, err)
			}
			if r.build.Segments[n.Port] < 0 { // no cable, no carrier
				if err := m.qmp.carrier(i, false); err != nil {
					return fmt.Errorf("NIC %s of %s: %w", n.Netdev, m.build.Host, err)
				}
			}
		}
	}
	return nil
}

func (r *rack) cable(name string) (cableBuild, error) {
	for _, c := range r.build.Cables {
		if c.Name == name {
			return c, nil
		}
	}
	return cableBuild{}, fmt.Errorf("the lab has no link %q", name)
}

// fault repairs a cable, and then sets its new fault.
func (r *rack) fault(name string, f site.Fault) error {
	c, err := r.cable(name)
	if err != nil {
		return err
	}
	if err := r.mend(c); err != nil {
		return err
	}
	if f.Swap != "" {
		other, err := r.cable(f.Swap)
		if err != nil || other.Name == c.Name {
			return fmt.Errorf("the lab has no other link %q", f.Swap)
		}
		if err := r.mend(other); err != nil {
			return err
		}
		r.board.swap(c, other)
		return nil
	}
	return r.set(c, f)
}

func (r *rack) mend(c cableBuild) error {
	r.board.unswap(c)
	return r.set(c, site.Fault{})
}

// set sets a fault at every end of a cable. A cut also removes the carrier of its NICs.
func (r *rack) set(c cableBuild, f site.Fault) error {
	var errs []error
	for _, port := range c.Ports {
		r.board.fault(port, f)
		for _, m := range r.machines {
			for i, n := range m.build.NICs {
				if n.Port == port {
					errs = append(errs, m.qmp.carrier(i, !f.Cut))
				}
			}
		}
	}
	return errors.Join(errs...)
}
