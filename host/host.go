// Package host is the interface to the machine: a Reader reads its state, a Host also changes it. Planning gets only
// a Reader, so that the compiler keeps it read-only.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"strings"
)

// Reader reads the state of a machine. Implementations retry interrupted netlink dumps. A file read that hangs, such
// as on a dead file server, returns soon after its context ends.
type Reader interface {
	Links(ctx context.Context) ([]Link, error)
	Addrs(ctx context.Context) ([]Addr, error)
	Routes(ctx context.Context) ([]Route, error) // all tables, both families
	Rules(ctx context.Context) ([]Rule, error)   // both families
	// RouteGet asks the kernel which route carries a packet to dst from src (src may be invalid).
	RouteGet(ctx context.Context, dst, src netip.Addr) (Route, error)
	ReadFile(ctx context.Context, path string) ([]byte, error)
	ReadDir(ctx context.Context, path string) ([]string, error)
	Readlink(ctx context.Context, path string) (string, error)
	Stat(ctx context.Context, path string) (FileStat, error) // does not follow a symbolic link
	// Sysctl reads a path below /proc/sys, such as "net/ipv4/ip_forward".
	Sysctl(ctx context.Context, path string) (string, error)
	// RDMAUsers returns the processes that have an RDMA device open; for "", those with any file of /dev/infiniband
	// open. It reads the open files of every process, so call it only when needed.
	RDMAUsers(ctx context.Context, device string) ([]RDMAUser, error)
	// Dump returns the bodies of all kernel objects that a request such as GetRoutes lists, as rtnetlink sends them: a
	// header, then attributes, in the machine's byte order. It keeps attributes that this program does not know.
	Dump(ctx context.Context, get uint16) ([][]byte, error)
	// DCB sends one request of dcbnl that only reads (RTM_GETDCB in include/uapi/linux/dcbnl.h): a struct dcbmsg, then
	// attributes. It returns the body of the answer, in the same form. The error is ErrUnsupported if the driver has no DCB.
	DCB(ctx context.Context, message []byte) ([]byte, error)
	// Pause returns the attributes of ethtool's answer about the pause frames of a NIC (ETHTOOL_MSG_PAUSE_GET in
	// include/uapi/linux/ethtool_netlink.h). The error is ErrUnsupported if the driver has none.
	Pause(ctx context.Context, index int) ([]byte, error)
	// Inquire runs one of the few read-only programs (Inquiry) to its end, without a shell. The error is ErrNoProgram
	// if the machine has no such program.
	Inquire(ctx context.Context, name string, args ...string) (Answer, error)
	// LoginFolder reports whether the user has a ~/.ssh. Like the other methods for homes, it follows no link, and returns an
	// error if somebody other than root and the user could replace what is in the folder.
	LoginFolder(ctx context.Context, a Account) (bool, error)
	// LoginFile reads a file of ~/.ssh (LoginName); nil if there is none.
	LoginFile(ctx context.Context, a Account, name string) (*LoginFile, error)
	// HomeID identifies the user's home: hosts with the same ID share it.
	HomeID(ctx context.Context, a Account) (string, error)
	// Records returns the records that SaveRecord wrote, by name.
	Records(ctx context.Context) (map[string][]byte, error)
}

// Text returns a small file's content, trimmed; "" if the file cannot be read: for facts that only inform.
func Text(ctx context.Context, r Reader, path string) string {
	raw, err := r.ReadFile(ctx, path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// Host changes a machine. Its own methods do not retry.
type Host interface {
	Reader
	SetMTU(index, mtu int) error // bytes
	SetUp(index int, up bool) error
	AddAddr(a Addr) error // its index, prefix and peer
	DelAddr(a Addr) error
	ReplaceRoute(r Route) error
	DelRoute(r Route) error
	AddRule(r Rule) error
	DelRule(r Rule) error
	SetSysctl(path, value string) error // path below /proc/sys, such as "net/ipv4/ip_forward"
	LoadModule(name string) error       // with the modules that it needs
	AddRXE(device, netdev string) error // a Soft-RoCE device
	DelRDMA(device string) error        // a software RDMA device; hardware is refused
	// Send makes one rtnetlink request, such as NewRoute with a body that Dump gave. flags are NLM_F_*.
	Send(request, flags uint16, body []byte) error
	// SetDCB sends one request of dcbnl that changes a NIC (RTM_SETDCB), and returns the body of the answer, which can say that
	// the driver has refused.
	SetDCB(message []byte) ([]byte, error)
	// SetPause changes the pause frames of a NIC (ETHTOOL_MSG_PAUSE_SET). attributes do not have the header.
	SetPause(index int, attributes []byte) error
	// SetSwitch writes a file below /sys that switches a class of traffic: of rdma_cm's configfs, or of mlx5's driver. A namespace
	// lab refuses.
	SetSwitch(path, value string) error
	// MakeConfig makes a device's folder in rdma_cm's configfs. It is not an error if it exists.
	MakeConfig(path string) error
	// RemoveConfig removes such a folder. It is not an error if it does not exist.
	RemoveConfig(path string) error
	// PutFile replaces one of our own files (OwnFile) atomically and syncs it.
	PutFile(path string, text []byte, perm fs.FileMode) error
	// PutFolder makes one folder and syncs it. Its parent must exist.
	PutFolder(path string) error
	// RemoveFile removes a file of our own, or an empty folder below /etc or ProgramFolder. It is not an error if it does not exist.
	RemoveFile(path string) error
	// PutLoginFolder makes ~/.ssh, if it does not exist.
	PutLoginFolder(a Account) error
	// PutLoginFile replaces a file of ~/.ssh (LoginName) atomically and syncs it. It belongs to the user. was is the file as it was
	// read; nil if there was none. If the file has changed since, nothing is written and the error is ErrChanged.
	PutLoginFile(a Account, name string, was *LoginFile, text []byte, perm fs.FileMode) error
	// RemoveLoginFile removes a file of ~/.ssh. It is not an error if it does not exist.
	RemoveLoginFile(a Account, name string) error
	// RemoveLoginFolder removes ~/.ssh if it is empty.
	RemoveLoginFolder(a Account) error
	// Stage writes files below a new temporary folder, for a program to check. The caller must call discard.
	Stage(files map[string][]byte) (root string, discard func() error, err error)
	// Ask runs a program of the machine to its end, without a shell, and returns its output.
	Ask(ctx context.Context, stdin []byte, name string, args ...string) (Answer, error)
	// Run runs a program that installs something to its end, without a shell. Its output also goes to log at once, from
	// two goroutines. A namespace lab refuses.
	Run(ctx context.Context, c Command, log io.Writer) (Answer, error)
	// Reboot restarts the machine, and returns before the machine goes down. A namespace lab refuses.
	Reboot(ctx context.Context) error
	// SaveRecord writes a fabric's ownership record atomically; nil text removes it.
	SaveRecord(name string, text []byte) error
}

// ErrUnsupported says that a driver does not have a feature, as those of virtual functions do not have DCB (EOPNOTSUPP).
var ErrUnsupported = errors.New("the driver does not support it")

// Requests of rtnetlink for Dump and Send, and the flags with which Send creates an object
// (include/uapi/linux/rtnetlink.h and netlink.h).
const (
	NewLink       uint16 = 16 // RTM_NEWLINK
	DelLink       uint16 = 17
	GetLinks      uint16 = 18
	NewAddr       uint16 = 20 // RTM_NEWADDR
	DelAddr       uint16 = 21
	GetAddrs      uint16 = 22
	NewRoute      uint16 = 24
	DelRoute      uint16 = 25
	GetRoutes     uint16 = 26
	NewNeighbour  uint16 = 28 // RTM_NEWNEIGH
	DelNeighbour  uint16 = 29
	GetNeighbours uint16 = 30
	NewRule       uint16 = 32
	DelRule       uint16 = 33
	GetRules      uint16 = 34
	NewNexthop    uint16 = 104
	DelNexthop    uint16 = 105
	GetNexthops   uint16 = 106

	Replace uint16 = 0x100 // NLM_F_REPLACE: replace an equal object
	Excl    uint16 = 0x200 // NLM_F_EXCL: fail if there is an equal object
	Create  uint16 = 0x400 // NLM_F_CREATE
	Append  uint16 = 0x800 // NLM_F_APPEND: add after objects with the same key
)

// RDMAUser is a process that has a file of an RDMA device open.
type RDMAUser struct {
	Name string `json:"name"` // comm of proc_pid_comm(5)
	PID  int    `json:"pid"`
	File string `json:"file"` // such as /dev/infiniband/uverbs0; the first by name if there are several
}

// String returns the name and the PID for a message.
func (u RDMAUser) String() string { return fmt.Sprintf("%s (pid %d)", u.Name, u.PID) }

// FileStat is the type, mode and owner of a file.
type FileStat struct {
	Mode fs.FileMode `json:"mode"` // with the type bits
	UID  int         `json:"uid"`
	GID  int         `json:"gid"`
}

// Answer is the output of a program, and its exit status.
type Answer struct {
	Stdout, Stderr string
	Exit           int
}

// Link is one network interface, as rtnetlink, ethtool and sysfs show it.
type Link struct {
	Index     int      `json:"index"`
	Name      string   `json:"name"`
	Kind      string   `json:"kind,omitempty"` // "veth", "bridge", "bond", "vlan"; "" for a plain device
	MAC       string   `json:"mac,omitempty"`
	PermMAC   string   `json:"perm_mac,omitempty"`
	MTU       int      `json:"mtu"`     // bytes
	Up        bool     `json:"up"`      // IFF_UP: administratively up
	Carrier   bool     `json:"carrier"` // IFF_LOWER_UP: there is a signal from the other end
	OperState string   `json:"oper_state,omitempty"`
	Master    int      `json:"master,omitempty"` // index of the bridge or bond it belongs to
	Parent    int      `json:"parent,omitempty"` // index of the device below it (VLAN, macvlan)
	PCI       string   `json:"pci,omitempty"`
	Driver    string   `json:"driver,omitempty"`
	SpeedMbps int      `json:"speed_mbps,omitempty"` // 0: unknown
	AltNames  []string `json:"alt_names,omitempty"`
	Loopback  bool     `json:"loopback,omitempty"`
	Bond      *Bond    `json:"bond,omitempty"`
	VLAN      *VLAN    `json:"vlan,omitempty"`
	LACP      *LACP    `json:"lacp,omitempty"`   // of a bond in mode 802.3ad
	Member    *Member  `json:"member,omitempty"` // of a bond
	// Planned is true for a device that does not exist: a plan makes it. Its index is negative.
	Planned bool `json:"planned,omitempty"`
}

// Bond has the options of a bond, as ip-link(8) writes them.
type Bond struct {
	Mode     string `json:"mode"`
	LACPRate string `json:"lacp_rate"`
	XmitHash string `json:"xmit_hash"`
	MIIMon   int    `json:"miimon"` // milliseconds
	MinLinks int    `json:"min_links"`
}

// VLAN is the tag of a VLAN.
type VLAN struct {
	ID       int         `json:"id"`
	Protocol string      `json:"protocol"`         // "802.1q", "802.1ad"
	Egress   map[int]int `json:"egress,omitempty"` // priority of a sent packet -> PCP
}

// OnParent reports whether the link's traffic goes through its parent: it is a VLAN or macvlan.
func (l Link) OnParent() bool { return l.Kind == "vlan" || l.Kind == "macvlan" }

// Running reports IFF_RUNNING, by which NCCL from 2.28.3 on decides whether it may use an interface: up, and not without
// carrier (dev_get_flags and netif_oper_up in the kernel). With a carrier, the state follows within a second (link_watch.c).
func (l Link) Running() bool {
	switch l.OperState {
	case "testing", "dormant":
		return false
	case "down", "lower-layer-down", "not-present":
		return l.Up && l.Carrier
	}
	return l.Up
}

// Addr is one address of an interface.
type Addr struct {
	Index     int          `json:"index"`
	Prefix    netip.Prefix `json:"prefix"` // host bits kept
	Scope     int          `json:"scope"`  // RT_SCOPE_*: 0 global, 253 link, 254 host
	Tentative bool         `json:"tentative,omitempty"`
	DADFailed bool         `json:"dad_failed,omitempty"`
	Dynamic   bool         `json:"dynamic,omitempty"` // not IFA_F_PERMANENT: DHCP or router advertisement
	Secondary bool         `json:"secondary,omitempty"`
	Temporary bool         `json:"temporary,omitempty"`
	Peer      netip.Prefix `json:"peer,omitzero"` // the other end, of an address that has one
	// NoBroadcast says that an IPv4 address has no broadcast address, although its subnet has room for one: ip(8) gives none unless it is
	// told to.
	NoBroadcast bool `json:"no_broadcast,omitempty"`
}

// String is the address as ip(8) writes it, without its device: "10.0.0.1/24", or "10.0.0.1/32 peer 10.0.0.2/32".
func (a Addr) String() string {
	if !a.Peer.IsValid() {
		return a.Prefix.String()
	}
	return a.Prefix.String() + peerWord + a.Peer.String()
}

const peerWord = " peer "

// ParseAddr parses what String returns.
func ParseAddr(s string) (a Addr, err error) {
	own, peer, has := strings.Cut(s, peerWord)
	if a.Prefix, err = netip.ParsePrefix(own); err == nil && has {
		a.Peer, err = netip.ParsePrefix(peer)
	}
	return a, err
}

// Route is one route. Dst is masked; a default route is 0.0.0.0/0 or ::/0.
type Route struct {
	Table    int          `json:"table"`
	Dst      netip.Prefix `json:"dst"`
	Via      netip.Addr   `json:"via,omitzero"`
	Src      netip.Addr   `json:"src,omitzero"`
	OutIndex int          `json:"out_index,omitempty"`
	Metric   int          `json:"metric,omitempty"`
	Protocol int          `json:"protocol"`
	Scope    int          `json:"scope"`
	Type     int          `json:"type"` // RTN_*: 1 unicast, 6 blackhole, …
	OnLink   bool         `json:"on_link,omitempty"`
	NextHops int          `json:"next_hops,omitempty"` // above 0 for a multipath route, whose Via and OutIndex are unset
	Further  bool         `json:"further,omitempty"`   // has options that this type does not have, such as an MTU
}

// Rule is one policy rule.
type Rule struct {
	Priority int          `json:"priority"`
	From     netip.Prefix `json:"from,omitzero"` // invalid: all
	To       netip.Prefix `json:"to,omitzero"`   // invalid: all
	Table    int          `json:"table"`
	Family   int          `json:"family"` // AF_INET 2, AF_INET6 10
	Protocol int          `json:"protocol,omitempty"`
	IIF      string       `json:"iif,omitempty"`
	OIF      string       `json:"oif,omitempty"`
	Mark     uint32       `json:"mark,omitempty"`
	Other    bool         `json:"other,omitempty"` // has selectors or an action that this type cannot express
}
