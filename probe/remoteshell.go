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

// RemoteShell is the name under which mpirun runs this program as its remote shell. The program does not log
// in anywhere: it passes the command to the helper that started mpirun, over the Unix socket named in
// remoteShellSocket, and exits with the status of the command on the other host.
const (
	RemoteShell       = "fabricform-rsh"
	remoteShellSocket = "FABRICFORM_RSH"
)

// remoteAnswer is the helper's answer to RemoteShell.
type remoteAnswer struct {
	Exit int    `json:"exit"`
	Text string `json:"text,omitempty"`
}

// AskRemoteShell is the main function of RemoteShell. args are the other host and the command for it.
func AskRemoteShell(args []string, out io.Writer) (exit int, err error) {
	if len(args) < 2 {
		return 1, errors.New("missing host and command; only mpirun runs this command, when fabricform tests NCCL")
	}
	// Open MPI asks for the login shell of the other host.
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
		return 1, fmt.Errorf("read the helper's answer: %w", err)
	}
	if a.Text != "" {
		return a.Exit, errors.New(a.Text)
	}
	return a.Exit, nil
}
