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

// unpacked is where a bundle is unpacked to. An unpacked one is removed when it is installed, and before it
// is unpacked again.
const unpacked = host.StackDir + "/unpacked"

// reload has openibd unload the driver that runs, and load the installed one.
var reload = host.Command{Name: "systemctl", Args: []string{"restart", "openibd.service"}}

// applyVendor installs the bundle, makes the initramfs anew, and reloads the driver where the host is
// not to be restarted.
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
			return errors.New("this host has no package manager that is known any more: plan again")
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

// bundleCommands are what installs a bundle, in order.
func bundleCommands(b fabric.Bundle, want Spec, snap *facts.Snapshot) []host.Command {
	file := path.Join(host.BundleDir, want.Bundle)
	if b.Stack == DOCAOFED {
		// DOCA's local repository, and from it DOCA-OFED (DOCA-Host's installation guide).
		return append(packagemanager.Lookup(part.Of(snap).Manager).FromBundle(file, "doca-ofed"), initramfs(snap))
	}
	mounted := b.Form == "iso"
	installer := path.Join(unpacked, strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(want.Bundle, ".gz"), ".tar"), ".tgz"), "mlnxofedinstall")
	out := []host.Command{{Name: "umount", Args: []string{"--quiet", unpacked}}, {Name: "rm", Args: []string{"-rf", "--one-file-system", "--", unpacked}}, {Name: "mkdir", Args: []string{"-p", "-m", "0700", "--", unpacked}}}
	if mounted {
		installer = path.Join(unpacked, "mlnxofedinstall")
		out = append(out, host.Command{Name: "mount", Args: []string{"-o", "loop,ro", "--", file, unpacked}})
	} else {
		out = append(out, host.Command{Name: "tar", Args: []string{"--extract", "--no-same-owner", "--file=" + file, "--directory=" + unpacked}}) // it knows a compression by itself
	}
	var args []string
	if !want.Firmware {
		args = append(args, "--without-fw-update")
	}
	// It asks whether to remove the distribution's packages, which the plan said; --force would let
	// other checks pass, too.
	out = append(out, host.Command{Name: installer, Args: args, Env: packagemanager.Quiet, Stdin: "y\n"}, initramfs(snap))
	return append(out, host.Command{Name: "umount", Args: []string{"--quiet", unpacked}}, host.Command{Name: "rm", Args: []string{"-rf", "--one-file-system", "--", unpacked}})
}

// initramfs makes it anew the distribution's way: the old driver in it would be loaded at boot.
func initramfs(snap *facts.Snapshot) host.Command {
	return packagemanager.Lookup(part.Of(snap).Manager).Initramfs(snap.System.Kernel, part.Of(snap).Initramfs)
}

// exits are what MLNX_OFED's installer means by its exit status (user manual, installation return
// codes).
var exits = map[int]string{
	1:   "the installation failed",
	22:  "it does not know one of its options: is the bundle older than they are?",
	28:  "there is no space left",
	171: "it does not apply to this host: it found no card of NVIDIA's",
	172: "packages that it needs are missing; it names them in its log",
	173: "the tools that reach the cards (mst) did not start",
}

// noFirmware is its status where the bundle has no firmware for a card, such as one with another
// vendor's PSID. The driver is there: what follows sees whether it is.
const noFirmware = 2

// runInstaller is run with what statuses of these programs mean.
func runInstaller(ctx context.Context, h host.Host, c host.Command, log resource.StepLog) error {
	installer := path.Base(c.Name) == "mlnxofedinstall"
	if err := log.Step(step(c)); err != nil {
		return err
	}
	a, err := h.Run(ctx, c, log)
	switch {
	case err != nil:
		return err
	case a.Exit == 0, c.Name == "umount", installer && a.Exit == noFirmware: // nothing may be mounted
		return nil
	case installer && exits[a.Exit] != "":
		return fmt.Errorf("mlnxofedinstall ended with %d: %s", a.Exit, exits[a.Exit])
	case c.Name == "systemctl":
		return fmt.Errorf("the driver was not reloaded: %s; set reboot = \"allow\", or end what uses RDMA and apply again", sentence(c.Name, a))
	}
	return fmt.Errorf("%s ended with %d: %s", path.Base(c.Name), a.Exit, sentence(c.Name, a))
}
