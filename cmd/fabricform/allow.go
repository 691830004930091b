package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/resource"
)

// allowances are the disruptive changes that -allow permits.
type allowances []string

// The values of -allow.
const (
	allowManagement   = "management" // changes to the path of the operator's own connection
	allowDriverReload = "driver-reload"
	allowReboot       = "reboot"
	allowRootLogin    = "root-login" // meshes of the user root
	allowHalfLinks    = "half-links" // changes or rolls back one end of a link whose other end is missing
	allowForeign      = "foreign"    // of rollback: what others changed since
)

// What -allow takes: for a plan, apply or destroy, and for a rollback.
var (
	changeAllowances   = []string{allowManagement, allowDriverReload, allowReboot, allowRootLogin, allowHalfLinks}
	rollbackAllowances = []string{allowForeign, allowHalfLinks, allowRootLogin}
)

func (w *allowances) flag(c *cobra.Command) {
	c.Flags().StringSliceVar((*[]string)(w), "allow", nil, "allow changes that are refused by default: "+
		allowManagement+
		" (changes to the path of your own connection: adds the new path, proves it with a new connection, then removes the old one), "+
		allowDriverReload+" (interrupts RDMA and the links of the driver's cards), "+allowReboot+" (includes "+allowDriverReload+"), "+
		allowRootLogin+" (lets root of each host of a login_mesh log in to the others as root; a saved plan holds this permission), "+
		allowHalfLinks+" (changes one end of a link although the host at the other end is unreachable, "+
		"or changed since the plan was saved; a saved plan does not hold this permission)")
}

func (w allowances) check() error { return w.among(changeAllowances...) }

// among refuses other values than the known ones.
func (w allowances) among(known ...string) error {
	for _, what := range w {
		if err := oneOf("-allow", what, known...); err != nil {
			return err
		}
	}
	return nil
}

func (w allowances) has(what string) bool { return slices.Contains(w, what) }

// worst returns the worst disruption that is allowed.
func (w allowances) worst() resource.Disruption {
	switch {
	case w.has(allowReboot):
		return resource.Reboot
	case w.has(allowDriverReload):
		return resource.DriverReload
	}
	return resource.LinkFlap
}
