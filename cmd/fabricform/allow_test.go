package main

import (
	"testing"

	"github.com/fabricform/fabricform/resource"
)

func TestAllowances(t *testing.T) {
	if err := (allowances{"everything"}).check(); err == nil {
		t.Error("anything may be allowed")
	}
	for worst, w := range map[resource.Disruption]allowances{
		resource.LinkFlap:     {allowManagement},
		resource.DriverReload: {allowDriverReload},
		resource.Reboot:       {allowDriverReload, allowReboot},
	} {
		if got := w.worst(); got != worst {
			t.Errorf("%v allows a %s", w, got)
		}
	}
}
