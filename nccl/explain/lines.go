package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/nccl/env"
)

// findings are what the lines mean.
type findings struct {
	reports      map[reportOf]*report
	inOrder      []*report
	foreign      []foreignLine // of other programs, with a known form
	unknownLines []string      // lines of errors that no form fits, and their number
	strangers    int
	firstStrange int
	completed    *report // the latest one of a completion, and its line
	completedAt  int
	fatal        *report        // a hint after which NCCL's trace comes to the program
	traces       []int          // lines of NCCL's own trace of an error
	traced       foreignLine    // the first of them that has come to the program
	inBootstrap  bool           // NCCL's own trace of an error comes from bootstrap
	dialled      map[string]int // IPv4 addresses to which ranks connect, and the first line
	blamed       int            // line of an interface that explains connections which fail; 0: none
	retried      foreignLine    // the latest connection that NCCL wants to try again
}

// role says what a line of a log stands for.
type role int

const (
	cause     role = iota // the error itself
	symptom               // the error itself, unless the log shows a cause
	hint                  // not an error by itself, but often the reason of later ones
	effect                // follows from an error elsewhere
	code                  // NCCL's error code, which names a class of causes
	aftermath             // how PyTorch ends after an error or a timeout
	result                // a program's last word, which does not name the cause
	remark                // not an error, but people ask what it means
	harmless              // looks like an error, and is not one
)

// meaning is what one kind of line means, in every form in which it is printed.
type meaning struct {
	role                    role
	summary, costs, instead string
	// forms are texts in the line; * stands for any text. The versions that print a form are beside it.
	forms []string
	info  bool // NCCL prints it as INFO, too
	vague bool // it says only that something failed: beside another symptom, or effect, it follows from the same error
	// more replaces costs and cure where they depend on the version or on the rest of the line; "" keeps them.
	more func(l *logged, m string) (summary, costs, instead string)
}

// meanings are tried in this order: the more special ones come first.
var meanings = slices.Concat(efaMeanings, ibMeanings, nvshmemMeanings, enrootMeanings, frameworkMeanings, torchMeanings, socketMeanings, kernelMeanings, cudaMeanings, memoryMeanings, gpuMeanings, usageMeanings, rasMeanings, pluginMeanings, rcclMeanings,
	deviceMeanings, verbsMeanings, mpiMeanings, clusterMeanings, launcherMeanings, codeMeanings, watchdogMeanings, resultMeanings, insideMeanings, callMeanings, systemMeanings)

// ownMeanings are those of lines that nothing but the output of a program has: such a line is enough to know a log.
var ownMeanings = slices.Concat(efaMeanings, ibMeanings, nvshmemMeanings, enrootMeanings, frameworkMeanings, socketMeanings, usageMeanings, cudaMeanings, gpuMeanings, kernelMeanings, deviceMeanings, verbsMeanings, mpiMeanings, clusterMeanings)

// anyLine and infoLine find the meanings of lines: of any line, and of INFO lines.
var (
	anyLine  = sync.OnceValue(func() index { return indexOf(meanings) })
	infoLine = sync.OnceValue(func() index {
		return indexOf(slices.DeleteFunc(slices.Clone(meanings), func(m *meaning) bool { return !m.info }))
	})
)

// has reports whether a line has a form: its parts, in this order.
func has(line, form string) bool {
	for part := range strings.SplitSeq(form, "*") {
		i := strings.Index(line, part)
		if i < 0 {
			return false
		}
		line = line[i+len(part):]
	}
	return true
}

// hides reports whether a line speaks of trouble beside the form of this meaning.
func (m *meaning) hides(line string) bool {
	at := slices.IndexFunc(m.forms, func(f string) bool { return has(line, f) })
	if at < 0 || strings.Contains(line, "[c10d]") { // which names the system's error beside its own words
		return false
	}
	_, said, of := strings.Cut(line, "slurmstepd: error: ") // which Slurm writes before all that a plugin says
	if of {
		line = said
	}
	for part := range strings.SplitSeq(m.forms[at], "*") {
		line = strings.Replace(line, part, "", 1)
	}
	return troubled(line)
}

// markSize is how many bytes of a form a line must have, so that the line is compared with that form.
const markSize = 5

// index lists forms by bytes from the middle of their longest part: there are many forms, and a line has few of these marks.
type index map[string][]indexed

// indexed is a form of a meaning, and the meaning's place in the order.
type indexed struct {
	rank int
	of   *meaning
	form string
}

// indexOf returns the index of meanings, which are tried in this order.
func indexOf(meanings []*meaning) index {
	x := index{}
	for rank, m := range meanings {
		for _, form := range m.forms {
			longest := slices.MaxFunc(strings.Split(form, "*"), func(a, b string) int { return cmp.Compare(len(a), len(b)) })
			at := max(0, len(longest)-markSize) / 2
			mark := longest[at : at+markSize]
			x[mark] = append(x[mark], indexed{rank, m, form})
		}
	}
	return x
}

// meant returns what a line means, or nil. Of several meanings the first in their order counts.
func (x index) meant(line string) *meaning {
	best := indexed{rank: len(meanings)}
	for i := range min(len(line), maxText) - markSize + 1 {
		for _, form := range x[line[i:i+markSize]] {
			if form.rank < best.rank && has(line, form.form) {
				best = form
			}
		}
	}
	return best.of
}

// leastOfForm is how many bytes of a form the end of a cut line must have.
const leastOfForm = 20

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// cut returns what a line means that somebody has cut within a word of a form, or nil.
func cut(line string) *meaning {
	for _, m := range meanings {
		for _, form := range m.forms {
			for n := min(len(form), len(line)) - 1; n >= leastOfForm; n-- {
				if letter(form[n-1]) && letter(form[n]) && strings.HasSuffix(line, form[:n]) {
					return m
				}
			}
		}
	}
	return nil
}

// reportOf is a meaning, and the summary that the line itself may give it.
type reportOf struct {
	of      *meaning
	summary string
}

// report is what a log says of one meaning.
type report struct {
	of                *meaning
	summary           string
	line, last, times int
	text              string // the first of the lines
	message           string // the line that has the details
	unlocked          int    // line that shows that the limit which the meaning blames is not there; 0: none
}

// assigned is a setting that a cure advises.
var assigned = pattern{text: `\b(NCCL_[A-Z0-9_]+)=(\w+)`}

// advice returns costs and cure. It is called when all settings of the file are known.
func (r *report) advice(l *logged) (costs, instead string) {
	if r.unlocked > 0 {
		return fmt.Sprintf("The system had no memory for it, although line %d shows no limit (memlock): the NIC has no room left for so many connections or so much registered memory, or the job runs with another limit than that line.", r.unlocked),
			"Check ulimit -l inside the job itself. If it is unlimited there, use fewer connections or less memory on this NIC (fewer processes, shorter queues), spread them over several NICs, and read dmesg for lines of its driver."
	}
	if r.of.more != nil {
		_, costs, instead = r.of.more(l, r.message)
	}
	costs, instead = cmp.Or(costs, r.of.costs), cmp.Or(instead, r.of.instead)
	for _, at := range assigned.re().FindAllStringSubmatch(instead, maxFirst) {
		if s, ok := find(append(l.tried, l.settings...), at[1]); ok && !s.dynamic && s.value == at[2] && !slices.Contains(l.helped, s.name) {
			costs += fmt.Sprintf(" %s stands in line %d: if it was set in this run, it did not reach this process, or is not the cure.", at[0], s.line)
		}
	}
	if l.amd && strings.Contains(instead, "nvidia_peermem") { // advice for GPUs of NVIDIA
		before, after, found := strings.Cut(instead, gpuReach)
		if instead = before + l.peermem() + after; !found {
			instead = l.peermem()
		}
	}
	return costs, instead
}

// maxText limits how much of a line is compared with the forms, in bytes.
const maxText = 4096

// read takes a message into account. It returns false if no form fits.
func (l *logged) read(number int, message string, among index) bool {
	m := among.meant(message[:min(len(message), maxText)])
	if m != nil {
		l.record(number, message, m)
	}
	return m != nil
}

// record adds a line to the report of its meaning.
func (l *logged) record(number int, message string, m *meaning) {
	message = message[:min(len(message), maxText)]
	summary := m.summary
	if m.more != nil {
		s, _, _ := m.more(l, message)
		summary = cmp.Or(s, summary)
	}
	r := l.reports[reportOf{m, summary}]
	if r == nil {
		r = &report{of: m, summary: summary, line: number, last: number, text: quote(message), message: message}
		l.reports[reportOf{m, summary}] = r
		l.inOrder = append(l.inOrder, r)
	} else if number < r.line {
		r.of, r.line, r.text, r.message = m, number, quote(message), message
	}
	if strings.Contains(message, "Got completion") {
		l.completed, l.completedAt = r, number
	}
	r.times++
	r.last = max(r.last, number)
}

// maxQuote limits the quoted part of a line, in bytes.
const maxQuote = 240

// quote returns a line as a finding shows it.
func quote(line string) string {
	if _, message, found := strings.Cut(line, warnMark); found {
		line = message
	}
	line = strings.TrimRight(strings.TrimSpace(line), ".")
	if len(line) > maxQuote {
		return strings.ToValidUTF8(line[:maxQuote], "") + "…"
	}
	return line
}

// strange keeps a line that looks like an error and has no known form.
func (l *logged) strange(number int, message string) {
	l.strangers++
	if len(l.unknownLines) < maxStrange {
		l.unknownLines = append(l.unknownLines, fmt.Sprintf("line %d: %s", number, quote(message)))
		if l.firstStrange == 0 {
			l.firstStrange = number
		}
	}
}

// maxStrange limits the unknown lines that are quoted.
const maxStrange = 8

// errors reports what the lines mean. What follows from an error elsewhere is an error only if the log has no cause.
func (l *logged) errors() {
	slices.SortStableFunc(l.inOrder, func(a, b *report) int { return cmp.Compare(a.line, b.line) })
	first := l.blamed // line of the first cause
	for _, want := range []role{cause, symptom} {
		for _, r := range l.inOrder {
			if l.role(r) == want && first == 0 {
				first = r.line
			}
		}
	}
	are := func(want role) func(*report) bool { return func(r *report) bool { return l.role(r) == want } }
	known := l.blamed > 0 || slices.ContainsFunc(l.inOrder, are(cause))
	effects, hinted := 0, (*report)(nil)
	sharp := slices.IndexFunc(l.inOrder, func(r *report) bool { return l.role(r) == symptom && !r.of.vague })
	sharpEffect := slices.IndexFunc(l.inOrder, func(r *report) bool { return l.role(r) == effect && !r.of.vague })
	if i := slices.IndexFunc(l.inOrder, are(code)); i >= 0 && first == 0 && (slices.Index(codeMeanings[3:], l.inOrder[i].of) >= 0 || !slices.ContainsFunc(l.inOrder, are(effect))) {
		r := l.inOrder[i]
		first = r.line
		costs, instead := r.advice(l)
		l.say(r.line, env.Error, r.summary, "The log says: "+r.text+".", costs+unnamed, instead)
	}
	for _, r := range l.inOrder {
		quoted := "The log says: " + r.text + "."
		if r.times > 1 {
			quoted += fmt.Sprintf(" It occurs %d times, last in line %d.", r.times, r.last)
		}
		if l.role(r) == hint && hinted == nil {
			hinted = r
		}
		costs, instead := r.advice(l)
		if l.role(r) == symptom && hinted != nil && hinted.line < r.line {
			costs = fmt.Sprintf("Line %d may be the reason (%s). ", hinted.line, hinted.summary) + costs
		}
		switch {
		case r.of.vague && known:
			l.say(r.line, env.Note, r.summary, quoted, fmt.Sprintf("It probably follows from the error in line %d: read that first.", first), "")
		case r.of.vague && sharp >= 0:
			l.say(r.line, env.Note, r.summary, quoted, fmt.Sprintf("It probably follows from the error in line %d: read that first.", l.inOrder[sharp].line), "")
		case l.role(r) == cause, l.role(r) == symptom && !known:
			l.say(r.line, env.Error, r.summary, quoted, costs, instead)
		case l.role(r) == symptom:
			l.say(r.line, env.Warning, r.summary, quoted, fmt.Sprintf("It may follow from the error in line %d. By itself: %s", first, costs), instead)
		case l.role(r) == hint:
			l.say(r.line, env.Warning, r.summary, quoted, costs, instead)
		case l.role(r) == remark:
			l.say(r.line, env.Note, r.summary, quoted, costs, instead)
		case (l.role(r) == effect || l.role(r) == aftermath) && first > 0:
			l.say(r.line, env.Note, r.summary, quoted, fmt.Sprintf("It probably follows from the error in line %d: read that first.", first), "")
		case sharpEffect >= 0 && (l.role(r) == effect && r.of.vague || l.role(r) == aftermath && !l.timedOut()):
			l.say(r.line, env.Note, r.summary, quoted, fmt.Sprintf("It probably follows from the same error as line %d.", l.inOrder[sharpEffect].line), "")
		case l.role(r) == aftermath && l.differ:
			l.say(r.line, env.Note, r.summary, quoted, "The ranks' different collectives are its reason, which the first finding shows.", "")
		case l.role(r) == effect, l.role(r) == aftermath:
			l.say(r.line, env.Error, r.summary, quoted, costs+" The first error is not in these lines.", instead)
			effects++
		}
	}
	for _, r := range l.inOrder {
		if l.role(r) == result && first == 0 && effects == 0 {
			costs, instead := r.advice(l)
			l.say(r.line, env.Error, r.summary, "The log says: "+r.text+".", costs+unnamed, instead)
			return
		}
	}
}

// timedOut reports whether PyTorch's watchdog stopped a rank because a collective did not end in time.
func (l *logged) timedOut() bool { return len(l.waits)+len(l.progress) > 0 }

// role returns what a report stands for in this log: ranks of one host need no NIC, unless NCCL failed and nothing else says why,
// and a hint may be the error.
func (l *logged) role(r *report) role {
	if r.of == noProvider && l.nodes == 1 && !slices.ContainsFunc(l.inOrder, func(r *report) bool { return r.of.role == code }) {
		return hint
	}
	if r.of == sigkill && l.endedByTorchrun() {
		return aftermath
	}
	if r.of == rayDeath && l.byWatchdog() || l.followsOthers(r) {
		return result
	}
	if r.summary == noEFA && l.provider {
		return harmless
	}
	if r.summary == kernelFailed && l.completed != nil && l.completed.line < r.line {
		return aftermath // the kernel of a collective that a NIC's error has ended
	}
	if r == l.fatal || r.summary == "memlock is limited" && r.of.role == cause && slices.ContainsFunc(l.inOrder, func(r *report) bool { return r.summary == noRoom }) {
		return symptom
	}
	return r.of.role
}

// strangeLines reports the lines that no form fits: their meaning is unknown, which is not the same as well.
func (l *logged) strangeLines() {
	if l.strangers == 0 {
		return
	}
	said := fmt.Sprintf("%d lines report an error that is not known here: ", l.strangers)
	if l.strangers == 1 {
		said = "A line reports an error that is not known here: "
	}
	said += strings.Join(l.unknownLines, "; ")
	if n := l.strangers - len(l.unknownLines); n > 0 {
		said += fmt.Sprintf("; and %d more", n)
	}
	l.say(l.firstStrange, env.Warning, "Unknown errors", said+".", "Whether they matter is unknown.", "Read them yourself: the first is often the cause.")
}
