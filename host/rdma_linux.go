package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// moduleName is what a kernel module may be called.
var moduleName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,55}$`)

// LoadModule loads a kernel module and those that it needs, as modprobe(8) does: only it knows the
// machine's own rules in /etc/modprobe.d.
func (kernel) LoadModule(name string) error {
	if !moduleName.MatchString(name) {
		return fmt.Errorf("%q is no kernel module's name", name)
	}
	if InLab() {
		return errors.New("a lab of namespaces shares its machine's kernel, and loads nothing into it")
	}
	path, err := FindProgram("modprobe")
	if err != nil {
		return err
	}
	if out, err := exec.Command(path, "--", name).CombinedOutput(); err != nil {
		return fmt.Errorf("load module %s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// programFolders are where programs of the machine are, whatever PATH a login gave us; NVIDIA's
// perftest and iproute2 have folders of their own.
var programFolders = []string{"/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/mellanox/iproute2/sbin"}

// FindProgram finds a program of the machine: of a name, in the system's folders and in those of vendors' tools.
func FindProgram(name string) (string, error) {
	for _, dir := range programFolders {
		path := filepath.Join(dir, name)
		if unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("this host has no %s", name)
}

// AddRXE makes a Soft-RoCE device on a netdev (RDMA_NLDEV_CMD_NEWLINK).
func (k kernel) AddRXE(device, netdev string) error {
	err := k.h.RdmaLinkAdd(device, "rxe", netdev)
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make RDMA device %s on %s: an RDMA device of that name, or one on that netdev, is there already", device, netdev)
	}
	if err != nil {
		return fmt.Errorf("make RDMA device %s on %s: %w", device, netdev, err)
	}
	return nil
}

// DelRDMA removes a software RDMA device (RDMA_NLDEV_CMD_DELLINK); the kernel refuses for hardware.
func (k kernel) DelRDMA(device string) error {
	if err := k.h.RdmaLinkDel(device); err != nil {
		return fmt.Errorf("remove RDMA device %s: %w", device, err)
	}
	return nil
}

// RDMAUsers are the processes that have the device open, as "name (pid 12)": those with its
// /dev/infiniband/uverbsN among their files.
func (kernel) RDMAUsers(device string) ([]string, error) {
	const class = "/sys/class/infiniband_verbs"
	names, err := os.ReadDir(class)
	if err != nil {
		return nil, fmt.Errorf("find users of RDMA device %s: %w", device, err)
	}
	files := map[string]bool{}
	for _, n := range names {
		if raw, err := os.ReadFile(filepath.Join(class, n.Name(), "ibdev")); err == nil && strings.TrimSpace(string(raw)) == device {
			files["/dev/infiniband/"+n.Name()] = true
		}
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return nil, err
	}
	users := map[int]string{}
	for _, l := range links {
		to, err := os.Readlink(l) // a process may end meanwhile
		if err != nil || !files[to] {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(l, "/")[2]); err == nil {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // gone: its id still says something
			users[pid] = fmt.Sprintf("%s (pid %d)", strings.TrimSpace(string(name)), pid)
		}
	}
	var out []string
	for _, u := range users {
		out = append(out, u)
	}
	slices.Sort(out)
	return out, nil
}
