package apply

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestGarbageShrinksAsMemoryFills(t *testing.T) {
	for live, want := range map[uint64]int{0: 200, 4 << 20: 200, 22 << 20: 100, 33 << 20: 33, 40 << 20: 20, 1 << 40: 20} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d MiB in use: %d %%, not %d", live>>20, got, want)
		}
	}
}

func TestAnswersWaitCompressed(t *testing.T) {
	m := newMemory()
	first := json.RawMessage(`{"snapshot":` + strings.Repeat(`{"name":"eth0"},`, 1000) + `}`)
	for _, answer := range []json.RawMessage{first, nil, json.RawMessage(`7`), first} {
		packed, err := m.pack(answer)
		if err != nil {
			t.Fatal(err)
		}
		if len(packed) > 1000 {
			t.Errorf("%d bytes take %d", len(answer), len(packed))
		}
		if back, err := m.unpack(packed); err != nil || !bytes.Equal(back, answer) {
			t.Errorf("%v: %.80q came back as %.80q", err, answer, back)
		}
	}
	if _, err := m.unpack([]byte("x")); err == nil {
		t.Error("what was not packed is unpacked")
	}
}
