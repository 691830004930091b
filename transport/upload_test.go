package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pkg/sftp"
)

// TestAnUploadContinues: OpenSSH keeps the beginning that it has, and the rest arrives whole.
func TestAnUploadContinues(t *testing.T) {
	s, c := loggedIn(t)
	content := make([]byte, 3<<20+17)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content) // never fails, by its documentation
	const have = 1<<20 + 5
	s.write("part", string(content[:have])+"torn")
	var sent int64
	err := (&Session{host: "h", conn: c}).Upload(t.Context(), s.path("part"), bytes.NewReader(content), have, int64(len(content)), func(n int64) { sent = n })
	if err != nil || sent != int64(len(content)) {
		t.Fatalf("%d bytes: %v", sent, err)
	}
	if got, err := os.ReadFile(s.path("part")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes differ from %d: %v", len(got), len(content), err)
	}
}

// TestOnlyServersWithLimitsGetLargeWrites: one that does not state that it accepts them may end the connection.
func TestOnlyServersWithLimitsGetLargeWrites(t *testing.T) {
	for extension, want := range map[string]int{"": 32 << 10, "fsync@openssh.com": 32 << 10, "limits@openssh.com": 128 << 10} {
		requests, toServer := io.Pipe()
		answers, fromServer := io.Pipe()
		largest := make(chan int, 1)
		go func() {
			largest <- acceptWrites(requests, fromServer, extension)
			fromServer.Close()
		}()
		files, err := sftp.NewClientPipe(answers, toServer)
		if err == nil {
			err = enlargeWrites(files)
		}
		if err != nil {
			t.Fatal(err)
		}
		to, err := files.OpenFile("/f", os.O_WRONLY|os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := to.ReadFromWithConcurrency(bytes.NewReader(make([]byte, 1<<20+1)), 0); n != 1<<20+1 || err != nil {
			t.Errorf("%q: %d bytes, %v", extension, n, err)
		}
		if err := files.Close(); err != nil {
			t.Error(err)
		}
		if got := <-largest; got != want {
			t.Errorf("%q: a write has %d bytes, want %d", extension, got, want)
		}
	}
}

// acceptWrites is an SFTP server with one extension, which accepts all writes. It returns the size of the largest.
func acceptWrites(r io.Reader, w io.Writer, extension string) (largest int) {
	text := func(s string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }
	for {
		var head [5]byte // length and type
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return largest
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:])-1)
		if _, err := io.ReadFull(r, body); err != nil {
			return largest
		}
		var answer []byte
		switch head[4] {
		case 1: // SSH_FXP_INIT: a version and the extensions
			answer = []byte{2, 0, 0, 0, 3}
			if extension != "" {
				answer = append(append(answer, text(extension)...), text("1")...)
			}
		case 3: // SSH_FXP_OPEN: a handle
			answer = append(append([]byte{102}, body[:4]...), text("h")...)
		default: // SSH_FXP_STATUS with SSH_FX_OK
			answer = append(append([]byte{101}, body[:4]...), make([]byte, 4+4+4)...)
		}
		if head[4] == 6 { // SSH_FXP_WRITE: ID, handle, offset, data
			largest = max(largest, int(binary.BigEndian.Uint32(body[4+5+8:])))
		}
		if _, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)); err != nil {
			return largest
		}
	}
}
