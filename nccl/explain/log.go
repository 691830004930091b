package explain

import (
	"strings"
)

// logged is the state while a log is read. It understands the lines of NCCL 2.2 to 2.30.7 (INFO and WARN in
// src/init.cc, src/bootstrap.cc, src/transport/net_ib, src/transport/net.cc and src/transport/net_socket.cc).
type logged struct {
	*reading
	hosts    map[string]*hostLog // by name
	order    []string            // names of hosts, as the log brings them
	versions map[string]int      // NCCL version -> its first line
	settings []setting           // that the log shows

	paste
	findings
	communicators
	watchdog
	starting
	ends
	devices
	told
}

// paste is how the lines of a paste follow each other.
type paste struct {
	previous  string // the previous line
	lastError bool   // the next line is PyTorch's copy of NCCL's last warning
	lastOf    string // the process whose line it is
	blank     bool   // the previous line is blank
	spaced    bool   // the paste has a blank line after each line
	dump      int    // rows of libmlx5's dumps
	crashed   bool   // a line shows that this is the output of a program, not a script
	source    bool   // the text is a program of Python
	prefixed  bool   // a line begins as those of NCCL's log
}

// members are the ranks of a communicator that a log shows, and how many it has.
type members struct {
	size  int
	ranks map[int]bool
}

// cudaOf is a version of CUDA, as major*100+minor, and the line that names it.
type cudaOf struct{ version, line int }

// gidOf is a GID that perftest prints, and its line. It is all zeros, or link-local.
type gidOf struct {
	line int
	zero bool
}

// maxHosts limits the memory for a log.
const maxHosts = 1 << 16

func newLogged(r *reading) *logged {
	l := &logged{reading: r, hosts: map[string]*hostLog{}, versions: map[string]int{}}
	l.reports, l.dialled = map[reportOf]*report{}, map[string]int{}
	l.members, l.testers = map[string]*members{}, map[string]int{}
	l.waits, l.sizes, l.progress = map[string]string{}, map[string]string{}, map[string]progress{}
	l.stopped, l.died = map[string]bool{}, map[string]bool{}
	return l
}

// connects is an address to which NCCL connects: "Connect to 10.0.0.2<4321> failed", "connect to 10.0.0.2 returned".
var connects = pattern{text: `[Cc]onnect to (\d+\.\d+\.\d+\.\d+)<`}

// line reads a line of a log. It returns the line's class; other: neither NCCL nor PyTorch's copy of its last error has written it.
func (l *logged) line(number int, line string) class {
	if strings.Contains(line, "onnect to ") && len(l.dialled) < maxFindings {
		if at := connects.re().FindStringSubmatch(line); at != nil && l.dialled[at[1]] == 0 {
			l.dialled[at[1]] = number
		}
	}
	line = withNCCL(repeated.re().ReplaceAllString(line, ""))
	l.background(number, line)
	l.workers(line)
	if strings.Contains(line, "WorkNCCL(") && !watched.re().MatchString(line) { // somebody has wrapped it
		waits(l, l.previous+line)
	} else if strings.Contains(l.previous, "WorkNCCL(") && !strings.Contains(l.previous, "NumelIn=") {
		waits(l, l.previous+line)
	}
	if strings.Contains(line, "assert result == 0") && strings.Contains(l.previous, `pynccl.py", line`) {
		l.record(number, line, assertsResult)
	}
	l.previous = line[:min(len(line), maxText)]
	if strings.Contains(line, "ast enqueued ") {
		l.steps(number, line)
	}
	l.firstFailure(line)
	begins, v, version := strings.Cut(line, "NCCL version ")
	if version {
		if version = l.ncclVersion(number, v); version && strings.Contains(begins, "NCCL INFO ") {
			l.host(number, begins).version = l.version.String()
		}
	}
	if before, message, found := strings.Cut(line, "NCCL INFO "); found {
		l.prefixed = true
		l.tries(number, message)
		h := l.host(number, before)
		known := l.info(number, h, message)
		l.onGPU(number, h, before, message)
		switch known = l.read(number, message, infoLine()) || known; {
		case known:
		case traces(message):
			l.trace(number, message)
		case troubled(message) && !usual(message):
			return unknown
		}
		return logLine
	}
	if before, message, found := strings.Cut(line, "NCCL WARN "); found {
		if strings.HasPrefix(message, "Failed to open libibverbs.so") { // –2.10.3
			h := l.host(number, before)
			h.noIB, h.noVerbs, h.warnsAt = number, true, number
			return logLine
		}
		where := strings.TrimSpace(before[strings.LastIndexByte(before, ']')+1:]) // "transport/nvls.cc:285"
		return l.warn(number, where, message)
	}
	if message := lastWarning(line); l.read(number, message, anyLine()) {
		return logLine
	}
	trimmed := strings.TrimSpace(line)
	blank := l.blank
	l.blank = trimmed == ""
	switch {
	case trimmed == "", strings.HasPrefix(trimmed, "```"):
		l.lastError = l.lastError && l.spaced // else PyTorch has no warning to copy
	case l.lastError && of(line) == l.lastOf && !isFrame(launched.re().ReplaceAllString(trimmed, "")):
		l.lastError = false
		return l.warn(number, "", launched.re().ReplaceAllString(trimmed, ""))
	case dumped.re().MatchString(trimmed):
		l.dump++
		if at := dumped.re().FindStringSubmatch(trimmed); l.dump%4 == 0 {
			l.read(number, "mlx5: "+trimmed+" (synd 0x"+strings.TrimLeft(at[1], "0")+" vend)", anyLine())
		}
	case listed.re().MatchString(trimmed): // somebody has wrapped the line of NET/Socket
		return l.also(number, trimmed)
	case beheaded(trimmed) != "" && l.info(number, l.host(number, ""), beheaded(trimmed)):
		return logLine
	case strings.HasSuffix(trimmed, "Last error:") && !strings.HasPrefix(trimmed, "#"):
		l.lastError, l.lastOf, l.spaced = true, of(line), blank
		l.other(number, line, trimmed) // it may all be in one line
		return logLine
	default:
		version = l.other(number, line, trimmed) || version
	}
	if version {
		return logLine
	}
	return other
}

// repeated is what Ray writes after a line that several workers have printed.
var repeated = pattern{text: ` \[repeated \d+x across cluster\].*$`}

// dumped is a row of the completion that libmlx5 dumps in four; the last one's second number ends with its syndrome.
var dumped = pattern{text: `^[0-9a-f]{8} [0-9a-f]{6}([0-9a-f]{2}) [0-9a-f]{8} [0-9a-f]{8}$`}

// listed is one of NCCL's interfaces, in a line of its own: "[1]br-05ab815fa14e:172.19.0.1<0>".
var listed = pattern{text: `^\[\d+\][\w.-]+:[0-9a-fA-F.:]+(%[\w.-]+)?<\d+>$`}

// beheaded is a line of NCCL's networks of which somebody has cut the beginning, or which is quoted in prose.
func beheaded(trimmed string) string {
	if at := strings.Index(trimmed, "NET/IB : GPU Direct RDMA Disabled for "); at > 0 {
		trimmed = trimmed[at:]
	}
	if _, quoted, found := strings.Cut(trimmed, "INFO NET/"); found {
		trimmed = "NET/" + strings.TrimRight(quoted, "`. ")
	}
	if bareChannel.re().MatchString(trimmed) {
		return "Channel 00 : " + trimmed
	}
	if !strings.HasPrefix(trimmed, "NET/") {
		return ""
	}
	return strings.Replace(trimmed, "NET/IB: ", "NET/IB : ", 1)
}

// bareChannel is a channel to another host, without what stands before it: "9[1a000] -> 2[6b000] [receive] via NET/IB/1".
var bareChannel = pattern{text: `^\d+\[[0-9a-f]+\] -> \d+\[[0-9a-f]+\] \[(?:send|receive)\] via NET/`}

// also reads one more interface of the latest host.
func (l *logged) also(number int, field string) class {
	if len(l.order) == 0 {
		return other
	}
	name, address, _ := strings.Cut(field[strings.Index(field, "]")+1:], ":")
	l.meets(number, l.hosts[l.order[len(l.order)-1]], name, address)
	return logLine
}

// launched is what PyTorch, mpirun, srun, Ray and vLLM write before each line of a rank.
var launched = pattern{text: `^(?:(?:\[(?:rank)?\d+\]:?|\[\d+,\d+\]<std\w{3,4}>:|\d+:|\([\w ]{1,60}pid=\d+[^()]{0,80}\)|(?:ERROR|WARNING|INFO) \d\d-\d\d [\d:]{8} (?:\[[\w./]+\.py:\d+\]|[\w./]+\.py:\d+\])) *)+`}

// of returns the process that Ray or vLLM names at the beginning of a line, such as "(Worker pid=7)".
func of(line string) string {
	if name, _, found := strings.Cut(line, ")"); found && strings.HasPrefix(name, "(") && strings.Contains(name, "pid=") {
		return name
	}
	return ""
}

// lastWarning returns NCCL's last warning as XLA quotes it: "… failed: internal error. Last NCCL warning(error) log entry (may be unrelated)
// 'TEXT'.; current tracing scope …". It returns "" if there is none.
func lastWarning(line string) string {
	_, quoted, found := strings.Cut(line, "Last NCCL warning(error) log entry (may be unrelated) '")
	end := strings.LastIndexByte(quoted, '\'')
	if !found || end <= 0 {
		return ""
	}
	return " " + warnMark + quoted[:end]
}

// withNCCL returns a line of NCCL before 2.4 ("host:1:2 [0] INFO …", "file.h:3 WARN …"), or one that somebody has cut, as later versions
// write it.
func withNCCL(line string) string {
	for _, level := range []string{"INFO ", "WARN "} {
		before, message, found := strings.Cut(line, level)
		if !found || strings.HasSuffix(before, "NCCL ") {
			continue
		}
		fields := strings.Fields(before)
		ours := before == "" && (strings.HasPrefix(message, "NET") || strings.HasPrefix(message, "Bootstrap"))
		if n := len(fields); n > 0 {
			file, number, colon := strings.Cut(fields[n-1], ":")
			ours = colon && digits(number) && (strings.HasSuffix(file, ".h") || strings.HasSuffix(file, ".cc") || strings.HasSuffix(file, ".cu"))
		}
		if n := len(fields); n > 1 && !ours {
			id := strings.Split(fields[n-2], ":")
			ours = strings.HasPrefix(fields[n-1], "[") && len(id) == 3 && digits(id[1]) && digits(id[2])
		}
		if ours {
			return before + "NCCL " + level + message
		}
	}
	return line
}

// tries notes a connection that NCCL wants to try again, as its last warning about it would be, and forgets it when ranks are connected.
func (l *logged) tries(number int, message string) {
	attempt, _, again := strings.Cut(message, ", retrying")
	if l.direct == 0 && strings.Contains(message, " via P2P/") {
		l.direct = number
	}
	if l.remoteAt == 0 && strings.Contains(message, " via NET/") {
		l.remoteAt = number
	}
	l.moved = l.moved || strings.Contains(message, "Destroy COMPLETE")
	l.begun = l.begun || strings.HasSuffix(message, "Init START") || strings.HasPrefix(message, "Trees [") || strings.HasPrefix(message, "Ring ") /* –2.4 */
	l.ready = (l.ready || strings.Contains(message, "Init COMPLETE") && field(message, "nranks") != "1") && !strings.Contains(message, "Destroy COMPLETE")
	switch {
	case again && (strings.Contains(attempt, "onnect to") || strings.Contains(attempt, "connect returned") || strings.Contains(attempt, "ibv_modify_qp failed")):
		l.retried = foreignLine{number, " " + warnMark + attempt + ", exceeded error retry count", nil}
	case strings.Contains(message, "Init COMPLETE"), strings.Contains(message, "Connected all "):
		l.retried = foreignLine{}
	}
}

// trace notes a step of NCCL's own trace of an error.
func (l *logged) trace(number int, message string) {
	l.traces = append(l.traces, number)
	l.inBootstrap = l.inBootstrap || strings.HasPrefix(message, "bootstrap.cc:")
	if l.traced.of == nil && (strings.Contains(message, "group.cc:") || strings.HasPrefix(message, "enqueue.cc:")) {
		l.traced = foreignLine{number, message, codeOf(message)}
	}
}

// warn reads a WARN line. where is the file of NCCL's source, which PyTorch's copy lacks.
func (l *logged) warn(number int, where, message string) class {
	if traces(message) { // ACCL, Alibaba's NCCL, warns of each step
		l.trace(number, message)
	} else if text := where + " " + warnMark + message; message != "" && !l.read(number, text, anyLine()) {
		m := anyLine().meant(inWords(text)) // a plugin's, or of a version to come
		if m == nil {
			l.strange(number, message)
			return unknown
		}
		l.record(number, text, m)
	}
	return logLine
}

// warnMark separates the file of a warning from its text.
const warnMark = "NCCL WARN "

// maxWrapped is how many lines after its beginning a line may go on that somebody has wrapped.
const maxWrapped = 4

// rest reads the rest of a completion's line, which has both GIDs.
func (l *logged) rest(line string) {
	if l.completed.of.more == nil {
		return
	}
	if summary, _, _ := l.completed.of.more(l, line); summary != "" {
		l.completed.summary, l.completed.message = summary, line
	} else if _, _, found := bothGIDs(line); found {
		l.completed.message += " " + strings.TrimSpace(line)
	}
}
