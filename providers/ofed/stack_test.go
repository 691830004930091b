package ofed

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/packagemanager"
	"github.com/fabricform/fabricform/resource"
)

func TestOFEDIsReadInBothSpellings(t *testing.T) {
	for answer, want := range map[string][2]string{
		"MLNX_OFED_LINUX-24.10-2.1.8.0:\n":          {MLNXOFED, "24.10-2.1.8.0"},
		"MLNX_OFED_LINUX-5.8-1.0.1.1:":              {MLNXOFED, "5.8-1.0.1.1"},
		"OFED-internal-25.10-1.7.1:\n":              {DOCAOFED, "25.10-1.7.1"},
		"a login banner\nOFED-internal-25.10-1.7.1": {DOCAOFED, "25.10-1.7.1"},
		"":                                 {},
		"ofed_info: command not found":     {},
		"MLNX_OFED_LINUX-$(reboot):":       {},
		"MLNX_OFED_LINUX-24.10 2.1.8.0:\n": {},
	} {
		stack, version, ok := parseOFED(answer)
		if got := [2]string{stack, version}; got != want || ok != (want[0] != "") {
			t.Errorf("%q: %v %v", answer, got, ok)
		}
	}
}

func TestModulesOriginAndDifference(t *testing.T) {
	got := withFiles([]Module{{Name: "mlx5_core", Is: true, Loaded: "AAAA"}}, parseModinfo(`filename:       /lib/modules/5.15.0/updates/dkms/mlx5_core.ko
version:        24.10-2.1.8
srcversion:     BBBB
name:           mlx5_core
vermagic:       5.15.0 SMP mod_unload modversions
filename:       (builtin)
name:           ib_core
filename:       /lib/modules/5.15.0/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz
name:           rdma_rxe
signer:         DKMS module signing key
filename:       /lib/modules/5.15.0/extra/mlnx-ofa_kernel/drivers/mlx5_ib.ko
name:           mlx5_ib
`))
	var lines []string
	for _, m := range got {
		lines = append(lines, m.Name+" "+m.Origin())
	}
	if want := []string{"ib_core kernel", "mlx5_core dkms", "mlx5_ib vendor", "rdma_rxe kernel"}; !slices.Equal(lines, want) {
		t.Error(lines)
	}
	if !got[1].Differs() || got[3].Differs() || got[1].Signer != "" || got[3].Signer != "DKMS module signing key" {
		t.Errorf("%+v", got)
	}
}

func TestVersionsAreOrderedByTheirNumbers(t *testing.T) {
	in := []string{"6.12.48+deb13-amd64", "6.12.9-amd64", "5.15.0-101-generic", "5.15.0-91-generic", "6.12.048"}
	slices.SortFunc(in, compareVersions)
	if want := "5.15.0-91-generic 5.15.0-101-generic 6.12.9-amd64 6.12.048 6.12.48+deb13-amd64"; strings.Join(in, " ") != want {
		t.Error(in)
	}
}

// tree reads files below a folder as if it were /; programs and all else of a Reader are absent.
type tree struct {
	host.Reader
	root string
}

// files is a tree with these files.
func files(t *testing.T, texts map[string]string) tree {
	t.Helper()
	root := t.TempDir()
	for path, text := range texts {
		at := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return tree{root: root}
}

func (t tree) ReadFile(_ context.Context, p string) ([]byte, error) {
	return os.ReadFile(filepath.Join(t.root, p))
}

func (t tree) ReadDir(_ context.Context, p string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(t.root, p))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (tree) Inquire(context.Context, string, ...string) (host.Answer, error) {
	return host.Answer{}, host.ErrNoProgram
}

func (t tree) Stat(_ context.Context, p string) (host.FileStat, error) {
	_, err := os.Lstat(filepath.Join(t.root, p))
	return host.FileStat{}, err
}

func TestStackIsReadFromFiles(t *testing.T) {
	r := files(t, map[string]string{
		"etc/os-release":                       "ID=ubuntu\nVERSION_ID=\"22.04\"\nID_LIKE=debian\n",
		"usr/bin/apt-get":                      "",
		"var/lib/dpkg/status":                  "Package: rdma-core\nStatus: install ok installed\nArchitecture: amd64\nVersion: 39.0-1\n\nPackage: perftest\nStatus: install ok unpacked\nArchitecture: amd64\nVersion: 1\n",
		"var/lib/dpkg/updates/0000":            "Package: rdma-core\nStatus: install reinstreq half-installed\nArchitecture: amd64\nVersion: 39.0-1\n",
		"var/lib/dpkg/updates/0001":            "Package: rdma-core\nStatus: install ok unpacked\nArchitecture: amd64\nVersion: 40.0-1\n",
		"var/lib/dpkg/updates/0002":            "Package: perftest\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n",
		"var/lib/dpkg/updates/tmp.i":           "Package: rdma-core\nStatus: install ok installed\n",
		"sys/module/mlx5_core/srcversion":      "ABC\n",
		"sys/module/mlx5_core/holders/mlx5_ib": "",
		"lib/modules/5.15.0-91/build/x":        "",
		"lib/modules/5.15.0-101/x":             "",
		"boot/vmlinuz-5.15.0-101":              "",
		secureBootVariable:                     "\x06\x00\x00\x00\x01",
		resource.JobFile:                       `{"id":"x","state":"running","step":"apt-get install","boot":"b","process":{"pid":4,"start":77}}`,
		"proc/4/stat":                          "4 (a b) R" + strings.Repeat(" 0", 18) + " 77 0",
	})
	s := readStack(t.Context(), r, facts.System{Kernel: "5.15.0-91", BootID: "b"}, &needs{Full: true, Inbox: true, Modules: []string{"rdma_rxe"}, Install: []string{"perftest=1"}})
	if want := []string{"ibverbs-providers", "ibverbs-utils", "linux-modules-extra-5.15.0-91", "perftest=1", "rdma-core"}; !slices.Equal(s.Wanted, want) {
		t.Error(s.Wanted)
	}
	if s.Name != Inbox || s.Manager != "apt" || s.Packages["rdma-core"] != (packagemanager.Package{Version: "40.0-1", Unfinished: "unpacked"}) || s.Packages["perftest"] != (packagemanager.Package{Version: "1"}) || !s.Headers || s.SecureBoot != "on" ||
		s.RebootDue != "kernel 5.15.0-101 is installed, but 5.15.0-91 is running" || s.Module("mlx5_core") == nil || !slices.Equal(s.Module("mlx5_core").Users, []string{"mlx5_ib"}) ||
		s.Simulated.Failed != "apt is not installed" {
		t.Errorf("%+v %+v", s, s.Simulated)
	}
	if s.Job == nil || !s.Job.Alive || s.Job.Interrupted() != "" {
		t.Errorf("%+v", s.Job)
	}
	if j := resource.ReadJob(t.Context(), r, "another boot"); j.Alive || j.Interrupted() != "apt-get install" {
		t.Errorf("%+v", j)
	}
}

// TestVersionsAreTheStacksAndWatchedPackages: hosts are not compared by what has nothing to do with RDMA.
func TestVersionsAreTheStacksAndWatchedPackages(t *testing.T) {
	s := &Stack{Name: MLNXOFED, Version: "24.10", Packages: map[string]packagemanager.Package{"rdma-core": {Version: "56.1"}, "perftest": {Unfinished: "half-configured"}, "vim": {Unfinished: "unpacked"}}}
	want := map[string]facts.Version{facts.DriverStack: {Installed: "mlnx_ofed 24.10"}, "rdma-core": {Installed: "56.1"}, "perftest": {Unfinished: "half-configured"}}
	if got := s.versions(); !maps.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// vendors is a tree whose ofed_info tells of a vendor's stack.
type vendors struct{ tree }

func (vendors) Inquire(_ context.Context, name string, _ ...string) (host.Answer, error) {
	if name != "ofed_info" {
		return host.Answer{}, host.ErrNoProgram
	}
	return host.Answer{Stdout: "OFED-internal-25.10-1.7.1:\n"}, nil
}

// TestWhatBuildsAnInterruptedStackIsWanted: what tells of it is there, and its modules may not be.
func TestWhatBuildsAnInterruptedStackIsWanted(t *testing.T) {
	for job, wanted := range map[string]bool{
		`{"state":"done","stack":"doca_ofed","step":"update-initramfs"}`: false,
		`{"state":"failed","stack":"inbox","step":"apt-get install"}`:    false,
		`{"state":"failed","stack":"doca_ofed","step":"dpkg"}`:           true,
		`{"state":`: true,
	} {
		r := vendors{files(t, map[string]string{"/etc/os-release": "ID=debian\n", "/usr/bin/apt-get": "", resource.JobFile: job})}
		s := readStack(t.Context(), r, facts.System{Kernel: "6.1.0-18-amd64"}, &needs{Full: true, Vendor: DOCAOFED})
		if got := slices.Contains(s.Wanted, "linux-headers-6.1.0-18-amd64"); got != wanted || s.Name != DOCAOFED {
			t.Errorf("%s: %s wants %q", job, s.Name, s.Wanted)
		}
	}
}

// FuzzStack: what programs of a host print is not believed, and never ends this program.
func FuzzStack(f *testing.F) {
	for _, seed := range []string{"MLNX_OFED_LINUX-24.10-2.1.8.0:", "filename: a\nname: b\n", "1.2~rc-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, version, ok := parseOFED(s); ok && strings.ContainsAny(version, " /$;`\n") {
			t.Errorf("a version of %q", version)
		}
		for _, m := range parseModinfo(s) {
			_ = m.Origin()
		}
		if compareVersions(s, s) != 0 || compareVersions(s, s+"1") > 0 && isNumber(s) {
			t.Errorf("%q is not equal to itself", s)
		}
	})
}
