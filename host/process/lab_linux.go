package process

import "os"

// initialPIDNamespace is the name of the machine's own process namespace (PROC_PID_INIT_INO in the kernel's
// include/linux/proc_ns.h).
const initialPIDNamespace = "pid:[4026531836]"

// InLab reports whether this program runs in process or network namespaces other than the machine's. If that is
// unknown, it returns true, so that the machine is not changed.
func InLab() bool {
	if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != initialPIDNamespace {
		return true
	}
	mine, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return true
	}
	first, err := os.Readlink("/proc/1/ns/net")
	return err != nil || mine != first
}
