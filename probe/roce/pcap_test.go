package roce

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestCaptureSurvivesWritingAndReading(t *testing.T) {
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
	r, err := NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Record{{at, 4, []byte("abcd")}, {at.Add(time.Second), 9000, long[:64]}, {at, 0, nil}} {
		got, err := r.Next()
		if err != nil || !got.Time.Equal(want.Time) || got.Length != want.Length || !bytes.Equal(got.Frame, want.Frame) {
			t.Errorf("got %+v %v, want %+v", got, err, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// head is a capture's, with one record of 2 bytes at 1 s and 5 units.
func head(order binary.AppendByteOrder, magic, link uint32) []byte {
	b := order.AppendUint32(nil, magic)
	b = append(b, make([]byte, 16)...)
	b = order.AppendUint32(b, link)
	for _, v := range []uint32{1, 5, 2, 60} {
		b = order.AppendUint32(b, v)
	}
	return append(b, 'h', 'i')
}

func TestReaderKnowsBothByteOrdersAndResolutions(t *testing.T) {
	for magic, unit := range map[uint32]time.Duration{magicMicro: time.Microsecond, magicNano: 1} {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			r, err := NewReader(bytes.NewReader(head(order, magic, 1)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Next()
			if err != nil || !got.Time.Equal(time.Unix(1, 0).Add(5*unit)) || got.Length != 60 || string(got.Frame) != "hi" {
				t.Errorf("%+v %v", got, err)
			}
		}
	}
}

func TestReaderRefusesWhatItCannotRead(t *testing.T) {
	good := head(binary.LittleEndian, magicNano, 1)
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint32(huge[24+8:], 1<<31)
	for _, c := range []struct {
		file []byte
		want string
	}{
		{nil, "EOF"}, {good[:20], "EOF"}, {[]byte(strings.Repeat("x", 24)), "magic"}, {head(binary.LittleEndian, magicNano, 113), "link type 0x71"},
		{good[:len(good)-1], "unexpected EOF"}, {good[:24+7], "unexpected EOF"}, {huge, "2147483648 bytes"}, {good[:40], "unexpected EOF"},
	} {
		r, err := NewReader(bytes.NewReader(c.file))
		if err == nil {
			_, err = r.Next()
		}
		if err == nil || errors.Is(err, io.EOF) && len(c.file) > 24 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.want, err)
		}
	}
	for _, n := range []int{0, -1, maxFrame + 1} {
		if _, err := NewWriter(io.Discard, n); err == nil {
			t.Errorf("a snap length of %d", n)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(head(binary.LittleEndian, magicNano, 1))
	f.Add(head(binary.BigEndian, magicMicro, 1))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file))
		for n := 0; err == nil; n++ {
			var got Record
			got, err = r.Next()
			if len(got.Frame) > len(file) || n > len(file) {
				t.Fatal("more than there is")
			}
		}
	})
}
