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

// The rack is asked over a Unix socket in the lab's folder: one JSON object, one answer.
const controlSocket = "control"

const (
	opPorts  = "ports"  // waits until all machines run, and answers where their SSH servers are
	opPlug   = "plug"   // puts the fabric NICs into all machines
	opStatus = "status" // which machines live
	opFault  = "fault"  // breaks or mends a cable
	opReset  = "reset"  // cuts a machine's power and boots it
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

// build is what the rack is to make: rack.json in the lab's folder.
type build struct {
	Image    string // folder
	Accel    string
	Machines []machineBuild
	Cables   []cableBuild
	Segments []int // of each port; -1: none
}

type machineBuild struct {
	Host string
	NICs []NIC
}

// cableBuild is a cable by its ports: two of a link, one of a network's member. The last is the end
// that moves when cables are swapped.
type cableBuild struct {
	Name  string
	Ports []int
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
		return answer{}, fmt.Errorf("reach the lab's process (is the lab still up?): %w", err)
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
		return a, fmt.Errorf("ask the lab's process: %w", err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// dialUnix dials a socket in a folder by a path that is short whatever the folder: a Unix address
// has room for 107 bytes (unix(7)).
func dialUnix(dir, name string) (net.Conn, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return net.Dial("unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), name))
}
