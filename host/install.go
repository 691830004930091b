package host

import (
	"github.com/fabricform/fabricform/host/file"
)

// Command is a program that changes the machine: a package manager, an installer.
type Command struct {
	Name  string   `json:"name"` // looked up as Ask does; a path only below our own folder
	Args  []string `json:"args,omitempty"`
	Stdin string   `json:"stdin,omitempty"`
	Env   []string `json:"env,omitempty"` // beside a small environment of our own
}

// Where a driver stack is installed from: of StackDir, BundleDir has a vendor's bundle that is whole, until
// it is installed.
const (
	StackDir  = file.StateDir + "/stack"
	BundleDir = StackDir + "/bundles"
)
