package fabric

import (
	"path"
	"regexp"
	"sync"
)

// docaProduct matches a version of DOCA itself, which has three numbers. The version of its OFED has two.
var docaProduct = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d+\.\d+\.\d+`) })

// checkOFED checks an ofed block on its own, without hosts and without reading the bundle.
func (c *checker) checkOFED(o *OFED) {
	if o == nil || o.Invalid {
		return
	}
	if o.Firmware == "update" && o.Stack != "mlnx_ofed" {
		c.errorf(o.At("firmware"), "Firmware update not supported",
			"Only MLNX_OFED's installer updates firmware. Remove firmware, and update the cards with NVIDIA's mlxfwmanager.")
	}
	if o.Stack == "inbox" {
		for _, of := range []struct{ attribute, value string }{{"bundle", o.Bundle}, {"sha256", o.SHA256}, {"relay", o.Relay}} {
			if of.value != "" {
				c.errorf(o.At(of.attribute), "Inbox stack with a bundle",
					"The inbox stack comes from the distribution's packages. Remove %s, or set stack to \"mlnx_ofed\" or \"doca_ofed\".",
					of.attribute)
			}
		}
		return
	}
	if len(o.Packages) > 0 {
		c.errorf(o.At("packages"), "Distribution packages with a vendor stack",
			"A vendor's stack has its own packages, which the distribution's would replace. Remove packages, or set stack = \"inbox\".")
	}
	if o.Bundle == "" {
		stack := o.Stack
		if o.Version != "" {
			stack += " " + o.Version
		}
		if o.Stack == "doca_ofed" && docaProduct().MatchString(o.Version) {
			c.errorf(o.At("version"), "DOCA version without a bundle",
				"A host shows only the version of the OFED in DOCA, such as 25.07, and not that of DOCA itself. "+
					"Set the OFED's version, or set bundle to NVIDIA's file.")
			return
		}
		c.warnf(o.Pos, "No bundle",
			"Hosts that already have %s need no change, but planning fails for any other host. Set bundle to NVIDIA's file.", stack)
		return
	}
	b, ok := ParseBundle(o.Bundle)
	switch name := path.Base(o.Bundle); {
	case !ok:
		c.errorf(o.At("bundle"), "Unknown bundle name",
			"%q is neither MLNX_OFED_LINUX-VERSION-SYSTEM-ARCHITECTURE.tgz (or .iso) nor doca-host….deb or .rpm. "+
				"Keep NVIDIA's file name: it says which systems the bundle fits.", name)
	case b.Stack != o.Stack:
		c.errorf(o.At("bundle"), "Bundle of another stack", "%s is a bundle of %s, but stack is %s. Change one of them.", name,
			b.Stack, o.Stack)
	case !b.Means(o.Version):
		c.errorf(o.At("version"), "Bundle of another version",
			"%s has version %s, but version is %s. Remove version, or set bundle to the other file.", name, b.Version, o.Version)
	}
}

// checkSoftRoCE warns about Soft-RoCE on a host with NVIDIA's stack, whose rdma_rxe module is an empty dummy
// (mlnx-ofa_kernel, drivers/infiniband/sw/rxe/rdma_rxe_dummy.c).
func (c *checker) checkSoftRoCE(h *Host) {
	if h.OFED != nil && !h.OFED.Invalid && h.OFED.Stack != "inbox" && len(h.RXE) > 0 {
		c.warnf(h.RXE[0].Pos, "Soft-RoCE with NVIDIA's stack",
			"The rdma_rxe module of %s is an empty dummy, so this device will not appear. Remove the rxe block, or set stack = \"inbox\".",
			h.OFED.Stack)
	}
}

// checkRelay checks that the relay has the same bundle and gets it from the operator, not from another relay.
func (c *checker) checkRelay(h *Host) {
	o := h.OFED
	if o == nil || o.Invalid || o.Relay == "" || o.Stack == "inbox" {
		return
	}
	from := c.hosts[o.Relay]
	switch {
	case from == h:
		c.errorf(o.At("relay"), "Host is its own relay", "Host %s would wait for itself. Set relay to another host, or remove it.", h.Name)
	case from == nil:
		c.errorf(o.At("relay"), "Unknown host",
			"The fabric has no host %q. relay takes the name of a host block, or the for_each key of its instance, such as %q.",
			o.Relay, c.f.Hosts[0].Name)
	case o.Bundle == "":
		c.errorf(o.At("relay"), "Relay without a bundle", "Host %s has no bundle to get from a relay. Set bundle, or remove relay.", h.Name)
	case from.OFED == nil || from.OFED.Bundle != o.Bundle:
		c.errorf(o.At("relay"), "Relay without this bundle",
			"Host %s does not declare %s, so it cannot relay it. Declare the same bundle there, or set relay to another host.",
			from.Name, path.Base(o.Bundle))
	case from.OFED.Relay != "":
		c.errorf(o.At("relay"), "Relay behind a relay", "Host %s itself gets its bundle from %s. Set relay to %s here as well.",
			from.Name, from.OFED.Relay, from.OFED.Relay)
	}
}
