package netmanager

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // NetworkManager's choice, and not for a secret
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers/netif"
)

const (
	networkManagerName = "networkmanager"
	networkManagerUnit = "NetworkManager.service"
	keyfileFolder      = "/etc/NetworkManager/system-connections"
	dispatcherFolder   = "/etc/NetworkManager/dispatcher.d"
)

// networkManager stores profiles, and creates one for any NIC without a profile.
var networkManager = &Manager{
	Name: networkManagerName, Title: "NetworkManager", Unit: networkManagerUnit, Detect: networkManagerDetect, Folder: keyfileFolder,
	File: keyfilePath, Render: func(ls []Link) []File {
		var out []File
		for _, l := range ls {
			out = append(out, keyfile(l))
		}
		return out
	},
	Scripts: dispatcherFolder, Script: dispatcher,
	Check: checkKeyfiles, Notes: networkManagerNotes, Reload: []string{"nmcli", "connection", "reload"},
	Reports: keyfilePath, Waits: func(l Link) bool { return !l.Link.Carrier || !l.Up }, // it configures a NIC only with a carrier
	Load: []string{"nmcli", "connection", "load"}, Profiles: keyfileProfiles,
	Activate: activateProfile, Manage: manageDevice, Remakes: true,
	Behind: &Behind{Renderer: "NetworkManager", Folder: "/run/NetworkManager/system-connections", After: ".nmconnection", Off: "manual",
		NeedsMetric: true, Passes: true, EUI64Needs6: true},
}

// networkManagerDetect reads the state file that NetworkManager writes for each link: it names the UUID of the active
// profile. For a link that somebody else configured, NetworkManager writes a profile of its own (seen with 1.52: with
// `external` in the section .nmmeta); such a profile is not a claim.
func networkManagerDetect(ctx context.Context, r host.Reader, links []host.Link, f *Found) bool {
	if !unitActive(ctx, r, networkManagerUnit) {
		return false
	}
	profiles, external := map[string]string{}, map[string]bool{}
	for _, dir := range []string{"/usr/lib/NetworkManager/system-connections", "/run/NetworkManager/system-connections", keyfileFolder} {
		for _, name := range filesIn(ctx, r, dir, "") {
			file := path.Join(dir, name)
			profile := host.Text(ctx, r, file)
			id := cmp.Or(keyValue(profile, "connection", "uuid"), profileUUID(name))
			if keyValue(profile, ".nmmeta", "external") != "true" {
				profiles[id] = file
			} else {
				external[id] = true
			}
		}
	}
	// The plugin ifcfg-rh reads other files, and gives profiles UUIDs that its files do not have.
	others := slices.ContainsFunc(filesIn(ctx, r, ifcfgFolder, ""), func(n string) bool { return strings.HasPrefix(n, "ifcfg-") && n != "ifcfg-lo" })
	for _, l := range links {
		device := host.Text(ctx, r, "/run/NetworkManager/devices/"+strconv.Itoa(l.Index))
		if keyValue(device, "device", "managed") == "true" {
			f.InCharge = append(f.InCharge, l.Name)
		}
		id := keyValue(device, "device", "connection-uuid")
		file := profiles[id]
		if file == "" {
			if _, claimed := f.Claims[l.Name]; isUUID(id) && !external[id] && !claimed && !others {
				f.orphan(l.Name, id)
			}
			continue
		}
		profile := host.Text(ctx, r, file)
		byName := keyValue(profile, "connection", "interface-name") == l.Name
		byMAC := l.PermMAC != "" && strings.EqualFold(keyValue(profile, "ethernet", "mac-address"), l.PermMAC)
		f.Claims[l.Name] = Claim{Manager: networkManagerName, File: file, Exact: byName || byMAC}
	}
	count := map[string]int{}
	for _, id := range f.Orphans {
		count[id]++
	}
	maps.DeleteFunc(f.Orphans, func(_, id string) bool { return count[id] > 1 }) // a file of ours is that of one link
	return true
}

// profileUUID returns the UUID that NetworkManager gives to a profile whose file has none: version 3, from the file's
// name in the folder below /etc, wherever the file is (NetworkManager 1.52, nms-keyfile-reader.c and nm-uuid.c).
func profileUUID(name string) string {
	space := [16]byte{0xb4, 0x25, 0xe9, 0xfb, 0x75, 0x98, 0x44, 0xb4, 0x9e, 0x3b, 0x5a, 0x2e, 0x3a, 0xaa, 0x49, 0x05}
	id := md5.Sum(append(space[:], "keyfile\x00"+keyfileFolder+"/"+name+"\x00"...)) //nolint:gosec // as above
	id[6], id[8] = id[6]&0x0f|0x30, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// keyValue returns a value of a keyfile (nm-settings-keyfile(5)); "" if there is none.
func keyValue(file, section, key string) string {
	in := false
	for line := range strings.Lines(file) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			in = line == "["+section+"]"
			continue
		}
		if k, v, is := strings.Cut(line, "="); in && is && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// keyfilePath returns the path of a NIC's profile.
func keyfilePath(l Link) string {
	return keyfileFolder + "/" + l.Stem() + ".nmconnection"
}

// keyfile returns a NIC's profile (nm-settings-keyfile(5)). NetworkManager ignores a profile that users other than
// root can read. Metrics are always written, because its defaults differ from the kernel's.
func keyfile(l Link) File {
	var b strings.Builder
	b.WriteString(Header(l.Fabric))
	kind := "ethernet"
	if l.Device != nil {
		kind = l.Device.Kind()
	}
	fmt.Fprintf(&b, "[connection]\nid=%s\nuuid=%s\ntype=%s\n", profile(l), l.uuid(), kind)
	if l.Select.Netdev != "" || l.byName() {
		fmt.Fprintf(&b, "interface-name=%s\n", l.Link.Name)
	}
	if l.Master != nil {
		fmt.Fprintf(&b, "master=%s\nslave-type=bond\n", l.Master.uuid()) // 1.46 has other names, and reads these
	}
	if !l.Up {
		b.WriteString("autoconnect=false\n")
	}
	b.WriteString("autoconnect-priority=100\nautoconnect-retries=0\n")
	if !l.byName() || l.Ports != nil || l.MTU != 0 {
		b.WriteString("\n[ethernet]\n")
	}
	if l.Ports != nil {
		fmt.Fprintf(&b, "cloned-mac-address=%s\n", strings.ToUpper(l.bondMAC()))
	}
	if !l.byName() {
		fmt.Fprintf(&b, "mac-address=%s\n", strings.ToUpper(l.mac()))
	}
	if l.MTU != 0 {
		fmt.Fprintf(&b, "mtu=%d\n", l.MTU)
	}
	b.WriteString(keyfileDevice(l))
	if l.Master != nil {
		return File{Path: keyfilePath(l), Mode: 0o600, Text: b.String()} // a port has no IP settings
	}
	b.WriteString("\n[ipv4]\n" + keyfileFamily(l, inet))
	b.WriteString("\n[ipv6]\n" + keyfileFamily(l, inet6))
	return File{Path: keyfilePath(l), Mode: 0o600, Text: b.String()}
}

// keyfileDevice returns the section of a bond or VLAN; "" for any other NIC. The flag of a VLAN is the kernel's default, REORDER_HDR.
func keyfileDevice(l Link) string {
	if l.Device == nil {
		return ""
	}
	var b strings.Builder
	switch bond, vlan := l.Device.Bond, l.Device.VLAN; {
	case bond != nil:
		b.WriteString("\n[bond]\n")
		for _, o := range bond.Options() {
			fmt.Fprintf(&b, "%s=%s\n", o.Name, o.Value)
		}
	case vlan != nil:
		parent := l.Lower.Link.Name
		if l.Lower.Written() && l.Lower.Device == nil && l.Lower.Select.Netdev == "" {
			parent = l.Lower.uuid() // a NIC that is declared by its MAC may get another name
		}
		fmt.Fprintf(&b, "\n[vlan]\nflags=1\nid=%d\nparent=%s\n", vlan.ID, parent)
		if vlan.PriorityMap != nil {
			// A list in a keyfile has semicolons (GKeyFile; NetworkManager's nms-keyfile-reader.c sets no other separator).
			b.WriteString("egress-priority-map=" + strings.Join(egress(vlan, ":"), ";") + "\n")
		}
	}
	return b.String()
}

// keyfileNo6 returns the IPv6 method of a NIC without IPv6 addresses, routes and rules. "disabled" turns IPv6 off in
// the kernel. With "ignore", a NIC was seen to have a link-local address whatever the sysctls said.
func keyfileNo6(l Link) string {
	if l.linkLocal() == "none" && !l.acceptRA() {
		return "disabled"
	}
	return "ignore"
}

// keyfileFamily returns the settings of one family. Routes do not need an address unless the method waits for one
// (allow_routes_without_address_4 and _6 in NetworkManager's nm-l3-config-data.c), and rules never need one.
func keyfileFamily(l Link, family int) string {
	var b strings.Builder
	var addresses []netip.Prefix
	for _, p := range l.Addresses {
		if p.Addr().Is6() == (family == inet6) {
			addresses = append(addresses, p)
		}
	}
	stands := keyfileStands(l, family)
	alone := len(addresses) == 0
	makes := l.LinkLocal != "" && !l.acceptRA() // only with "ignore" is accept_ra left to the kernel
	switch {
	case alone && family == inet:
		b.WriteString("method=disabled\n")
	case alone && stands == "" && !makes:
		b.WriteString("method=" + keyfileNo6(l) + "\n")
	case alone:
		b.WriteString("method=link-local\n") // "disabled" turns IPv6 off
	default:
		b.WriteString("method=manual\n")
		for i, p := range addresses {
			fmt.Fprintf(&b, "address%d=%s\n", i+1, p)
		}
		b.WriteString("never-default=true\nmay-fail=false\n")
	}
	if family == inet6 && (!alone || stands != "" || makes) {
		mode := map[string]string{"stable-privacy": "stable-privacy", "random": "stable-privacy"}[l.linkLocal()]
		if mode == "" {
			mode = "eui64"
		}
		b.WriteString("addr-gen-mode=" + mode + "\n")
	}
	return b.String() + stands
}

// keyfileStands returns the routes and rules of one family.
func keyfileStands(l Link, family int) string {
	var b strings.Builder
	n := 0
	route := func(r netif.RouteSpec, table int) {
		if r.To.Addr().Is6() == (family == inet6) {
			n++
			keyfileRoute(&b, n, r, table, family)
		}
	}
	for _, r := range l.Routes {
		route(r, 0)
	}
	rules := 0
	for _, p := range l.Policies {
		for _, r := range p.Routes {
			route(r, p.Table)
		}
		if p.Family() == family {
			rules++
			keyfileRule(&b, rules, p)
		}
	}
	return b.String()
}

func keyfileRoute(b *strings.Builder, n int, r netif.RouteSpec, table, family int) {
	via := everything(family).Addr()
	if r.Via.IsValid() {
		via = r.Via
	}
	fmt.Fprintf(b, "route%d=%s,%s,%d\n", n, r.To.Masked(), via, kernelMetric(r))
	var options []string
	if r.OnLink {
		options = append(options, "onlink=true")
	}
	if r.Src.IsValid() {
		options = append(options, "src="+r.Src.String())
	}
	if table != 0 {
		options = append(options, fmt.Sprintf("table=%d", table))
	}
	if options != nil {
		fmt.Fprintf(b, "route%d_options=%s\n", n, strings.Join(options, ","))
	}
}

// keyfileRule always writes a prefix, because NetworkManager requires `from` or `to`.
func keyfileRule(b *strings.Builder, n int, p netif.PolicyRouteSpec) {
	from, to := p.From, ""
	if !from.IsValid() {
		from = everything(p.Family())
	}
	if p.To.IsValid() {
		to = " to " + p.To.String()
	}
	fmt.Fprintf(b, "routing-rule%d=priority %d from %s%s table %d\n", n, p.Priority, from, to, p.Table)
}

// uuid returns the UUID of our profile: that of the profile which it continues, or else one that is derived from its name (version 8 of RFC 9562,
// 5.8), so that the same file is written each time.
func (l Link) uuid() string {
	if l.Continues != "" {
		return l.Continues
	}
	u := sha256.Sum256([]byte("fabricform " + profile(l)))
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// profile returns the id of the NIC's profile: the name of its file without the suffix.
func profile(l Link) string {
	return strings.TrimSuffix(path.Base(l.Manager.Reports(l)), ".nmconnection")
}

// networkManagerNotes reports its limits for NICs that it does not manage, and for IPv6.
func networkManagerNotes(l Link) []string {
	var out []string
	if l.Written() && !l.Link.Planned && !l.InCharge {
		out = append(out, fmt.Sprintf("NetworkManager does not manage %s now. "+
			"If unmanaged-devices in its configuration or NM_UNMANAGED in udev rules excludes the NIC, "+
			"NetworkManager will manage it only until the next boot: remove the NIC from them, or set `persist = false` here", l.Link.Name))
	}
	has6 := l.has6() || l.Behind == nil && keyfileStands(l, inet6) != ""
	if l.Written() && has6 && l.linkLocal() == "none" {
		out = append(out, "NetworkManager also adds a link-local address to a NIC with IPv6 addresses or routes")
	}
	return out
}

// isUUID reports whether a text has the form of a UUID.
func isUUID(id string) bool {
	_, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	return err == nil && len(id) == 36 && strings.Count(id, "-") == 4
}

// keyfileProfiles returns the profile in our file. Its link is found by the id, which files of all builds have.
func keyfileProfiles(path, text string) []Profile {
	_, head, _ := strings.Cut(text, `"`) // the first line names the fabric
	fabric, _, _ := strings.Cut(head, `"`)
	netdev, is := strings.CutPrefix(keyValue(text, "connection", "id"), Base(fabric)+"-")
	if !is {
		return nil
	}
	p := Profile{Netdev: netdev, File: path}
	if id := keyValue(text, "connection", "uuid"); isUUID(id) {
		p.UUID = id
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		for n := 1; ; n++ {
			address := keyValue(text, family, fmt.Sprintf("address%d", n))
			if address == "" {
				break
			}
			p.Addresses = append(p.Addresses, address)
		}
	}
	if kind := keyValue(text, "connection", "type"); kind != "ethernet" {
		p.Device = kind
	}
	p.Port = keyValue(text, "connection", "slave-type") != ""
	p.LinkLocal = keyValue(text, "ipv6", "addr-gen-mode") // our files have it wherever NetworkManager makes the address
	return []Profile{p}
}

// checkKeyfiles makes nmcli parse one profile after the other.
func checkKeyfiles(ctx context.Context, h Asker, wanted []File) error {
	var errs []error
	for _, f := range wanted {
		id := strings.TrimSuffix(path.Base(f.Path), ".nmconnection")
		a, err := h.Ask(ctx, []byte(f.Text), "nmcli", "--offline", "connection", "modify", "connection.id", id)
		errs = append(errs, ParserError(a, err, f.Path, ""))
	}
	return errors.Join(errs...)
}

// activateProfile activates our profile on a NIC for which NetworkManager uses another one. NetworkManager creates its
// own profile for a NIC without one (seen with 1.52: such a profile waits for DHCP and then removes all addresses).
// NetworkManager may already use our profile, because ours has a higher priority.
func activateProfile(ctx context.Context, h host.Host, l Link) error {
	return Run(ctx, h, "nmcli", "--wait", "30", "connection", "up", "id", profile(l), "ifname", l.Link.Name)
}

// manageDevice makes NetworkManager manage or release a NIC. A released NIC stays up, and nothing on it changes when
// NetworkManager manages it again.
func manageDevice(ctx context.Context, h host.Host, netdev string, yes bool) error {
	return Run(ctx, h, "nmcli", "device", "set", netdev, "managed", yesNo(yes))
}

// dispatcher returns a script that sets a NIC's sysctls again after NetworkManager has configured it, because
// NetworkManager changes addr_gen_mode and accept_ra (NetworkManager-dispatcher(8)).
func dispatcher(fabric string, ls []Link) (File, bool) {
	var names []string
	for _, l := range ls {
		if l.Written() && len(l.WantedSysctls()) > 0 {
			names = append(names, l.Link.Name)
		}
	}
	text := "#!/bin/sh\n" + Header(fabric) + fmt.Sprintf(`[ "$2" = up ] || exit 0
case $1 in
%s) exec /usr/lib/systemd/systemd-sysctl "--prefix=/net/ipv4/conf/$1" "--prefix=/net/ipv6/conf/$1" ;;
esac
`, strings.Join(names, "|"))
	return File{Path: dispatcherFolder + "/90-" + Base(fabric), Mode: 0o755, Text: text}, len(names) > 0
}
