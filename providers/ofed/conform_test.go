package ofed

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource/kindtest"
)

// distribution is a Debian host of files, whose package manager installs what its repository has.
type distribution struct {
	host.Host
	tree
	repository map[string]string // versions by package
}

const dpkgFile = "var/lib/dpkg/status"

func (d distribution) ReadFile(ctx context.Context, p string) ([]byte, error) {
	return d.tree.ReadFile(ctx, p)
}
func (d distribution) ReadDir(ctx context.Context, p string) ([]string, error) {
	return d.tree.ReadDir(ctx, p)
}
func (d distribution) Stat(ctx context.Context, p string) (host.FileStat, error) {
	return d.tree.Stat(ctx, p)
}
func (distribution) Links(context.Context) ([]host.Link, error)       { return nil, nil }
func (distribution) Addrs(context.Context) ([]host.Addr, error)       { return nil, nil }
func (distribution) Routes(context.Context) ([]host.Route, error)     { return nil, nil }
func (distribution) Rules(context.Context) ([]host.Rule, error)       { return nil, nil }
func (distribution) Readlink(context.Context, string) (string, error) { return "", fs.ErrNotExist }

// InLab says that it is a machine, wherever the test runs.
func (distribution) InLab() bool { return false }

func (d distribution) installed(name string) bool {
	raw, err := os.ReadFile(filepath.Join(d.root, dpkgFile))
	return err == nil && strings.Contains(string(raw), "Package: "+name+"\n")
}

// Inquire simulates with apt-get.
func (d distribution) Inquire(_ context.Context, name string, args ...string) (host.Answer, error) {
	var a host.Answer
	if name != "apt-get" {
		return a, host.ErrNoProgram
	}
	for _, p := range args[slices.Index(args, "--")+1:] {
		if !d.installed(p) {
			a.Stdout += fmt.Sprintf("Inst %s (%s Debian:13 [amd64])\n", p, d.repository[p])
		}
	}
	return a, nil
}

// Run installs with apt-get, at the versions that the plan showed.
func (d distribution) Run(_ context.Context, c host.Command, _ io.Writer) (host.Answer, error) {
	at := slices.Index(c.Args, "--")
	if c.Name != "apt-get" || at < 0 {
		return host.Answer{}, fmt.Errorf("run %s %q: it was not expected", c.Name, c.Args)
	}
	raw, err := os.ReadFile(filepath.Join(d.root, dpkgFile))
	for _, p := range c.Args[at+1:] {
		name, version, _ := strings.Cut(p, "=")
		if d.repository[name] != version {
			return host.Answer{Exit: 100, Stderr: "E: Version '" + version + "' for '" + name + "' was not found"}, nil
		}
		raw = fmt.Appendf(raw, "\nPackage: %s\nStatus: install ok installed\nArchitecture: amd64\nVersion: %s\n", name, version)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(d.root, dpkgFile), raw, 0o644)
	}
	return host.Answer{}, err
}

func TestConformance(t *testing.T) {
	d := distribution{repository: map[string]string{"rdma-core": "56.1-1", "ibverbs-providers": "56.1-1", "ibverbs-utils": "56.1-1", "perftest": "24.10"}, tree: files(t, map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=\"13\"\n", "usr/bin/apt-get": "",
		dpkgFile: "Package: rdma-core\nStatus: install ok installed\nArchitecture: amd64\nVersion: 56.1-1\n",
	})}
	kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: Kind, Host: d, Spec: Spec{Stack: Inbox, Packages: []string{"perftest"}}, There: true})
}
