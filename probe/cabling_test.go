package probe

import "testing"

// TestAnswersOfAListeningAreBounded: a host that answers more than a listening keeps is not believed, and costs no time.
func TestAnswersOfAListeningAreBounded(t *testing.T) {
	probes, others := make([]CablingProbe, maxCablingProbes), make([]CablingOther, maxCablingOthers)
	for name, c := range map[string]struct {
		h    CablingHeard
		fine bool
	}{
		"as much as is kept": {CablingHeard{Probes: probes, Others: others}, true},
		"too many probes":    {CablingHeard{Probes: append(probes, CablingProbe{})}, false},
		"too many frames":    {CablingHeard{Others: append(others, CablingOther{})}, false},
		"too large a frame":  {CablingHeard{Others: []CablingOther{{Data: make([]byte, maxCablingFrame+1)}}}, false},
	} {
		if err := c.h.Check(); (err == nil) != c.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
}
