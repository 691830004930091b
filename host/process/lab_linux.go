package process

import "os"

// initialPIDNamespace is the name of the first process namespace (PROC_PID_INIT_INO in the
// kernel's include/linux/proc_ns.h).
const initialPIDNamespace = "pid:[4026531836]"

// InLab says whether this program runs in process or network namespaces other than the machine's.
// Where that cannot be told, the answer is yes: the machine's own powers are then withheld.
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
