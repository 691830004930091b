package vm

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/fabricform/fabricform/lab/site"
)

// bench is a switchboard with the guests' ends of its sockets.
type bench struct {
	t     *testing.T
	board *switchboard
	ends  []net.Conn
}

func newBench(t *testing.T, segmentOf ...int) *bench {
	return newBenchOf(t, func(*switchboard) {}, segmentOf...)
}

// newBenchOf is a bench whose cables are prepared before the guests are connected.
func newBenchOf(t *testing.T, prepare func(*switchboard), segmentOf ...int) *bench {
	b := &bench{t: t, board: newSwitchboard(segmentOf)}
	prepare(b.board)
	for i := range segmentOf {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close(); ours.Close() })
		b.ends = append(b.ends, theirs)
		go func() { _ = b.board.serve(i, ours) }()
	}
	for {
		b.board.mu.Lock()
		ready := true
		for _, p := range b.board.ports {
			ready = ready && p.conn != nil
		}
		b.board.mu.Unlock()
		if ready {
			return b
		}
		time.Sleep(time.Millisecond)
	}
}

// frame is from one station to another; 0xff is everybody.
func frame(to, from byte) []byte {
	f := make([]byte, 60)
	for i := range 6 {
		f[i] = 0xff
	}
	if to != 0xff {
		copy(f, []byte{2, 0, 0, 0, 0, to})
	}
	copy(f[6:], []byte{2, 0, 0, 0, 0, from})
	return f
}

func (b *bench) send(i int, f []byte) {
	b.t.Helper()
	if _, err := b.ends[i].Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(f))), f...)); err != nil {
		b.t.Fatal(err)
	}
}

// hears says whether a frame comes to a guest: within a short time, where none is expected.
func (b *bench) hears(i int, expected bool) bool {
	b.t.Helper()
	patience := 60 * time.Millisecond
	if expected {
		patience = 10 * time.Second
	}
	_ = b.ends[i].SetReadDeadline(time.Now().Add(patience))
	got, err := readFrame(b.ends[i])
	return err == nil && len(got) == 60
}

func (b *bench) want(to, from byte, sender int, hear ...bool) {
	b.t.Helper()
	b.send(sender, frame(to, from))
	for i, want := range hear {
		if got := b.hears(i, want); got != want {
			b.t.Errorf("frame %x from %x: port %d hears: %v, want %v", to, from, i, got, want)
		}
	}
}

func TestASwitchLearnsAndCablesStayApart(t *testing.T) {
	b := newBench(t, 0, 0, 0, 1, 1, -1)
	b.want(0xff, 1, 0, false, true, true, false, false, false)
	b.want(1, 2, 1, true, false, false, false, false, false) // 1 is known to be at port 0
	b.want(9, 2, 1, true, false, true, false, false, false)  // nobody knows 9
	b.want(0xff, 4, 3, false, false, false, false, true, false)
	b.want(0xff, 5, 5, false, false, false, false, false, false)
}

func TestFaultsOfACable(t *testing.T) {
	b := newBench(t, 0, 0, 1, 1)
	b.board.fault(1, site.Fault{Cut: true})
	b.want(0xff, 1, 0, false, false, false, false)
	b.want(0xff, 2, 1, false, false, false, false)
	b.board.fault(1, site.Fault{Distance: site.Distance{Loss: 100}})
	b.want(0xff, 1, 0, false, false, false, false)
	b.board.fault(1, site.Fault{})
	b.want(0xff, 1, 0, false, true, false, false)

	b.board.exchange(1, 3)
	b.want(0xff, 1, 0, false, false, false, true)
	b.board.exchange(1, 3)
	b.want(0xff, 1, 0, false, true, false, false)

	b.board.fault(1, site.Fault{Distance: site.Distance{Delay: 100 * time.Millisecond}})
	start := time.Now()
	b.want(0xff, 1, 0, false, true, false, false)
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("a delayed frame took %s", took)
	}
}

// TestALongCableStaysLong: a repaired fault does not shorten it, jitter does not change the order, and what is under way is not dropped.
func TestALongCableStaysLong(t *testing.T) {
	b := newBenchOf(t, func(board *switchboard) {
		board.lengthen(1, site.Distance{Delay: 200 * time.Millisecond, Jitter: 190 * time.Millisecond})
	}, 0, 0)
	b.board.fault(1, site.Fault{Distance: site.Distance{Delay: 100 * time.Millisecond}})
	b.board.fault(1, site.Fault{})
	const frames = queueFrames + 100
	start := time.Now()
	go func() {
		for i := range frames {
			f := frame(0xff, 1)
			binary.BigEndian.PutUint32(f[14:], uint32(i))
			if _, err := b.ends[0].Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(f))), f...)); err != nil {
				return // the reader reports what is missing
			}
		}
	}()
	for i := range frames {
		_ = b.ends[1].SetReadDeadline(time.Now().Add(10 * time.Second))
		got, err := readFrame(b.ends[1])
		if err != nil || binary.BigEndian.Uint32(got[14:]) != uint32(i) {
			t.Fatalf("frame %d: %v %x", i, err, got)
		}
	}
	if took := time.Since(start); took < 10*time.Millisecond {
		t.Errorf("all frames took %s", took)
	}
}

func TestASlowCableTakesItsTime(t *testing.T) {
	b := newBench(t, 0, 0)
	b.board.fault(1, site.Fault{Gbps: 0.00001}) // 60 bytes take 48 ms
	start := time.Now()
	for range 3 {
		b.send(0, frame(0xff, 1))
	}
	for range 3 {
		if _, err := readFrame(b.ends[1]); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took < 140*time.Millisecond {
		t.Errorf("three frames took %s", took)
	}
}

func TestAFrameTooLargeEndsTheSocket(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() { _, _ = theirs.Write([]byte{0xff, 0xff, 0xff, 0xff}) }()
	if err := newSwitchboard([]int{0}).serve(0, ours); err == nil || errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}
