package facts

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// Connection is what the transport states about the operator's connection to the host. The zero value states nothing.
type Connection struct {
	SSH  string // SSH_CONNECTION of the login, which may be missing or wrong
	None bool   // no network carries the connection: it is a pipe on the same machine
	By   string // what made the connection instead of SSH, such as Slurm
	// Others are further paths that must not be cut, as SSH_CONNECTION would say them: those to a cluster's controllers.
	Others []string
}

// management finds the devices that carry the operator's connection. If they cannot be found, Unknown says why, and
// the planner must assume that any device may carry the connection.
func management(ctx context.Context, r host.Reader, s *Snapshot, by Connection) Management {
	m := pathOf(ctx, r, s, by)
	m.By = by.By
	for _, o := range by.Others {
		other := pathOf(ctx, r, s, Connection{SSH: o})
		if other.By = by.By; other.Unknown != "" && m.Unknown == "" {
			m.Unknown = other.Unknown
		}
		m.Others = append(m.Others, other)
	}
	return m
}

func pathOf(ctx context.Context, r host.Reader, s *Snapshot, by Connection) Management {
	switch {
	case by.None:
		return Management{}
	case by.SSH == "":
		return Management{Unknown: "the login passed no SSH_CONNECTION"}
	}
	client, server, err := ParseSSHConnection(by.SSH)
	if err != nil {
		return Management{Unknown: err.Error()}
	}
	port, err := strconv.ParseUint(strings.Fields(by.SSH)[3], 10, 16)
	if err != nil {
		return Management{Unknown: fmt.Sprintf("SSH_CONNECTION %q has no valid port", by.SSH)}
	}
	if zone := client.Zone(); zone != "" {
		// A link-local client: the zone names the device, and there is no route to look up.
		m := Management{Client: client.WithZone(""), Server: server.WithZone(""), Port: int(port)}
		if l := s.Link(zone); l != nil {
			m.Devices = carriers(s.Links, []int{l.Index})
		} else {
			m.Unknown = "SSH_CONNECTION names the device " + zone + ", which does not exist"
		}
		return m
	}
	m := Management{Client: client, Server: server.WithZone(""), Port: int(port)}
	m.Route, err = r.RouteGet(ctx, client, server)
	if err != nil {
		m.Unknown = err.Error()
		return m
	}
	var on []int
	on = append(on, m.Route.OutIndex)
	for _, a := range s.Addrs {
		if a.Prefix.Addr() == m.Server {
			on = append(on, a.Index)
		}
	}
	m.Devices = carriers(s.Links, on)
	return m
}

// ParseSSHConnection parses sshd's "client port server port". Link-local addresses have a zone. An IPv4 address on an
// IPv6 socket is v4-mapped, and is unmapped here.
func ParseSSHConnection(v string) (client, server netip.Addr, err error) {
	fields := strings.Fields(v)
	if len(fields) != 4 {
		return client, server, fmt.Errorf("SSH_CONNECTION %q is not \"client port server port\"", v)
	}
	if client, err = netip.ParseAddr(fields[0]); err != nil {
		return client, server, fmt.Errorf("parse the client of SSH_CONNECTION: %w", err)
	}
	if server, err = netip.ParseAddr(fields[2]); err != nil {
		return client, server, fmt.Errorf("parse the server of SSH_CONNECTION: %w", err)
	}
	return client.Unmap(), server.Unmap(), nil
}

// carriers returns the names of the given devices and of all devices that they depend on: the bridge or bond of a
// device, the members of a bridge or bond, and the device below a VLAN or macvlan. If any of them goes down, the path
// is cut.
func carriers(links []host.Link, start []int) []string {
	seen := map[int]bool{0: true} // index 0 is no device
	queue := slices.Clone(start)
	var names []string
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if seen[at] {
			continue
		}
		seen[at] = true
		for _, l := range links {
			switch {
			case l.Index == at:
				names = append(names, l.Name)
				queue = append(queue, l.Master, l.Parent)
			case l.Master == at:
				queue = append(queue, l.Index)
			}
		}
	}
	slices.Sort(names)
	return names
}
