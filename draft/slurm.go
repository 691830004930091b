package draft

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
)

// SlurmNodes returns the hosts in the output of `scontrol show node`, with or without -o, sorted by name. Of each node it takes NodeName and
// NodeAddr, which come before any text that a node or a user can set (slurm_sprint_node_table in src/api/node_info.c). left says
// which nodes no file can declare. An error means that the text is something else.
func SlurmNodes(text string) (hosts []Host, left []string, err error) {
	taken := map[string]bool{}
	for record := range strings.SplitSeq("\n"+text, "\nNodeName=") {
		fields := strings.Fields(record)
		if len(fields) == 0 {
			continue
		}
		if strings.Contains(fields[0], "=") || len(fields) < 2 || !strings.Contains(fields[1], "=") {
			return nil, nil, fmt.Errorf("this is not the output of `scontrol show node`: %.40q comes where NodeName= is expected", strings.TrimSpace(record))
		}
		name, address := fields[0], ""
		if at := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, "NodeAddr=") }); at > 0 {
			address = strings.TrimPrefix(fields[at], "NodeAddr=")
		}
		switch ip, err := netip.ParseAddr(address); {
		case !fabric.IsName(name):
			left = append(left, fmt.Sprintf("node %.80q: files cannot declare a host of this name", name))
			continue
		case taken[name]:
			left = append(left, fmt.Sprintf("node %s: it is listed twice", name))
			continue
		case address == name:
			address = ""
		case (err != nil || ip.Zone() != "") && !isDNSName(address):
			left = append(left, fmt.Sprintf("node %s: its address %.80q is neither an IP address nor a name", name, address))
			continue
		}
		taken[name] = true
		hosts = append(hosts, Host{Asked: name, Name: name, Address: address, Model: &fabric.Host{Name: name, Address: address}})
	}
	if len(hosts)+len(left) == 0 {
		return nil, nil, fmt.Errorf("this is not the output of `scontrol show node`: it names no node")
	}
	slices.SortFunc(hosts, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return hosts, left, nil
}

// isDNSName says whether the text can be a name that is looked up: letters, digits, hyphens, underscores and dots.
func isDNSName(s string) bool {
	return s != "" && len(s) < 254 && s[0] != '-' && s[0] != '.' && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	})
}
