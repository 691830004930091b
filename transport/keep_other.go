//go:build !linux && !darwin

package transport

import (
	"errors"
	"io/fs"
	"net"
)

// keepSupported refuses, because nothing here says which user is at the other end of a socket.
func keepSupported() error {
	return errors.New("connections can be kept only on Linux and macOS, where a socket tells whose process is at its other end")
}

func ownerOf(fs.FileInfo) int { return -1 }

func checkPeer(*net.UnixConn) error { return keepSupported() }

// networkNamespace returns "": a process has no choice of networks here.
func networkNamespace() string { return "" }
