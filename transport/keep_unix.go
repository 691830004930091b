//go:build linux || darwin

package transport

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// keepSupported returns an error where connections cannot be kept.
func keepSupported() error { return nil }

// ownerOf returns the user ID of a file's owner, or -1 if it is not known.
func ownerOf(info fs.FileInfo) int {
	if s, is := info.Sys().(*syscall.Stat_t); is {
		return int(s.Uid)
	}
	return -1
}

// checkPeer returns an error unless the process at the other end of a socket belongs to this user.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	uid := -1
	var failed error
	if err := raw.Control(func(fd uintptr) { uid, failed = peerUID(int(fd)) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("ask who is at the other end: %w", failed)
	}
	return isOwn(uid)
}

// isOwn returns an error unless a process with that user ID may use kept connections.
func isOwn(uid int) error {
	if uid != os.Geteuid() {
		return fmt.Errorf("the process at the other end belongs to user ID %d, not to you (%d)", uid, os.Geteuid())
	}
	return nil
}
