package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/lab/site"
)

// controlSocket is the rack's Unix socket in the lab's folder. Each connection has one JSON request and one answer.
const controlSocket = "control"

const (
	opPorts  = "ports"  // waits until all machines run, and returns the ports of their SSH servers
	opPlug   = "plug"   // plugs the fabric NICs into all machines
	opStatus = "status" // returns which machines are running
	opFault  = "fault"  // breaks or repairs a cable
	opReset  = "reset"  // resets a machine
)

type request struct {
	Op    string
	Host  string     `json:",omitempty"`
	Cable string     `json:",omitempty"`
	Fault site.Fault `json:",omitzero"`
}

type answer struct {
	Error string          `json:",omitempty"`
	Ports map[string]int  `json:",omitempty"`
	Alive map[string]bool `json:",omitempty"`
}

// build is the rack's configuration, in rack.json in the lab's folder.
type build struct {
	Image    string // folder
	Accel    string
	Machines []machineBuild
	Cables   []cableBuild
	Segments []int // per port; -1 means none
}

type machineBuild struct {
	Host string
	NICs []NIC
}

// cableBuild is a cable with its ports: two of a link, one of a network's member. The last port moves when cables are
// swapped.
type cableBuild struct {
	Name     string
	Ports    []int
	Distance site.Distance // that packets to each of the ports meet
}

const buildFile = "rack.json"

func (b build) write(dir string) error {
	raw, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return file.Replace(filepath.Join(dir, buildFile), raw, 0o600)
}

func (l *Lab) ask(r request) (answer, error) {
	conn, err := dialUnix(l.dir, controlSocket)
	if err != nil {
		return answer{}, fmt.Errorf("connect to the lab's process: %w; check `fabricform lab status`", err)
	}
	return askOver(conn, r)
}

func askOver(conn net.Conn, r request) (answer, error) {
	defer conn.Close()
	var a answer
	err := errors.Join(conn.SetDeadline(time.Now().Add(2*time.Minute)), json.NewEncoder(conn).Encode(r))
	if err == nil {
		err = json.NewDecoder(conn).Decode(&a)
	}
	if err != nil {
		return a, fmt.Errorf("send a request to the lab's process: %w", err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// dialUnix dials a socket in a folder by a short path, whatever the length of the folder's path: a Unix address has at
// most 107 bytes (unix(7)).
func dialUnix(dir, name string) (net.Conn, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return net.Dial("unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), name))
}
