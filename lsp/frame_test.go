package lsp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	fw := &frameWriter{w: &b}
	for range 2 {
		if err := fw.write(message{JSONRPC: "2.0", Method: "字"}); err != nil {
			t.Fatal(err)
		}
	}
	r := bufio.NewReader(&b)
	for range 2 {
		if body, err := readFrame(r); err != nil || string(body) != `{"jsonrpc":"2.0","method":"字"}` {
			t.Fatalf("%s %v", body, err)
		}
	}
	if _, err := readFrame(r); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

func TestFramesOfOthers(t *testing.T) {
	for in, want := range map[string]string{
		"content-length:2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n{}": "",
		"Content-Length: 2\n\n{}":                  "",
		"Content-Length: 0\r\n\r\n":                "",
		"Content-Length: 3\r\n\r\n{}":              "unexpected EOF",
		"Content-Length: -1\r\n\r\n":               "not from 0",
		"Content-Length: 99999999999999\r\n\r\n{}": "not from 0",
		"Content-Length: x\r\n\r\n":                "not from 0",
		"Content-Type: x\r\n\r\n{}":                "no Content-Length",
		"GET / HTTP/1.1\r\n\r\n":                   "no colon",
		"Content-Le":                               "unexpected EOF",
		strings.Repeat("x", 2*maxHeader):           "longer than",
		strings.Repeat("x: y\r\n", maxHeader):      "longer than",
	} {
		_, err := readFrame(bufio.NewReader(strings.NewReader(in)))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v", in, err)
		}
	}
}

// FuzzFrame: whatever comes, the reader ends, and holds no more than what came.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}Content-Length: 2\r\n\r\n[]"))
	f.Add([]byte("Content-Length: 33554432\r\n\r\n{"))
	f.Add([]byte(": \n\nContent-Length:\r\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReader(bytes.NewReader(in))
		for {
			body, err := readFrame(r)
			if len(body) > len(in) {
				t.Fatalf("%d bytes of %d", len(body), len(in))
			}
			if err != nil {
				return
			}
		}
	})
}
