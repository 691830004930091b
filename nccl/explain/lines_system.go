package explain

import (
	"slices"
	"strings"
)

// ownFault is an exception of Python that comes from the program itself. Beside NCCL's error code it may only be what followed.
var ownFault = &meaning{role: symptom, vague: true, summary: "The program failed by itself", costs: "Python ended it with an exception of the program or of a library, and not of NCCL. Other ranks then wait, or lose their connections.", more: explainPython,
	instead: "Read the last lines of the traceback: they name the place. " + inProgram,
	forms: []string{"ModuleNotFoundError: ", "ImportError: ", "FileNotFoundError: ", "KeyError: ", "TypeError: ", "AttributeError: module", "IndexError: ", "NameError: ", "UnboundLocalError: ", "SyntaxError: ", "ValueError: ", "AssertionError: ", "NotImplementedError: ", "JSONDecodeError: ",
		"Error(s) in loading state_dict", "shapes cannot be multiplied", "The size of tensor a (", "Expected all tensors to be on the same device", "does not require grad"}}

// systemMeanings are exceptions of Python, and the words of the C library and of Python for errors of the system, in a line of any program.
// They come last: each more special form counts before them, and what they report is an error only if the log has no other.
var systemMeanings = []*meaning{
	ownFault,
	{role: symptom, vague: true, summary: "A connection was refused", costs: "Nothing listens at that address and port: the process there has not started or has ended, or listens at another address, or a firewall rejects the connection.",
		instead: "Read the log of the process that should listen there, and see it with ss -ltn on its host. In Kubernetes and Docker compare the address with that of the pod or container. Then open the TCP ports in firewalls.",
		forms:   []string{"onnection refused", "onnect refused", "Errno 111]"}},
	{role: symptom, vague: true, summary: "An address cannot be reached", costs: "This host has no way to that address, or a firewall rejects the connection: the two are in networks that are not joined, or the other host is down.", instead: "Check the address, the interface that it belongs to, and the route: ip route get ADDRESS, ping.",
		forms: []string{"o route to host", "etwork is unreachable", "Errno 113]", "Errno 101]"}},
	{role: symptom, vague: true, summary: "A connection timed out", costs: "Nobody answered at that address: a firewall drops the packets, the address is not reached from here, or the process there hangs.", instead: "Check the address, and open the hosts' TCP ports for each other in firewalls.",
		forms: []string{"onnection timed out", "Errno 110]"}},
	{role: symptom, vague: true, summary: "A file system is full", costs: "A disk, a quota or /dev/shm has no room left.", instead: "See df -h and df -i on that host and in the container, for /dev/shm, /tmp and the directories of caches and checkpoints.",
		forms: []string{"o space left on device", "isk quota exceeded"}},
	{role: symptom, vague: true, summary: "The system has no memory for a call", costs: "The host, the container's cgroup or a limit of the process (ulimit -v, -l) has no memory left. From a call of RDMA, its queue may also be full.", instead: "Check free memory, the job's memory limit, ulimit -l, and dmesg for the OOM killer.", forms: []string{"annot allocate memory", "MemoryError"}},
	{role: symptom, vague: true, summary: "The system forbids a call", costs: "The permissions of a file or device, or a security profile (seccomp, SELinux, AppArmor), forbid it to this user.", instead: "The line names the file or call. Compare the user and its groups with the permissions (ls -l); in a container see which devices and capabilities it has.",
		forms: []string{"Permission denied"}},
}

// explainPython says more of exceptions whose kind tells what is wrong.
func explainPython(_ *logged, m string) (summary, costs, instead string) {
	switch {
	case strings.Contains(m, "ModuleNotFoundError: "):
		return "A Python module is missing", "The Python that runs the program does not have the module.", "Install it in the environment that the launcher uses, on every host and in the container; which python shows whether it is another one."
	case strings.Contains(m, "ImportError: "), strings.Contains(m, "unexpected keyword argument"), strings.Contains(m, "has no attribute"):
		return "The program does not fit a library", "A library has not what the program asks of it: mostly it has another version than the program was written for.", "Compare the versions (pip list) with those that the program asks for, and install these on every host. " + inProgram
	case strings.Contains(m, "FileNotFoundError: "):
		return "A file is missing", "The path does not exist on this host or in this container.", "Correct the path. With several hosts, the file must be on each of them, or in a file system that all have."
	}
	return "", "", ""
}

// followsNCCL reports whether an exception of Python may only follow from an error of NCCL that the log shows.
func (l *logged) followsNCCL(r *report) bool {
	return r.of == ownFault && slices.ContainsFunc(l.inOrder, func(r *report) bool { return r.of.role == code })
}
