package transport

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Between a command and a keeper, a frame is a byte for its kind, four bytes for the length, and the content.
const (
	frameJSON    = 'j' // a keepRequest, or the keepAnswer to it
	frameData    = 'd' // of a channel: input or output
	frameErrors  = 'x' // error output
	frameEnd     = 'e' // no more data comes
	frameRequest = 'q' // a channelRequest
	frameReply   = 'r' // to a channelRequest: one byte, 1 for success
	frameStill   = 's' // nothing: the keeper learns from writing it whether the command is still there
)

// The longest contents, in bytes: of JSON, which lists up to maxKept connections, and of the others.
const (
	maxJSONFrame = 8 << 20
	maxFrame     = 64 << 10
)

// channelRequest is a request on an SSH channel, such as exec or exit-status.
type channelRequest struct {
	Type      string
	WantReply bool
	Payload   []byte
}

// socket is one connection between a command and a keeper. Writes are safe for concurrent use.
type socket struct {
	*net.UnixConn
	r  *bufio.Reader
	mu sync.Mutex
}

func newSocket(c *net.UnixConn) *socket { return &socket{UnixConn: c, r: bufio.NewReader(c)} }

// write writes one frame.
func (s *socket) write(kind byte, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	frame := append(make([]byte, 0, 5+len(content)), kind)
	frame = append(binary.BigEndian.AppendUint32(frame, uint32(len(content))), content...)
	_, err := s.Write(frame)
	return err
}

// writeData writes data in frames of at most maxFrame bytes.
func (s *socket) writeData(kind byte, data []byte) (written int, err error) {
	for written < len(data) {
		part := data[written:min(len(data), written+maxFrame)]
		if err := s.write(kind, part); err != nil {
			return written, err
		}
		written += len(part)
	}
	return written, nil
}

// writeJSON writes a request or an answer.
func (s *socket) writeJSON(v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(content) > maxJSONFrame {
		return errors.New("the message is too long")
	}
	return s.write(frameJSON, content)
}

// readJSON reads a request or an answer, which must come within a time.
func (s *socket) readJSON(v any, within time.Duration) error {
	if err := s.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	kind, content, err := readFrame(s.r)
	if err != nil {
		return err
	}
	if kind != frameJSON {
		return fmt.Errorf("unexpected frame of kind %q", kind)
	}
	if err := json.Unmarshal(content, v); err != nil {
		return err
	}
	return s.SetReadDeadline(time.Time{})
}

// readFrame reads one frame. It takes no more memory than what has arrived needs.
func readFrame(r io.Reader) (kind byte, content []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	kind, length := head[0], int64(binary.BigEndian.Uint32(head[1:]))
	limit := int64(maxFrame)
	switch kind {
	case frameJSON:
		limit = maxJSONFrame
	case frameData, frameErrors, frameEnd, frameRequest, frameReply, frameStill:
	default:
		return 0, nil, fmt.Errorf("unknown frame of kind %q", kind)
	}
	if length > limit {
		return 0, nil, fmt.Errorf("a frame of %d bytes is too long", length)
	}
	if length <= maxFrame {
		content = make([]byte, length)
		_, err := io.ReadFull(r, content)
		if errors.Is(err, io.EOF) && length > 0 {
			err = io.ErrUnexpectedEOF
		}
		return kind, content, err
	}
	var all bytes.Buffer
	if _, err := io.CopyN(&all, r, length); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return kind, all.Bytes(), nil
}
