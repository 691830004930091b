package netns

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// HostMain is the main function of process 1 of a lab host, or of the namespace with the cables or the router. args are
// the lab's folder, sshd, the kind and the host's name. It returns only if it cannot start.
func HostMain(args []string) error {
	if len(args) < 3 || os.Getpid() != 1 {
		return errors.New("lab-host is an internal command that `fabricform lab up` starts")
	}
	// The pipe is closed when the network is complete, or when the builder dies.
	if _, err := io.Copy(io.Discard, os.NewFile(3, "start")); err != nil {
		return fmt.Errorf("wait for the network: %w", err)
	}
	switch args[2] {
	case "net":
		return reapOrphans()
	case "router":
		if err := forward(); err != nil {
			return err
		}
		return reapOrphans()
	}
	if len(args) != 4 {
		return errors.New("lab-host: the host name is missing")
	}
	if err := enterHost(args[0], args[3]); err != nil {
		return err
	}
	if err := startSSHD(args[1]); err != nil {
		return err
	}
	return reapOrphans()
}

// reapOrphans reaps the orphans that process 1 inherits, forever. Down kills it with SIGKILL, and the kernel then
// kills everything in its process namespace.
func reapOrphans() error {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.ECHILD) {
			// Nothing to reap: sleep until a signal arrives. A new orphan causes SIGCHLD.
			if _, err := syscall.Select(0, nil, nil, nil, &syscall.Timeval{Sec: 1}); err != nil && !errors.Is(err, syscall.EINTR) {
				return err
			}
		}
	}
}

// run is the folder of a host's SSH server, in the host's own /run.
const run = "/run/fabricform-lab"

// enterHost gives the process its own file systems, so that everything that the host writes stays in memory.
func enterHost(dir, name string) error {
	files := map[string][]byte{}
	for to, from := range map[string]string{"host_key": "host-" + name, "authorized_keys": "authorized_keys"} {
		raw, err := os.ReadFile(filepath.Join(dir, from))
		if err != nil {
			return err
		}
		files[to] = raw
	}
	if err := syscall.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := ownMounts(); err != nil {
		return err
	}
	if err := os.MkdirAll(run, 0o755); err != nil {
		return err
	}
	for file, raw := range files {
		if err := os.WriteFile(filepath.Join(run, file), raw, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile("/etc/hostname", []byte(name+"\n"), 0o644)
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, target, err)
	}
	return nil
}

// ownMounts mounts memory over every folder that a host writes to, and makes the rest read-only.
func ownMounts() error {
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount("tmpfs", "/mnt", "tmpfs", 0, "mode=0700"); err != nil {
		return err
	}
	for _, dir := range []string{"etc", "var"} {
		// Package host recognizes a lab's /etc by its upper folder, and writes to no other /etc from a namespace.
		upper, work := "/mnt/"+dir+"-upper", "/mnt/"+dir+"-work"
		if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)); err != nil {
			return err
		}
		if info, err := os.Stat("/" + dir); err == nil {
			if err := os.Chmod(upper, info.Mode().Perm()); err != nil {
				return err
			}
		}
		if err := mount("overlay", "/"+dir, "overlay", 0, "lowerdir=/"+dir+",upperdir="+upper+",workdir="+work); err != nil {
			return err
		}
	}
	if err := errors.Join(stockHomes(), mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777"),
		mount("tmpfs", "/run", "tmpfs", 0, "mode=0755")); err != nil {
		return err
	}
	if err := ownDevices(); err != nil {
		return err
	}
	if err := mount("", "/", "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return err
	}
	return ownKernelViews()
}

// stockHomes gives root the home of a new user and hides all others: a host must not run the operator's own startup files,
// nor read their settings.
func stockHomes() error {
	if err := errors.Join(mount("tmpfs", "/home", "tmpfs", 0, "mode=0755"), mount("tmpfs", "/root", "tmpfs", 0, "mode=0700")); err != nil {
		return err
	}
	if err := os.CopyFS("/root", os.DirFS("/etc/skel")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make root's home: %w", err)
	}
	return nil
}

// ownDevices keeps only harmless devices, so that a host cannot access the machine's disks.
func ownDevices() error {
	const dev = "/run/dev"
	if err := os.Mkdir(dev, 0o755); err != nil {
		return err
	}
	if err := mount("tmpfs", dev, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := os.WriteFile(dev+"/"+name, nil, 0o666); err != nil {
			return err
		}
		if err := mount("/dev/"+name, dev+"/"+name, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Mkdir(dev+"/pts", 0o755), os.Symlink("pts/ptmx", dev+"/ptmx"),
		os.Symlink("/proc/self/fd", dev+"/fd")); err != nil {
		return err
	}
	return errors.Join(
		mount("devpts", dev+"/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620"),
		mount(dev, "/dev", "", syscall.MS_MOVE, ""))
}

// ownKernelViews mounts the host's own views of processes, devices and kernel settings. Only network settings are
// writable, because all others belong to the machine.
func ownKernelViews() error {
	const readOnly = syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY
	return errors.Join(
		mount("proc", "/proc", "proc", 0, ""),
		mount("/proc/sys", "/proc/sys", "", syscall.MS_BIND, ""),
		mount("/proc/sys/net", "/proc/sys/net", "", syscall.MS_BIND, ""),
		mount("", "/proc/sys", "", readOnly, ""),
		hideSysRq(),
		mount("sysfs", "/sys", "sysfs", syscall.MS_RDONLY, ""))
}

// hideSysRq hides the file that can reboot the machine, if the kernel has it.
func hideSysRq() error {
	const file = "/proc/sysrq-trigger"
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return mount("/dev/null", file, "", syscall.MS_BIND, "")
}

// startSSHD runs OpenSSH's server without the machine's own configuration.
func startSSHD(sshd string) error {
	config := "HostKey " + run + "/host_key\nAuthorizedKeysFile " + run + "/authorized_keys .ssh/authorized_keys\n" +
		"PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\n" +
		"Subsystem sftp internal-sftp\nPidFile none\nUseDNS no\nMaxStartups 100\n"
	path := run + "/sshd_config"
	if err := errors.Join(os.WriteFile(path, []byte(config), 0o600), os.MkdirAll("/run/sshd", 0o755)); err != nil {
		return err
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if _, err := syscall.ForkExec(sshd, []string{sshd, "-D", "-e", "-f", path},
		&syscall.ProcAttr{Dir: "/", Env: env, Files: []uintptr{1, 1, 2}}); err != nil {
		return fmt.Errorf("start %s: %w", sshd, err)
	}
	return nil
}
