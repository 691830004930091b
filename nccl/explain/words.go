package explain

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// cudaErrors are the errors of CUDA: number, names without their prefix in lower case and without "_", and the text that
// cudaGetErrorString gives (driver_types.h and cuda.h of CUDA 13). Programs print one of the three.
var cudaErrors = []struct{ number, names, text string }{
	{"1", "invalidvalue", "invalid argument"},
	{"2", "outofmemory memoryallocation", "out of memory"},
	{"3", "notinitialized initializationerror", "'initialization error'"},
	{"4", "deinitialized cudartunloading", "CUDA error: driver shutting down"},
	{"34", "stublibrary", "CUDA driver is a stub library"},
	{"35", "insufficientdriver", "CUDA driver version is insufficient for CUDA runtime version"},
	{"46", "deviceunavailable devicesunavailable", "CUDA-capable device(s) is/are busy or unavailable"},
	{"98", "invaliddevicefunction", "'invalid device function'"},
	{"100", "nodevice", "no CUDA-capable device is detected"},
	{"101", "invaliddevice", "invalid device ordinal"},
	{"102", "devicenotlicensed", "device doesn't have valid Grid license"},
	{"205", "mapfailed mapbufferobjectfailed", "CUDA error: mapping of buffer object failed"},
	{"209", "nobinaryforgpu nokernelimagefordevice", "no kernel image is available for execution on the device"},
	{"214", "eccuncorrectable", "uncorrectable ECC error encountered"},
	{"217", "peeraccessunsupported", "peer access is not supported between these two devices"},
	{"220", "nvlinkuncorrectable", "uncorrectable NVLink error detected during the execution"},
	{"221", "jitcompilernotfound", "PTX JIT compiler library not found"},
	{"222", "unsupportedptxversion", "the provided PTX was compiled with an unsupported toolchain"},
	{"223", "jitcompilationdisabled", "PTX JIT compilation was disabled"},
	{"400", "invalidhandle invalidresourcehandle", "CUDA error: invalid resource handle"},
	{"401", "illegalstate", "the operation cannot be performed in the present state"},
	{"700", "illegaladdress", "an illegal memory access was encountered"},
	{"702", "launchtimeout", "the launch timed out and was terminated"},
	{"709", "contextisdestroyed", "'context is destroyed'"},
	{"710", "assert", "device-side assert triggered"},
	{"711", "toomanypeers", "peer mapping resources exhausted"},
	{"714", "hardwarestackerror", "hardware stack error"},
	{"715", "illegalinstruction", "an illegal instruction was encountered"},
	{"716", "misalignedaddress", "misaligned address"},
	{"717", "invalidaddressspace", "operation not supported on global/shared address space"},
	{"718", "invalidpc", "invalid program counter"},
	{"719", "launchfailed launchfailure", "unspecified launch failure"},
	{"304", "operatingsystem oscallfailed", "CUDA error: OS call failed"},
	{"800", "notpermitted", "CUDA error: operation not permitted"},
	{"801", "notsupported", "CUDA error: operation not supported"},
	{"802", "systemnotready", "system not yet initialized"},
	{"803", "systemdrivermismatch", "system has unsupported display driver / cuda driver combination"},
	{"804", "compatnotsupportedondevice", "forward compatibility was attempted on non supported HW"},
	{"805", "mpsconnectionfailed", "MPS client failed to connect to the MPS control daemon"},
	{"806", "mpsrpcfailure", "the remote procedural call between the MPS server and the MPS client failed"},
	{"807", "mpsservernotready", "MPS server is not ready to accept new MPS client requests"},
	{"808", "mpsmaxclientsreached", "the hardware resources required to create MPS client have been exhausted"},
	{"809", "mpsmaxconnectionsreached", "the hardware resources required to support device connections have been exhausted"},
	{"810", "mpsclientterminated", "MPS client has been terminated by the server"},
	{"900", "streamcaptureunsupported", "operation not permitted when stream is capturing"},
	{"901", "streamcaptureinvalidated", "operation failed due to a previous error during capture"},
	{"904", "streamcaptureunjoined", "capturing stream has unjoined work"},
	{"999", "unknown", "CUDA error: unknown error"},
}

// systemErrors are the errors of Linux that RDMA and sockets give: number and text (errno-base.h and errno.h of Linux, strerror of the C library).
var systemErrors = map[string]string{
	"1": "Operation not permitted", "2": "No such file or directory", "5": "Input/output error", "11": "Resource temporarily unavailable", "12": "Cannot allocate memory", "13": "Permission denied", "14": "Bad address",
	"16": "Device or resource busy", "19": "No such device", "22": "Invalid argument", "28": "No space left on device", "38": "Function not implemented", "61": "No data available", "93": "Protocol not supported",
	"95": "Operation not supported", "98": "Address already in use", "99": "Cannot assign requested address", "101": "Network is unreachable", "104": "Connection reset by peer", "110": "Connection timed out",
	"111": "Connection refused", "113": "No route to host",
}

// cudaTexts finds the text of an error of CUDA by its number and by its names.
var cudaTexts = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for _, e := range cudaErrors {
		out[e.number] = e.text
		for _, name := range strings.Fields(e.names) {
			out[name] = e.text
		}
	}
	return out
})

var (
	// cudaNamed is an error of CUDA by name: CUDA_ERROR_INVALID_VALUE, cudaErrorUnsupportedPtxVersion; ROCm has names of the same form.
	cudaNamed = pattern{text: `(?:CUDA_ERROR_|cudaError|hipError)([A-Z]\w+)`}
	// cudaNumbered is one by number: "CUDA error 700", "CUDA failure: 802", "cudaError_t code=35", "cudaGetDeviceCount returned 35".
	cudaNumbered = pattern{text: `(?:(?i:cuda(?: runtime| driver)?[ _-]?(?:error|failure))(?:_t)?(?: code)?|\bcu(?:da)?[A-Z]\w+(?:\(.{0,80}\))?:? (?:returned|failed|error)(?: with)?(?: error| code| status)*) *[:=(#]? *(\d{2,3})\b`}
	// verbsCall is a call of libibverbs, of a provider or of librdmacm that a line says has failed, with or without the system's words.
	verbsCall = pattern{text: `\b(?:ibv|rdma|mlx5dv|efadv)_[a-z]\w*(?:\([^)]{0,120}\))?(?:[^\w]{1,4}[\w ]{0,40})? ?(?:[Ff]ailed|FAILED|[Ee]rror|ERROR|rc|ret|returned|errno)\b|[Ff]ailed (?:to|at|in) (?:\w+ )?(?:ibv|rdma|mlx5dv|efadv)_[a-z]\w*|\b(?:ibv|rdma|mlx5dv|efadv)_[a-z]\w*: [A-Z]`}
	// verbsStep is a step of RDMA that a line says has failed, in English words: "failed to create UD QP", "Could not register memory region".
	verbsStep = pattern{text: `(?i)\b(?:fail(?:ed|s|ure)?|unable|cannot|can't|couldn't|could not|error)\b(?: to| in| while| when|:)? (modif|chang|transition|creat|allocat|regist|open)\w* .{0,24}?\b(?:(QPs?|queue pairs?)|(CQs?|completion queues?|completion channel|SRQs?)|(MRs?|memory regions?)|(PD|protection domain))\b`}
	// libfabricCall is a call of libfabric that a line says has failed.
	libfabricCall = pattern{text: `\bfi_(?:getinfo|fabric|domain|endpoint|scalable_ep|passive_ep|pep_bind|ep_bind|enable|listen|accept|connect|av_open|av_insert|cq_open|cq_read\w*|eq_open|eq_\w*read\w*|cntr_open|mr_reg\w*|mr_bind|mr_enable|getname|send\w*|recv\w*|tsend\w*|trecv\w*|read\w*|write\w*|inject\w*)\b(?:\([^)]{0,120}\))?[^\w]{1,4}(?:[\w./]+:\d+, )?(?:call |\w+ )?(?:[Ff]ailed|[Ee]rror|ERROR|rc|ret|returned|-\d|[A-Z][a-z]+ )`}
	// completed is the status of a completion by its name or number: "IBV_WC_RETRY_EXC_ERR", "wc.status = 12", "work completion status: 5", "cqe with error 12".
	completed = pattern{text: `\b(?:IBV_WC_)?((?:LOC_LEN|LOC_QP_OP|LOC_PROT|WR_FLUSH|MW_BIND|BAD_RESP|LOC_ACCESS|REM_INV_REQ|REM_ACCESS|REM_OP|RETRY_EXC|RNR_RETRY_EXC|GENERAL)_ERR)\b|(?i:\bwc[._ ]?status|completion status|\b(?:cqe?|wc)\b.{0,40}?(?:status|error))\W{1,3}(\d{1,2})\b`}
	// numbered is the number of an error of the system: "non-zero status: 110", "(errno 19)", "error=22", "[110]".
	numbered = pattern{text: `(?:status:|errno:?|error:?|failed:|\brc|\bret(?:urned)?)[:=]? *=? *-?(\d{1,3})\b|\[(\d{1,3})\]`}
)

// xidTold is a sentence by which the driver has reported an Xid.
var xidTold = pattern{text: `(?i)\b(?:found|saw|see|seen|got|getting|reports?|reported|shows?|logged|hit|hits)\W+(?:an? |the )?\W*xid\W{0,4}(?:errors?\W{0,3})?(\d{1,3})\b|\bxid\W{0,4}(\d{1,3})\b['"\x60]*\s+(?:errors? )?(?:was|were|is|found|occurs?|occurred|appears?|appeared)\b`}

var (
	// mayCome is a sentence that quotes an error of which it only warns, and mayFollow one that names it.
	mayCome   = pattern{text: `(?i)(\b(?:can|could|may|might) (?:cause|lead to|result in)\b.{0,40}\b(?:errors?|exceptions?|failures?) (?:like|such as)\b).*`}
	mayFollow = pattern{text: `(?i)(\b(?:can|could|may|might)(?: \w+)? (?:cause|lead to|result in|run into|encounter)\b).*?\b(?:errors?|exceptions?|failures?)\b`}
)

// inWords returns a line of another program as NCCL and CUDA would say it: an error that stands there by its name or number gets
// its text at the end.
func inWords(line string) string {
	line = line[:min(len(line), maxText)]
	switch {
	case strings.Contains(line, " like ") || strings.Contains(line, " such as "):
		line = mayCome.re().ReplaceAllString(line, "$1")
	case anyOf(line, []string{" can ", " could ", " may ", " might "}):
		line = mayFollow.re().ReplaceAllString(line, "$1")
	}
	if strings.Contains(line, "rror") || strings.Contains(line, "_ERROR_") || strings.Contains(line, "ailure") || strings.Contains(line, "ailed") || strings.Contains(line, "returned") {
		if at := cudaNamed.re().FindStringSubmatch(line); at != nil {
			return line + " CUDA error: " + cudaTexts()[strings.ToLower(strings.ReplaceAll(at[1], "_", ""))]
		}
		if at := cudaNumbered.re().FindStringSubmatch(line); at != nil && cudaTexts()[at[1]] != "" {
			return line + " CUDA error: " + cudaTexts()[at[1]]
		}
	}
	if anyOf(line, []string{"_ERR", "wc", "WC", "cq", "CQ", "ompletion status"}) {
		if at := completed.re().FindStringSubmatch(line); at != nil {
			for status, name := range statuses {
				if at[1] == name || at[2] == strconv.Itoa(status) {
					return fmt.Sprintf("%s status=IBV_WC_%s(%d)", line, name, status)
				}
			}
		}
	}
	if verbs, fabric := anyOf(line, []string{"ibv_", "rdma_", "5dv_", "fadv_"}), strings.Contains(line, "fi_"); verbs || fabric {
		number := ""
		if at := numbered.re().FindStringSubmatch(line); at != nil {
			number = at[1] + at[2]
		}
		switch {
		case strings.Contains(line, "ibv_modify_qp") && number != "":
			return line + " ibv_modify_qp failed with " + number + " "
		case verbs && verbsCall.re().MatchString(line):
			return line + rdmaCall + systemErrors[number]
		case fabric && libfabricCall.re().MatchString(line):
			return line + libfabricFails + systemErrors[number]
		}
	}
	if anyOf(line, []string{"QP", "CQ", " MR", "PD", "SRQ", "ueue pair", "ompletion queue", "emory region", "rotection domain"}) && !strings.Contains(line, "`") {
		if at := verbsStep.re().FindStringSubmatch(line); at != nil {
			call := " ibv_create_qp"
			switch {
			case at[2] != "" && strings.Contains("modif chang transition", strings.ToLower(at[1])):
				call = " ibv_modify_qp"
			case at[3] != "":
				call = " ibv_create_cq"
			case at[4] != "":
				call = " ibv_reg_mr"
			case at[5] != "":
				call = " ibv_alloc_pd"
			}
			number := ""
			if at := numbered.re().FindStringSubmatch(line); at != nil {
				number = at[1] + at[2]
			}
			return line + call + rdmaCall + systemErrors[number]
		}
	}
	if strings.Contains(line, "xid") || strings.Contains(line, "Xid") || strings.Contains(line, "XID") {
		if at := xidTold.re().FindStringSubmatch(line); at != nil && !strings.Contains(line, "NVRM") {
			return fmt.Sprintf("%s NVRM: Xid (PCI): %s,", line, at[1]+at[2])
		}
	}
	if raised.re().MatchString(launched.re().ReplaceAllString(strings.TrimSpace(line), "")) {
		return line + ofException
	}
	if strings.TrimSpace(line) == "Killed" {
		return line + " on signal 9 (Killed)" // as the shell says it
	}
	return line
}

// statuses are the completion statuses of ibv_wc_status (infiniband/verbs.h).
var statuses = map[int]string{1: "LOC_LEN_ERR", 2: "LOC_QP_OP_ERR", 4: "LOC_PROT_ERR", 5: "WR_FLUSH_ERR", 6: "MW_BIND_ERR", 7: "BAD_RESP_ERR", 8: "LOC_ACCESS_ERR", 9: "REM_INV_REQ_ERR", 10: "REM_ACCESS_ERR", 11: "REM_OP_ERR", 12: "RETRY_EXC_ERR", 13: "RNR_RETRY_EXC_ERR", 21: "GENERAL_ERR"}

// What follows a line that names a call which has failed, before the system's words for its number.
const (
	rdmaCall       = " RDMA call failed: "
	libfabricFails = " libfabric call failed: "
)
