package netmanager

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/providers/netif"
)

const ifupdownFolder = "/etc/network/interfaces.d"

// ifupdown acts when it is called, and reads its files then.
var ifupdown = &Manager{
	Name: facts.Ifupdown, Folder: ifupdownFolder,
	File: ifupdownPath, Stem: func(l Link) string { return path.Base(ifupdownPath(l)) }, Render: func(ls []Link) []File {
		var out []File
		for _, l := range ls {
			out = append(out, ifupdownFile(l))
		}
		return out
	},
	Check: checkIfupdown, Ready: ifupdownReady,
}

// ifupdownPath has neither dots nor other characters that `source-directory` passes over
// (interfaces(5)).
func ifupdownPath(l Link) string {
	return ifupdownFolder + "/" + strings.ReplaceAll(l.Stem(), ".", "_")
}

// ifupdownFile is a file of stanzas (interfaces(5)). What it has no words for are commands: only
// numbers, addresses and a checked name stand in them. A rule is removed before it is added, because
// an interface that went away took its routes along and not its rules.
func ifupdownFile(l Link) File {
	var b strings.Builder
	name := l.Link.Name
	b.WriteString(Header(l.Fabric))
	if l.Up {
		b.WriteString("auto " + name + "\n")
	}
	mtu := ""
	if l.MTU != 0 {
		mtu = fmt.Sprintf("\tup ip link set dev %s mtu %d\n", name, l.MTU)
	}
	if len(l.Addresses) == 0 {
		fmt.Fprintf(&b, "iface %s inet manual\n%s\tup ip link set dev %s up\n%s\tdown ip link set dev %s down\n", name, mtu, name, ifupdownRoutes(l), name)
		return File{Path: ifupdownPath(l), Mode: 0o644, Text: b.String()}
	}
	for i, p := range l.Addresses {
		family := "inet"
		if p.Addr().Is6() {
			family = "inet6"
		}
		fmt.Fprintf(&b, "iface %s %s static\n\taddress %s\n", name, family, p)
		if family == "inet6" {
			b.WriteString("\taccept_ra " + map[bool]string{false: "0", true: "1"}[l.acceptRA()] + "\n")
		}
		if i == 0 {
			b.WriteString(mtu) // before what follows: below 1280 bytes, the kernel has no IPv6
		}
		if i == len(l.Addresses)-1 {
			b.WriteString(ifupdownRoutes(l)) // once all addresses are there that they prefer as source
		}
	}
	return File{Path: ifupdownPath(l), Mode: 0o644, Text: b.String()}
}

func ifupdownRoutes(l Link) string {
	var b strings.Builder
	for _, r := range l.Routes {
		b.WriteString("\tup " + ipRoute(r, l.Link.Name, 0) + "\n")
	}
	for _, p := range l.Policies {
		for _, r := range p.Routes {
			b.WriteString("\tup " + ipRoute(r, l.Link.Name, p.Table) + "\n")
		}
		rule := ipRule(p)
		fmt.Fprintf(&b, "\tup ip %s 2>/dev/null || true\n\tup ip %s\n\tdown ip %s || true\n",
			fmt.Sprintf(rule, "del"), fmt.Sprintf(rule, "add"), fmt.Sprintf(rule, "del"))
	}
	return b.String()
}

// ipRoute is the command of ip-route(8).
func ipRoute(r netif.RouteSpec, netdev string, table int) string {
	words := []string{"ip route replace", r.To.Masked().String()}
	if r.Via.IsValid() {
		words = append(words, "via", r.Via.String())
	}
	words = append(words, "dev", netdev)
	if r.OnLink {
		words = append(words, "onlink")
	}
	if r.Src.IsValid() {
		words = append(words, "src", r.Src.String())
	}
	if r.Metric != 0 {
		words = append(words, fmt.Sprintf("metric %d", r.Metric))
	}
	if table != 0 {
		words = append(words, fmt.Sprintf("table %d", table))
	}
	return strings.Join(append(words, fmt.Sprintf("proto %d", netif.Protocol)), " ")
}

// ipRule is the command of ip-rule(8), with a place for what to do.
func ipRule(p netif.PolicyRouteSpec) string {
	words := []string{"rule %s"}
	if p.Family() == inet6 {
		words = []string{"-6 rule %s"}
	}
	from := "all"
	if p.From.IsValid() {
		from = p.From.String()
	}
	words = append(words, "from", from)
	if p.To.IsValid() {
		words = append(words, "to", p.To.String())
	}
	return strings.Join(append(words, fmt.Sprintf("table %d priority %d proto %d", p.Table, p.Priority, netif.Protocol)), " ")
}

// ifupdownReady: its file lists those that it reads.
func ifupdownReady(m *facts.Managers, l Link) error {
	if m.Sourced {
		return nil
	}
	return fmt.Errorf("nic %s: /etc/network/interfaces does not read interfaces.d, where its file belongs: add `source /etc/network/interfaces.d/*` there", l.Name)
}

// checkIfupdown asks for the list of all interfaces. What names the folder from the root is made to
// name it from the file, as others do, so that both lead into the copy.
func checkIfupdown(ctx context.Context, h Asker, wanted []File) (err error) {
	const main, dir = "/etc/network/interfaces", ifupdownFolder
	files := map[string][]byte{}
	if err := copyFolder(h, dir, "", files); err != nil {
		return err
	}
	for _, f := range wanted {
		files[f.Path] = []byte(f.Text)
	}
	text, err := h.ReadFile(main)
	if err != nil {
		return fmt.Errorf("read %s: %w", main, err)
	}
	files[main] = []byte(strings.ReplaceAll(string(text), dir, path.Base(dir)))
	root, discard, err := h.Stage(files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard()) }()
	a, err := h.Ask(ctx, nil, "ifquery", "--interfaces="+root+main, "--list", "--all")
	a.Stdout = ""
	if a.Exit == 0 && passedOver(a.Stderr) {
		a.Exit = 1
	}
	return Refused(a, err, wanted[0].Path, root)
}

// passedOver says whether ifquery complains of more than it warns of: it tells what it passes over, and
// ends as if all were well (seen with 0.8.44).
func passedOver(said string) bool {
	for line := range strings.Lines(said) {
		if strings.Contains(line, "ifquery: ") && !strings.Contains(line, "warning") {
			return true
		}
	}
	return false
}
