package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

var (
	// spawns is a call that starts a function in several processes, up to its arguments; the first group is the function.
	spawns = pattern{text: `\b(?:mp|multiprocessing)\.spawn\(\s*(?:fn\s*=\s*)?(\w+)`}
	// defines is where a function of Python begins.
	defines = pattern{text: `^([ \t]*)def (\w+)\(`}
	// freePort is a call that looks for a free TCP port.
	freePort = pattern{text: `\b\w*free_?port\w*\(|(?i:\bget_open_port\()`}
	// startsRank are options of a program by which one of its processes is started.
	startsRank = pattern{text: `--(world[-_]size|rank)[= ]+(\d{1,5})\b`}
)

// maxArguments limits the arguments of a call that are read, in bytes.
const maxArguments = 800

// arguments returns the arguments at the top of a call, whose text begins after its opening bracket; ok: the call ends in the text.
func arguments(text string) (out []string, ok bool) {
	depth, from := 0, 0
	for i, c := range text[:min(len(text), maxArguments)] {
		switch {
		case c == '(' || c == '[' || c == '{':
			depth++
		case depth == 0 && c == ')':
			return append(out, strings.TrimSpace(text[from:i])), true
		case c == ')' || c == ']' || c == '}':
			depth--
		case depth == 0 && c == ',':
			out, from = append(out, strings.TrimSpace(text[from:i])), i+1
		}
	}
	return out, false
}

// spawned reports a program that starts one process where its group has several (nprocs=1 in torch/multiprocessing/spawn.py), and one whose
// processes each look for a port.
func (s *script) spawned(text string) {
	if !strings.Contains(text, "init_process_group(") {
		return
	}
	calls := spawns.re().FindAllStringSubmatchIndex(text, maxFindings)
	for _, at := range calls {
		given, whole := arguments(text[strings.IndexByte(text[at[0]:], '(')+at[0]+1:])
		named := slices.ContainsFunc(given, func(a string) bool { return strings.HasPrefix(a, "nprocs") || strings.HasPrefix(a, "*") })
		third := len(given) > 2 && !strings.Contains(strings.SplitN(given[2], "(", 2)[0], "=")
		if whole && !named && !third && strings.Contains(text, "world_size") {
			s.say(1+strings.Count(text[:at[0]], "\n"), env.Warning, "Only one process is started", "mp.spawn has no nprocs, whose default is 1.", "If the group has more processes (world_size), init_process_group waits for the others, which nobody starts.", "Write nprocs=world_size, or start the program with torchrun.")
		}
		s.portOfEach(text, text[at[2]:at[3]])
	}
}

// portOfEach reports a function that runs in each process, and takes a free port there as the place where all are to meet.
func (s *script) portOfEach(text, function string) {
	number, inside := 0, -1 // inside: the indentation of the function
	port, set := 0, false
	for line := range strings.Lines(text) {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if indent <= inside {
			break
		}
		if at := defines.re().FindStringSubmatch(line); at != nil && inside < 0 && at[2] == function {
			inside = indent
			continue
		}
		if inside < 0 || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		set = set || strings.Contains(line, "MASTER_PORT") || strings.Contains(line, "tcp://")
		if port == 0 && freePort.re().MatchString(line) {
			port = number
		}
	}
	if port > 0 && set {
		s.say(port, env.Error, "Each process takes a port of its own", function+" runs in each process, and looks for a free port there.", "The processes meet at the port of rank 0: with a port for each, rank 0 waits at one, and the others call another until the timeout.", "Look for the port once, before the processes start, and hand it to all of them (an argument, or MASTER_PORT in the environment).")
	}
}

// oneOf reports a command that starts one rank of several, where no other one stands in the text.
func (s *script) oneOf(text string) {
	ranks, world, number := map[string]bool{}, 0, 0
	at := 0
	for line := range strings.Lines(text) {
		number++
		for _, found := range startsRank.re().FindAllStringSubmatch(line, maxFindings) {
			if found[1] == "rank" {
				ranks[found[2]] = true
				at = number
			} else if n, err := strconv.Atoi(found[2]); err == nil {
				world = max(world, n)
			}
		}
	}
	if world > 1 && len(ranks) == 1 {
		only := slices.Collect(maps.Keys(ranks))[0]
		s.say(at, env.Warning, "Only one rank is started", fmt.Sprintf("The command starts rank %s of %d, and no other one stands here.", only, world), "Until all have come, init_process_group waits, and says nothing.", "Start the same command for each other rank, with its own --rank and the same address to meet, or let torchrun start all. With --multiprocessing-distributed they count hosts: start it once on each.")
	}
}
