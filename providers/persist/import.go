package persist

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/resource"
)

// Import says what keeps the settings of the draft over a reboot. Unless the draft is to keep them itself, each NIC is left to the file that
// configures it now, and so are the host's sysctls. What a file of ours keeps stays with the draft. In a namespace lab, nothing is kept.
func (provider) Import(ctx context.Context, r host.Reader, d *resource.Draft) error {
	if d.Snapshot.System.Lab {
		return nil
	}
	netmanager.Gather(ctx, r, d.Snapshot)
	found := netmanager.Part.Of(d.Snapshot)
	claims := found.Claims
	for _, n := range d.Host.NICs {
		if n.IPv6LinkLocal == "none" && slices.Contains(found.InCharge, n.Netdev) {
			n.IPv6LinkLocal = "keep" // the claimer sets this mode on all its links, and makes their addresses itself
		}
		c, claimed := claims[n.Netdev]
		files := ""
		if claimed {
			files = netmanager.Files(ctx, r, n.Netdev, c)
		}
		switch {
		case d.Persist || ours(files):
		case claimed:
			n.Persist = false
			d.Note(n.Name, fmt.Sprintf("not persistent here: %s configures it, a file of %s", files, c.Manager))
		default:
			n.Persist = false
			d.Note(n.Name, "not persistent: no file of the host configures it, so that a reboot loses this")
		}
	}
	if limit, file := memlockNow(ctx, r); limit != "" && (d.Persist || ours(file)) {
		d.Host.Memlock = limit
	} else if limit != "" {
		d.Leave("", fmt.Sprintf("memlock = %q: %s sets it and keeps it", limit, file))
	}
	if d.Persist {
		makeWay(ctx, r, d)
		return nil
	}
	units := oursIn(ctx, r, unitFolder)
	for _, x := range d.Host.RXE {
		x.Persist = slices.ContainsFunc(units, func(name string) bool { return strings.HasSuffix(name, "-rxe-"+x.Name+".service") })
	}
	kept := ""
	for _, name := range oursIn(ctx, r, sysctlFolder) {
		kept += "\n" + host.Text(ctx, r, sysctlFolder+"/"+name)
	}
	for _, key := range slices.Sorted(maps.Keys(d.Host.Sysctl)) {
		if !strings.Contains(kept, "\n"+netif.SysctlSpec{Key: key}.Path()+" = ") {
			d.Leave("", fmt.Sprintf("sysctl %q = %q: left to what sets it at boot; if nothing does, a reboot loses it", key, d.Host.Sysctl[key]))
			delete(d.Host.Sysctl, key)
		}
	}
	return nil
}

// makeWay remarks on what a person must do so that files of ours can keep the NICs: remove what other files say of them, or choose a
// manager. A file goes on beside ours if it configures a NIC with addresses that were learned, or by a pattern that ours precedes.
func makeWay(ctx context.Context, r host.Reader, d *resource.Draft) {
	var s Spec
	for _, x := range Desired(&fabric.Fabric{}, d.Host) {
		if x.Addr.Kind == Kind {
			s = decode[Spec](x)
		}
	}
	ls, err := withManagers(d.Snapshot, s)
	if err != nil {
		d.First("", "before the first apply, "+err.Error())
		return
	}
	found := netmanager.Part.Of(d.Snapshot)
	name := map[string]string{}
	var netdevs []string
	for _, l := range ls {
		if conflict(found, l) != nil && !ours(netmanager.Files(ctx, r, l.Link.Name, found.Claims[l.Link.Name])) {
			name[l.Link.Name] = l.Name
			netdevs = append(netdevs, l.Link.Name)
		}
	}
	d.Host.NetworkManager = chosen(found, ls, netdevs)
	for _, x := range netmanager.Removals(ctx, r, netdevs, found.Claims) {
		d.First(name[x.Links[0]], "before the first apply, "+x.Text)
	}
}

// chosen returns the one manager of all links, if nothing but the files that a person removes tells that it is theirs; "" otherwise.
func chosen(found netmanager.Found, ls []netmanager.Link, removed []string) (manager string) {
	found.Claims = maps.Clone(found.Claims)
	maps.DeleteFunc(found.Claims, func(netdev string, _ netmanager.Claim) bool { return slices.Contains(removed, netdev) })
	unclear := false
	for _, l := range ls {
		_, err := managerOf(found, "", l)
		unclear = unclear || err != nil
		if l.Manager == nil || manager != "" && manager != l.Manager.Name {
			return ""
		}
		manager = l.Manager.Name
	}
	if !unclear {
		return ""
	}
	return manager
}

// ours reports whether the name is that of a file that fabricform wrote.
func ours(file string) bool { return strings.Contains(path.Base(file), netmanager.Base("")) }

// oursIn returns the files of a folder that fabricform wrote.
func oursIn(ctx context.Context, r host.Reader, folder string) []string {
	names, _ := r.ReadDir(ctx, folder) // there may be no such folder
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !ours(name) })
}

// memlockNow returns the limit of locked memory that pam_limits gives to every user's logins, as a host block declares it, and the file that
// says so; "" if it raises none. A file of ours counts before others, whichever pam_limits reads last.
func memlockNow(ctx context.Context, r host.Reader) (limit, file string) {
	const folder = "/etc/security"
	files := []string{folder + "/limits.conf"}
	names, _ := r.ReadDir(ctx, folder+"/limits.d") // there may be no such folder
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".conf") {
			files = append(files, folder+"/limits.d/"+name)
		}
	}
	own := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return !ours(file) })
	if limit, file = memlockIn(ctx, r, own); limit != "" {
		return limit, file
	}
	return memlockIn(ctx, r, files)
}

// memlockIn reads the limit of all users but root from files, in the order of pam_limits (limits.conf(5)): the last line counts, and numbers are
// KiB.
func memlockIn(ctx context.Context, r host.Reader, files []string) (limit, file string) {
	var soft, hard string
	for _, at := range files {
		for line := range strings.Lines(host.Text(ctx, r, at)) {
			line, _, _ = strings.Cut(line, "#")
			w := strings.Fields(line)
			if len(w) != 4 || w[0] != "*" || w[2] != "memlock" {
				continue
			}
			file = at
			if w[1] != "hard" {
				soft = w[3]
			}
			if w[1] != "soft" {
				hard = w[3]
			}
		}
	}
	if slices.Contains([]string{"unlimited", "infinity", "-1"}, soft) && slices.Contains([]string{"unlimited", "infinity", "-1"}, hard) {
		return "unlimited", file
	}
	if kib, err := strconv.ParseUint(soft, 10, 40); err == nil && soft == hard {
		return strconv.FormatUint(kib*1024, 10), file
	}
	return "", ""
}
