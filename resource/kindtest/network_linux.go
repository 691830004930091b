package kindtest

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const inOwnNetwork = "FABRICFORM_TEST_IN_OWN_NETWORK"

// OwnNetwork is TestMain's m.Run for tests that change a real host, and returns its exit status. Root's tests run in a
// network namespace of the process: a test enters a namespace with its thread only, and what the tested code does on
// another thread would change the machine's own network.
func OwnNetwork(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run()
	}
	if err := enter(); err != nil {
		fmt.Fprintln(os.Stderr, "run the tests in a network of their own:", err)
		return 1
	}
	return m.Run()
}

// enter starts the process again from a thread in a new namespace, and returns in that process.
func enter() error {
	if os.Getenv(inOwnNetwork) == "" {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), inOwnNetwork+"=1"))
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}
