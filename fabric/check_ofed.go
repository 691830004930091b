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
		for _, of := range []struct{ attribute, value string }{{"bundle", o.Bundle}, {"sha256", o.SHA256}} {
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
