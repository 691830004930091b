package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/host/process"
)

func (kernel) LoadModule(name string) error { return process.LoadModule(name) }

// AddRXE creates a Soft-RoCE device on a netdev (RDMA_NLDEV_CMD_NEWLINK).
func (k kernel) AddRXE(device, netdev string) error {
	err := k.h.RdmaLinkAdd(device, "rxe", netdev)
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make RDMA device %s on %s: an RDMA device of that name, or one on that netdev, exists already", device, netdev)
	}
	if err != nil {
		return fmt.Errorf("make RDMA device %s on %s: %w", device, netdev, err)
	}
	return nil
}

// DelRDMA removes a software RDMA device (RDMA_NLDEV_CMD_DELLINK). The kernel refuses to remove hardware.
func (k kernel) DelRDMA(device string) error {
	if err := k.h.RdmaLinkDel(device); err != nil {
		return fmt.Errorf("remove RDMA device %s: %w", device, err)
	}
	return nil
}

// rdmaFiles is the folder of the device files of RDMA: uverbsN, umadN, issmN, rdma_cm.
const rdmaFiles = "/dev/infiniband/"

// RDMAUsers returns the processes with an open /dev/infiniband/uverbsN of that device.
func (kernel) RDMAUsers(_ context.Context, device string) ([]RDMAUser, error) {
	if device == "" {
		if _, err := os.Stat(rdmaFiles); err != nil {
			return nil, nil // no files, so no users
		}
		return usersOf("/proc", func(file string) bool { return strings.HasPrefix(file, rdmaFiles) })
	}
	const class = "/sys/class/infiniband_verbs"
	names, err := os.ReadDir(class)
	if err != nil {
		return nil, fmt.Errorf("find users of RDMA device %s: %w", device, err)
	}
	files := map[string]bool{}
	for _, n := range names {
		if raw, err := os.ReadFile(filepath.Join(class, n.Name(), "ibdev")); err == nil && strings.TrimSpace(string(raw)) == device {
			files[rdmaFiles+n.Name()] = true
		}
	}
	return usersOf("/proc", func(file string) bool { return files[file] })
}

// usersOf returns the processes in a /proc that have one of the files open, sorted by name and PID.
func usersOf(proc string, wanted func(file string) bool) ([]RDMAUser, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("find users of RDMA devices: %w", err)
	}
	var out []RDMAUser
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		descriptors, _ := os.ReadDir(dir + "/fd") // fails if the process has ended meanwhile
		file := ""
		for _, d := range descriptors {
			if to, err := os.Readlink(filepath.Join(dir, "fd", d.Name())); err == nil && wanted(to) && (file == "" || to < file) {
				file = to
			}
		}
		if file != "" {
			name, _ := os.ReadFile(dir + "/comm") // if this fails, the PID still helps
			out = append(out, RDMAUser{Name: strings.TrimSpace(string(name)), PID: pid, File: file})
		}
	}
	slices.SortFunc(out, func(a, b RDMAUser) int { return cmp.Or(cmp.Compare(a.Name, b.Name), a.PID-b.PID) })
	return out, nil
}
