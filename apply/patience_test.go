package apply

import (
	"testing"
	"time"

	"github.com/fabricform/fabricform/probe"
)

// TestHostsEndTheirCallsFirst: a host that is silent for longer than a call may take is given up, so each limit that a host sets
// itself must be shorter.
func TestHostsEndTheirCallsFirst(t *testing.T) {
	for method, limit := range map[string]time.Duration{
		string(probe.TryLogins):         probe.LoginsLimit,
		string(probe.InspectCollective): probe.LookLimit,
		string(probe.InspectLaunch):     4 * probe.StartLimit,
		string(probe.SendTCP):           probe.MeasurementLimit,
		string(probe.CollectTCP):        probe.MeasurementLimit,
		string(probe.RunCollective):     probe.MeasurementLimit,
		string(probe.Launch):            probe.MeasurementLimit + probe.GoneWithin,
		string(probe.TendRanks):         probe.MeasurementLimit + probe.GoneWithin,
		string(probe.ServeVerbs):        probe.MeasurementLimit,
		string(probe.RunVerbs):          probe.MeasurementLimit,
		string(probe.CollectVerbs):      probe.MeasurementLimit,
	} {
		if waits := patience(nil, method, nil); waits <= limit {
			t.Errorf("%s: the caller waits %s, and the host works up to %s", method, waits, limit)
		}
	}
}
