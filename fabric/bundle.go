package fabric

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// Bundle describes a vendor's file by its name.
type Bundle struct {
	Stack   string // "mlnx_ofed" or "doca_ofed"
	Version string // "24.10-2.1.8.0"; for DOCA "3.1.0-091000"
	OFED    string // for DOCA, the version of the OFED in it: "25.07"
	Distro  string // "ubuntu22.04", "rhel8.6", "sles15sp5", "openeuler22.03sp3"; DOCA writes "ubuntu2204"
	Arch    string // Go's name: amd64, arm64
	Form    string // "tgz", "iso", "tar", "deb", "rpm"
}

// The names of NVIDIA's downloads come from MLNX_OFED's user manual, chapter Installation, and
// DOCA-Host's installation guide. A .tar is a .tgz that somebody decompressed.
var (
	mlnxName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`^MLNX_OFED_LINUX-(\d+\.\d+(?:-\d+(?:\.\d+){2,4}))-([a-z]+[0-9][\w.]*?)-` +
				`(x86_64|aarch64|ppc64le)(?:-ext)?\.(tgz|iso|tar|tar\.gz)$`)
	})
	docaName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`^doca-host[-_](\d+\.\d+\.\d+-\d+)[-_](\d+\.\d+)[-_]([a-z]+[0-9]+(?:sp[0-9]+)?)[._](x86_64|aarch64|amd64|arm64)\.(rpm|deb)$`)
	})
)

var goArch = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}

// ParseBundle parses a file name, and returns false if it is not the name of one of NVIDIA's bundles.
func ParseBundle(file string) (Bundle, bool) {
	name := path.Base(file)
	arch := func(s string) string {
		if a := goArch[s]; a != "" {
			return a
		}
		return s
	}
	if m := mlnxName().FindStringSubmatch(name); m != nil {
		return Bundle{Stack: "mlnx_ofed", Version: m[1], Distro: m[2], Arch: arch(m[3]),
			Form: strings.Replace(m[4], "tar.gz", "tgz", 1)}, true
	}
	if m := docaName().FindStringSubmatch(name); m != nil {
		return Bundle{Stack: "doca_ofed", Version: m[1], OFED: m[2], Distro: m[3], Arch: arch(m[4]), Form: m[5]}, true
	}
	return Bundle{}, false
}

// Means reports whether a declared version refers to this bundle. For DOCA this may be its own version,
// with or without the build number, or the version of the OFED in it. "" refers to any.
func (b Bundle) Means(version string) bool {
	plain, _, _ := strings.Cut(b.Version, "-")
	return version == "" || version == b.Version || b.Stack == "doca_ofed" &&
		(version == plain || b.OFED == version || strings.HasPrefix(version, b.OFED+"-"))
}
