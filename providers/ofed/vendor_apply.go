package ofed

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/packagemanager"
	"github.com/fabricform/fabricform/resource"
)

// unpacked is the folder that a bundle is unpacked to. It is removed after the installation, and before the next
// one.
const unpacked = host.StackDir + "/unpacked"

// reload makes openibd unload the loaded driver and load the installed one.
var reload = host.Command{Name: "systemctl", Args: []string{"restart", "openibd.service"}}

// applyVendor installs the bundle, rebuilds the initramfs, and reloads the driver unless the plan reboots the host.
func applyVendor(ctx context.Context, h host.Host, snap *facts.Snapshot, want Spec, changes []resource.Change, log resource.StepLog) error {
	has := func(attribute string) bool {
		return slices.ContainsFunc(changes, func(c resource.Change) bool { return c.Attribute == attribute })
	}
	b, ok := fabric.ParseBundle(want.Bundle)
	var todo []host.Command
	if has(stackOf) {
		if !ok {
			return fmt.Errorf("%q is not a valid bundle", want.Bundle)
		}
		if packagemanager.Lookup(part.Of(snap).Manager) == nil {
			return errors.New("this host no longer has a supported package manager: plan again")
		}
		todo = bundleCommands(b, want, snap)
	}
	if has(driverReload) {
		todo = append(todo, reload)
	}
	for _, c := range todo {
		if err := runInstaller(ctx, h, c, log); err != nil {
			return err
		}
	}
	return nil
}

// bundleCommands returns the commands that install a bundle, in order.
func bundleCommands(b fabric.Bundle, want Spec, snap *facts.Snapshot) []host.Command {
	file := path.Join(host.BundleDir, want.Bundle)
	if b.Stack == DOCAOFED {
		// The bundle installs a local repository, and DOCA-OFED comes from there (DOCA-Host's installation guide).
		return append(packagemanager.Lookup(part.Of(snap).Manager).FromBundle(file, "doca-ofed"), initramfs(snap))
	}

	umount := host.Command{Name: "umount", Args: []string{"--quiet", unpacked}}
	remove := host.Command{Name: "rm", Args: []string{"-rf", "--one-file-system", "--", unpacked}}
	out := []host.Command{umount, remove, {Name: "mkdir", Args: []string{"-p", "-m", "0700", "--", unpacked}}}

	folder := unpacked
	if b.Form == "iso" {
		out = append(out, host.Command{Name: "mount", Args: []string{"-o", "loop,ro", "--", file, unpacked}})
	} else {
		// An archive holds one folder with its own name.
		name := want.Bundle
		for _, end := range []string{".gz", ".tar", ".tgz"} {
			name = strings.TrimSuffix(name, end)
		}
		folder = path.Join(unpacked, name)
		// tar detects the compression
		out = append(out,
			host.Command{Name: "tar", Args: []string{"--extract", "--no-same-owner", "--file=" + file, "--directory=" + unpacked}})
	}
	var args []string
	if !want.Firmware {
		args = append(args, "--without-fw-update")
	}
	// The installer asks whether to remove the distribution's packages. The plan announced that, so the answer is
	// yes. --force would skip other checks, too.
	install := host.Command{Name: path.Join(folder, "mlnxofedinstall"), Args: args, Env: packagemanager.Quiet, Stdin: "y\n"}
	return append(out, install, initramfs(snap), umount, remove)
}

// initramfs returns the distribution's command that rebuilds the initramfs. Without it, the next boot would load
// the old driver.
func initramfs(snap *facts.Snapshot) host.Command {
	return packagemanager.Lookup(part.Of(snap).Manager).Initramfs(snap.System.Kernel, part.Of(snap).Initramfs)
}

// exits explains the exit statuses of MLNX_OFED's installer (user manual, installation return codes).
var exits = map[int]string{
	1:   "the installation failed",
	22:  "the installer does not know one of its options; the bundle may be too old",
	28:  "no space left on the disk",
	171: "the installer found no NVIDIA card in this host",
	172: "required packages are missing; the installer's log names them",
	173: "the firmware tools (mst) did not start",
}

// noFirmware is the installer's exit status when the bundle has no firmware for a card, such as one with another
// vendor's PSID. The driver is installed all the same, and later steps check that.
const noFirmware = 2

// runInstaller runs one command and explains the exit statuses of the installer and of openibd.
func runInstaller(ctx context.Context, h host.Host, c host.Command, log resource.StepLog) error {
	installer := path.Base(c.Name) == "mlnxofedinstall"
	if err := log.Step(step(c)); err != nil {
		return err
	}
	a, err := h.Run(ctx, c, log)
	switch {
	case err != nil:
		return err
	case a.Exit == 0, c.Name == "umount", installer && a.Exit == noFirmware: // umount fails when nothing is mounted
		return nil
	case installer && exits[a.Exit] != "":
		return fmt.Errorf("mlnxofedinstall exited with status %d: %s", a.Exit, exits[a.Exit])
	case c.Name == "systemctl":
		return fmt.Errorf("the driver was not reloaded: %s; set reboot = \"allow\", or stop the users of RDMA and apply again",
			sentence(a))
	}
	return fmt.Errorf("%s exited with status %d: %s", path.Base(c.Name), a.Exit, sentence(a))
}
