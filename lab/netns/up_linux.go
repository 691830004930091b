package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab/site"
	"github.com/fabricform/fabricform/retry"
)

// Up builds the lab. If it fails, it removes everything it created.
func Up(ctx context.Context, dir string, f *fabric.Fabric, o site.Options) (_ *Lab, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a lab of namespaces needs root: run the command with sudo")
	}
	if o.Program, err = o.Self(); err != nil {
		return nil, err
	}
	if o.SSHD == "" {
		if o.SSHD, err = sshd(); err != nil {
			return nil, err
		}
	}
	l := &Lab{dir: dir, state: state{Backend: site.Netns, Name: f.Name, Hosts: map[string]Host{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Down())
		}
	}()
	if err := l.keys(f); err != nil {
		return nil, err
	}
	signs, err := l.start(f, o)
	defer closeAll(signs)
	if err != nil {
		return nil, err
	}
	if err := l.cable(f); err != nil {
		return nil, err
	}
	if err := l.save(); err != nil {
		return nil, err
	}
	closeAll(signs) // end of file is the signal to start
	return l, l.answers(ctx)
}

// start creates the namespaces of the cables, of the router if there are networks, and of the hosts. Their processes
// wait until the returned files are closed.
func (l *Lab) start(f *fabric.Fabric, o site.Options) (signs []*os.File, err error) {
	hold := func(args ...string) (site.Process, error) {
		p, sign, err := l.startHeld(o, args...)
		if err == nil {
			signs = append(signs, sign)
		}
		return p, err
	}
	if l.state.Net, err = hold("net"); err != nil {
		return signs, err
	}
	if len(f.Networks) > 0 {
		router, err := hold("router")
		if err != nil {
			return signs, err
		}
		l.state.Router = &router
	}
	for i, h := range f.Hosts {
		p, err := hold("host", h.Name)
		if err != nil {
			return signs, err
		}
		l.state.Hosts[h.Name] = Host{Process: p, Address: managementAddress(i, true).String()}
	}
	return signs, nil
}

// closeAll closes pipes. Some may already be closed.
func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // if the reader has ended, answers reports it
	}
}

func sshd() (string, error) {
	if path, err := exec.LookPath("sshd"); err == nil {
		return path, nil
	}
	const usual = "/usr/sbin/sshd"
	if _, err := os.Stat(usual); err != nil {
		return "", errors.New("a lab's hosts need sshd of OpenSSH, which is not installed: run `apt-get install openssh-server`")
	}
	return usual, nil
}

// startHeld starts a process in its own namespaces. The process waits until the returned file is closed, so that its network
// can be built first.
func (l *Lab) startHeld(o site.Options, args ...string) (site.Process, *os.File, error) {
	fail := func(err error) (site.Process, *os.File, error) {
		return site.Process{}, nil, fmt.Errorf("start lab process %s: %w", args[len(args)-1], err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer r.Close()
	log, err := os.OpenFile(filepath.Join(l.dir, args[len(args)-1]+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fail(err)
	}
	defer log.Close()
	cmd := exec.Command(o.Program, append([]string{"lab-host", l.dir, o.SSHD}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{r}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS |
		syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	go func() { _ = cmd.Wait() }() // only reaps the process, if it ends before this one
	p, err := site.Identify(cmd.Process.Pid)
	if err != nil {
		return fail(err)
	}
	return p, w, nil
}

// answers waits until every host accepts connections.
func (l *Lab) answers(ctx context.Context) error {
	for name, h := range l.state.Hosts {
		for deadline := time.Now().Add(15 * time.Second); ; {
			conn, err := l.NetDial(ctx, "tcp", h.Address+":22")
			if err == nil {
				conn.Close()
				break
			}
			if !h.Process.Alive() || time.Now().After(deadline) || ctx.Err() != nil {
				said, _ := os.ReadFile(filepath.Join(l.dir, name+".log")) // an error leaves the output empty
				return fmt.Errorf("lab host %s does not answer: %w; its log: %s", name, err, said)
			}
			_ = retry.Pause(ctx, 20*time.Millisecond) // the next try checks ctx
		}
	}
	return nil
}

// keys creates a key for every host and one for the operator.
func (l *Lab) keys(f *fabric.Fabric) error {
	line, err := site.Key(filepath.Join(l.dir, "id_ed25519"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.dir, "authorized_keys"), []byte(line), 0o600); err != nil {
		return fmt.Errorf("write the lab's keys: %w", err)
	}
	known := ""
	for i, h := range f.Hosts {
		line, err := site.Key(filepath.Join(l.dir, "host-"+h.Name))
		if err != nil {
			return err
		}
		known += managementAddress(i, true).String() + " " + line
	}
	if err := os.WriteFile(filepath.Join(l.dir, "known_hosts"), []byte(known), 0o600); err != nil {
		return fmt.Errorf("write the lab's known_hosts: %w", err)
	}
	return nil
}
