package facts

import "testing"

func TestActiveMTU(t *testing.T) {
	for mtu, want := range map[int]int{9000: 4096, 4192: 4096, 4191: 2048, 2144: 2048, 1500: 1024, 200: 0} {
		if got := ActiveMTU(mtu); got != want {
			t.Errorf("%d: %d, want %d", mtu, got, want)
		}
	}
}
