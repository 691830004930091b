package lsp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// This package implements frames and calls itself, in a page of code. The available libraries accept a length
// or header of any size and end the conversation at the first malformed message (sourcegraph/jsonrpc2),
// allocate as much memory as a header claims (creachadair/jrpc2), or depend on a logger and a second JSON
// package (go.lsp.dev/protocol).

// maxFrame limits the size of a message: a file of 4 MiB with every byte escaped.
const maxFrame = 32 << 20

// maxHeader limits the size of the header before a message.
const maxHeader = 4 << 10

// readFrame reads one message. An error ends the conversation, because the next message cannot be found.
func readFrame(r *bufio.Reader) ([]byte, error) {
	length := -1
	for left := maxHeader; ; {
		line, err := readLine(r, &left)
		if err != nil {
			return nil, err
		}
		if line == "" {
			break
		}
		name, value, found := strings.Cut(line, ":")
		if !found {
			return nil, fmt.Errorf("header line %.40q has no colon", line)
		}
		if strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || length < 0 || length > maxFrame {
				return nil, fmt.Errorf("content length %.40q is not from 0 to %d", value, maxFrame)
			}
		}
	}
	if length < 0 {
		return nil, errors.New("a message has no Content-Length")
	}
	var body bytes.Buffer // grows with the received data, not with the claimed length
	if _, err := io.CopyN(&body, r, int64(length)); err != nil {
		return nil, fmt.Errorf("read a message of %d bytes: %w", length, noEOF(err))
	}
	return body.Bytes(), nil
}

// readLine reads a header line without its line end. io.EOF means that the stream ended before the line.
func readLine(r *bufio.Reader, left *int) (string, error) {
	var line []byte
	for {
		c, err := r.ReadByte()
		if errors.Is(err, io.EOF) && len(line) == 0 && *left == maxHeader {
			return "", io.EOF
		}
		if err != nil {
			return "", fmt.Errorf("read a header: %w", noEOF(err))
		}
		if *left--; *left < 0 {
			return "", fmt.Errorf("a header is longer than %d bytes", maxHeader)
		}
		if c == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		line = append(line, c)
	}
}

// noEOF turns io.EOF into io.ErrUnexpectedEOF: the stream ended within a message.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// frameWriter writes whole messages.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (fw *frameWriter) write(message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	fw.mu.Lock()
	defer fw.mu.Unlock()
	if _, err := fmt.Fprintf(fw.w, "Content-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	return nil
}
