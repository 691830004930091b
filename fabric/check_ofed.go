package fabric

import (
	"path"
	"regexp"
)

// docaProduct is a version of DOCA itself, which has three numbers where that of its OFED has two.
var docaProduct = regexp.MustCompile(`^\d+\.\d+\.\d+`)

// ofed checks what a stack's block says by itself: no host is asked, and no file is read.
func (c *checker) ofed(o *OFED) {
	if o == nil || o.Invalid {
		return
	}
	if o.Firmware == "update" && o.Stack != "mlnx_ofed" {
		c.errorf(o.At("firmware"), "Nothing here updates firmware", "Only MLNX_OFED's installer does. Remove firmware, and update the cards by hand: mlxfwmanager of NVIDIA's tools.")
	}
	if o.Stack == "inbox" {
		for _, of := range []struct{ attribute, value string }{{"bundle", o.Bundle}, {"sha256", o.SHA256}, {"relay", o.Relay}} {
			if of.value != "" {
				c.errorf(o.At(of.attribute), "An inbox stack has no bundle", "It comes from the distribution's packages. Remove %s, or declare stack = \"mlnx_ofed\" or \"doca_ofed\".", of.attribute)
			}
		}
		return
	}
	if len(o.Packages) > 0 {
		c.errorf(o.At("packages"), "Packages of the inbox stack", "A vendor's stack brings its own packages: the distribution's would take their place. Remove packages, or declare stack = \"inbox\".")
	}
	if o.Bundle == "" {
		there := o.Stack
		if o.Version != "" {
			there += " " + o.Version
		}
		if o.Stack == "doca_ofed" && docaProduct.MatchString(o.Version) {
			c.errorf(o.At("version"), "A version of DOCA without its bundle", "A host tells only the version of the OFED in it, such as 25.07, and not DOCA's own. Write that one, or declare bundle with NVIDIA's file.")
			return
		}
		c.warnf(o.Pos, "No bundle", "Hosts that have %s already are left as they are, and any other is an error of its plan. Declare bundle with NVIDIA's file.", there)
		return
	}
	b, ok := ParseBundle(o.Bundle)
	switch name := path.Base(o.Bundle); {
	case !ok:
		c.errorf(o.At("bundle"), "Not the name of a bundle", "%q is neither MLNX_OFED_LINUX-VERSION-SYSTEM-ARCHITECTURE.tgz (or .iso) nor doca-host…deb or .rpm. Keep the name that NVIDIA gave the file: what it fits is read from it.", name)
	case b.Stack != o.Stack:
		c.errorf(o.At("bundle"), "The bundle is of another stack", "%s is a bundle of %s, and stack says %s.", name, b.Stack, o.Stack)
	case !b.Means(o.Version):
		c.errorf(o.At("version"), "The bundle has another version", "%s has version %s, and the block says %s. Remove version, or name the other bundle.", name, b.Version, o.Version)
	}
}

// softRoCE: NVIDIA's packages bring a module of the name rdma_rxe with nothing in it (mlnx-ofa_kernel,
// drivers/infiniband/sw/rxe/rdma_rxe_dummy.c).
func (c *checker) softRoCE(h *Host) {
	if h.OFED != nil && !h.OFED.Invalid && h.OFED.Stack != "inbox" && len(h.RXE) > 0 {
		c.warnf(h.RXE[0].Pos, "Soft-RoCE beside NVIDIA's stack", "The rdma_rxe of %s is an empty one, so that this device will not be there. Remove the rxe block, or declare stack = \"inbox\".", h.OFED.Stack)
	}
}

// relay: whoever hands out a bundle has it, and has it from the operator.
func (c *checker) relay(h *Host) {
	o := h.OFED
	if o == nil || o.Invalid || o.Relay == "" || o.Stack == "inbox" {
		return
	}
	from := c.hosts[o.Relay]
	switch {
	case from == h:
		c.errorf(o.At("relay"), "A host is its own relay", "Host %s would wait for itself. Name another host, or remove relay.", h.Name)
	case from == nil:
		c.errorf(o.At("relay"), "No such host", "The fabric has no host %q. A host is named here as its block is, or by its key of for_each, such as %q.", o.Relay, c.f.Hosts[0].Name)
	case o.Bundle == "":
		c.errorf(o.At("relay"), "A relay without a bundle", "Host %s gets no bundle that a relay could hand to it. Declare bundle, or remove relay.", h.Name)
	case from.OFED == nil || from.OFED.Bundle != o.Bundle:
		c.errorf(o.At("relay"), "The relay has another bundle", "Host %s does not declare %s, so that it has nothing to hand on. Declare the same bundle there, or name another host.", from.Name, path.Base(o.Bundle))
	case from.OFED.Relay != "":
		c.errorf(o.At("relay"), "A relay behind a relay", "Host %s gets its bundle from %s itself. Name %s here, too.", from.Name, from.OFED.Relay, from.OFED.Relay)
	}
}
