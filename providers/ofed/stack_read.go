package ofed

import (
	"cmp"
	"context"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/fabricform/fabricform/host"
)

// loadedModules returns the named modules that are loaded, with the modules that hold them.
func loadedModules(ctx context.Context, r host.Reader, names []string) []Module {
	var out []Module
	for _, name := range names {
		dir := path.Join("/sys/module", name)
		if _, err := r.ReadDir(ctx, dir); err != nil {
			continue
		}
		m := Module{Name: name, Is: true, Loaded: host.Text(ctx, r, dir+"/srcversion")}
		if holders, err := r.ReadDir(ctx, dir+"/holders"); err == nil {
			m.Users = slices.Sorted(slices.Values(holders))
		}
		out = append(out, m)
	}
	return out
}

// withFiles adds the facts of module files to the loaded modules.
func withFiles(loaded, files []Module) []Module {
	for _, f := range files {
		at := slices.IndexFunc(loaded, func(m Module) bool { return m.Name == f.Name })
		if at < 0 {
			loaded = append(loaded, f)
			continue
		}
		m := &loaded[at]
		m.File, m.Source, m.Signer = f.File, f.Source, f.Signer
	}
	slices.SortFunc(loaded, func(a, b Module) int { return cmp.Compare(a.Name, b.Name) })
	return loaded
}

// secureBootVariable holds four bytes of attributes and one byte that is 1 when Secure Boot is on (efivarfs in the
// kernel's Documentation/filesystems; the GUID is EFI_GLOBAL_VARIABLE of the UEFI specification).
const secureBootVariable = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

func secureBoot(ctx context.Context, r host.Reader) string {
	raw, err := r.ReadFile(ctx, secureBootVariable)
	switch {
	case err != nil || len(raw) != 5:
		return ""
	case raw[4] == 1:
		return "on"
	}
	return "off"
}

// rebootDue returns why a host should be rebooted, or "": a package asks for it, the modules of its kernel are gone,
// or a later kernel of the same flavour is installed. Kernels of other flavours do not count, because the boot loader
// decides which flavour boots.
func rebootDue(ctx context.Context, r host.Reader, kernel string) string {
	if _, err := r.Stat(ctx, "/run/reboot-required"); err == nil {
		if by := strings.Fields(host.Text(ctx, r, "/run/reboot-required.pkgs")); len(by) > 0 {
			slices.Sort(by)
			return "requested by " + strings.Join(slices.Compact(by), ", ")
		}
		return "requested by a package"
	}
	kernels, err := r.ReadDir(ctx, "/lib/modules")
	if err != nil || kernel == "" {
		return ""
	}
	if !slices.Contains(kernels, kernel) {
		return "the modules of the running kernel " + kernel + " are gone"
	}
	latest := kernel
	for _, k := range kernels {
		if _, err := r.Stat(ctx, "/boot/vmlinuz-"+k); err == nil && flavour(k) == flavour(kernel) && compareVersions(k, latest) > 0 {
			latest = k
		}
	}
	if latest == kernel {
		return ""
	}
	return "kernel " + latest + " is installed, but " + kernel + " is running"
}

// debianTag matches the tag of a Debian release or of its backports, which is not a flavour: after 6.1.0-18-amd64 of
// Debian 12 comes 6.12.57+deb13-amd64.
var debianTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[+.](deb[0-9]+|bpo)[^-]*`) })

// flavour returns the words of a kernel release without its numbers. They tell apart kernels that are built from the
// same version: 5.14.0-427.el9_4.x86_64+debug has another flavour than 5.14.0-503.el9_5.x86_64.
func flavour(release string) string {
	words := strings.FieldsFunc(debianTag().ReplaceAllString(release, ""), func(r rune) bool { return !unicode.IsLetter(r) })
	return strings.Join(words, " ")
}

// compareVersions compares versions number by number: 6.12.9 is before 6.12.48.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		x, y := chunk(a), chunk(b)
		a, b = a[len(x):], b[len(y):]
		if isNumber(x) && isNumber(y) {
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if c := cmp.Compare(len(x), len(y)); c != 0 {
				return c
			}
		}
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// chunk returns the leading run of digits, or of other characters.
func chunk(s string) string {
	number := isNumber(s[:1])
	for i := range len(s) {
		if isNumber(s[i:i+1]) != number {
			return s[:i]
		}
	}
	return s
}

func isNumber(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }
