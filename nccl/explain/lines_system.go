package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// raised is the line with which Python ends a traceback, or C++ a program: the exception's class, and what it says.
var raised = pattern{text: `^(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Failure|Timeout)(?:\([\w.]+\))?: \S|Exception: \S)|^what\(\): +\S`}

// ofException stands at the end of a line that says why a program ends.
const ofException = " (an exception)"

// ownFault is an exception of Python that comes from the program itself. Beside NCCL's error code it may only be what followed.
var ownFault = &meaning{role: symptom, vague: true, summary: "The program failed by itself", costs: "Python ended it with an exception of the program or of a library, and not of NCCL. Other ranks then wait, or lose their connections.", more: explainPython,
	instead: "Read the last lines of the traceback: they name the place. Mostly an argument, a file or a version is wrong.",
	forms: []string{"ModuleNotFoundError: ", "ImportError: ", "FileNotFoundError: ", "KeyError: ", "TypeError: ", "AttributeError: module", "AttributeError: partially initialized module", "IndexError: ", "NameError: ", "UnboundLocalError: ", "SyntaxError: ", "ValueError: ", "NotImplementedError: ", "JSONDecodeError: ",
		"Error(s) in loading state_dict", "shapes cannot be multiplied", "The size of tensor a (", "Expected all tensors to be on the same device", "does not require grad"}}

// unknownException is any other exception: what it says is all that is known.
var unknownException = &meaning{role: symptom, vague: true, summary: "The program ended with an exception", costs: "What the line says is the reason that the program or a library gives; it is not one that is known here. Other ranks then wait, or lose their connections.",
	instead: "Read the last lines of the traceback above it: they name the place. If other ranks have other errors, the first in time is the cause.", forms: []string{ofException}}

// systemMeanings are exceptions of Python, and the words of the C library and of Python for errors of the system, in a line of any program.
// They come last: each more special form counts before them, and what they report is an error only if the log has no other.
var systemMeanings = []*meaning{
	ownFault,
	{role: symptom, vague: true, summary: "A file is damaged", costs: "A checkpoint or another file is cut off, or is not what its name says: a download or a write did not end, several ranks write it at once, or it is a pointer of Git LFS.", instead: "Compare its size on all hosts, and fetch or write it again.", forms: []string{"SafetensorError: ", "pickle data was truncated", "PytorchStreamReader failed", "unexpected EOF, expected", "EOFError: Ran out of input"}},
	noSuchProgram,
	{role: symptom, vague: true, summary: "A script needs a variable", costs: "A shell script with set -u stops at a variable that is not set.", instead: "Set the variable that the line names, or install a version of the script or image in which it is mended.", forms: []string{": unbound variable"}},
	{role: symptom, vague: true, summary: "A program refuses its options", costs: "The line names what is missing or not known: it is misspelt, of another version, or the rest of the command was lost, as behind a backslash that is not the last character of its line.", instead: "Compare the command with the program's --help on that host.",
		forms: []string{": error: the following arguments are required", ": error: unrecognized arguments: ", ": error: argument ", "unrecognized option '", "unknown option '"}},
	{role: symptom, vague: true, summary: "A connection was refused", more: zeroconf, costs: "Nothing listens at that address and port: the process there has not started or has ended, or listens at another address, or a firewall rejects the connection.",
		instead: "Read the log of the process that should listen there, and see it with ss -ltn on its host. In Kubernetes and Docker compare the address with that of the pod or container. Then open the TCP ports in firewalls.",
		forms:   []string{"onnection refused", "onnect refused", "Errno 111]"}},
	{role: symptom, vague: true, summary: "An address cannot be reached", more: zeroconf, costs: "This host has no way to that address, or a firewall rejects the connection: the two are in networks that are not joined, or the other host is down.", instead: "Check the address, the interface that it belongs to, and the route: ip route get ADDRESS, ping.",
		forms: []string{"o route to host", "etwork is unreachable", "Errno 113]", "Errno 101]"}},
	{role: symptom, vague: true, summary: "A connection timed out", more: zeroconf, costs: "Nobody answered at that address: a firewall drops the packets, the address is not reached from here, or the process there hangs.", instead: "Check the address, and open the hosts' TCP ports for each other in firewalls.",
		forms: []string{"onnection timed out", "Errno 110]"}},
	{role: symptom, vague: true, summary: "A file system is full", costs: "A disk, a quota or /dev/shm has no room left.", instead: "See df -h and df -i on that host and in the container, for /dev/shm, /tmp and the directories of caches and checkpoints.",
		forms: []string{"is over 95% full, available space" /* Ray */, "o space left on device", "isk quota exceeded"}},
	{role: symptom, vague: true, summary: "The system has no memory for a call", costs: "The host, the container's cgroup or a limit of the process (ulimit -v, -l) has no memory left. From a call of RDMA, its queue may also be full.", instead: "Check free memory, the job's memory limit, ulimit -l, and dmesg for the OOM killer.", forms: []string{"annot allocate memory", "MemoryError"}},
	{role: symptom, vague: true, summary: "The system forbids a call", costs: "The permissions of a file or device, or a security profile (seccomp, SELinux, AppArmor), forbid it to this user.", instead: "The line names the file or call. Compare the user and its groups with the permissions (ls -l); in a container see which devices and capabilities it has.",
		forms: []string{"Permission denied", "peration not permitted"}},
	{role: effect, summary: "A connection was closed", costs: "The process at its other end has ended, or closed it.", instead: "Read the log of that process: its first error is the cause.", more: explainLoader, forms: []string{"BrokenPipeError: ", "ConnectionResetError: ", "Connection reset by peer", "RemoteDisconnected"}},
	unknownException,
}

// downloadFailed comes before the words of the system that it quotes, such as those for a host name.
var downloadFailed = &meaning{role: symptom, vague: true, summary: "A download failed", costs: "The program wanted to fetch a file, and this host or container does not reach the Internet or that server. Other ranks wait meanwhile, and then report timeouts.", instead: "Download before the start, to a path that all hosts have (HF_HOME, HF_HUB_OFFLINE=1), or give it a proxy or a mirror (HTTPS_PROXY, HF_ENDPOINT).",
	forms: []string{"couldn't connect to 'https://", "Max retries exceeded with url: ", "LocalEntryNotFoundError", "Failed to resolve 'huggingface.co'", "unable to access 'https://"}}

// serviceSilent has warnings of urllib3. Many programs use this library for downloads, which do not concern NCCL.
var serviceSilent = &meaning{role: hint, summary: "A web service does not answer", costs: "A request over HTTPS to the host in the line timed out, and the program tries again. It is not one of NCCL's connections.", instead: "Check that this host or container reaches that server (curl -v https://…, a proxy, DNS). If the program gives up, its own message tells what it wanted there.",
	forms: []string{"urllib3.connectionpool:Retrying (", "Read timed out. (read timeout="}}

// noProgram is Python's error for a program that it cannot start: a name without a path or an ending.
var noProgram = pattern{text: `FileNotFoundError: .*No such file or directory: '[\w-]+'`}

// noSuchProgram is a program that a shell or Python cannot start.
var noSuchProgram = &meaning{role: symptom, vague: true, summary: "A program is missing", costs: "The shell, or the program, does not find it on this host or in this container: it is not installed there, or not in PATH.", instead: "Install it, or write its full path. A login by SSH without a terminal, a service and a container have other paths than your shell.",
	forms: []string{": command not found", ": Command not found", "usr/bin/env: *No such file or directory", "make: nvcc: No such file or directory", "SLURM does not appear to be installed" /* ParlAI, of scontrol */}}

// bareAddress is an IPv4 address in any text.
var bareAddress = pattern{text: `\b(\d{1,3}(?:\.\d{1,3}){3})\b`}

// zeroconf says more of an address that a host gives to itself, and that other hosts do not reach.
func zeroconf(_ *logged, m string) (summary, costs, instead string) {
	for _, at := range bareAddress.re().FindAllString(m, maxFirst) {
		if a, err := netip.ParseAddr(at); err == nil && a.IsLinkLocalUnicast() {
			return "Link-local address for bootstrap", fmt.Sprintf("%s is an address that an interface gives itself without DHCP (or that of a BMC): hosts on other links do not reach it, and on the same link only if both ends have one there.", a), bootstrapAt + " On DGX Spark and other direct links with such addresses name the interface of that link on both ends."
		}
	}
	return "", "", ""
}

// explainPython says more of exceptions whose kind tells what is wrong.
func explainPython(_ *logged, m string) (summary, costs, instead string) {
	switch {
	case strings.Contains(m, "ModuleNotFoundError: "):
		return "A Python module is missing", "The Python that runs the program does not have the module.", "Install it in the environment that the launcher uses, on every host and in the container; which python shows whether it is another one."
	case strings.Contains(m, "partially initialized module"):
		return "Modules import each other in a circle", "Python asks a module for something before the module has loaded: a file here has the name of a library's module and hides it, modules of the program import each other, or a library is installed by halves.", "Rename the file if one beside the program has the module's name, and remove its __pycache__; otherwise install the library that the module belongs to once more, in versions that fit."
	case strings.Contains(m, "ImportError: "), strings.Contains(m, "unexpected keyword argument"), strings.Contains(m, "has no attribute"):
		return "The program does not fit a library", "A library has not what the program asks of it: mostly it has another version than the program was written for.", "Compare the versions (pip list) with those that the program asks for, and install these on every host. " + inProgram
	case noProgram.re().MatchString(m):
		return noSuchProgram.summary, noSuchProgram.costs, noSuchProgram.instead
	case strings.Contains(m, "FileNotFoundError: "):
		return "A file is missing", "The path does not exist on this host or in this container.", "Correct the path. With several hosts, the file must be on each of them, or in a file system that all have."
	}
	return "", "", ""
}

// followsOthers reports whether an exception, or the end of a program, may only follow from what the log shows: from NCCL's error, or
// from a rank that ended or a timeout before it.
func (l *logged) followsOthers(r *report) bool {
	exception := r.of == ownFault || r.of == unknownException
	return (exception || r.of == endedItself) && slices.ContainsFunc(l.inOrder, func(o *report) bool {
		return exception && o.of.role == code || (o.of.role == effect || o.of.role == aftermath) && o.line < r.line
	})
}
