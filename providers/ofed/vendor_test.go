package ofed

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/packagemanager"
	"github.com/fabricform/fabricform/resource"
)

const note000 = "MLNX_OFED_LINUX-24.10-2.1.8.0-openeuler22.03sp3-x86_64.tar"

// note000Host is a host of the write-up of two servers: openEuler, with the distribution's stack.
func note000Host(change func(*facts.Snapshot)) *facts.Snapshot {
	snap := &facts.Snapshot{System: facts.System{Kernel: "5.10.0-182.0.0.95.oe2203sp3.x86_64", Arch: "amd64"}}
	part.Put(snap, &Stack{Name: Inbox, Manager: "dnf", Release: packagemanager.Release{ID: "openEuler", Version: "22.03", Variant: "22.03 (LTS-SP3)"},
		Packages: map[string]packagemanager.Package{"rdma-core": {Version: "41.0"}, "libnccl": {Version: "2"}}})
	if change != nil {
		change(snap)
	}
	return snap
}

func TestVendorDifferences(t *testing.T) {
	mlnx := Spec{Stack: MLNXOFED, Bundle: note000}
	reboot := mlnx
	reboot.Reboot = true
	firmware := mlnx
	firmware.Firmware = true
	installed := func(s *facts.Snapshot) { part.Of(s).Name, part.Of(s).Version = MLNXOFED, "24.10-2.1.8.0" }
	const stack, gone = "stack: inbox → mlnx_ofed 24.10-2.1.8.0 [live]", "distribution's packages: rdma-core → the bundle's [live]"
	const reload = "driver: the loaded one → the installed one [driver reload]"
	for _, c := range []struct {
		name   string
		want   Spec
		change func(*facts.Snapshot)
		diff   []string
	}{
		{"installed, driver reloaded", mlnx, nil, []string{stack, gone, reload}},
		{"installed, restarted", reboot, nil, []string{stack, gone, "reboot: kernel 5.10.0-182.0.0.95.oe2203sp3.x86_64 → with the new driver [reboot]"}},
		{"firmware, too", firmware, nil, []string{stack, gone, "firmware: the cards' own → the bundle's, if it is newer; nothing can interrupt the write [live]", reload}},
		{"there", mlnx, installed, nil},
		{"an older one is there", mlnx, func(s *facts.Snapshot) { installed(s); part.Of(s).Version = "5.8-1.0.1.1" }, []string{"stack: mlnx_ofed 5.8-1.0.1.1 → mlnx_ofed 24.10-2.1.8.0 [live]", reload}},
		{"there, and the old driver runs", mlnx, func(s *facts.Snapshot) {
			installed(s)
			part.Of(s).Modules = []Module{{Name: "mlx5_core", Is: true, Loaded: "A", Source: "B"}}
		}, []string{reload}},
		{"what builds it is missing", mlnx, func(s *facts.Snapshot) {
			part.Of(s).Simulated = &packagemanager.Simulation{Steps: []packagemanager.PackageStep{{Name: "tk", To: "8.6"}}}
		}, []string{"package tk:  → 8.6 [live]", stack, gone, reload}},
		{"cut off once ofed_info was there", mlnx, func(s *facts.Snapshot) {
			installed(s)
			part.Of(s).Job = &resource.Installation{State: resource.JobRunning, Step: "mlnxofedinstall --without-fw-update"}
		}, []string{"installation: interrupted during: mlnxofedinstall --without-fw-update → finished [live]", "stack: mlnx_ofed 24.10-2.1.8.0, unfinished → mlnx_ofed 24.10-2.1.8.0 [live]", reload}},
		{"cut off in the initramfs, and to be restarted", reboot, func(s *facts.Snapshot) {
			installed(s)
			part.Of(s).Job = &resource.Installation{State: resource.JobFailed, Step: "dracut --force"}
		}, []string{"installation: interrupted during: dracut --force → finished [live]", "stack: mlnx_ofed 24.10-2.1.8.0, unfinished → mlnx_ofed 24.10-2.1.8.0 [live]", "reboot: kernel 5.10.0-182.0.0.95.oe2203sp3.x86_64 → with the new driver [reboot]"}},
		{"only the reload failed", mlnx, func(s *facts.Snapshot) {
			installed(s)
			part.Of(s).Job = &resource.Installation{State: resource.JobFailed, Step: "systemctl restart openibd.service"}
		}, []string{"installation: interrupted during: systemctl restart openibd.service → finished [live]", reload}},
		{"another stack's installation was cut off", Spec{Stack: MLNXOFED}, func(s *facts.Snapshot) {
			installed(s)
			part.Of(s).Job = &resource.Installation{State: resource.JobFailed, Stack: Inbox, Step: "dnf -y install"}
		}, []string{"installation: interrupted during: dnf -y install → finished [live]"}},
		{"cut off, and no bundle to finish it from", Spec{Stack: MLNXOFED}, func(s *facts.Snapshot) {
			installed(s)
			part.Of(s).Job = &resource.Installation{State: resource.JobFailed, Step: "dracut --force"}
		}, []string{"refused: the installation of mlnx_ofed 24.10-2.1.8.0 was interrupted on this host, and the ofed block names no bundle: set bundle to finish it"}},
		{"storage uses the driver", mlnx, func(s *facts.Snapshot) {
			part.Of(s).Modules = []Module{{Name: "ib_core", Is: true, Users: []string{"ib_cm", "ib_iser", "ib_isert", "ib_srpt", "rdma_cm"}}, {Name: "mlx5_core", Is: true, Users: []string{"mlx5_ib", "mlx5_vfio_pci"}}}
		}, []string{`refused: the driver cannot be reloaded while ib_iser, ib_isert, ib_srpt, mlx5_vfio_pci use it (unload them): do that first, or set reboot = "allow" in the ofed block`}},
		{"the operator comes in by it", mlnx, behind("eno1", ""), []string{`refused: a reload of the driver would cut your own connection to this host, which may go over eno1: set reboot = "allow" in the ofed block, or connect over another NIC`}},
		{"the operator comes in by another card", mlnx, behind("eno2", ""), []string{stack, gone, reload}},
		{"nobody knows by what the operator comes in", mlnx, behind("", "no route"), []string{`refused: a reload of the driver would cut your own connection to this host, which may go over eno1: set reboot = "allow" in the ofed block, or connect over another NIC`}},
		{"the operator comes in by it, and it is restarted", reboot, behind("eno1", ""), []string{stack, gone, "reboot: kernel 5.10.0-182.0.0.95.oe2203sp3.x86_64 → with the new driver [reboot]"}},
		{"somebody uses the driver", mlnx, func(s *facts.Snapshot) {
			part.Of(s).Modules = []Module{{Name: "ib_core", Is: true, Users: []string{"ib_uverbs", "mlx5_ib", "nvidia_peermem"}}}
		}, []string{`refused: the driver cannot be reloaded while nvidia_peermem uses it (unload it): do that first, or set reboot = "allow" in the ofed block`}},
		{"no bundle", Spec{Stack: MLNXOFED}, nil, []string{"refused: this host has inbox, and the ofed block names no bundle: set bundle to install mlnx_ofed"}},
		{"no bundle is needed", Spec{Stack: MLNXOFED}, installed, nil},
		{"the other vendor's stack is there", mlnx, func(s *facts.Snapshot) { part.Of(s).Name, part.Of(s).Version = DOCAOFED, "25.10-1.7.1" },
			[]string{"refused: doca_ofed 25.10-1.7.1 is installed on this host: remove it first (`/usr/sbin/ofed_uninstall.sh --force`, then reboot), and plan again"}},
		{"another machine", mlnx, func(s *facts.Snapshot) { s.System.Arch = "arm64" }, []string{"refused: " + note000 + " cannot be installed on this host: the bundle is for amd64, but this host is arm64"}},
	} {
		if got := difference(t, note000Host(c.change), c.want); !slices.Equal(got, c.diff) {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.diff)
		}
	}
	has := func(s *facts.Snapshot) { part.Of(s).Name, part.Of(s).Version = DOCAOFED, "25.10-1.7.1" }
	for _, doca := range []Spec{{Bundle: "doca-host-3.1.0-091000_25.10_ol96.x86_64.rpm"}, {Version: "25.10"}, {Version: "25.10-1.7.1"}, {}} {
		doca.Stack = DOCAOFED
		if got := difference(t, note000Host(has), doca); got != nil {
			t.Errorf("%+v: %q", doca, got)
		}
	}
	if got := difference(t, note000Host(has), Spec{Stack: DOCAOFED, Version: "25.1"}); len(got) != 1 || !strings.HasPrefix(got[0], "refused: ") {
		t.Errorf("25.1 is taken for 25.10: %q", got)
	}
}

// TestWhatAPTCannotFinishTheBundleDoes: a vendor's installer was cut off in the middle of dpkg, and apt (2.6)
// takes nothing at all where it has no archive of what is half installed.
func TestWhatAPTCannotFinishTheBundleDoes(t *testing.T) {
	want := Spec{Stack: MLNXOFED, Bundle: "MLNX_OFED_LINUX-24.10-2.1.8.0-ubuntu22.04-x86_64.tgz"}
	cut := func(s *facts.Snapshot) {
		s.System.Kernel = "5.15.0-91-generic"
		part.Put(s, &Stack{Name: Inbox, Manager: "apt", Release: packagemanager.Release{ID: "ubuntu", Version: "22.04"}, Wanted: []string{"dkms"},
			Packages:  map[string]packagemanager.Package{"dkms": {Version: "2.8"}, "mlnx-tools": {Version: "24.10", Unfinished: "unpacked"}, "kernel-mft-dkms": {Version: "24.10", Unfinished: packagemanager.HalfInstalled}},
			Simulated: &packagemanager.Simulation{Failed: "E: The package kernel-mft-dkms needs to be reinstalled, but I can't find an archive for it."},
			Job:       &resource.Installation{State: resource.JobFailed, Step: "mlnxofedinstall --without-fw-update"}})
	}
	if got, diff := difference(t, note000Host(cut), want), []string{"installation: interrupted during: mlnxofedinstall --without-fw-update → finished [live]", "package kernel-mft-dkms: half-installed → the bundle's [live]",
		"package mlnx-tools: unpacked → 24.10 [live]", "stack: inbox → mlnx_ofed 24.10-2.1.8.0 [live]", "driver: the loaded one → the installed one [driver reload]"}; !slices.Equal(got, diff) {
		t.Errorf("%q, want\n%q", got, diff)
	}
	lacking := func(s *facts.Snapshot) { cut(s); delete(part.Of(s).Packages, "dkms") }
	if got := difference(t, note000Host(lacking), want); len(got) != 1 || !strings.HasPrefix(got[0], "refused: apt cannot install dkms: E: The package kernel-mft-dkms") {
		t.Errorf("%q", got)
	}
	changes := []resource.Change{{Attribute: installation, To: "finished"}, {Attribute: "package kernel-mft-dkms", From: packagemanager.HalfInstalled, To: ofBundle}, {Attribute: "package mlnx-tools", From: "unpacked", To: "24.10"}, {Attribute: stackOf, To: "x"}}
	for _, c := range []struct {
		changes []resource.Change
		fails   bool
	}{{changes, false}, {changes[:3], true}} {
		m := &machine{answer: host.Answer{Exit: 100, Stderr: "E: Packages need to be removed but remove is disabled."}}
		if err := applyPackages(t.Context(), m, note000Host(cut), c.changes, &steps{}); (err != nil) != c.fails || !slices.Equal(m.ran, []string{"dpkg", "apt-get"}) {
			t.Errorf("%v after %q", err, m.ran)
		}
	}
}

// behind is a host with a card of the stack's and another one, that the operator comes in by.
func behind(device, unknown string) func(*facts.Snapshot) {
	return func(s *facts.Snapshot) {
		s.Links = []host.Link{{Name: "eno1", Driver: "mlx5_core"}, {Name: "eno2", Driver: "igb"}}
		s.Management = facts.Management{Devices: []string{device}, Unknown: unknown}
	}
}

// TestModulesAreBuiltWithHeaders: DOCA 3.2 and later have source only.
func TestModulesAreBuiltWithHeaders(t *testing.T) {
	for file, refused := range map[string]bool{"doca-host-3.3.0-091000_26.01_rhel9.x86_64.rpm": true, "doca-host-3.1.0-091000_25.07_rhel9.x86_64.rpm": false} {
		rhel := func(s *facts.Snapshot) {
			s.System.Kernel, part.Of(s).Release = "5.14.0-503.el9.x86_64", packagemanager.Release{ID: "rhel", Version: "9.5"}
		}
		want := Spec{Stack: DOCAOFED, Bundle: file}
		got := difference(t, note000Host(rhel), want)
		if strings.Contains(got[0], "the headers of its kernel 5.14.0-503.el9.x86_64 are missing (/lib/modules/5.14.0-503.el9.x86_64/build)") != refused {
			t.Errorf("%s: %q", file, got)
		}
		const devel = "kernel-devel=5.14.0-503.el9"
		for name, c := range map[string]struct {
			change func(*Stack)
			come   bool
		}{
			"they are there": {func(s *Stack) { s.Headers = true }, true},
			"the plan has them": {func(s *Stack) {
				s.Wanted, s.Simulated = []string{devel}, &packagemanager.Simulation{Steps: []packagemanager.PackageStep{{Name: "kernel-devel", To: "5.14.0-503.el9"}}}
			}, true},
			"the lists are read first": {func(s *Stack) {
				s.Wanted, s.Simulated = []string{devel}, &packagemanager.Simulation{Unknown: []string{"kernel-devel"}}
			}, true},
			"something else is unfinished": {func(s *Stack) { s.Simulated = &packagemanager.Simulation{} }, false},
			"the plan has something else": {func(s *Stack) {
				s.Wanted, s.Simulated = []string{"gcc", devel}, &packagemanager.Simulation{Steps: []packagemanager.PackageStep{{Name: "gcc", To: "11"}}}
			}, false},
			"they are installed, and not in use": {func(s *Stack) {
				s.Wanted, s.Simulated = []string{"gcc", devel}, &packagemanager.Simulation{Unknown: []string{"gcc"}}
				s.Packages["kernel-devel"] = packagemanager.Package{Version: "5.14.0-503.el9"}
			}, false},
		} {
			got := difference(t, note000Host(func(s *facts.Snapshot) { rhel(s); c.change(part.Of(s)) }), want)
			if strings.Contains(got[0], "no package of the plan has them") != (refused && !c.come) {
				t.Errorf("%s: %s: %q", file, name, got)
			}
		}
	}
}

func TestBundlesFitTheirSystems(t *testing.T) {
	for _, c := range []struct {
		file, id, version, variant, kernel string
		want                               string
	}{
		{note000, "openEuler", "22.03", "22.03 (LTS-SP3)", "5.10.oe2203sp3.x86_64", ""},
		{note000, "openEuler", "22.03", "22.03 (LTS-SP1)", "5.10.oe2203sp1.x86_64", "the bundle is for openeuler22.03sp3, but this host runs openEuler 22.03"},
		{note000, "openEuler", "22.03", "22.03 (LTS-SP3)", "6.9.1", "has modules only for kernels of openEuler, and this host runs 6.9.1"},
		{"MLNX_OFED_LINUX-24.10-2.1.8.0-ubuntu22.04-x86_64.tgz", "ubuntu", "22.04", "", "6.8.0-45-generic", ""},
		{"MLNX_OFED_LINUX-24.10-2.1.8.0-ubuntu22.04-x86_64.tgz", "ubuntu", "24.04", "", "6.8.0-45-generic", "this host runs ubuntu 24.04"},
		{"MLNX_OFED_LINUX-24.10-2.1.8.0-ubuntu22.04-x86_64.tgz", "debian", "12", "", "6.1", "this host runs debian 12"},
		{"MLNX_OFED_LINUX-24.10-2.1.8.0-debian12.5-x86_64.tgz", "debian", "12", "", "6.1", ""},
		{"MLNX_OFED_LINUX-24.10-2.1.8.0-rhel9.4-x86_64.tgz", "rocky", "9.4", "", "5.14.0-427.el9.x86_64", ""},
		{"MLNX_OFED_LINUX-24.10-2.1.8.0-rhel9.4-x86_64.tgz", "rhel", "9.5", "", "5.14.0-503.el9.x86_64", "this host runs rhel 9.5"},
		{"MLNX_OFED_LINUX-24.10-2.1.8.0-ol9.x-x86_64.tgz", "ol", "9.4", "", "5.14.0.el9uek.x86_64", ""},
		{"MLNX_OFED_LINUX-24.10-2.1.8.0-sles15sp5-x86_64.tgz", "sles", "15.5", "", "5.14.21-default", ""},
		{"doca-host_2.9.1-018000-24.10-ubuntu2204_amd64.deb", "ubuntu", "22.04", "", "5.15", ""},
		{"doca-host-3.3.0-091000_26.01_rhel9.x86_64.rpm", "rhel", "9.6", "", "5.14.el9.x86_64", ""},
		{"doca-host-3.3.0-091000_26.01_rhel9.x86_64.rpm", "rhel", "8.10", "", "4.18.el8.x86_64", "this host runs rhel 8.10"},
	} {
		b, ok := fabric.ParseBundle(c.file)
		if !ok {
			t.Fatal(c.file)
		}
		got := fits(b, packagemanager.Release{ID: c.id, Version: c.version, Variant: c.variant}, facts.System{Arch: "amd64", Kernel: c.kernel})
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s on %s %s: %q", c.file, c.id, c.version, got)
		}
	}
}

func TestBundleCommands(t *testing.T) {
	snap := note000Host(nil)
	typed := func(want Spec, snap *facts.Snapshot) (out []string) {
		b, _ := fabric.ParseBundle(want.Bundle)
		for _, c := range bundleCommands(b, want, snap) {
			out = append(out, c.Name+" "+strings.Join(c.Args, " ")+c.Stdin)
		}
		return out
	}
	got := typed(Spec{Bundle: note000}, snap)
	dir := unpacked + "/MLNX_OFED_LINUX-24.10-2.1.8.0-openeuler22.03sp3-x86_64"
	for _, want := range []string{"tar --extract --no-same-owner --file=" + host.BundleDir + "/" + note000 + " --directory=" + unpacked, dir + "/mlnxofedinstall --without-fw-updatey\n", "dracut --force --kver " + snap.System.Kernel} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	got = typed(Spec{Bundle: "MLNX_OFED_LINUX-24.10-2.1.8.0-rhel9.4-x86_64.iso", Firmware: true}, snap)
	for _, want := range []string{"mount -o loop,ro -- " + host.BundleDir + "/MLNX_OFED_LINUX-24.10-2.1.8.0-rhel9.4-x86_64.iso " + unpacked, unpacked + "/mlnxofedinstall y\n"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	ubuntu := note000Host(func(s *facts.Snapshot) { part.Of(s).Manager, part.Of(s).Initramfs = "apt", true })
	got = typed(Spec{Bundle: "doca-host_2.9.1-018000-24.10-ubuntu2204_amd64.deb"}, ubuntu)
	if len(got) != 4 || !strings.HasPrefix(got[0], "dpkg ") || !strings.HasSuffix(got[2], "install -- doca-ofed") || !strings.HasPrefix(got[3], "update-initramfs -u -k ") {
		t.Errorf("%q", got)
	}
}

// TestDOCAByEachManager: the repository in the file is read and DOCA-OFED installed by what the host has.
func TestDOCAByEachManager(t *testing.T) {
	for manager, want := range map[string][]string{
		"dnf":    {"rpm --upgrade --replacepkgs x.rpm", "dnf clean all", "dnf -y install -- doca-ofed"},
		"yum":    {"rpm --upgrade --replacepkgs x.rpm", "yum clean all", "yum -y install -- doca-ofed"},
		"zypper": {"rpm --upgrade --replacepkgs x.rpm", "zypper --non-interactive refresh", "zypper --non-interactive install --auto-agree-with-licenses -- doca-ofed"},
	} {
		if got := lines(packagemanager.Lookup(manager).FromBundle("x.rpm", "doca-ofed")); !slices.Equal(got, want) {
			t.Errorf("%s: %q", manager, got)
		}
	}
}

func TestExitsAreSentences(t *testing.T) {
	changes := []resource.Change{{Attribute: stackOf, To: "x"}}
	for exit, want := range map[int]string{0: "", 2: "", 1: "failed", 22: "options", 28: "no space", 171: "no NVIDIA card", 172: "missing", 173: "mst", 9: "exited with status 9"} {
		m := &installs{exit: exit}
		err := applyVendor(t.Context(), m, note000Host(nil), Spec{Bundle: note000}, changes, &steps{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", exit, err)
		}
		if err != nil && m.ran[len(m.ran)-1] != "mlnxofedinstall" {
			t.Errorf("%d: it went on: %v", exit, m.ran)
		}
	}
}

// installs is a machine whose installer ends with that status.
type installs struct {
	machine
	exit int
}

func (m *installs) Run(ctx context.Context, c host.Command, log io.Writer) (host.Answer, error) {
	name := path.Base(c.Name)
	m.ran = append(m.ran, name)
	if name == "mlnxofedinstall" {
		return host.Answer{Exit: m.exit}, nil
	}
	return host.Answer{}, nil
}

func TestSecureBootIsSaidBefore(t *testing.T) {
	got := &Status{Want: Spec{Stack: DOCAOFED}, Stack: &Stack{SecureBoot: "on"}}
	if notes := (provider{}).Notes(got); len(notes) != 1 || !strings.Contains(notes[0], "mokutil") {
		t.Error(notes)
	}
	got.Stack.Modules = []Module{{Name: "mlx5_core", File: "/lib/modules/6.1/updates/dkms/mlx5_core.ko"}, {Name: "mlx5_ib", File: "/lib/modules/6.1/updates/dkms/mlx5_ib.ko", Signer: "DKMS module signing key"},
		{Name: "rdma_rxe", File: "/lib/modules/6.1/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko"}}
	got.Stack.Name = DOCAOFED
	if notes := (provider{}).Notes(got); len(notes) != 1 || !strings.Contains(notes[0], "module mlx5_core") {
		t.Error(notes)
	}
	got.Stack.Modules, got.Want.Stack = nil, MLNXOFED
	if notes := (provider{}).Notes(got); len(notes) != 0 {
		t.Error(notes)
	}
}
