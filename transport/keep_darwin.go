package transport

import "golang.org/x/sys/unix"

// peerUID returns the user ID of the process that made the other end of a socket (unix(4) of macOS, LOCAL_PEERCRED).
func peerUID(fd int) (int, error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(c.Uid), nil
}

// networkNamespace returns "": a process has no choice of networks here.
func networkNamespace() string { return "" }
