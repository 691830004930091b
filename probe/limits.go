package probe

import "time"

// The limits that a host itself sets to calls, whatever the request says. The caller must wait longer.
const (
	MeasurementLimit = 10 * time.Minute
	LoginsLimit      = 8 * time.Minute // all logins of TryLogins
	LookLimit        = 3 * time.Minute // Python loads torch: from a cold network file system, this takes minutes
	StartLimit       = time.Minute     // one of the four programs of InspectLaunch starts
)
