package probe

import (
	"net/netip"

	"github.com/fabricform/fabricform/agent"
)

var (
	// TryLogins logs in to other hosts by the host's own ssh, as a user of a login mesh. It returns one result for each peer, in
	// their order.
	TryLogins = agent.Method[LoginSpec, []LoginResult]("logins")
	// InspectLogin reads what may prevent a user's logins to this host: SSH clients are told only that a login was refused.
	InspectLogin = agent.Method[LoginInspection, []LoginBarrier]("login.inspect")
)

// LoginSpec asks for logins.
type LoginSpec struct {
	User  string      `json:"user"`
	Key   string      `json:"key"` // the name of the mesh's key in ~/.ssh
	Peers []LoginPeer `json:"peers"`
}

// LoginPeer is a host to log in to, by its name in the fabric's files. ssh does not connect if the user's configuration gives it
// another address than one of these, or another port.
type LoginPeer struct {
	Name  string       `json:"name"`
	Addrs []netip.Addr `json:"addrs"`
	Port  int          `json:"port"` // of its SSH server; 0 is 22
}

// LoginState is how an attempt to log in ended.
type LoginState string

// The states.
const (
	LoginWorks       LoginState = "works"
	LoginPrints      LoginState = "shell_prints"     // it works, but the shell prints text of its own before a command's output
	LoginNoShell     LoginState = "no_shell"         // the login is accepted, but the shell does not run a command
	LoginKeyRefused  LoginState = "key_refused"      // by the peer's SSH server, which does not say why
	LoginKeyMissing  LoginState = "key_missing"      // the mesh's key is not in the user's ~/.ssh, or cannot be read
	LoginHostUnknown LoginState = "host_key_unknown" // the peer's host key is not in the mesh's known_hosts
	LoginHostChanged LoginState = "host_key_changed" // the peer has another host key than the mesh's known_hosts say
	LoginNotSetUp    LoginState = "not_set_up"       // the host's ssh does not use the mesh's key for this peer
	// LoginRedirected: the user's ssh_config(5) goes to another address or port, as another user, through a proxy, or with files of
	// known host keys outside /etc/ssh.
	LoginRedirected   LoginState = "redirected"
	LoginUnconnected  LoginState = "connection_refused" // nothing listens on the port
	LoginNoRoute      LoginState = "no_route"
	LoginTimedOut     LoginState = "timed_out"
	LoginClosed       LoginState = "connection_closed" // before the login was accepted
	LoginNoClient     LoginState = "no_ssh_client"
	LoginUserMissing  LoginState = "no_such_user" // on the host that logs in
	LoginOtherFailure LoginState = "failed"
)

// LoginStates are all states.
var LoginStates = []LoginState{LoginWorks, LoginPrints, LoginNoShell, LoginKeyRefused, LoginKeyMissing,
	LoginHostUnknown, LoginHostChanged, LoginNotSetUp,
	LoginRedirected, LoginUnconnected, LoginNoRoute, LoginTimedOut, LoginClosed, LoginNoClient, LoginUserMissing, LoginOtherFailure}

// LoginResult is the result for one peer.
type LoginResult struct {
	State LoginState `json:"state"`
	Said  string     `json:"said,omitempty"` // the end of what ssh or the peer printed; at most MaxLoginSaid bytes of any text
}

// MaxLoginSaid is the most that a result holds of a peer's output, in bytes.
const MaxLoginSaid = 200

// LoginInspection asks why a user cannot log in to this host.
type LoginInspection struct {
	User string     `json:"user"`
	From netip.Addr `json:"from"`
}

// LoginBarrier is one thing that prevents a login: a setting of sshd_config(5) such as PermitRootLogin, "shell", "no user", or the
// path of a file, with its value.
type LoginBarrier struct {
	What  string `json:"what"`
	Value string `json:"value"`
}
