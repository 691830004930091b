package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/resource"
)

// allowances are what plans may do that they otherwise refuse.
type allowances []string

// What can be allowed.
const (
	allowManagement   = "management" // the path of the operator's own connection is changed
	allowDriverReload = "driver-reload"
	allowReboot       = "reboot"
)

func (w *allowances) flag(c *cobra.Command) {
	c.Flags().StringSliceVar((*[]string)(w), "allow", nil, "allow what is refused otherwise: "+
		allowManagement+" (the path of your own connection is changed: new first, proven by a new connection, then old), "+
		allowDriverReload+" (RDMA and the links of its cards are gone for a while), "+allowReboot+" (which includes it)")
}

func (w allowances) check() error {
	known := []string{allowManagement, allowDriverReload, allowReboot}
	for _, what := range w {
		if !slices.Contains(known, what) {
			return fmt.Errorf("-allow %s: there are %s", what, strings.Join(known, ", "))
		}
	}
	return nil
}

func (w allowances) management() bool { return slices.Contains(w, allowManagement) }

// worst is the worst disruption that may be made.
func (w allowances) worst() resource.Disruption {
	switch {
	case slices.Contains(w, allowReboot):
		return resource.Reboot
	case slices.Contains(w, allowDriverReload):
		return resource.DriverReload
	}
	return resource.LinkFlap
}
