package transport

import (
	"os"

	"golang.org/x/sys/unix"
)

// networkNamespace identifies the network of this process (network_namespaces(7)): the same address may be another host in another one.
func networkNamespace() string {
	name, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return "unknown: " + err.Error()
	}
	return name
}

// peerUID returns the user ID of the process that made the other end of a socket (unix(7), SO_PEERCRED).
func peerUID(fd int) (int, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(c.Uid), nil
}
