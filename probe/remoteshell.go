package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// RemoteShell is the name by which this program is what mpirun asks in the place of a remote shell. There is
// none: it asks the helper that runs mpirun, by a socket that remoteShellSocket names, and ends as
// what it was asked for did on the other host.
const (
	RemoteShell       = "fabricform-rsh"
	remoteShellSocket = "FABRICFORM_RSH"
)

// remoteAnswer goes from the helper to RemoteShell.
type remoteAnswer struct {
	Exit int    `json:"exit"`
	Text string `json:"text,omitempty"`
}

// AskRemoteShell is RemoteShell's main; args are the other host and the words for it.
func AskRemoteShell(args []string, out io.Writer) (exit int, err error) {
	if len(args) < 2 {
		return 1, errors.New("give a host and a command: mpirun does, which a helper starts")
	}
	// Open MPI asks which shell's language the other host understands.
	if strings.Join(args[1:], " ") == "echo $SHELL" {
		_, err := fmt.Fprintln(out, "/bin/bash")
		return 0, err
	}
	conn, err := net.Dial("unix", os.Getenv(remoteShellSocket))
	if err != nil {
		return 1, fmt.Errorf("ask the helper: %w", err)
	}
	defer conn.Close()
	var a remoteAnswer
	if err := json.NewEncoder(conn).Encode(LaunchAsk{Host: args[0], Words: args[1:]}); err != nil {
		return 1, fmt.Errorf("ask the helper: %w", err)
	}
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return 1, fmt.Errorf("hear the helper's answer: %w", err)
	}
	if a.Text != "" {
		return a.Exit, errors.New(a.Text)
	}
	return a.Exit, nil
}
