package site

import (
	"strings"
	"testing"
	"time"
)

func TestFaultsAreReadAsPeopleWriteThem(t *testing.T) {
	for s, want := range map[string]Fault{
		"none": {}, "cut": {Cut: true}, "swap=rail1": {Swap: "rail1"}, "limit=100mbit": {Gbps: 0.1}, "limit=2.5gbit": {Gbps: 2.5},
		"delay=20ms": {Distance: Distance{Delay: 20 * time.Millisecond}}, "loss=0.1%": {Distance: Distance{Loss: 0.1}}, "loss=1": {Distance: Distance{Loss: 1}},
		"jitter=2ms": {Distance: Distance{Jitter: 2 * time.Millisecond}}, "delay=50ms,loss=1%": {Distance: Distance{Delay: 50 * time.Millisecond, Loss: 1}},
		"remark=0": {Remark: true}, "remark=46": {Remark: true, DSCP: 46}, "pause=5": {Pause: true, Priority: 5}, "no-vlan=200": {NoVLAN: 200},
	} {
		if got, err := ParseFault(s); err != nil || got != want {
			t.Errorf("%s: %+v %v", s, got, err)
		}
	}
	for _, s := range []string{"", "cut=1x", "swap", "swap=", "limit=5", "limit=-1gbit", "limit=NaNgbit", "delay=-1s", "delay=1h", "loss=NaN", "loss=101", "chew", "jitter=0", "delay=5ms,cut", "delay=5ms,none", "delay=5ms,", ",", "loss=1,limit=5mbit",
		"remark", "remark=64", "remark=-1", "remark=AF41", "pause", "pause=8", "no-vlan", "no-vlan=0", "no-vlan=4095", "no-vlan=200,cut"} {
		if f, err := ParseFault(s); err == nil {
			t.Errorf("%q is taken for %+v", s, f)
		}
	}
	for _, word := range FaultWords {
		if _, err := ParseFault(word); err != nil && strings.HasPrefix(err.Error(), "unknown fault") && word != "swap=" {
			t.Errorf("%s is not a fault", word)
		}
		if _, err := ParseFault("chew"); !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not name %s: %v", word, err)
		}
	}
}
