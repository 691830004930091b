package ofed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/packagemanager"
)

// systems maps the distribution in a bundle's name to the IDs that os-release uses for it and its rebuilds.
var systems = map[string][]string{
	"rhel": {"rhel", "rocky", "almalinux", "centos"}, "ol": {"ol"}, "sles": {"sles"}, "ubuntu": {"ubuntu"}, "debian": {"debian"},
	"openeuler": {"openEuler", "openeuler"},
}

// fits returns why a bundle cannot be installed on this host, or "" when it can.
func fits(b fabric.Bundle, r packagemanager.Release, sys facts.System) string {
	if b.Arch != sys.Arch {
		return fmt.Sprintf("the bundle is for %s, but this host is %s", b.Arch, sys.Arch)
	}
	at := strings.IndexAny(b.Distro, "0123456789")
	name, version := b.Distro[:at], strings.ReplaceAll(b.Distro[at:], ".", "")
	here := release(r)
	switch {
	case !slices.Contains(systems[name], r.ID):
		return fmt.Sprintf("the bundle is for %s, but this host runs %s %s", b.Distro, r.ID, r.Version)
	case version == here, version == here+"x": // "ol9.x"
	case name == "debian" && strings.HasPrefix(version, here): // Debian's os-release has no point release
	case b.Stack == DOCAOFED && strings.HasPrefix(here, version): // DOCA has one repository for each major release
	case strings.HasSuffix(version, "x") && strings.HasPrefix(here, strings.TrimSuffix(version, "x")):
	default:
		return fmt.Sprintf("the bundle is for %s, but this host runs %s %s", b.Distro, r.ID, r.Version)
	}
	if debian := r.ID == "debian" || r.ID == "ubuntu"; b.Form == "deb" && !debian || b.Form == "rpm" && debian {
		return fmt.Sprintf("%s cannot install a .%s file", r.ID, b.Form)
	}
	return kernelOf(r, sys.Kernel)
}

// release returns the distribution's version as bundle names write it: "2204", "86", "15sp5", "2203sp3".
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

// kernelOf returns why the bundle's modules do not fit the running kernel, or "". Bundles have modules for the
// distribution's own kernels, and rpm distributions write their tag into the kernel release.
func kernelOf(r packagemanager.Release, kernel string) string {
	tag := map[string]string{"rhel": ".el", "rocky": ".el", "almalinux": ".el", "centos": ".el", "ol": ".el", "openEuler": ".oe",
		"openeuler": ".oe"}[r.ID]
	if tag != "" && !strings.Contains(kernel, tag) {
		return fmt.Sprintf("the bundle has modules only for kernels of %[2]s, and this host runs %[1]s: boot a kernel of %[2]s",
			kernel, r.ID)
	}
	return ""
}
