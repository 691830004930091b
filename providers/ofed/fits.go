package ofed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/packagemanager"
)

// systems are os-release's names of the distributions that bundles name.
var systems = map[string][]string{
	"rhel": {"rhel", "rocky", "almalinux", "centos"}, "ol": {"ol"}, "sles": {"sles"}, "ubuntu": {"ubuntu"}, "debian": {"debian"}, "openeuler": {"openEuler", "openeuler"},
}

// fits says why a bundle is not for this host; "": it is.
func fits(b fabric.Bundle, r packagemanager.Release, sys facts.System) string {
	if b.Arch != sys.Arch {
		return fmt.Sprintf("it is for %s, and this host is %s", b.Arch, sys.Arch)
	}
	at := strings.IndexAny(b.Distro, "0123456789")
	name, version := b.Distro[:at], strings.ReplaceAll(b.Distro[at:], ".", "")
	here := release(r)
	switch {
	case !slices.Contains(systems[name], r.ID):
		return fmt.Sprintf("it is for %s, and this host is %s %s", b.Distro, r.ID, r.Version)
	case version == here, version == here+"x": // "ol9.x"
	case name == "debian" && strings.HasPrefix(version, here): // os-release tells no point release
	case b.Stack == DOCAOFED && strings.HasPrefix(here, version): // repositories of a major release
	case strings.HasSuffix(version, "x") && strings.HasPrefix(here, strings.TrimSuffix(version, "x")):
	default:
		return fmt.Sprintf("it is for %s, and this host is %s %s", b.Distro, r.ID, r.Version)
	}
	if debian := r.ID == "debian" || r.ID == "ubuntu"; b.Form == "deb" && !debian || b.Form == "rpm" && debian {
		return fmt.Sprintf("it is a .%s, which %s does not install", b.Form, r.ID)
	}
	return kernelOf(r, sys.Kernel)
}

// release is a version as bundles write it: "2204", "86", "15sp5", "2203sp3".
func release(r packagemanager.Release) string {
	switch r.ID {
	case "sles":
		return strings.Replace(r.Version, ".", "sp", 1)
	case "openEuler", "openeuler": // VERSION is "22.03 (LTS-SP3)"
		_, sp, _ := strings.Cut(strings.ToLower(strings.TrimRight(r.Variant, ")")), "-sp")
		v := strings.ReplaceAll(r.Version, ".", "")
		if sp != "" {
			v += "sp" + sp
		}
		return v
	}
	return strings.ReplaceAll(r.Version, ".", "")
}

// kernelOf says why the running kernel is not the distribution's own, for which the bundle has
// modules: rpm distributions write theirs into the kernel's release.
func kernelOf(r packagemanager.Release, kernel string) string {
	tag := map[string]string{"rhel": ".el", "rocky": ".el", "almalinux": ".el", "centos": ".el", "ol": ".el", "openEuler": ".oe", "openeuler": ".oe"}[r.ID]
	if tag != "" && !strings.Contains(kernel, tag) {
		return fmt.Sprintf("the kernel %s is not one of %s's own, for which the bundle has modules: boot that one", kernel, r.ID)
	}
	return ""
}
