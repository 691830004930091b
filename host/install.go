package host

import (
	"github.com/fabricform/fabricform/host/file"
)

// Command is a program that changes the machine: a package manager, an installer.
type Command struct {
	Name  string   `json:"name"` // a program in the system's folders, or a path below our own folder
	Args  []string `json:"args,omitempty"`
	Stdin string   `json:"stdin,omitempty"`
	Env   []string `json:"env,omitempty"` // added to a minimal environment
}

// Folders for the installation of driver stacks. BundleDir holds a vendor's bundle from its complete upload until it
// is installed.
const (
	StackDir  = file.StateDir + "/stack"
	BundleDir = StackDir + "/bundles"
)
