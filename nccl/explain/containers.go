package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// srun parses --export=ALL,NAME=VALUE, where a comma ends a value.
func (s *script) srun(words []word) {
	for _, w := range words {
		list, ok := strings.CutPrefix(w.text, "--export=")
		if !ok {
			continue
		}
		last := ""
		for part := range strings.SplitSeq(list, ",") {
			v := word{text: part, line: w.line, dynamic: w.dynamic}
			if s.set(v, "srun", true) {
				last = part
				continue
			}
			if last != "" && part != "ALL" && part != "NONE" {
				s.say(w.line, env.Error, "Comma inside an exported value", fmt.Sprintf("--export=%s: the comma ends %s.", shorten(list), shorten(last)), fmt.Sprintf("srun reads %q as another variable and cuts the list.", part), "Export the variable before srun, and use --export=ALL.")
			}
		}
	}
}

// docker checks that a docker run line gives the container what RDMA needs.
func (s *script) docker(c command) {
	words := c.texts()
	if len(words) < 2 || words[1] != "run" {
		return
	}
	for i, w := range c.words {
		switch {
		case (w.text == "-e" || w.text == "--env") && i+1 < len(c.words):
			s.set(c.words[i+1], "docker run", false)
		case strings.HasPrefix(w.text, "--env="):
			s.set(word{strings.TrimPrefix(w.text, "--env="), w.line, w.dynamic}, "docker run", false)
		}
	}
	all := strings.Join(words, " ")
	if !strings.Contains(all, "memlock") {
		s.say(c.line(), env.Error, "memlock is limited", "docker run without --ulimit memlock=-1:-1 limits locked memory to 8 MiB or less.", "RDMA cannot register memory: Couldn't allocate MR.", "Add --ulimit memlock=-1:-1.")
	}
	if !strings.Contains(all, "/dev/infiniband") && !slices.Contains(words, "--privileged") {
		s.say(c.line(), env.Error, "No RDMA devices in the container", "docker run without --device=/dev/infiniband gives the container no RDMA device.", "NCCL silently falls back to sockets.", "Add --device=/dev/infiniband.")
	}
}
