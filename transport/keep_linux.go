package transport

import "golang.org/x/sys/unix"

// peerUID returns the user ID of the process that made the other end of a socket (unix(7), SO_PEERCRED).
func peerUID(fd int) (int, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(c.Uid), nil
}
