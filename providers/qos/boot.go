package qos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Kept is the class of one NIC in the file that the host reads at boot.
type Kept struct {
	Netdev string `json:"netdev"`
	MAC    string `json:"mac,omitempty"`  // its permanent address; software devices have none
	PCI    string `json:"pci,omitempty"`  // its address on the bus
	RDMA   string `json:"rdma,omitempty"` // the device that gets the defaults of rdma_cm; "" if the class sets none
	Class  Spec   `json:"class"`
}

// maxKept bounds the file: the class of one NIC takes less than 1 KiB.
const maxKept = 1 << 20

// Boot sets at boot what the file declares for a device, and returns the changes that it made. The device is a NIC, or an RDMA device, which
// appears after its NIC and gets the defaults of rdma_cm. Boot refuses a file that others than root may have written, and another card
// than that of the file.
func Boot(ctx context.Context, h host.Host, file, device string) ([]resource.Change, error) {
	text, err := readKept(ctx, h, file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	kept, err := parseKept(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var made []resource.Change
	found := false
	for _, k := range kept {
		for _, class := range k.classesOf(device) {
			found = true
			changes, err := k.set(ctx, h, class)
			if made = append(made, changes...); err != nil {
				return made, err
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("%s has no class for the device %q", file, device)
	}
	return made, nil
}

func readKept(ctx context.Context, r host.Reader, file string) ([]byte, error) {
	stat, err := r.Stat(ctx, file)
	switch {
	case err != nil:
		return nil, err
	case !stat.Mode.IsRegular():
		return nil, errors.New("it is not a regular file")
	case stat.UID != 0 || stat.Mode.Perm()&(fs.FileMode(0o022)) != 0:
		return nil, errors.New("others than root may have written it")
	}
	return r.ReadFile(ctx, file)
}

// parseKept reads the file's text: lines that begin with #, then JSON.
func parseKept(text []byte) (out []Kept, err error) {
	if len(text) > maxKept {
		return nil, errors.New("it is larger than 1 MiB")
	}
	for bytes.HasPrefix(text, []byte("#")) {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the list")
	}
	for _, k := range out {
		if k.Netdev == "" {
			return nil, errors.New("a class has no netdev")
		}
	}
	return out, nil
}

// classesOf returns the parts of the class that are set when the device appears.
func (k Kept) classesOf(device string) (out []Spec) {
	on := facts.Selector{Netdev: k.Netdev}
	if device == k.Netdev {
		class := k.Class
		class.On, class.RDMACM = on, nil
		out = append(out, class)
	}
	if device == k.RDMA && device != "" {
		out = append(out, Spec{On: on, Class: k.Class.Class, RDMACM: k.Class.RDMACM, TOS: k.Class.TOS})
	}
	return out
}

// set sets one part of the class, as apply does.
func (k Kept) set(ctx context.Context, h host.Host, class Spec) ([]resource.Change, error) {
	snap, err := resource.Gather(ctx, h, provider{}, class)
	if err != nil {
		return nil, err
	}
	l, err := snap.Find(class.On)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(k.MAC, l.PermMAC) || k.PCI != l.PCI {
		return nil, fmt.Errorf("%s is another card than when the file was written (permanent address %q, was %q; PCI %q, was %q): plan and apply again",
			k.Netdev, l.PermMAC, k.MAC, l.PCI, k.PCI)
	}
	got, err := provider{}.Observe(snap, class)
	if err != nil {
		return nil, err
	}
	changes := provider{}.Diff(class, got)
	return changes, provider{}.Apply(ctx, h, class, changes)
}
