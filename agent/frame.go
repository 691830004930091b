package agent

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// magic is the start of the helper's output. Everything before it comes from login shells.
const magic = "\x00fabricform-agent 1\n"

// maxFrame limits the size of a frame. A snapshot of a host with 10,000 routes has about 2 MiB. With decode.Most, it keeps
// the memory that one host can take below 64 MiB: a frame and its result are there together, and the garbage collector
// lets memory double.
const maxFrame = 10 << 20

// maxResult leaves room for the rest of a frame.
const maxResult = maxFrame - 1<<10

// atOnce is how much memory a frame gets before its bytes arrive, so that a length alone takes none.
const atOnce = 1 << 20

// maxNoise limits how much output is skipped before magic.
const maxNoise = 256 << 10

// frame is one message in either direction. A frame without a method and an ID is a heartbeat.
type frame struct {
	ID     uint64          `json:"id,omitempty"`
	Method string          `json:"method,omitempty"` // set on requests
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
	Hello  *Hello          `json:"hello,omitempty"` // the helper's first frame
}

// Hello describes the helper.
type Hello struct {
	Version string `json:"version"` // build id; must equal the client's
}

// Error is a request's failure, as the host reports it.
type Error struct {
	Message string `json:"message"`
	Stale   bool   `json:"stale,omitempty"` // the host changed since the plan was made
	Held    bool   `json:"held,omitempty"`  // another transaction is open on the host
	Stuck   bool   `json:"stuck,omitempty"` // a step did not end in time and may still be running
}

func (e *Error) Error() string { return e.Message }

// maxMessage limits an error's text, which is printed.
const maxMessage = 16 << 10

// limited returns the error with a message of limited length.
func (e *Error) limited() *Error {
	out := *e
	out.Message = clip(e.Message, maxMessage)
	return &out
}

// clip shortens a text, and says so.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(s[:most], ""), len(s)-most)
}

// frameWriter writes whole frames; safe for concurrent use.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (fw *frameWriter) write(f frame) error {
	body, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	if len(body) > maxFrame {
		return fmt.Errorf("encode frame: %d bytes exceed the limit of %d", len(body), maxFrame)
	}
	buf := make([]byte, 4+len(body))
	binary.BigEndian.PutUint32(buf, uint32(len(body)))
	copy(buf[4:], body)
	fw.mu.Lock()
	defer fw.mu.Unlock()
	_, err = fw.w.Write(buf)
	return err
}

// readFrame reads one frame.
func readFrame(r *bufio.Reader) (frame, error) {
	var f frame
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return f, fmt.Errorf("frame of %d bytes exceeds the limit of %d", n, maxFrame)
	}
	body := make([]byte, min(n, atOnce))
	_, err := io.ReadFull(r, body)
	if err == nil && n > atOnce {
		whole := make([]byte, n)
		copy(whole, body)
		body = whole
		_, err = io.ReadFull(r, body[atOnce:])
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(body, &f); err != nil {
		return f, fmt.Errorf("decode frame: %w", err)
	}
	return f, nil
}

// skipToMagic skips output up to and including magic, and returns the end of the skipped output.
func skipToMagic(r *bufio.Reader) (noise string, err error) {
	var seen []byte
	for len(seen) < maxNoise {
		b, err := r.ReadByte()
		if err != nil {
			return tail(seen), err
		}
		seen = append(seen, b)
		if n := len(seen) - len(magic); n >= 0 && string(seen[n:]) == magic {
			return tail(seen[:n]), nil
		}
	}
	return tail(seen), errors.New("no helper answered within 256 KiB of output")
}

// tail returns the last 2 KiB, with control characters replaced.
func tail(b []byte) string {
	if len(b) > 2048 {
		b = b[len(b)-2048:]
	}
	out := make([]rune, 0, len(b))
	for _, r := range string(b) {
		if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			r = '\uFFFD'
		}
		out = append(out, r)
	}
	return string(out)
}
