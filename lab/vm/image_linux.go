package vm

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fabricform/fabricform/lab/site"
)

//go:embed image.sh
var imageScript []byte

// dcbnic is the source of a kernel module, which image.sh builds.
//
//go:embed dcbnic/dcbnic.c dcbnic/Makefile
var dcbnic embed.FS

// Files of an image.
const (
	baseFile    = "base.qcow2" // the installed packages
	diskFile    = "disk.qcow2" // the changes of the first boot
	stateFile   = "state"      // the memory of a booted guest
	keyFile     = "id_ed25519"
	hostKeyFile = "host_key.pub"
	metaFile    = "image.json"
)

const program = "qemu-system-x86_64"

// Recipe describes an image.
type Recipe struct {
	Suite          string   // of Debian
	Size           string   // of the disk, in the format of truncate(1); the file is sparse
	Packages       []string // of Debian
	NetworkManager string   `json:"Owner"` // of the guests, one of Managers; the tag keeps the names of existing images
}

// recipeFor returns the recipe of a Debian with RDMA, its test programs, and a network manager.
func recipeFor(manager string) (Recipe, error) {
	more, ok := managers[manager]
	if !ok {
		return Recipe{}, fmt.Errorf("unknown owner %q; use one of %s", manager, strings.Join(Managers(), ", "))
	}
	packages := []string{
		"linux-image-amd64", "systemd-sysv", "udev", "dbus", "kmod", "procps", "iproute2", "ethtool", "nftables",
		"openssh-server", "openssh-sftp-server", "sudo", "iputils-ping", "tcpdump",
		"rdma-core", "ibverbs-utils", "ibverbs-providers", "infiniband-diags", "perftest",
	}
	return Recipe{Suite: "trixie", Size: "2G", Packages: append(packages, more...), NetworkManager: manager}, nil
}

// key returns a name for the image that depends on everything in it.
func (r Recipe) key() string {
	module, _ := dcbnic.ReadFile("dcbnic/dcbnic.c") // it is embedded
	raw, _ := json.Marshal(struct {
		Recipe  Recipe
		Script  []byte
		Module  []byte
		Machine []string
	}{r, imageScript, module, machine{}.args()}) // strings and bytes always marshal
	sum := sha256.Sum256(raw)
	return r.Suite + "-" + hex.EncodeToString(sum[:6])
}

// needed are the programs that images and guests need, each with its package.
var needed = [][2]string{
	{program, "qemu-system-x86"}, {"qemu-img", "qemu-utils"}, {"mmdebstrap", "mmdebstrap"}, {"mke2fs", "e2fsprogs"},
	{"busybox", "busybox-static"}, {"modprobe", "kmod"}, {"cpio", "cpio"}, {"zstd", "zstd"}, {"xz", "xz-utils"},
}

func checkPrograms() error {
	var missing []string
	for _, n := range needed {
		if _, err := exec.LookPath(n[0]); err != nil {
			if _, err := os.Stat("/usr/sbin/" + n[0]); err != nil {
				missing = append(missing, n[1])
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("a lab of virtual machines needs packages that are not installed: run `apt-get install %s`",
		strings.Join(missing, " "))
}

// Image returns the folder of the image with this network manager, and builds the image if needed.
func Image(ctx context.Context, owner string, o site.Options) (dir string, accel string, err error) {
	r, err := recipeFor(owner)
	if err != nil {
		return "", "", err
	}
	if err := checkPrograms(); err != nil {
		return "", "", err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("find the directory for images: %w", err)
	}
	dir = filepath.Join(base, "fabricform", "vm", r.key())
	if accel, err = readMeta(dir); err == nil {
		return dir, accel, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	// This folder may also hold the helper, if the machine is a host: then only its user may have access.
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", "", fmt.Errorf("create the directory for images: %w", err)
	}
	unlock, err := lockFile(dir + ".lock")
	if err != nil {
		return "", "", err
	}
	defer unlock()
	if accel, err := readMeta(dir); err == nil { // another run built it meanwhile
		return dir, accel, nil
	}
	work := dir + ".new"
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o755)); err != nil {
		return "", "", fmt.Errorf("create the image's folder: %w", err)
	}
	if accel, err = makeImage(ctx, r, work, o); err != nil {
		return "", "", errors.Join(err, os.RemoveAll(work))
	}
	return dir, accel, os.Rename(work, dir)
}

type meta struct {
	Accel string
	Made  time.Time
	Recipe
}

func readMeta(dir string) (accel string, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err != nil {
		return "", err
	}
	var m meta
	if err := json.Unmarshal(raw, &m); err != nil {
		return "", fmt.Errorf("read image: %w", err)
	}
	return m.Accel, nil
}

func writeMeta(dir string, m meta) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, metaFile), raw, 0o644)
}

func makeImage(ctx context.Context, r Recipe, dir string, o site.Options) (accel string, err error) {
	public, err := site.Key(filepath.Join(dir, keyFile))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "key.pub"), []byte(public), 0o644); err != nil {
		return "", err
	}
	o.Say("building a Debian %s image from packages (once; takes about a minute)", r.Suite)
	script := filepath.Join(dir, "image.sh")
	if err := os.WriteFile(script, imageScript, 0o755); err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, dcbnic); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "bash", append([]string{script, r.Suite, r.Size, "key.pub", r.NetworkManager}, r.Packages...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "TMPDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the image: %w; output: %s", errors.Join(err, ctx.Err()), lastLines(string(out), 12))
	}
	convert := exec.CommandContext(ctx, "qemu-img", "convert", "-O", "qcow2", "disk.img", baseFile)
	convert.Dir = dir
	if out, err := convert.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the image: %w: %s", err, out)
	}
	if err := os.Remove(filepath.Join(dir, "disk.img")); err != nil {
		return "", err
	}
	accel, err = firstBoot(ctx, dir, o)
	if err != nil {
		return "", fmt.Errorf("boot the image: %w", err)
	}
	return accel, writeMeta(dir, meta{accel, time.Now().UTC(), r})
}

// firstBoot boots the image with each accelerator at the same time, keeps the guest that is up first, and returns its
// accelerator. A guest whose KVM works is up long before an emulated one. If this machine is a guest itself, /dev/kvm
// may be there and the kernel hang.
func firstBoot(ctx context.Context, dir string, o site.Options) (accel string, err error) {
	type boot struct {
		accel string
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	boots, n := make(chan boot), 0
	for _, accel := range accelerators {
		if accel == "kvm" && !kvmThere() {
			continue
		}
		n++
		o.Say("booting the image once with %s", accel)
		go func() { boots <- boot{accel, freeze(ctx, dir, accel)} }()
	}
	var errs []error
	for range n {
		switch b := <-boots; {
		case b.err != nil:
			errs = append(errs, fmt.Errorf("with %s: %w", b.accel, b.err))
		case accel == "":
			accel = b.accel
			cancel()
		}
	}
	if accel == "" {
		return "", errors.Join(errs...)
	}
	for _, file := range []string{diskFile, stateFile} {
		if err := os.Rename(filepath.Join(dir, accel, file), filepath.Join(dir, file)); err != nil {
			return "", err
		}
	}
	for _, a := range accelerators {
		if err := os.RemoveAll(filepath.Join(dir, a)); err != nil {
			return "", err
		}
	}
	return accel, nil
}

func kvmThere() bool {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
