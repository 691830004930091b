package roce

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"time"
)

// TestCaptureIsAsReadersExpect reads a written capture as the format's draft describes it.
func TestCaptureIsAsReadersExpect(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, 64)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1764000000, 123456789)
	long := bytes.Repeat([]byte("0123456789"), 10)
	for _, r := range []Record{{at, 4, []byte("abcd")}, {at.Add(time.Second), 9000, long}, {at, 0, nil}} {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	le := binary.LittleEndian
	head := file.Next(24)
	if le.Uint32(head) != 0xa1b23c4d || le.Uint16(head[4:]) != 2 || le.Uint16(head[6:]) != 4 || le.Uint32(head[16:]) != 64 || le.Uint32(head[20:]) != 1 {
		t.Errorf("head: % x", head)
	}
	for _, want := range []Record{{at, 4, []byte("abcd")}, {at.Add(time.Second), 9000, long[:64]}, {at, 0, nil}} {
		record := file.Next(16)
		got := Record{Time: time.Unix(int64(le.Uint32(record)), int64(le.Uint32(record[4:]))), Length: int(le.Uint32(record[12:])), Frame: file.Next(int(le.Uint32(record[8:])))}
		if !got.Time.Equal(want.Time) || got.Length != want.Length || !bytes.Equal(got.Frame, want.Frame) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if file.Len() > 0 {
		t.Errorf("%d bytes after the last record", file.Len())
	}
}

func TestCaptureRefusesASnapLengthThatReadersRefuse(t *testing.T) {
	for _, n := range []int{0, -1, maxFrame + 1} {
		if _, err := NewWriter(io.Discard, n); err == nil {
			t.Errorf("a snap length of %d", n)
		}
	}
}
