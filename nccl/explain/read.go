package explain

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// class says what was read from a line.
type class byte

const (
	other       class = iota // of another program, or prose
	commandLine              // of a command that was checked
	settingLine
	logLine
	rowLine   // of a table
	traceLine // of a traceback
	unknown   // concerns NCCL or reports trouble, and was not understood
)

// Lines are the lines of one class.
type Lines struct {
	Count int   `json:"count"`
	First []int `json:"first,omitempty"` // numbers of the first ones
}

// maxFirst limits the numbers in Lines.
const maxFirst = 8

func (l *Lines) at(line int) {
	if l.Count++; len(l.First) < maxFirst {
		l.First = append(l.First, line)
	}
}

// String returns the numbers as a report shows them.
func (l Lines) String() string {
	s := strings.Trim(strings.ReplaceAll(fmt.Sprint(l.First), " ", ", "), "[]")
	if l.Count > len(l.First) {
		s += ", …"
	}
	return s
}

// Read counts what was read from a file.
type Read struct {
	Lines     int   `json:"lines"` // without blank lines
	Settings  int   `json:"settings,omitempty"`
	Commands  int   `json:"commands,omitempty"`  // launchers, tests and commands for networks
	Log       int   `json:"log_lines,omitempty"` // of NCCL
	Rows      int   `json:"rows,omitempty"`      // of show_gids, ibdev2netdev, mlnx_qos, dcb, nvidia-smi topo -m, and lines of nccl-tests
	Traceback int   `json:"traceback_lines,omitempty"`
	Other     int   `json:"other_lines,omitempty"` // of other programs, comments and prose
	Computed  Lines `json:"computed"`              // settings whose value a shell or a program computes
	Unknown   Lines `json:"not_understood"`
}

// String returns the counts in words, except for what was not understood.
func (r Read) String() string {
	return strings.Join(slices.DeleteFunc([]string{r.Judged(), plural(r.Other, "other line", "other lines")}, func(s string) bool { return s == "" }), ", ")
}

func plural(n int, one, many string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Judged returns the counts of what concerns NCCL, in words.
func (r Read) Judged() string {
	var out []string
	for _, c := range []struct {
		n         int
		one, many string
	}{
		{r.Settings, "setting", "settings"}, {r.Commands, "command", "commands"}, {r.Log, "line of NCCL's log", "lines of NCCL's log"}, {r.Traceback, "line of a traceback", "lines of tracebacks"},
		{r.Rows, "row of a table", "rows of tables"},
	} {
		if text := plural(c.n, c.one, c.many); text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}

// mark sets the class of a line. The highest class stays.
func (r *reading) mark(line int, c class) {
	if line > 0 && line < len(r.classes) {
		r.classes[line] = max(r.classes[line], c)
	}
}

// count returns what was read from a text.
func (r *reading) count(text string) Read {
	out, number := r.read, 0
	for line := range strings.Lines(text) {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		out.Lines++
		switch r.classes[number] {
		case other:
			out.Other++
		case logLine:
			out.Log++
		case rowLine:
			out.Rows++
		case traceLine:
			out.Traceback++
		case unknown:
			out.Unknown.at(number)
		}
	}
	return out
}

// nothing says why an explanation has nothing of NCCL; "": it has something.
func nothing(kind Kind, e Explanation) string {
	r := e.Read
	switch {
	case kind == Empty:
		return "the input is empty"
	case kind == Binary:
		return "the input is not text: unpack it, or save it as UTF-8"
	case kind == Traceback && r.Log+r.Settings == 0 && !e.Failed():
		return "the traceback has no error of NCCL"
	case r.Settings+r.Commands+r.Log+r.Rows+r.Traceback+r.Computed.Count+len(e.Findings) == 0:
		return fmt.Sprintf("no setting, command or log line in it concerns NCCL (lines: %d)", r.Lines)
	}
	return ""
}

// trouble is what lines say of an error, in the words of any program, in lower case.
var trouble = pattern{text: `error|fail|fatal|abort|exception|\bkill|segmentation fault|core dumped|timeout|timed out|invalid|unable|cannot|can't|could not|mismatch|traceback|assert|refused|unreachable|terminated|no such|not found|sigterm|\bstuck|` +
	`crash|panic|denied|out of memory|bad address|\bhangs?\b|\bhung\b|exit ?(?:code|status)|exited with|报错|错误|失败|卡住|无法|异常|超时|崩溃`}

// troubled reports whether a line that no rule knows says that something went wrong. What it says remains unknown.
func troubled(line string) bool {
	lower := strings.ToLower(line)
	return trouble.re().MatchString(lower) || glog.re().MatchString(lower)
}

// glog is the beginning of a line that glog writes of an error.
var glog = pattern{text: `^[ef]\d{4} [\d:.]+ `}

// suspicious are further words of trouble. In NCCL's INFO lines and beside errors they mostly mean nothing: they count only where
// otherwise nothing would be said.
var suspicious = pattern{text: `(?i)\bsig(?:kill|segv|abrt|bus|hup|int|ill)\b|\bsignal \d|\b(?:died?|dead|lost|oom|missing|wrong|degraded|stopped|evicted|expired|violation|illegal|overflow\w*)\b|` +
	`deadlock|unexpected|disconnect|closed by (?:remote|peer)|broken pipe|reset by|cancel|preempt|corrupt|unhandled|refus|reject|incompatible|undefined|unrecognized|unresponsive|unavailable|interrupt|` +
	`non-?zero|\brc ?= ?-?[1-9]|unsupported|not supported|too (?:many|few|small|large)|(?:did|does|do) not |n't |not responding|StopIteration|KeyboardInterrupt`}

// assigns is a line that sets a variable, whose name or value may hold a word of trouble.
var assigns = pattern{text: `^\s*(?:[$+] |- |-e |export |set |declare -x |ENV |"?-x )*"?[A-Za-z_]\w*=|^\s*export `}

// unread marks the lines that report trouble in a text without an error, and that no rule has read: only then does it matter
// whether a comment or a sentence says so.
func (r *reading) unread(name, text string, kind Kind) {
	if slices.Contains([]Kind{Conf, Python, Dockerfile, JSON, Slurm}, kind) || kind == Commands && isScript(name, text) {
		return // code names errors that it handles
	}
	comments := kind != Log && kind != Traceback && kind != Notes && r.seen[rowLine] == 0
	number := 0
	for line := range strings.Lines(text) {
		number++
		c := r.classes[number]
		skipped := c != other && c != traceLine || comments && strings.HasPrefix(strings.TrimSpace(line), "#") || assigns.re().MatchString(line) || anyOf(line, printers) || guards.re().MatchString(line)
		if !skipped && (troubled(line) || suspicious.re().MatchString(line)) {
			r.mark(number, unknown)
		}
	}
}

// guards are parts of commands that act only if another one fails, or that bound its time.
var guards = pattern{text: `\|\| *(?:exit|true|\{)|\bset -e|\btrap |^\s*(?:\$ )?timeout \d|--?[a-z_-]*timeout[ =]`}

// usual reports whether an INFO line tells of an optional library or symbol that most hosts do not have (src/plugin,
// src/misc/mlx5dvsymbols.cc and, from 2.30.3, src/os/linux.cc), or of RAS, which collectives do not need.
func usual(message string) bool {
	return strings.HasPrefix(message, "ncclOsDlopen(") || strings.HasPrefix(message, "ncclOsDlsym(") || strings.HasPrefix(message, "RAS ") ||
		strings.Contains(message, "/Plugin: Failed to initialize any ") ||
		strings.Contains(message, "/Plugin") && (strings.Contains(message, "Could not find") || strings.Contains(message, "Failed to find") || strings.Contains(message, "No plugin found")) ||
		strings.HasPrefix(message, "NET/Plugin") && (strings.Contains(message, "Plugin load") || strings.Contains(message, "cannot open shared object file")) ||
		strings.HasPrefix(message, "Attribute ") && strings.HasSuffix(message, " not found") /* graph/xml.h: an optional one */ ||
		strings.HasPrefix(message, "dlvsym failed on ") || strings.HasPrefix(message, "Failed to initialize NET plugin ")
}

// traces reports whether a message is a step of NCCL's own trace of an error, as in "transport/net.cc:345 -> 2".
func traces(message string) bool {
	at, code, found := strings.Cut(strings.TrimSpace(message), " -> ")
	code, _, _ = strings.Cut(code, " ")
	return found && strings.Contains(at, ".cc:") && !strings.Contains(at, " ") && digits(code) && code != "0"
}

// document reads a text that is no nccl.conf: lines of logs and rows of tables wherever they are, and the rest as commands.
func (r *reading) document(name, text string) Kind {
	l, t := newLogged(r), &tables{offers: map[string]int{}, classes: &r.classMap}
	l.source = isPython(name, text)
	r.plugged = plugsNetwork.re().MatchString(text[:min(len(text), maxLooked)])
	r.rdmaTold = slowly().overRDMA.MatchString(text[:min(len(text), maxLooked)])
	var rest strings.Builder
	number := 0
	for line := range strings.Lines(text) {
		number++
		plain := strings.TrimRight(line, "\r\n")
		if at := composed.re().FindStringIndex(plain); at != nil {
			plain, line = plain[at[1]:], line[at[1]:]
		}
		c := other
		parts := parted(plain)
		for _, part := range parts {
			is := other
			if !l.source || begins.re().MatchString(part) { // a comment of a program may hold a log, and may only name its lines
				is = l.line(number, part)
			}
			if is == other && len(parts) > 1 && troubled(launched.re().ReplaceAllString(part, "")) {
				is = unknown
			}
			c = max(c, is)
		}
		if c == other {
			c = t.line(number, plain)
		}
		if c == other {
			rest.WriteString(line)
			continue
		}
		r.mark(number, c)
		r.seen[c]++
		rest.WriteByte('\n') // keeps the numbers of lines
	}
	if m := cut(l.previous); m != nil && len(l.inOrder) == 0 {
		l.record(number, l.previous, m)
		r.mark(number, logLine)
		r.seen[logLine]++
	}
	script := isScript(name, text)
	s := r.commands(afterRoot(rest.String()), !script && !strings.Contains(text, "#SBATCH "), t.rules)
	kind := language(name, text, s.plain)
	if kind != Dockerfile { // where blanks may follow it (frontend/dockerfile/parser of buildkit)
		s.cutOff(rest.String())
	}
	if env := isEnvFile(name); env || script || kind == Slurm {
		s.spaced(rest.String(), env)
	}
	logs := r.seen[logLine] + r.seen[unknown]
	pasted := (kind == Commands || kind == Notes || kind == Python && !l.source || kind == Slurm && !strings.HasPrefix(strings.TrimSpace(text), "#")) && !script
	l.crashed = l.crashed || pasted && len(l.foreign) > 0 // only the message, without the beginning of its line
	if logs > 0 || l.crashed {
		kind = Log
	}
	s.mentions(rest.String(), kind)
	s.prose(rest.String(), kind)
	s.containers(rest.String(), kind)
	s.gpuless()
	s.jobs(rest.String(), kind)
	if kind != Log || l.systemFailed() { // a log shows what became of it
		s.sharing(rest.String(), kind)
	}
	for i := range s.sets {
		s.sets[i].fleet = s.sets[i].fleet || kind == Dockerfile // each host that runs the image
	}
	l.settings = append(l.settings, s.sets...)
	told := !script && slices.Contains([]Kind{Log, Commands, Notes, Traceback}, kind)
	if told {
		l.unkillable = unkillable.re().MatchString(rest.String())
		l.stuck = tells(text, func(number int) bool { return r.classes[number] != other })
	}
	l.finish()
	if !slices.ContainsFunc(r.out, func(f Finding) bool { return f.Severity == env.Error }) { // else the traces are its consequence
		for _, line := range l.traces {
			r.mark(line, unknown)
		}
	}
	t.finish(r, l.settings)
	if told { // what prose alone tells comes after what lines and tables show
		s.asked(rest.String(), func(number int) bool { return r.classes[number] != other })
		s.onlyTold(l.stuck, max(l.nodes, l.asked), text)
		s.flatTold(rest.String(), func(number int) bool { return r.classes[number] != other })
		s.onlySlow(rest.String(), func(number int) bool { return r.classes[number] != other })
		s.timeoutTold(rest.String(), l.epochAt, func(number int) bool { return r.classes[number] != other })
	}
	if kind == Log {
		if strings.Contains(text, "\nCommunicators...") && strings.Contains(text, "Job summary") {
			return RAS // its headings speak of errors, too
		}
		r.traceback(rest.String())
		l.trouble(rest.String())
		l.strangeLines()
		if !l.prefixed && r.seen[traceLine] > 0 {
			return Traceback
		}
		return kind
	}
	for _, line := range s.lone {
		if kind != Python { // whose quotes are not the shell's
			r.mark(line, unknown)
		}
	}
	if !script && kind != Python && kind != Slurm && (kind != Notes || !bookish(name)) {
		r.errors(rest.String())
	}
	switch bare := r.read.Settings+r.read.Commands+r.read.Computed.Count == 0; {
	case bare && len(t.topology) > 0:
		return Topology
	case bare && len(t.gids) > 0:
		return GIDs
	case bare && len(t.ports) > 0:
		return Ports
	case bare && t.xml.begun > 0:
		return Hardware
	}
	return kind
}

// plugsNetwork is what texts have that use the network plugins of AWS (libfabric for EFA) and of Google: NCCL_IB_HCA does not choose their devices.
var plugsNetwork = pattern{text: `\bFI_(?:PROVIDER|EFA_\w+)|ofi-nccl|/opt/amazon/efa|amazonaws\.com/efa|NET/OFI|AWS Libfabric|\bEFA\b|fi_info -p efa|NCCL_(?:FASTRAK|GPUDIRECTTCPX)_|gpudirect-tcpx`}

// composed is what docker compose writes before each line of a service: "trainer-1  | ".
var composed = pattern{text: `^[A-Za-z][\w.-]*[_-]\d+ +\| ?`}

// begins is where a line of NCCL's log, or of vLLM's, begins: "host:1:2 [0] NCCL INFO …", "ERROR 11-04 18:02:56 [a.py:597] …".
var begins = pattern{text: `[\w.-]+:\d+:\d+ \[\d+\] (?:[\w./]+:\d+ )?NCCL (?:INFO|WARN) |(?:ERROR|WARNING|INFO) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]+\.py:\d+\]`}

// maxParts limits the lines of a log that one line of a paste holds.
const maxParts = 1000

// parted returns the lines of NCCL's log that a paste has joined to one line, and what stands before them. Others stay whole.
func parted(line string) []string {
	at := strings.Index(line, "NCCL INFO ")
	if w := strings.Index(line, "NCCL WARN "); at < 0 || w >= 0 && w < at {
		at = w
	}
	joined := at >= 0 && (strings.Count(line, "NCCL INFO ")+strings.Count(line, "NCCL WARN ") > 1 || troubled(line[:at]))
	if !joined && (strings.Count(line, "ERROR ") < 2 || strings.Count(line, ".py:") < 2) {
		return []string{line}
	}
	var out []string
	from := 0
	for _, m := range begins.re().FindAllStringIndex(line, maxParts) {
		if strings.TrimSpace(line[from:m[0]]) != "" {
			out = append(out, line[from:m[0]])
		}
		from = m[0]
	}
	return append(out, line[from:])
}

// afterRoot removes root's prompt from the first line of a pasted terminal, also after a heading or a fence: "# mpirun …" there is a
// command, not a comment.
func afterRoot(rest string) string {
	var out strings.Builder
	opens := true
	for line := range strings.Lines(rest) {
		if words := strings.Fields(line); opens && len(words) > 2 && words[0] == "#" && program(path.Base(words[1])) {
			line = strings.Replace(line, "#", "$", 1)
		}
		if trimmed := strings.TrimSpace(line); trimmed != "" {
			opens = strings.HasSuffix(trimmed, ":") || strings.HasPrefix(trimmed, "```")
		}
		out.WriteString(line)
	}
	return out.String()
}

// bookish reports whether a file is a document, which may tell of errors, and not a paste.
func bookish(name string) bool {
	return strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".rst")
}

// errors marks the lines of a text without a log that report an error.
func (r *reading) errors(rest string) {
	number := 0
	for line := range strings.Lines(rest) {
		if number++; !strings.HasPrefix(line, "#") && !anyOf(line, printers) && anyOf(line, erring) {
			r.mark(number, unknown)
		}
	}
}

// traceback marks the lines of stacks of Python.
func (r *reading) traceback(rest string) {
	number, source := 0, false
	for line := range strings.Lines(rest) {
		number++
		frame := strings.Contains(line, `File "`) && strings.Contains(line, ", line ")
		if frame || source || strings.Contains(line, "Traceback (most recent call last)") {
			r.mark(number, traceLine)
			r.seen[traceLine]++
		}
		source = frame // the next line quotes the program
	}
}

// heads reports whether a line is a heading of an error that follows, as people write it: "Show error:".
func heads(line string) bool { return strings.HasSuffix(strings.TrimSpace(line), "rror:") }

// trouble marks the lines of other programs that report trouble and have no known form: beside a log, they may be why the job failed.
func (l *logged) trouble(rest string) {
	named := slices.ContainsFunc(l.out, func(f Finding) bool { return f.Severity == env.Error })
	number := 0
	for line := range strings.Lines(rest) {
		if stack := strings.Contains(line, "Traceback (most recent call last)"); stack && !named {
			l.mark(number+1, unknown)
		}
		if number++; strings.HasPrefix(line, "#") || !troubled(line) || heads(line) || l.classes[number] != other || isFrame(strings.TrimSpace(line)) || isCode(strings.TrimSpace(line)) || detail.re().MatchString(line) || strings.HasPrefix(line, "export ") {
			continue
		}
		l.mark(number, unknown)
		if anyOf(line, erring) {
			l.strange(number, line)
		}
	}
}
