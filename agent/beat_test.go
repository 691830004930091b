package agent

import (
	"testing"
	"time"
)

func TestAProcessThatWasStoppedHeardNoSilence(t *testing.T) {
	const look = beatEvery / 4
	quiet, now := silence{}, time.Duration(0)
	lasts := func(step, heard time.Duration) time.Duration {
		now += step
		return quiet.lasts(now, heard)
	}
	for range 8 {
		lasts(look, now)
	}
	last := now
	if got := lasts(time.Hour, last); got > deadAfter {
		t.Errorf("after a stop of an hour, the silence counts as %s", got)
	}
	if got := lasts(look, now); got > deadAfter/4 {
		t.Errorf("what came while the process was stopped was heard, and the silence still lasts %s", got)
	}
	last = now
	for range int(deadAfter/look) + 2 {
		lasts(look, last)
	}
	if got := quiet.sum; got <= deadAfter {
		t.Errorf("the other side said nothing for %s, and the silence counts as %s", now-last, got)
	}
}
