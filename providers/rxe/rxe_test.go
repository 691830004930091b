package rxe

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/resource/kindtest"
)

func snapshot(devices ...facts.RDMADevice) *facts.Snapshot {
	snap := &facts.Snapshot{System: facts.System{Kernel: "6.1.0-cloud", Arch: "amd64", OS: "Debian GNU/Linux 12 (bookworm)"},
		Links: []host.Link{{Index: 2, Name: "eth1"}, {Index: 3, Name: "eth2"}}, RDMA: devices}
	modules.Put(snap, map[string]Module{module: ModuleLoaded})
	return snap
}

func TestDevicesAreMadeAndOthersLeftAlone(t *testing.T) {
	want := Spec{Device: "rxe0", On: facts.Selector{Netdev: "eth1"}}
	for name, c := range map[string]struct {
		devices []facts.RDMADevice
		change  string // "": none
		err     string
	}{
		"nothing there":                    {nil, "netdev eth1 is missing", ""},
		"there":                            {[]facts.RDMADevice{{Name: "rxe0", Driver: Kind, Virtual: true, Netdev: "eth1"}}, "", ""},
		"on another NIC":                   {[]facts.RDMADevice{{Name: "rxe0", Driver: Kind, Virtual: true, Netdev: "eth2"}}, "netdev is eth2, wanted eth1", ""},
		"hardware":                         {[]facts.RDMADevice{{Name: "mlx5_0", Driver: "mlx5_core", Netdev: "eth1"}}, "", "eth1 has an RDMA device in hardware (mlx5_0)"},
		"hardware elsewhere":               {[]facts.RDMADevice{{Name: "mlx5_0", Driver: "mlx5_core", Netdev: "eth2"}}, "netdev eth1 is missing", ""},
		"a name that is taken by hardware": {[]facts.RDMADevice{{Name: "rxe0", Driver: "mlx5_core", Netdev: "eth2"}}, "", "is not Soft-RoCE"},
		"another software device":          {[]facts.RDMADevice{{Name: "siw0", Virtual: true, Netdev: "eth1"}}, "", "already has the software RDMA device siw0"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := provider{}.Observe(snapshot(c.devices...), want)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			changes := provider{}.Diff(want, got)
			if c.change == "" && len(changes) != 0 || c.change != "" && (len(changes) != 1 || changes[0].String() != c.change) {
				t.Errorf("%v", changes)
			}
			if len(changes) == 1 && (changes[0].From != "") != (changes[0].Refusal != "") {
				t.Errorf("only what replaces a device says so: %+v", changes[0])
			}
		})
	}
}

// TestAVLANHasNoDeviceOfItsOwn: the kernel refuses it.
func TestAVLANHasNoDeviceOfItsOwn(t *testing.T) {
	snap := snapshot()
	snap.Links[0].Kind = "vlan"
	if _, err := (provider{}).Observe(snap, Spec{Device: "rxe0", On: facts.Selector{Netdev: "eth1"}}); err == nil || !strings.Contains(err.Error(), "add the device to the NIC below it") {
		t.Error(err)
	}
}

func TestAMissingModuleNamesThePackageThatHasIt(t *testing.T) {
	want := ModuleSpec{Name: module}
	snap := snapshot()
	modules.Put(snap, map[string]Module{module: ModuleAbsent})
	for os, hint := range map[string]string{"Debian GNU/Linux 12 (bookworm)": "linux-image-amd64", "Ubuntu 22.04.4 LTS": "linux-modules-extra-6.1.0-cloud",
		"Rocky Linux 9.3": "later releases do not have it", "Arch Linux": "extra modules"} {
		snap.System.OS = os
		if _, err := (moduleProvider{}).Observe(snap, want); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: %v", os, err)
		}
	}
	snap.System.Lab = true
	if _, err := (moduleProvider{}).Observe(snap, want); err == nil || !strings.Contains(err.Error(), "lab up -backend vm") {
		t.Error(err)
	}
}

// busy is a host whose device is in use.
type busy struct {
	host.Host
	users   []host.RDMAUser
	removed bool
}

func (b *busy) RDMAUsers(context.Context, string) ([]host.RDMAUser, error) { return b.users, nil }
func (b *busy) DelRDMA(string) error                                       { b.removed = true; return nil }

func TestADeviceInUseStays(t *testing.T) {
	b := &busy{users: []host.RDMAUser{{Name: "ib_write_bw", PID: 7, File: "/dev/infiniband/uverbs0"}}}
	err := provider{}.ApplyUndo(context.Background(), b, nil, resource.NewAtom(Kind, "rxe0", "netdev"), "")
	if err == nil || b.removed || !strings.Contains(err.Error(), "rxe0 is in use by ib_write_bw (pid 7)") {
		t.Fatal(err, b.removed)
	}
	b.users = nil
	if err := errors.Join(provider{}.ApplyUndo(context.Background(), b, nil, resource.NewAtom(Kind, "rxe0", "netdev"), "")); err != nil || !b.removed {
		t.Fatal(err, b.removed)
	}
}

// soft is a host with two NICs whose kernel has Soft-RoCE; files are all that it shows.
type soft struct {
	host.Host
	files kindtest.Files
}

func (s *soft) Links(_ context.Context) ([]host.Link, error) {
	return []host.Link{{Index: 2, Name: "eth1"}, {Index: 3, Name: "eth2"}}, nil
}
func (s *soft) Addrs(_ context.Context) ([]host.Addr, error)               { return nil, nil }
func (s *soft) Routes(_ context.Context) ([]host.Route, error)             { return nil, nil }
func (s *soft) Rules(_ context.Context) ([]host.Rule, error)               { return nil, nil }
func (s *soft) Readlink(context.Context, string) (string, error)           { return "", fs.ErrNotExist }
func (s *soft) RDMAUsers(context.Context, string) ([]host.RDMAUser, error) { return nil, nil }

func (s *soft) ReadFile(ctx context.Context, p string) ([]byte, error) {
	return s.files.ReadFile(ctx, p)
}
func (s *soft) ReadDir(ctx context.Context, dir string) ([]string, error) {
	return s.files.ReadDir(ctx, dir)
}

func (s *soft) LoadModule(name string) error {
	s.files["/sys/module/"+name+"/refcnt"] = "0"
	return nil
}

func (s *soft) AddRXE(device, netdev string) error {
	s.files["/sys/class/infiniband/"+device+"/parent"] = netdev
	s.files["/sys/class/infiniband/"+device+"/ports/1/state"] = "4: ACTIVE"
	s.files["/sys/class/infiniband/"+device+"/ports/1/gids/0"] = "::" // an empty slot
	return nil
}

func (s *soft) DelRDMA(device string) error {
	maps.DeleteFunc(s.files, func(p, _ string) bool { return strings.HasPrefix(p, "/sys/class/infiniband/"+device+"/") })
	return nil
}

func TestConformance(t *testing.T) {
	h := &soft{files: map[string]string{"/lib/modules//modules.dep": "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko:"}}
	if !process.InLab() { // which loads no module
		kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: KindModule, Host: h, Spec: ModuleSpec{Name: module}, There: true})
	}
	spec := Spec{Device: "rxe0", On: facts.Selector{Netdev: "eth1"}}
	kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: Kind, Host: h, Spec: spec})
	if err := h.AddRXE("rxe0", "eth2"); err != nil { // ours by the record, on another NIC
		t.Fatal(err)
	}
	c := kindtest.Case{Kinds: Kinds(), Kind: Kind, Host: h, Spec: spec, There: true}
	kindtest.Conform(t, c)
}
