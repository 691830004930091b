package apply

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// memory keeps a plan of many hosts small. The answers wait for the planner compressed, because ten thousand decoded ones would fill
// memory; and what they leave behind is limited until the garbage collector runs. Collecting often costs processor time, above
// all while little is in use; collecting seldom costs memory.
type memory struct {
	fixed   bool // the operator chose a limit (GOGC or GOMEMLIMIT of Go's runtime)
	answers atomic.Int64
	mu      sync.Mutex // guards those below
	percent int        // the limit, as Go's runtime has it
	// These are made once: packer takes a megabyte.
	packer *flate.Writer
	packed bytes.Buffer
	reader io.ReadCloser
}

func newMemory() *memory {
	return &memory{percent: 100, fixed: os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != ""}
}

// pack returns an answer for unpack.
func (m *memory) pack(answer json.RawMessage) ([]byte, error) {
	m.tidy()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.packed.Reset()
	if m.packer == nil {
		m.packer, _ = flate.NewWriter(nil, flate.BestSpeed) // fails for a wrong level only
	}
	m.packer.Reset(&m.packed)
	if _, err := m.packer.Write(answer); err != nil {
		return nil, fmt.Errorf("compress the answer: %w", err)
	}
	if err := m.packer.Close(); err != nil {
		return nil, fmt.Errorf("compress the answer: %w", err)
	}
	return bytes.Clone(m.packed.Bytes()), nil
}

// unpack returns the answer that pack compressed.
func (m *memory) unpack(packed []byte) (json.RawMessage, error) {
	m.tidy()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reader == nil {
		m.reader = flate.NewReader(nil)
	}
	err := m.reader.(flate.Resetter).Reset(bytes.NewReader(packed), nil)
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(m.reader)
	}
	if err != nil {
		return nil, fmt.Errorf("decompress the answer: %w", err)
	}
	return answer, nil
}

// tidy adjusts the limit now and then while hosts are read and planned.
func (m *memory) tidy() {
	const often = 64 // answers, which leave some 10 MB behind
	if m.fixed || m.answers.Add(1)%often != 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	live := heap.NextGC * 100 / uint64(100+m.percent) // and the stacks
	m.percent = garbagePercent(live)
	debug.SetGCPercent(m.percent)
}

// garbagePercent returns how much garbage there may be, in percent of what is in use: twice that, but together no more than 44 MiB
// while this leaves a fifth.
func garbagePercent(live uint64) int {
	const together = 44 << 20
	live = max(live, 1)
	return int(min(max(together*100/live, 120), 300)) - 100
}
