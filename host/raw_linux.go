package host

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func rawSockets() (map[int]*nl.SocketHandle, error) {
	out := map[int]*nl.SocketHandle{}
	for _, family := range []int{unix.NETLINK_ROUTE, unix.NETLINK_GENERIC} {
		s, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), family)
		if err == nil {
			out[family] = &nl.SocketHandle{Socket: s}
			err = s.SetExtAck(true)
		}
		if err != nil {
			for _, opened := range out {
				opened.Close()
			}
			return nil, err
		}
	}
	return out, nil
}

// headerSize is the minimum length of the family header of a dump of addresses, routes, rules and neighbours. struct rtmsg is the
// longest of theirs, and IPv4 would take a shorter header for a request to dump bridge or VF data.
const headerSize = unix.SizeofRtMsg

func (k kernel) Dump(_ context.Context, get uint16) ([][]byte, error) {
	return retryDump(fmt.Sprintf("kernel objects (request %d)", get), func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(int(get), unix.NLM_F_DUMP)
		req.Sockets = k.raw
		// Zeros mean every family and every table, without cached copies. A nexthop dump requires exactly its own,
		// shorter header.
		size := headerSize
		switch get {
		case GetNexthops:
			size = unix.SizeofNhmsg
		case GetLinks:
			size = unix.SizeofIfInfomsg
		}
		req.AddRawData(make([]byte, size))
		// The kernel answers RTM_GETx with RTM_NEWx, whose number is lower by two.
		return req.Execute(unix.NETLINK_ROUTE, get-2)
	})
}

func (k kernel) Send(request, flags uint16, body []byte) error {
	req := nl.NewNetlinkRequest(int(request), unix.NLM_F_ACK|int(flags))
	req.Sockets = k.raw
	req.AddRawData(body)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}
